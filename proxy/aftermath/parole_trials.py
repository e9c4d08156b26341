"""Tries hidden memories, shows those again that pass (parole), and ends their probations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from policy.after.attribution import Ask, Control, Ending, Plan, ReplayLimits
from policy.after.closure import CaseMode
from policy.after.matchers import Grade, SignalKind
from policy.after.parole import PAROLES_MAX, PROBATION_RECALLS, Against, StepDone, Trial, TrialStep
from policy.after.rule_judge import RegisteredRule, RuleJudge
from policy.model import Hit, Memory, MemoryId, MemoryStatus, PrincipalId, Tenant
from policy.query import EVERYTHING
from policy.text.whole_words import EntryError
from policy.trust.score import TrustLevel
from proxy.aftermath.canaries import CANARY_FRONT, FOUND_MAX
from proxy.aftermath.judges import Judges
from proxy.aftermath.replay import Evidence, NothingKept, Replays
from proxy.aftermath.rules import OpenedSignals, accused, rules_for
from proxy.seams.cases import ReplayedMemory, Signal
from proxy.seams.environment import Embedder
from proxy.withhold.judged_texts import judged_memory
from storage.features.cases import Case
from storage.features.parole import (
    EndProbations,
    GrantParole,
    HiddenMemory,
    OnProbation,
    Paroles,
    RefuseParole,
)
from storage.features.recalls import Recall
from storage.features.recalls.ledger import RecallLedger
from storage.interfaces import MemoryReader
from storage.questions import Question, WeighedText
from storage.values import (
    Anchor,
    Visibility,
)

_ASKS_MAX = 100


class Trials:
    """Runs the trials of hidden memories. Event loop only; longer work runs on threads."""

    def __init__(
        self,
        *,
        replays: Replays,
        reader: MemoryReader,
        judges: Judges,
        spoken: OpenedSignals,
        embedder: Embedder | None,
    ) -> None:
        """`embedder` embeds registered questions; None if clients supply the store's vectors."""
        self._replays = replays
        self._reader = reader
        self._judges = judges
        self._spoken = spoken
        self._embedder = embedder

    async def tried(self, hidden: HiddenMemory) -> Trial:
        """Run a hidden memory's trial; return its steps, up to the first that is not passed.

        Raises:
            StorageError: The store could not be read, so the trial has no result.
        """
        steps: list[StepDone] = []
        for step in (self._provenance, self._failures, self._questions, self._paroles):
            steps.append(await step(hidden))
            if steps[-1].against is not None:
                break
        return Trial(steps=tuple(steps))

    async def _provenance(self, hidden: HiddenMemory) -> StepDone:
        # All writers must be trusted, because a later writer's version may contain text of an
        # earlier writer.
        levels = {self._reader.trust(one).level for one in hidden.writers}
        against = None
        if hidden.structural or levels != {TrustLevel.TRUSTED}:
            against = Against.VIOLATOR
        elif hidden.claimed_more:
            against = Against.FORGED_LABEL
        elif hidden.expired:
            against = Against.EXPIRED
        return StepDone(step=TrialStep.PROVENANCE, count=1, against=against)

    async def _failures(self, hidden: HiddenMemory) -> StepDone:
        """Judge again every wrong answer that names the memory, with the memory shown."""
        count, against = 0, None
        for case in hidden.cases:
            count += 1
            # A request to a model is deleted with its case, so it cannot be sent again.
            gone = case.mode is CaseMode.MODEL
            against = Against.GONE if gone else await self._failure(hidden, case)
            if against is not None:
                break
        return StepDone(step=TrialStep.FAILURES, count=count, against=against)

    async def _failure(self, hidden: HiddenMemory, case: Case) -> Against | None:
        signal = self._spoken.get(case.case_id)
        if signal is None:
            if case.own_words:
                return Against.GONE
            # The case's record is the signal that brought no words along.
            signal = Signal(
                signal_id=case.failure_id,
                kind=SignalKind(case.signal.value),
                grade=Grade.WRONG,
                tenant=case.tenant,
                by=case.by,
                at_ms=case.opened_at_ms,
                reply_id=case.reply_id or None,
                recall_id=case.recall_id or None,
                rule_id=case.anchor_id or None,
                judge=case.judge or None,
            )
        try:
            places, lost, question = await asyncio.to_thread(self._with, hidden.memory, signal)
        except NothingKept:
            return Against.GONE
        if hidden.outlived and accused(places[:1], places)[0].outdated:
            return Against.OUTDATED
        if signal.judge is None:
            return await asyncio.to_thread(self._by_rules, signal, places)
        if lost or signal.judge not in self._judges.names():
            return Against.GONE
        return await self._by_judge(signal.judge, case, question, places)

    def _with(self, memory: Memory, signal: Signal) -> tuple[tuple[Hit, ...], bool, str]:
        """The memory on trial, and after it the memories of one wrong answer that reads still show.

        Also whether memories or records of the answer were lost, and the answer's question.
        """
        if signal.recall_id is None and signal.reply_id is None:
            # The signal named a memory, and no recorded answer.
            return (Hit(memory=memory, score=1.0),), False, ""
        evidence: Evidence = self._replays.evidence(signal)
        places = [
            one
            for one in self._replays.still_shown(evidence)
            if one.memory.memory_id != memory.memory_id
        ]
        scores = {one.memory.memory_id: one.score for one in evidence.shown}
        mine = Hit(memory=memory, score=scores.get(memory.memory_id, 0.0))
        return (mine, *places), evidence.lost, evidence.question

    def _by_rules(self, signal: Signal, places: Sequence[Hit]) -> Against | None:
        rules = rules_for(signal, self._reader)
        if not rules:
            return Against.GONE
        try:
            found = RuleJudge(rules).judged(judged_memory(one.memory) for one in places)
        except EntryError:
            return Against.GONE
        return Against.FAILS if found.failing or found.doubted else None

    async def _by_judge(
        self, name: str, case: Case, question: str, places: Sequence[Hit]
    ) -> Against | None:
        """Ask a caller's judge about all memories, as often as needed if its answers may differ."""
        shown = tuple(
            ReplayedMemory(id=one.memory.memory_id, text=one.memory.text) for one in places
        )
        limits = ReplayLimits(deterministic=self._judges.deterministic(name), asks_max=_ASKS_MAX)
        plan = Plan((), frozenset(one.id for one in shown), limits)
        while isinstance(ask := plan.next(), Ask):
            if ask.control is not Control.EVERYTHING:
                return Against.FAILS
            opinion = await self._judges.ask(
                name, case=case.case_id, question=question, memories=shown
            )
            plan.tell(ask, fails=opinion.fails)
        return None if ask.ending is Ending.NOT_REPRODUCED else Against.GONE

    async def _questions(self, hidden: HiddenMemory) -> StepDone:
        """Search for every registered question; judge the results with and without the memory."""
        known = await asyncio.to_thread(self._registered, hidden.memory.tenant)
        asked = [one for one in known if one.questions]
        count = sum(len(one.questions) for one in asked)
        against = None
        if asked and self._embedder is None:
            against = Against.GONE
        elif asked and self._embedder is not None:
            alike = await asyncio.to_thread(self._alike, self._embedder, hidden.memory, asked)
            against = None if alike else Against.QUESTION
        return StepDone(step=TrialStep.QUESTIONS, count=count, against=against)

    def _alike(self, embedder: Embedder, memory: Memory, asked: Sequence[Anchor]) -> bool:
        for one in asked:
            rule = RegisteredRule(
                rule_id=one.anchor_id, statement=one.statement, matcher=one.matcher
            )
            judge = RuleJudge((rule,))
            for text, vector in zip(
                one.questions, embedder.embed(list(one.questions)), strict=True
            ):
                question = Question(vector=vector, words=self._reader.words(memory.tenant, text))
                hits = self._reader.search(
                    memory.tenant, vector, EVERYTHING, FOUND_MAX, -1.0, words=question.words
                )
                without = [hit.memory for hit in hits]
                back = self._ranked(embedder, question, [*without, memory])[:FOUND_MAX]
                if _outcome(judge, without) != _outcome(judge, back):
                    return False
        return True

    def _ranked(
        self, embedder: Embedder, question: Question, memories: Sequence[Memory]
    ) -> list[Memory]:
        """Memories in the order of a search that finds all of them.

        A word that only the memory on trial has counts as it will when reads show the memory.
        """
        vectors = embedder.embed([one.text for one in memories])
        texts = [
            WeighedText(text=one.text, vector=vector, source=one.source)
            for one, vector in zip(memories, vectors, strict=True)
        ]
        scores = self._reader.scores(memories[0].tenant, question, texts)
        # Of two memories with equal scores the one already found comes first, as in a search.
        order = sorted(range(len(memories)), key=lambda at: -scores[at])
        return [memories[at] for at in order]

    async def _paroles(self, hidden: HiddenMemory) -> StepDone:
        count = hidden.record.paroles
        against = Against.ENOUGH if count >= PAROLES_MAX else None
        return StepDone(step=TrialStep.PAROLES, count=count, against=against)

    def _registered(self, tenant: Tenant) -> tuple[Anchor, ...]:
        """The registered anchors and canaries of a tenant."""
        canaries = (one for one in self._reader.canaries() if one.tenant == tenant)
        return (*self._reader.anchors(tenant), *canaries)


