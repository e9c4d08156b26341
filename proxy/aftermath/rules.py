"""Collects the rules for judging a wrong answer: anchors, canaries and the signal's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from policy.after.matchers import Matcher, SignalKind
from policy.after.rule_judge import RegisteredRule, RuleJudge
from policy.anchors import Statements
from policy.bounded import Bounded
from policy.model import Hit, Memory, SourceKind
from policy.text.skeleton import skeleton
from policy.text.whole_words import words_of
from proxy.seams.cases import Signal
from proxy.withhold.judged_texts import judged_step, rules_of
from storage.features.cases import ConvictedMemory
from storage.interfaces import MemoryReader
from storage.values import Anchor

_STATEMENT_WORDS_MIN: Final = 3
_OF_SIGNAL: Final = "signal"
_SPOKEN_MAX: Final = 1_000
_TRUSTED: Final = SourceKind.USER_INPUT


def rules_for(signal: Signal, reader: MemoryReader) -> list[RegisteredRule]:
    """The rules that apply to a signal: registered anchors or a canary, and its own words."""
    anchors = _registered(signal, reader)
    if signal.kind is SignalKind.ANCHOR:
        return rules_of(anchors)
    rules = [
        RegisteredRule(rule_id=one.anchor_id, statement=one.statement, matcher=one.matcher)
        for one in anchors
    ]
    label = SourceKind.OPERATOR
    if signal.kind is SignalKind.PERSON:
        label = SourceKind.USER_INPUT
    if signal.forbid:
        matcher = Matcher(must_not=signal.forbid)
        rules.append(RegisteredRule(rule_id=_OF_SIGNAL, matcher=matcher, label=label))
    rules.extend(
        RegisteredRule(rule_id=f"{_OF_SIGNAL} {number}", statement=one, label=label)
        for number, one in enumerate(signal.expect)
        # A single word is no statement: any text that merely mentions the word would seem to
        # deny it.
        if len(words_of(skeleton(one))) >= _STATEMENT_WORDS_MIN
    )
    return rules


def _registered(signal: Signal, reader: MemoryReader) -> tuple[Anchor, ...]:
    known = reader.anchors(signal.tenant)
    if signal.rule_id is None:
        return known
    if signal.kind is SignalKind.CANARY:
        known = tuple(one for one in reader.canaries() if one.tenant == signal.tenant)
    return tuple(one for one in known if one.anchor_id == signal.rule_id)


class OpenedSignals:
    """Holds the newest thousand signals that opened cases, keyed by case. Event loop only.

    A signal's words for a right answer are content, so they are held in memory only; after a
    restart, trials of memories lack the words of earlier cases.
    """

    def __init__(self) -> None:
        self._signals = Bounded[str, Signal](_SPOKEN_MAX)

    def keep(self, case_id: str, signal: Signal) -> None:
        """Store the signal of a case; the oldest signal is dropped if there are too many."""
        self._signals[case_id] = signal

    def get(self, case_id: str) -> Signal | None:
        """The signal of a case; None if it was dropped or lost in a restart."""
        return self._signals.get(case_id)


def accused(
    culprits: Iterable[Hit],
    beside: Iterable[Hit],
    fit: Callable[[Memory], frozenset[str] | None] = lambda _: None,
) -> list[ConvictedMemory]:
    """The culprits as convicted memories; `outdated` if a newer, more trusted memory denies one.

    `fit` returns the earlier texts of a memory that may be shown again (`fit_texts`).
    """
    trusted = [one.memory for one in beside if one.memory.source.trust >= _TRUSTED.trust]
    found: list[ConvictedMemory] = []
    for one in culprits:
        memory = one.memory
        newer = [
            skeleton(other.text)
            for other in trusted
            if other.updated_at_ms > memory.updated_at_ms
            and other.source.trust > memory.source.trust
        ]
        outdated = bool(newer) and bool(Statements(newer).denied_by(skeleton(memory.text)))
        found.append(
            ConvictedMemory(
                memory_id=memory.memory_id,
                ordinal=memory.ordinal,
                outdated=outdated,
                fit=fit(memory),
            )
        )
    return found


def fit_texts(
    reader: MemoryReader, judge: RuleJudge | None, memory: Memory
) -> frozenset[str] | None:
    """The texts from a memory's history that fail none of a case's rules.

    None if no rule judged, because a caller's judge was asked about the shown texts only, and about
    no earlier text. Texts older than the stored history are not included.
    """
    if judge is None:
        return None
    steps = [
        (one.new_text, judged_step(memory.memory_id, one, one.new_text))
        for one in reader.history(memory.tenant, memory.memory_id)
        if one.new_text is not None
    ]
    return frozenset(text for text, step in steps if not judge.failing((step,)))
