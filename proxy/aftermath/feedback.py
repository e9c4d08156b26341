"""Takes feedback on answers from people, operators and agents, and opens cases for wrong answers.

An agent's feedback is only a claim: it is recorded and shown to people, but opens no case, because
otherwise an agent that a memory steers could get honest memories hidden.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from policy.after.matchers import kind_of, opens_case
from policy.model import Channel, MemoryId, Principal, PrincipalId, Tenant
from proxy.aftermath.blame_search import BlameSearch
from proxy.seams.cases import Signal
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound, RateLimited
from proxy.seams.operation import FeedbackResult, GiveFeedback
from storage.features.failures import Failure, Failures, JoinCase
from storage.features.recalls.ledger import RecallLedger
from storage.interfaces import MemoryReader

PER_DAY_MAX: Final = 20
"""How many feedbacks one principal of a tenant may give in 24 hours; operators have no limit."""

_DAY_MS: Final = 86_400_000
_RETRY_S: Final = 3_600
_ENOUGH: Final = (
    f"one key has {PER_DAY_MAX} feedbacks in 24 hours, unknown ids count too; nothing was kept"
)
_RANDOM_BYTES: Final = 4


class FeedbackIntake:
    """Takes feedback. Event loop only; any number of calls may run at once."""

    def __init__(
        self,
        *,
        failures: Failures,
        reader: MemoryReader,
        recalls: RecallLedger,
        cases: BlameSearch,
        surroundings: Environment,
    ) -> None:
        self._failures = failures
        self._reader = reader
        self._recalls = recalls
        self._cases = cases
        self._out = surroundings
        self._asked: dict[tuple[Tenant, PrincipalId], deque[int]] = {}
        # A look-up may read all records of the recall ledger, so only one look-up runs at a time,
        # in one thread.
        self._looking = asyncio.Lock()

    async def take(self, by: Principal, said: GiveFeedback) -> FeedbackResult:
        """Record a principal's feedback on an answer in its own tenant.

        The feedback also opens a case if it comes from a person or an operator, and its grade is
        wrong.

        Raises:
            MalformedRequest: The feedback does not name exactly one answer or memory.
            NotFound: The answer or memory is unknown; the message reports since when answers are
                recorded.
            RateLimited: The principal has used up its feedbacks of the day, among them those on
                unknown answers; nothing was looked up or recorded.
            StorageError: The feedback could not be recorded, or no case could be opened.
        """
        named = (said.reply_id, said.recall_id, said.memory_id)
        if sum(one is not None for one in named) != 1:
            raise MalformedRequest("name one of reply_id, recall_id, memory_id")
        kind, now_ms = kind_of(by.channel), self._out.now_ms()
        limit = None if by.channel is Channel.OPERATOR else PER_DAY_MAX
        if limit is not None and not self._counted(by, now_ms, limit):
            raise RateLimited(_RETRY_S, _ENOUGH)
        async with self._looking:
            await asyncio.to_thread(self._require, by, said)
        failure = Failure(
            failure_id=f"{now_ms:012x}{self._out.random_hex(_RANDOM_BYTES)}",
            kind=kind,
            grade=said.grade,
            tenant=by.tenant,
            by=by.principal_id,
            at_ms=now_ms,
            reply_id=said.reply_id or "",
            recall_id=said.recall_id or "",
            memory_id=said.memory_id or "",
        )
        if not await self._failures.record(failure, of_principal_max=limit):
            raise RateLimited(_RETRY_S, _ENOUGH)
        case_id = None
        if opens_case(kind, said.grade):
            case_id = await self._cases.open_case(_signal(failure, said))
        if case_id is not None:
            await self._failures.order(JoinCase(failure.failure_id, case_id))
        return FeedbackResult(
            failure_id=failure.failure_id, kind=kind, grade=said.grade, case_id=case_id or ""
        )

    def _counted(self, by: Principal, now_ms: int, limit: int) -> bool:
        """Count a feedback before it is looked up; return False if the day's limit is used up.

        This count begins with the process; `Failures.record` counts the feedbacks that are on disk.
        """
        asked = self._asked.setdefault((by.tenant, by.principal_id), deque(maxlen=limit))
        while asked and asked[0] <= now_ms - _DAY_MS:
            asked.popleft()
        if len(asked) == limit:
            return False
        asked.append(now_ms)
        return True

    def _require(self, by: Principal, said: GiveFeedback) -> None:
        tenant = by.tenant
        if said.memory_id is not None:
            reader = self._reader.at(by.reads)
            if reader.get(tenant, MemoryId(said.memory_id)) is None:
                raise NotFound("there is no such memory")
            return
        if said.reply_id is not None:
            if self._recalls.reply(tenant, said.reply_id) is None:
                raise NotFound(f"no such reply is kept; {self._since()}")
            return
        recall = self._recalls.recall(said.recall_id or "")
        if recall is None or recall.tenant != tenant:
            raise NotFound(f"no such recall is kept; {self._since()}")

    def _since(self) -> str:
        return f"what is kept begins at {self._recalls.kept_since_ms} (Unix milliseconds)"


def _signal(failure: Failure, said: GiveFeedback) -> Signal:
    return Signal(
        signal_id=failure.failure_id,
        kind=failure.kind,
        grade=failure.grade,
        tenant=failure.tenant,
        by=failure.by,
        at_ms=failure.at_ms,
        reply_id=said.reply_id,
        recall_id=said.recall_id,
        memory_id=said.memory_id,
        expect=said.expect,
        forbid=said.forbid,
    )