def _outcome(judge: RuleJudge, found: Sequence[Memory]) -> tuple[bool, bool, bool]:
    """Three flags: a memory fails a rule, one as trusted as a rule denies it, a word is missing."""
    judged = judge.judged(map(judged_memory, found))
    lacking = judge.lacking(memory.text for memory in found)
    return bool(judged.failing), bool(judged.doubted), bool(lacking)


_OF_RULES: Final = frozenset({SignalKind.ANCHOR, SignalKind.CANARY})
PROBATIONS_EVERY_S: Final = 3_600.0
OWN_PRINCIPALS: Final = "mnemogate:"
"""The prefix of the names of the sidecar's own principals; no principal with a key has it."""
RECALLS_LOOKED_AT: Final = 1_000
"""How many of a memory's newest recalls are read to count those that end its probation."""


class Probations:
    """Finds the memories on probation. Not on the event loop, as each call may read files."""

    def __init__(
        self, paroles: Paroles, replays: Replays, recalls: RecallLedger, now_ms: Callable[[], int]
    ) -> None:
        self._paroles = paroles
        self._replays = replays
        self._recalls = recalls
        self._now_ms = now_ms

    def implicated(self, signal: Signal) -> tuple[MemoryId, ...]:
        """The memories on probation that were shown for the answer that a signal is about.

        A signal of a rule implicates only the memory that it names, because whoever writes a lie
        that a read leaves out could choose which other memories the same read shows.
        """
        watched = self._paroles.on_probation(signal.tenant)
        if not watched:
            return ()
        try:
            evidence = self._replays.evidence(signal)
        except NothingKept:
            return ()
        shown = {one.memory.memory_id for one in evidence.shown}
        if signal.kind in _OF_RULES:
            shown = {one for one in shown if one == signal.memory_id}
        return tuple(
            one.memory_id for one in watched if one.memory_id in shown and not self._is_over(one)
        )

    def over(self) -> tuple[OnProbation, ...]:
        """The probations of all tenants that are over, by their time or by enough recalls."""
        return tuple(one for one in self._paroles.on_probation() if self._is_over(one))

    def _is_over(self, one: OnProbation) -> bool:
        if one.until_ms <= self._now_ms():
            return True
        shown = self._recalls.recalls(
            one.tenant, memory_id=one.memory_id, since_ms=one.since_ms, limit=RECALLS_LOOKED_AT
        )
        return sum(_counts(recall, one) for recall in shown) >= PROBATION_RECALLS


