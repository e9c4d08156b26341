"""Canaries: questions that are put to the store's search, each with answers that are forbidden."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from policy.after.rule_judge import JudgedMemory, RegisteredRule, RuleJudge
from policy.after.signals import Grade, SignalKind
from policy.anchors import lines_of
from policy.query import EVERYTHING
from proxy.seams.cases import Signal
from storage.failures import Failure

if TYPE_CHECKING:
    from policy.model import Hit, Memory, MemoryId, PrincipalId, Tenant
    from proxy.seams.cases import OpensCases
    from proxy.seams.embedder import Embedder
    from proxy.seams.surroundings import Surroundings
    from storage.failures import Failures
    from storage.interfaces import MemoryReader
    from storage.values import Anchor

FOUND_MAX: Final = 10
"""Memories that one question of a canary finds."""

_RANDOM_BYTES: Final = 4


class CanaryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the questions of one canary found.

    `failing` are the memories that say what the canary forbids, in the order found. `lacking` is
    true if something that the canary asks for stands in none of the memories found. `failure_id` is
    "" if nothing is wrong.
    """

    canary_id: str
    failing: tuple[MemoryId, ...]
    lacking: bool
    failure_id: str = ""
    case_id: str = ""


class Canaries:
    """Puts the questions of canaries to the store's search.

    Event loop only; searches run on threads.
    """

    def __init__(
        self,
        *,
        reader: MemoryReader,
        embedder: Embedder,
        failures: Failures,
        cases: OpensCases,
        surroundings: Surroundings,
    ) -> None:
        """`embedder` embeds the questions; a store of clients' own vectors can be asked none."""
        self._reader = reader
        self._embedder = embedder
        self._failures = failures
        self._cases = cases
        self._out = surroundings

    async def run(self, tenant: Tenant, by: PrincipalId) -> tuple[CanaryOutcome, ...]:
        """Ask every canary of a tenant; a failing one is recorded, and may open a case.

        Raises:
            StorageError: A search, or the record of a failure, could not be done.
        """
        known = await asyncio.to_thread(self._reader.canaries)
        outcomes: list[CanaryOutcome] = []
        for canary in known:
            if canary.tenant != tenant:
                continue
            outcome = await asyncio.to_thread(self._asked, canary)
            if outcome.failing or outcome.lacking:
                outcome = await self._signalled(canary, outcome, by)
            outcomes.append(outcome)
        return tuple(outcomes)

    def _asked(self, canary: Anchor) -> CanaryOutcome:
        rule = RegisteredRule(rule_id=canary.anchor_id, matcher=canary.matcher)
        judge = RuleJudge((rule,))
        failing: dict[MemoryId, None] = {}
        lacking = False
        for vector in self._embedder.embed(list(canary.questions)):
            hits: tuple[Hit, ...] = self._reader.search(
                canary.tenant, vector, EVERYTHING, FOUND_MAX, -1.0
            )
            shown = [_judged(hit.memory) for hit in hits]
            failing |= dict.fromkeys(one.memory_id for one in judge.failing(shown))
            lacking = lacking or bool(judge.lacking(one.text for one in shown))
        return CanaryOutcome(canary_id=canary.anchor_id, failing=tuple(failing), lacking=lacking)

    async def _signalled(
        self, canary: Anchor, outcome: CanaryOutcome, by: PrincipalId
    ) -> CanaryOutcome:
        now_ms = self._out.now_ms()
        failure = Failure(
            failure_id=f"{now_ms:012x}{self._out.random_hex(_RANDOM_BYTES)}",
            kind=SignalKind.CANARY,
            grade=Grade.WRONG,
            tenant=canary.tenant,
            by=by,
            at_ms=now_ms,
            rule_id=canary.anchor_id,
        )
        await self._failures.record(failure, of_principal_max=None)
        case_id = await self._cases.open_case(
            Signal(
                signal_id=failure.failure_id,
                kind=failure.kind,
                grade=failure.grade,
                tenant=failure.tenant,
                by=by,
                at_ms=now_ms,
                rule_id=canary.anchor_id,
            )
        )
        if case_id is not None:
            await self._failures.join(failure.failure_id, case_id)
        return msgspec.structs.replace(
            outcome, failure_id=failure.failure_id, case_id=case_id or ""
        )


def _judged(memory: Memory) -> JudgedMemory:
    metadata = memory.metadata_json
    text = memory.text if metadata is None else f"{memory.text}\n{lines_of(metadata)}"
    return JudgedMemory(
        memory_id=memory.memory_id,
        text=text,
        label=memory.source,
        memory_class=memory.memory_class,
    )
