"""Answers operators' calls about wrong answers, and about isolating and rewinding many memories."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from policy.after.closure import CaseStep
from policy.after.matchers import Grade, Matcher, SignalKind, check_matcher
from policy.model import Tenant
from proxy.admin.insight import selection_of
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.incidents import (
    ACCEPT,
    BLAME,
    CAUGHT_NAMED_MAX,
    CLOSE,
    INCIDENT,
    INCIDENTS,
    ISOLATE,
    RESUME,
    REWIND,
    UNDO,
    AnswerRequest,
    BlameRequest,
    BlameView,
    IncidentList,
    IsolateRequest,
    RewindRequest,
)
from proxy.admin.wire.route import Empty, NoQuery, TenantQuery
from proxy.admin.wire.said import (
    FAILURE,
    FAILURE_FILE,
    FAILURES,
    FailureList,
)
from proxy.aftermath.blame_search import BlameSearch
from proxy.aftermath.feedback import FeedbackIntake
from proxy.aftermath.replay import NothingKept
from proxy.seams.cases import Signal
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.operation import GiveFeedback
from storage.features.cases import Case
from storage.features.cases.case_records import AcceptCase, MoveCase
from storage.features.cases.wrong_answers import Cases
from storage.features.failures import Failure, Failures
from storage.features.incidents import IsolationReport, PastState, RewindReport
from storage.features.incidents.batches import Incidents

_SHOWN_MAX: Final = 1_000


class WrongAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Answers operators' commands about wrong answers, one method per command.

    The methods run on the event loop; the store is read on another thread.
    """

    cases: Cases
    blaming: BlameSearch
    surroundings: Environment
    failures: Failures
    feedback: FeedbackIntake

    @route(INCIDENT)
    async def one(self, call: OperatorCall[NoQuery]) -> Case:
        """The incident (the record of the search for the cause) of one wrong answer."""
        return await asyncio.to_thread(self.cases.get, call.argument)

    @route(CLOSE)
    async def close(self, call: OperatorCall[Empty]) -> Case:
        """Mark an incident as dealt with by a person; the memories that it hid stay hidden."""
        return await self.cases.order(MoveCase(call.argument, CaseStep.CLOSED, call.operator))

    @route(ACCEPT)
    async def accept(self, call: OperatorCall[Empty]) -> Case:
        """Hide the memories that an incident names and left to a person, and close the incident."""
        return await self.cases.order(AcceptCase(call.argument, call.operator))

    @route(BLAME)
    async def blame(self, call: OperatorCall[BlameRequest]) -> BlameView:
        """Search for the memories that caused a wrong answer, and hide them unless `dry_run`.

        Raises:
            MalformedRequest: The request does not name exactly one answer or memory, or one of its
                words cannot be searched for, or no judge or model has the given name.
            NotFound: No record of the answer is stored.
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
        """The newest failures (reports of wrong answers) of a tenant, at most `_SHOWN_MAX`."""
        found = await asyncio.to_thread(self.failures.newest, Tenant(call.asked.tenant), _SHOWN_MAX)
        return FailureList(failures=found)

    @route(FAILURE)
    async def failure(self, call: OperatorCall[NoQuery]) -> Failure:
        """The failure (a report of a wrong answer) with the id in the path.

        Raises:
            NotFound: No stored failure has this id.
        """
        return await self._failure(call.argument)

    async def _failure(self, failure_id: str) -> Failure:
        found = await asyncio.to_thread(self.failures.get, failure_id)
        if found is None:
            raise NotFound("no failure of that id is kept")
        return found

    @route(FAILURE_FILE)
    async def file(self, call: OperatorCall[AnswerRequest]) -> Failure:
        """Record an operator's report that an answer to a tenant was wrong; return the failure.

        Raises:
            MalformedRequest: The request does not name one answer, or a word of `expect` or
                `forbid` cannot be searched for.
            NotFound: The answer is not known; the message reports since when answers are recorded.
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
        tenant, by = Tenant(asked.tenant), call.operator
        of_tenant = msgspec.structs.replace(call.by, tenant=tenant, principal_id=by)
        noted = await self.feedback.take(of_tenant, said)
        return await self._failure(noted.failure_id)


class Repairs(msgspec.Struct, frozen=True, kw_only=True):
    """Isolates (hides) and rewinds memories for operators. Event loop only; threads do searches."""

    incidents: Incidents
    cases: Cases

    @route(INCIDENTS)
    async def all(self, _call: OperatorCall[NoQuery]) -> IncidentList:
        """Every isolation and rewind, oldest first, with the incidents of wrong answers."""
        cases = await asyncio.to_thread(self.cases.all)
        return IncidentList(incidents=self.incidents.all(), wrong_answers=cases)

    @route(ISOLATE)
    async def isolate(self, call: OperatorCall[IsolateRequest]) -> IsolationReport:
        """Hide all memories that fit the request, or with `dry_run` only name them.

        Raises:
            MalformedRequest: The request names only a tenant, so every memory of the tenant would
                be hidden.
        """
        asked = call.asked
        reach = selection_of(asked, with_descendants=asked.with_descendants)
        if reach.whole_tenant:
            raise MalformedRequest(
                "name a principal, an origin, a session, a target, a label, a time, or a memory "
                "with `like`: without one of them every memory of the tenant would be hidden"
            )
        if not asked.dry_run:
            return await self.incidents.isolate(reach, call.operator, asked.reason)
        found = await asyncio.to_thread(self.incidents.reached, reach)
        return IsolationReport(caught_count=len(found), caught=found[:CAUGHT_NAMED_MAX])

    @route(REWIND)
    async def rewind(self, call: OperatorCall[RewindRequest]) -> RewindReport:
        """Put memories that fit back into an earlier state, or with `dry_run` only count them.

        Raises:
            MalformedRequest: The request names neither a version nor a time, or it names both.
        """
        asked = call.asked
        if (asked.to_version is None) is (asked.to_ms is None):
            raise MalformedRequest("name a version or a time to go back to, and not both")
        reach, to = selection_of(asked), PastState(version=asked.to_version, at_ms=asked.to_ms)
        if asked.dry_run:
            done = await asyncio.to_thread(self.incidents.planned, reach, to)
        else:
            done = await self.incidents.rewind(reach, to, call.operator, asked.reason)
        return msgspec.structs.replace(
            done,
            touched=done.touched[:CAUGHT_NAMED_MAX],
            lost=done.lost[:CAUGHT_NAMED_MAX],
            lost_count=len(done.lost),
        )

    @route(UNDO)
    async def undo(self, call: OperatorCall[Empty]) -> IsolationReport:
        """Undo an isolation or a rewind.

        Memories that an isolation hid are shown again, unless they are hidden for another reason
        too. Memories that a rewind changed get back the state that they had right before the
        rewind.
        """
        return await self.incidents.undo(call.argument, call.operator)

    @route(RESUME)
    async def resume(self, call: OperatorCall[Empty]) -> IsolationReport:
        """Finish an isolation, an undo of an isolation, or a rewind that a crash interrupted."""
        return await self.incidents.resume(call.argument, call.operator)