def _counts(recall: Recall, one: OnProbation) -> bool:
    """Whether a recall counts towards the end of a probation.

    Recalls by a writer of the memory do not count, because a writer could read the memory fifty
    times in a minute. The sidecar's own searches do not count either, because no one reads their
    results.
    """
    if recall.front == CANARY_FRONT or recall.principal_id.startswith(OWN_PRINCIPALS):
        return False
    return recall.principal_id not in one.writers


class ParoleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a parole; `trial` is None for a memory that reads show already."""

    standing: Visibility
    trial: Trial | None = None


class ParoleTrials:
    """Runs trials of hidden memories, and shows again those that pass. Event loop only."""

    def __init__(
        self,
        *,
        paroles: Paroles,
        trials: Trials,
        probations: Probations,
    ) -> None:
        self._paroles = paroles
        self._trials = trials
        self._probations = probations

    async def parole(self, tenant: Tenant, memory_id: MemoryId, by: PrincipalId) -> ParoleResult:
        """Try a hidden memory, and show it again if it passes; either result adds an audit leaf.

        Raises:
            UnknownMemory: The tenant has no such memory, or it was deleted.
            MemoryMoved: The memory was changed during its trial; nothing was done.
            StorageError: The store could not be read or written; nothing was changed.
        """
        hidden = await asyncio.to_thread(self._paroles.hidden, tenant, memory_id)
        if hidden is None:
            status = MemoryStatus.LIVE
            return ParoleResult(
                standing=Visibility(memory_id=memory_id, tenant=tenant, status=status)
            )
        trial = await self._trials.tried(hidden)
        order = GrantParole if trial.passed else RefuseParole
        standing = await self._paroles.order(order(hidden, trial.said, by))
        return ParoleResult(standing=standing, trial=trial)

    async def end_probations(self) -> None:
        """End the probations whose time is over or that had enough recalls.

        Raises:
            StorageError: The store could not be read or written.
        """
        over = await asyncio.to_thread(self._probations.over)
        if over:
            await self._paroles.order(EndProbations(over))
