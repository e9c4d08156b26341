"""Searches for the memories that caused a wrong answer, and hides them or proposes to hide them.

A case (one wrong answer) is written to disk before any answer is replayed, and each step of a case
before the step takes effect. Cases are handled one after the other, so two cases about one memory
never act at once: the second case finds the memory already hidden. Cases for which a model is asked
again are slow and only propose, so they wait in a queue of their own.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from policy.after.attribution import Ask, Ending, OpenCause, Plan, ReplayLimits
from policy.after.closure import CaseMode, CaseSignal, CaseStep
from policy.after.matchers import Matcher, SignalKind, check_matcher
from policy.after.rule_judge import RuleJudge
from policy.model import Hit, MemoryId, PrincipalId
from policy.text.whole_words import EntryError
from policy.verdict import InvariantBroken
from proxy.aftermath.judges import Judges
from proxy.aftermath.replay import (
    Evidence,
    NothingKept,
    Replays,
    Round,
    judged_alone,
    nobody_judges,
    planned,
    suspects_among,
)
from proxy.aftermath.rules import OpenedSignals, accused, fit_texts, rules_for
from proxy.seams.cases import OnConviction, ReplayedMemory, ReplaysModels, Signal
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest
from proxy.seams.waits import beside
from storage.features.cases import Case, CaseMemory, ConvictedMemory, Opening, Progress
from storage.features.cases.case_records import Convict, MoveCase, NameRelated, OpenCase
from storage.features.cases.wrong_answers import Cases
from storage.ground.errors import StorageError, UnknownIncident
from storage.interfaces import MemoryReader
from telemetry.events import IncidentAsk, IncidentStepped

_LOG: Final = logging.getLogger("mnemogate.aftermath")
BLAME: Final = PrincipalId("mnemogate:blame")
ROUNDS_MAX: Final = 5
"""How many rounds of replays one case may have before it is left to a person."""
ASKS_MAX: Final = 500
_ASKS_TRACED_MAX: Final = 200
ON_CONVICTION: Final = OnConviction()
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KINDS: Final = {
    SignalKind.OPERATOR: CaseSignal.OPERATOR,
    SignalKind.PERSON: CaseSignal.PERSON,
    SignalKind.ANCHOR: CaseSignal.ANCHOR,
    SignalKind.CANARY: CaseSignal.CANARY,
    SignalKind.JUDGE: CaseSignal.JUDGE,
}


class _Told(msgspec.Struct):
    """The telemetry of one case, collected while the case is handled."""

    started_ns: int = 0
    error_type: str = ""
    asks: list[IncidentAsk] = []
    closures: list[tuple[int, int]] = []


class _Line:
    """A queue of the ids of cases that are handled one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._ready = asyncio.Event()

    def put(self, case_id: str) -> None:
        """Append a case to the queue."""
        self._waiting.append(case_id)
        self._ready.set()

    async def next(self) -> str:
        """Wait until the queue contains a case; remove and return the first one."""
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        return self._waiting.popleft()


