"""Runs canaries: registered questions for retrieval, with words that it must find and must not."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from policy.after.matchers import SignalKind
from policy.after.rule_judge import RegisteredRule, RuleJudge
from policy.model import Hit, MemoryId, PrincipalId, Tenant
from policy.query import EVERYTHING
from proxy.aftermath.rule_signals import RuleSignals
from proxy.seams.cases import CanaryOutcome
from proxy.seams.environment import Embedder, Environment
from proxy.withhold.judged_texts import judged_memory
from storage.features.recalls import Recall, RecalledMemory
from storage.features.recalls.ledger import RecallLedger
from storage.interfaces import MemoryReader
from storage.questions import Question
from storage.values import (
    Anchor,
)

CANARY_FRONT: Final = "canary"
"""The name under which the recall ledger records the searches of canaries."""
FOUND_MAX: Final = 10
"""How many memories a search for one question of a canary returns at most."""

_WATCHED_MAX: Final = 10_000


class _Questioned(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a canary, the rows that fail it, and the first search that found one."""

    outcome: CanaryOutcome
    failing: frozenset[int]
    question: Question
    hits: tuple[Hit, ...] = ()


class Canaries:
    """Runs canaries, and signals those that fail. Event loop only; searches run on threads."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        embedder: Embedder,
        recalls: RecallLedger,
        signals: RuleSignals,
        surroundings: Environment,
    ) -> None:
        """`embedder` embeds the questions as it embeds the memories' texts."""
        self._reader = reader
        self._embedder = embedder
        self._recalls = recalls
        self._signals = signals
        self._out = surroundings
        # The last failure of each canary: when the canary was registered, and which rows failed it.
        self._watched: dict[tuple[Tenant, str], tuple[int, frozenset[int]]] = {}

    async def run(self, tenant: Tenant, by: PrincipalId) -> tuple[CanaryOutcome, ...]:
        """Run every canary of a tenant; return the outcomes. A failure may open a case.

        Raises:
            StorageError: A search failed, or a failure could not be recorded.
        """
        known = await asyncio.to_thread(self._reader.canaries)
        outcomes: list[CanaryOutcome] = []
        for canary in known:
            if canary.tenant != tenant:
                continue
            asked = await asyncio.to_thread(self._asked, canary)
            outcome = asked.outcome
            if outcome.failing or outcome.lacking:
                outcome = await self._signalled(canary, asked, by)
            outcomes.append(outcome)
        return tuple(outcomes)

    async def watched(self, canary: Anchor, by: PrincipalId) -> None:
        """Run one canary again; open a case if other rows fail than the last time.

        Raises:
            StorageError: A search failed, or a failure could not be recorded.
        """
        asked = await asyncio.to_thread(self._asked, canary)
        key = canary.tenant, canary.anchor_id
        now = canary.created_at_ms, asked.failing
        if not asked.failing or self._watched.get(key) == now:
            if not asked.failing:
                self._watched.pop(key, None)
            return
        if self._signals.may_open(canary.tenant, canary.anchor_id):
            if len(self._watched) >= _WATCHED_MAX:
                self._watched.clear()
            await self._signalled(canary, asked, by)
            self._watched[key] = now

    def _asked(self, canary: Anchor) -> _Questioned:
        rule = RegisteredRule(rule_id=canary.anchor_id, matcher=canary.matcher)
        judge = RuleJudge((rule,))
        failing: dict[MemoryId, int] = {}
        lacking = False
        first: tuple[Question, tuple[Hit, ...]] = (Question(vector=b""), ())
        vectors = self._embedder.embed(list(canary.questions))
        for text, vector in zip(canary.questions, vectors, strict=True):
            question = Question(vector=vector, words=self._reader.words(canary.tenant, text))
            hits: tuple[Hit, ...] = self._reader.search(
                canary.tenant, vector, EVERYTHING, FOUND_MAX, -1.0, words=question.words
            )
            ordinals = {hit.memory.memory_id: hit.memory.ordinal for hit in hits}
            shown = [judged_memory(hit.memory) for hit in hits]
            found = [one.memory_id for one in judge.failing(shown)]
            if found and not failing:
                first = question, hits
            failing |= {one: ordinals[one] for one in found}
            lacking = lacking or bool(judge.lacking(one.text for one in shown))
        outcome = CanaryOutcome(canary_id=canary.anchor_id, failing=tuple(failing), lacking=lacking)
        question, hits = first
        return _Questioned(
            outcome=outcome, failing=frozenset(failing.values()), question=question, hits=hits
        )

    async def _signalled(
        self, canary: Anchor, asked: _Questioned, by: PrincipalId
    ) -> CanaryOutcome:
        outcome = asked.outcome
        failure_id, case_id = await self._signals.signal(
            SignalKind.CANARY,
            canary.tenant,
            canary.anchor_id,
            by,
            recall_id=self._noted(canary, asked, by) if outcome.failing else "",
            memory_id=outcome.failing[0] if outcome.failing else "",
        )
        return msgspec.structs.replace(outcome, failure_id=failure_id, case_id=case_id)

    def _noted(self, canary: Anchor, asked: _Questioned, by: PrincipalId) -> str:
        """Record the failed search as a read in the recall ledger; return the id of the read."""
        return self._recalls.note(
            Recall(
                recall_id="",
                at_ms=self._out.now_ms(),
                tenant=canary.tenant,
                principal_id=by,
                front=CANARY_FRONT,
                operation="search_memory",
                session="",
                version=self._reader.status().version,
                limit=FOUND_MAX,
                hits=tuple(
                    RecalledMemory(
                        ordinal=hit.memory.ordinal, memory_id=hit.memory.memory_id, score=hit.score
                    )
                    for hit in asked.hits
                ),
                vector=asked.question.vector,
                words=asked.question.words,
                where=EVERYTHING,
            )
        )
