"""Failures: what users and operators said of wrong answers.

An operator reads and files them here.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from policy.after.matchers import Matcher, check_matcher
from policy.after.signals import Grade
from policy.model import Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.queries import TenantQuery
from proxy.admin.wire.route import NoQuery
from proxy.admin.wire.said import (
    FAILURE,
    FAILURE_FILE,
    FAILURES,
    FailureList,
)
from proxy.admin.wire.wrong_answers import AnswerRequest
from proxy.seams.cases import TakesFeedback
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.operation import GiveFeedback
from storage.features.failures import Failure, Failures

_SHOWN_MAX: Final = 1_000


class FailureIntake:
    """Lists and files failures, for operators. Event loop only."""

    def __init__(self, failures: Failures, feedback: TakesFeedback) -> None:
        self._failures = failures
        self._feedback = feedback

    @route(FAILURES)
    async def all(self, call: OperatorCall[TenantQuery]) -> FailureList:
        """The newest failures (reports of wrong answers) of a tenant."""
        found = await asyncio.to_thread(
            self._failures.newest, Tenant(call.asked.tenant), _SHOWN_MAX
        )
        return FailureList(failures=found)

    @route(FAILURE)
    async def one(self, call: OperatorCall[NoQuery]) -> Failure:
        """One failure (a report of a wrong answer).

        Raises:
            NotFound: No failure of that id is kept.
        """
        return await self._one(call.argument)

    async def _one(self, failure_id: str) -> Failure:
        found = await asyncio.to_thread(self._failures.get, failure_id)
        if found is None:
            raise NotFound("no failure of that id is kept")
        return found

    @route(FAILURE_FILE)
    async def file(self, call: OperatorCall[AnswerRequest]) -> Failure:
        """Record, for an operator, that an answer of a tenant was wrong.

        Raises:
            MalformedRequest: The request does not name one answer, or an entry of its matcher
                cannot be looked for.
            NotFound: The answer is not known; the message says since when answers are recorded.
        """
        asked = call.asked
        if asked.expect or asked.forbid:
            try:
                check_matcher(Matcher(must=asked.expect, must_not=asked.forbid))
            except ValueError as error:
                raise MalformedRequest(f"body: {error}") from None
        said = GiveFeedback(
            grade=Grade.WRONG,
            reply_id=asked.reply_id,
            recall_id=asked.recall_id,
            memory_id=asked.memory_id,
            expect=asked.expect,
            forbid=asked.forbid,
        )
        of_tenant = msgspec.structs.replace(call.by, tenant=Tenant(asked.tenant))
        noted = await self._feedback.take(of_tenant, said)
        return await self._one(noted.failure_id)
