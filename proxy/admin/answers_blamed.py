"""What an operator may do about wrong answers: file and list them, find their cause, close them."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from policy.after.closure import CaseStep
from policy.after.matchers import Grade, Matcher, SignalKind, check_matcher
from policy.model import Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.route import Empty, NoQuery, TenantQuery
from proxy.admin.wire.said import (
    FAILURE,
    FAILURE_FILE,
    FAILURES,
    FailureList,
)
from proxy.admin.wire.wrong_answers import (
    BLAME,
    CLOSE,
    INCIDENT,
    AnswerRequest,
    BlameRequest,
    BlameView,
)
from proxy.aftermath.blame_search import BlameSearch
from proxy.aftermath.replay import NothingKept
from proxy.seams.cases import Signal, TakesFeedback
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.operation import GiveFeedback
from storage.features.cases import Case
from storage.features.cases.case_records import MoveCase
from storage.features.cases.wrong_answers import Cases
from storage.features.failures import Failure, Failures

_SHOWN_MAX: Final = 1_000


class WrongAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """One method per command on wrong answers.

    The methods run on the event loop; the store is read on another thread.
    """

    cases: Cases
    blaming: BlameSearch
    surroundings: Environment
    failures: Failures
    feedback: TakesFeedback

    @route(INCIDENT)
    async def one(self, call: OperatorCall[NoQuery]) -> Case:
        """The incident of one wrong answer."""
        return await asyncio.to_thread(self.cases.get, call.argument)

    @route(CLOSE)
    async def close(self, call: OperatorCall[Empty]) -> Case:
        """Note that a person has dealt with an incident; no memory that it hid is shown again."""
        return await self.cases.order(MoveCase(call.argument, CaseStep.CLOSED, call.operator))

    @route(BLAME)
    async def blame(self, call: OperatorCall[BlameRequest]) -> BlameView:
        """Search for who caused a wrong answer, and hide it; `dry_run` only names it.

        Raises:
            MalformedRequest: Not exactly one answer or memory is named, or a word cannot be looked
                for, or no judge or model has this name.
            NotFound: No record of the answer is kept.
        """
        asked = call.asked
        named = (asked.reply_id, asked.recall_id, asked.memory_id)
        if sum(one is not None for one in named) != 1:
            raise MalformedRequest("name one of reply_id, recall_id, memory_id")
        now_ms = self.surroundings.now_ms()
        signal = Signal(
            signal_id=f"{now_ms:012x}{self.surroundings.random_hex(4)}",
            kind=SignalKind.OPERATOR,
            grade=Grade.WRONG,
            tenant=Tenant(asked.tenant),
            by=call.operator,
            at_ms=now_ms,
            reply_id=asked.reply_id,
            recall_id=asked.recall_id,
            memory_id=asked.memory_id,
            judge=asked.judge,
            through=asked.through,
            expect=asked.expect,
            forbid=asked.forbid,
        )
        try:
            await self.blaming.check(signal)
            if asked.dry_run:
                return await self._tried(signal, whole_cause=asked.whole_cause)
        except NothingKept as error:
            raise NotFound(str(error)) from None
        case = await self.blaming.blame(signal, whole_cause=asked.whole_cause)
        return BlameView(
            incident=case,
            ending=case.step.value,
            why=case.why,
            suspects=case.suspects,
            asks=case.asks,
            controls=case.controls,
            named=case.culprits,
        )

    async def _tried(self, signal: Signal, *, whole_cause: bool) -> BlameView:
        found, named = await self.blaming.dry_run(signal, whole_cause=whole_cause)
        return BlameView(
            incident=None,
            ending=found.ending.value,
            why=found.why,
            suspects=found.suspects,
            asks=found.asks,
            controls=found.controls,
            named=named,
        )

    @route(FAILURES)
    async def failures_of(self, call: OperatorCall[TenantQuery]) -> FailureList:
        """The newest failures (reports of wrong answers) of a tenant."""
        found = await asyncio.to_thread(self.failures.newest, Tenant(call.asked.tenant), _SHOWN_MAX)
        return FailureList(failures=found)

    @route(FAILURE)
    async def failure(self, call: OperatorCall[NoQuery]) -> Failure:
        """One failure (a report of a wrong answer).

        Raises:
            NotFound: No failure of that id is kept.
        """
        return await self._failure(call.argument)

    async def _failure(self, failure_id: str) -> Failure:
        found = await asyncio.to_thread(self.failures.get, failure_id)
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
        noted = await self.feedback.take(of_tenant, said)
        return await self._failure(noted.failure_id)