class BlameSearch:
    """Opens cases for signals, and searches each case's memories for the culprits.

    Event loop only; work that may take a millisecond runs on a thread.
    """

    def __init__(
        self,
        *,
        cases: Cases,
        replays: Replays,
        reader: MemoryReader,
        judges: Judges,
        surroundings: Environment,
        models: ReplaysModels,
        on_conviction: OnConviction = ON_CONVICTION,
        spoken: OpenedSignals | None = None,
        implicated: Callable[[Signal], tuple[MemoryId, ...]] = lambda _: (),
    ) -> None:
        """`on_conviction` decides whether culprits are hidden or only proposed for hiding.

        `implicated` returns the memories on probation that a signal is about; it may read files.
        """
        self._cases = cases
        self._replays = replays
        self._reader = reader
        self._judges = judges
        self._models = models
        self._out = surroundings
        self._acts = on_conviction
        self._spoken = spoken or OpenedSignals()
        self._implicated = implicated
        # A signal may contain the words of a right answer. Such words are content, so signals are
        # held in memory only, and a restart loses the signals.
        self._signals: dict[str, tuple[Signal, bool]] = {}
        self._acting, self._asking = _Line(), _Line()
        self._done: dict[str, asyncio.Event] = {}
        self._told: dict[str, _Told] = {}

    # ---- methods that other rooms call -----------------------------------------------------------

    async def open_case(self, signal: Signal) -> str | None:
        """Open a case for a signal that an answer was wrong.

        Returns the id of the case, or of the open case about the same answer; None if no case
        opens. The case is durable when this returns; no answer is replayed before it is.

        Raises:
            StoreUnavailable: The case could not be made durable.
        """
        return await self._open(signal, whole_cause=False)

    async def blame(self, signal: Signal, *, whole_cause: bool) -> Case:
        """Open a case and wait until it ends or needs a person; return the case.

        Raises:
            MalformedRequest: A word of `forbid` cannot be searched for, or no judge or model has
                the given name.
            StorageError: The case could not be written to disk.
        """
        case_id = await self._open(signal, whole_cause=whole_cause)
        await self.over(case_id)
        return await asyncio.to_thread(self._cases.get, case_id)

    async def over(self, case_id: str) -> None:
        """Wait until a case that this process opened has ended or needs a person."""
        if case_id in self._signals:
            await self._done.setdefault(case_id, asyncio.Event()).wait()

    async def still_wrong(self, case_id: str) -> None:
        """Mark a healed case as needing a person, because hiding its culprits did not help.

        A case whose search continues, or that ended otherwise, stays as it is.

        Raises:
            StorageError: The case could not be written to disk.
        """
        case = await asyncio.to_thread(self._cases.get, case_id)
        if case.step is CaseStep.HEALED:
            await self._moved(case, CaseStep.NEEDS_PERSON, _open("still_wrong"))

    async def unfinished(self, case_id: str) -> bool:
        """Whether a case is under way or waits for a person; False also for an unknown case."""
        try:
            case = await asyncio.to_thread(self._cases.get, case_id)
        except UnknownIncident:
            return False
        return case.under_way or case.step is CaseStep.NEEDS_PERSON

    async def dry_run(
        self, signal: Signal, *, whole_cause: bool
    ) -> tuple[Round, tuple[CaseMemory, ...]]:
        """Run one round of replays; return its result and the memories that a case would hide.

        Nothing is stored or changed.

        Raises:
            NothingKept: There is no record of the memories that were shown.
            MalformedRequest: A word of `forbid` cannot be searched for, or no judge or model has
                the given name.
        """
        self._check(signal)
        evidence = await asyncio.to_thread(self._replays.evidence, signal)
        places = await asyncio.to_thread(self._replays.still_shown, evidence)
        found = await self._round("dry-run", signal, evidence, places, whole_cause=whole_cause)
        named = await asyncio.to_thread(
            self._cases.preview,
            signal.tenant,
            self._accused(found, places),
            blast_max=self._acts.blast_max,
        )
        return found, named

    @asynccontextmanager
    async def working(self, *, resumes: bool) -> AsyncGenerator[None]:
        """Handle cases while the block runs.

        With `resumes`, the unfinished cases of an earlier process come first.
        """
        for case in await asyncio.to_thread(self._cases.all):
            if resumes and case.under_way and case.case_id not in self._signals:
                self._acting.put(case.case_id)
        async with beside(self._for_ever(self._acting), self._for_ever(self._asking)):
            yield

    # ---- handling one case after the other -------------------------------------------------------

    async def check(self, signal: Signal) -> None:
        """Check that the answer has a record, and that the signal's words, judge and model exist.

        Raises:
            NothingKept: There is no record of the memories that were shown, or of the model's
                request.
            MalformedRequest: A word of `forbid` cannot be searched for, or no judge or model has
                the given name.
        """
        self._check(signal)
        evidence = await asyncio.to_thread(self._replays.evidence, signal)
        if not self._can_ask_again(signal, evidence):
            raise NothingKept("the request behind this reply is not kept any more")

    def _can_ask_again(self, signal: Signal, evidence: Evidence) -> bool:
        """Whether the model that a signal names, if any, can be asked again about its reply.

        The text of a purged memory is unknown here and cannot be removed from the request, so a
        request that contained one is not sent again.
        """
        if signal.through is None:
            return True
        kept = self._models.has(signal.through, signal.tenant, signal.reply_id or "")
        return kept and not evidence.lost

    def _check(self, signal: Signal) -> None:
        if signal.judge is not None and signal.judge not in self._judges.names():
            raise MalformedRequest("no judge has this name")
        if signal.through is not None:
            if signal.through not in self._models.names():
                raise MalformedRequest("through: `[after.replay]` names no such model")
            if signal.reply_id is None or signal.judge is not None:
                raise MalformedRequest("through: a model is asked about a reply, without a judge")
        if signal.forbid:
            try:
                check_matcher(Matcher(must_not=signal.forbid))
            except ValueError as error:
                raise MalformedRequest(str(error)) from None

    async def _open(self, signal: Signal, *, whole_cause: bool) -> str:
        self._check(signal)
        implicated = await asyncio.to_thread(self._implicated, signal)
        case = await self._cases.order(
            OpenCase(
                Opening(
                    tenant=signal.tenant,
                    signal=_KINDS[signal.kind],
                    by=signal.by,
                    failure_id=signal.signal_id,
                    recall_id=signal.recall_id or "",
                    reply_id=_plain(signal.reply_id),
                    anchor_id=signal.rule_id or "",
                    judge=signal.judge or "",
                    own_words=bool(signal.expect or signal.forbid),
                    implicated=implicated,
                )
            )
        )
        self._spoken.keep(case.case_id, signal)
        self._told[case.case_id] = _Told(started_ns=self._out.clock_ns())
        self._tell(case)
        self._signals[case.case_id] = signal, whole_cause
        line = self._acting if signal.through is None else self._asking
        line.put(case.case_id)
        return case.case_id

    async def _for_ever(self, line: _Line) -> None:
        while True:
            case_id = await line.next()
            try:
                await self._seen_through(case_id)
            except StorageError as error:
                # After a failure of the store the case keeps its present step, and the next start
                # of the sidecar continues the case.
                _LOG.warning(
                    "a case could not go on",
                    extra={"fields": {"incident": case_id, "why": type(error).__name__}},
                )
            finally:
                self._end(case_id)

    def _end(self, case_id: str) -> None:
        """Discard what is held in memory for a case, and wake the callers that wait for its end."""
        signal, _ = self._signals.pop(case_id, (None, False))
        if signal is not None and signal.through is not None:
            self._models.forget(signal.tenant, signal.reply_id or "")
        self._told.pop(case_id, None)
        done = self._done.pop(case_id, None)
        if done is not None:
            done.set()

    async def _seen_through(self, case_id: str) -> None:
        """Handle one case to its end; an unexpected error ends only this case, without culprits."""
        try:
            await self._conduct(case_id)
        except (StorageError, InvariantBroken):
            raise
        except Exception as error:  # noqa: BLE001 - the answer is no: a person decides
            fields = {"incident": case_id}
            _LOG.error("a case broke off", exc_info=error, extra={"fields": fields})
            self._told.setdefault(case_id, _Told()).error_type = type(error).__name__
            case = await asyncio.to_thread(self._cases.get, case_id)
            await self._moved(case, CaseStep.NEEDS_PERSON, _open("fault"))

    async def _conduct(self, case_id: str) -> None:
        """Run the rounds of one case, from its present step until it ends or needs a person."""
        case = await asyncio.to_thread(self._cases.get, case_id)
        known = self._signals.get(case_id)
        if known is None:
            # The signal may have contained the words of a right answer. They were held in the
            # memory of a process that has ended.
            await self._moved(case, CaseStep.NEEDS_PERSON, _open("restarted"))
            return
        signal, whole_cause = known
        try:
            evidence = await asyncio.to_thread(self._replays.evidence, signal)
        except NothingKept:
            await self._moved(case, CaseStep.NEEDS_PERSON, _open("nothing_kept"))
            return
        if not self._can_ask_again(signal, evidence):
            await self._moved(case, CaseStep.NEEDS_PERSON, _open("request_gone"))
            return
        places = await asyncio.to_thread(self._replays.still_shown, evidence)
        for number in range(1, ROUNDS_MAX + 1):
            found = await self._round(case_id, signal, evidence, places, whole_cause=whole_cause)
            case = await self._after_round(case, signal, evidence, found, first=number == 1)
            if not case.under_way:
                return
            places = await asyncio.to_thread(self._replays.fresh, evidence)
        if await self._fails(case_id, signal, evidence, places):
            await self._moved(case, CaseStep.NEEDS_PERSON, _open("rounds"))
        else:
            await self._moved(case, CaseStep.HEALED)

    async def _after_round(
        self, case: Case, signal: Signal, evidence: Evidence, found: Round, *, first: bool
    ) -> Case:
        mode = _mode(signal)
        progress = Progress(
            mode=mode,
            suspects=found.suspects,
            asks=found.asks,
            rounds=1,
            controls=found.controls,
            why=found.why or case.why or _lacks(evidence),
        )
        if found.ending is Ending.NOT_REPRODUCED:
            # In the first round the failure could not be repeated. In a later round the culprits
            # are hidden, and the same searches find only right memories.
            step = CaseStep.NOT_REPRODUCED if first else CaseStep.HEALED
            return await self._moved(case, step, progress)
        if found.ending is Ending.NOT_MEMORY_CAUSED and first:
            return await self._moved(case, CaseStep.NOT_MEMORY_CAUSED, progress)
        if found.ending is not Ending.CONVICTED:
            return await self._moved(case, CaseStep.NEEDS_PERSON, progress)
        if first:
            case = await self._moved(case, CaseStep.REPRODUCED, Progress(mode=mode))
        guilty = await asyncio.to_thread(self._accused, found, found.places)
        related = await asyncio.to_thread(self._cases.related, evidence.tenant, guilty)
        acts = self._acts
        proposes = {
            CaseMode.RETRIEVAL: acts.rules_propose,
            CaseMode.JUDGE: acts.judges_propose,
            # A model's second answer may differ by chance, so it is evidence for a person and hides
            # no memory by itself.
            CaseMode.MODEL: True,
        }[mode]
        started_ns = self._out.clock_ns()
        case = await self._cases.order(
            Convict(
                case.case_id, guilty, BLAME, progress, proposes=proposes, blast_max=acts.blast_max
            )
        )
        if case.case_id in self._told:
            self._told[case.case_id].closures.append((started_ns, self._out.clock_ns()))
        self._tell(case)
        if related:
            case = await self._cases.order(NameRelated(case.case_id, related))
        return case

    def _accused(self, found: Round, places: tuple[Hit, ...]) -> list[ConvictedMemory]:
        """The culprits of a round, each with those of its earlier texts that may be shown again."""
        return accused(
            found.culprits, places, lambda memory: fit_texts(self._reader, found.judge, memory)
        )

    async def _moved(self, case: Case, step: CaseStep, progress: Progress | None = None) -> Case:
        case = await self._cases.order(MoveCase(case.case_id, step, BLAME, progress))
        self._tell(case)
        return case

    def _tell(self, case: Case) -> None:
        """Record a step of a case in the metrics.

        The last step also records the trace of the whole case.
        """
        told = self._told.setdefault(case.case_id, _Told())
        ended = not case.under_way
        self._out.record(
            IncidentStepped(
                context=self._out.traces.start(),
                incident_id=case.case_id,
                signal=case.signal.value,
                step=case.step.value,
                mode="" if case.mode is None else case.mode.value,
                tenant=case.tenant,
                suspects=case.suspects,
                rounds=case.rounds,
                culprits=len(case.culprits),
                ended=ended,
                started_ns=told.started_ns or self._out.clock_ns(),
                ended_ns=self._out.clock_ns(),
                links=tuple(dict.fromkeys(one.trace_id for one in case.culprits if one.trace_id)),
                asks=tuple(told.asks),
                why=case.why,
                error_type=told.error_type,
                closures=tuple(told.closures),
            )
        )

    # ---- one round of replays --------------------------------------------------------------------

    async def _round(
        self,
        case_id: str,
        signal: Signal,
        evidence: Evidence,
        places: tuple[Hit, ...],
        *,
        whole_cause: bool,
    ) -> Round:
        """Search for the culprits among `places`, by rules alone or by asking a judge or model."""
        judge = None
        if signal.judge is None:
            judge = await asyncio.to_thread(_rule_judge, signal, self._reader)
            if judge is None:
                return nobody_judges(len(places))
            if signal.through is None:
                started_ns = self._out.clock_ns()
                found = await asyncio.to_thread(judged_alone, judge, places)
                self._note(case_id, started_ns, len(places), fails=bool(found.culprits))
                return found
        plan = self._plan(signal, places, whole_cause=whole_cause)
        while isinstance(ask := plan.next(), Ask):
            if judge is None:
                fails = await self._asked(
                    case_id, signal, evidence, places, ask.present, repeat=ask.repeat
                )
            elif self._models.affords(signal.tenant, signal.reply_id or ""):
                fails = await self._said_again(case_id, signal, judge, evidence, ask)
            else:
                plan.stop(OpenCause.TOKENS)
                continue
            plan.tell(ask, fails=fails)
        return planned(ask, places)

    async def _said_again(
        self, case_id: str, signal: Signal, judge: RuleJudge, evidence: Evidence, ask: Ask
    ) -> bool | None:
        """Ask the model again with `ask.present` alone; return whether it fails, None if unsure."""
        started_ns = self._out.clock_ns()
        shown = [one.memory for one in evidence.shown]
        # A memory that was hidden or changed since is in no `ask`, so its text is never sent again.
        present = [one for one in shown if one.memory_id in ask.present]
        out = [one for one in shown if one.memory_id not in ask.present]
        said = await self._models.said(signal.tenant, signal.reply_id or "", present, out)
        fails = None
        if said is not None:
            fails = bool(await asyncio.to_thread(judge.failed_by, "\n".join(said)))
        self._note(case_id, started_ns, len(ask.present), fails=fails, repeat=ask.repeat)
        return fails

    async def _fails(
        self, case_id: str, signal: Signal, evidence: Evidence, places: tuple[Hit, ...]
    ) -> bool:
        """Whether the memories that the searches find now still make the answer wrong.

        True also if no rule and no judge can decide that.
        """
        if signal.judge is None:
            found = await self._round(case_id, signal, evidence, places, whole_cause=False)
            return found.ending is not Ending.NOT_REPRODUCED
        everything = frozenset(one.memory.memory_id for one in places)
        fails = await self._asked(case_id, signal, evidence, places, everything)
        return fails is not False

    async def _asked(
        self,
        case_id: str,
        signal: Signal,
        evidence: Evidence,
        places: tuple[Hit, ...],
        present: frozenset[str],
        *,
        repeat: int = 0,
    ) -> bool | None:
        shown = [
            ReplayedMemory(id=one.memory.memory_id, text=one.memory.text)
            for one in places
            if one.memory.memory_id in present
        ]
        started_ns = self._out.clock_ns()
        opinion = await self._judges.ask(
            signal.judge or "", case=case_id, question=evidence.question, memories=shown
        )
        self._note(case_id, started_ns, len(shown), fails=opinion.fails, repeat=repeat)
        return opinion.fails

    def _note(
        self, case_id: str, started_ns: int, size: int, *, fails: bool | None, repeat: int = 0
    ) -> None:
        told = self._told.get(case_id)
        if told is None or len(told.asks) >= _ASKS_TRACED_MAX:
            return
        told.asks.append(
            IncidentAsk(
                size=size,
                outcome="unknown" if fails is None else "fails" if fails else "passes",
                repeat=repeat,
                started_ns=started_ns,
                ended_ns=self._out.clock_ns(),
            )
        )

    def _plan(self, signal: Signal, places: Iterable[Hit], *, whole_cause: bool) -> Plan:
        suspects, trusted = suspects_among(places)
        if signal.judge is None:
            limits = ReplayLimits(asks_max=self._models.asks_left())
        else:
            deterministic = self._judges.deterministic(signal.judge)
            limits = ReplayLimits(deterministic=deterministic, asks_max=ASKS_MAX)
        return Plan(suspects, trusted, limits, whole_cause=whole_cause)


def _lacks(evidence: Evidence) -> str:
    """The fixed word for what the records of an answer lack; "" if they are complete."""
    if evidence.lost:
        return "incomplete"
    return "by_vectors" if evidence.by_vectors else ""


def _rule_judge(signal: Signal, reader: MemoryReader) -> RuleJudge | None:
    """The judge that applies a signal's rules; None if there are none, or one cannot be used."""
    rules = rules_for(signal, reader)
    try:
        return RuleJudge(rules) if rules else None
    except EntryError:
        return None


def _mode(signal: Signal) -> CaseMode:
    if signal.through is not None:
        return CaseMode.MODEL
    return CaseMode.RETRIEVAL if signal.judge is None else CaseMode.JUDGE


def _plain(reply_id: str | None) -> str:
    """A reply's id as a case may quote it; "" unless it is 1 to 64 letters, digits, `_` or `-`.

    The id comes from the model's server, which could send any text.
    """
    return reply_id if reply_id and _PLAIN.fullmatch(reply_id) else ""


def _open(why: str) -> Progress:
    return Progress(mode=CaseMode.RETRIEVAL, why=why)
