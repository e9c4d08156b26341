"""The judge that applies the operators' anchors and canaries: which memories contradict them.

No model takes part. Each memory is judged alone, so one evaluation for each memory names every
culprit, and no plan of replays is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from policy.after.matchers import Matcher
from policy.anchors import Statements
from policy.model import MemoryClass, MemoryId, SourceKind
from policy.text.skeleton import skeleton
from policy.text.whole_words import WholeWords, compiled, key_word, words_of

_NO_MATCHER: Final = Matcher()


class RegisteredRule(msgspec.Struct, frozen=True, kw_only=True):
    """An anchor or a canary, in the form in which it judges memories.

    `statement` is what is true; "" for a canary, which has only words that must or must not occur.
    `label` is the label of the person or program that vouches for the rule: only memories with a
    lower label can fail the rule.
    """

    rule_id: str
    statement: str = ""
    matcher: Matcher | None = None
    label: SourceKind = SourceKind.OPERATOR


class JudgedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that is, or would be, shown; `text` has the lines of the metadata as well."""

    memory_id: MemoryId
    text: str
    label: SourceKind
    memory_class: MemoryClass = MemoryClass.L3


class FailingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, and the rules that it fails, in the order of the rules."""

    memory_id: MemoryId
    rule_ids: tuple[str, ...]


class RuleVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """The memories of one answer that fail rules, and the rules that are in doubt.

    `doubted` are the ids of rules that contradict a memory with a label as high as the rule's own.
    Such a memory is not blamed, so leaving out other memories would not make the answer right.
    """

    failing: tuple[FailingMemory, ...]
    doubted: frozenset[str]

    @property
    def blamed(self) -> tuple[FailingMemory, ...]:
        """The memories that fail at least one rule that is not in `doubted`."""
        return tuple(one for one in self.failing if not self.doubted.issuperset(one.rule_ids))


class _Entries:
    """Finds the entries of many rules in a text.

    A literal is tried only where its longest word occurs.
    """

    __slots__ = ("_always", "_by_word")

    def __init__(self, entries: Iterable[tuple[int, str]]) -> None:
        self._by_word: dict[str, list[tuple[int, WholeWords]]] = {}
        self._always: list[tuple[int, WholeWords]] = []
        for place, entry in entries:
            word = key_word(entry)
            tried = self._by_word.setdefault(word, []) if word else self._always
            tried.append((place, compiled(entry)))

    def found_in(self, text_skeleton: str) -> set[int]:
        """The numbers of the rules that have an entry which occurs in the skeleton."""
        tried = list(self._always)
        if self._by_word:
            for word in words_of(text_skeleton) & self._by_word.keys():
                tried.extend(self._by_word[word])
        found: set[int] = set()
        for place, pattern in tried:
            if place not in found and pattern.search(text_skeleton):
                found.add(place)
        return found


class RuleJudge:
    """Judges memories and replies by registered rules. Immutable; may be used from any thread.

    Raises:
        EntryError: An entry of a matcher cannot be used (`check_matcher` refuses such a matcher).
    """

    def __init__(self, rules: Sequence[RegisteredRule]) -> None:
        self.rules = tuple(rules)
        matchers = [rule.matcher or _NO_MATCHER for rule in rules]
        self._matchers = matchers
        self._stated = [place for place, rule in enumerate(rules) if rule.statement]
        self._statements = Statements([skeleton(rules[place].statement) for place in self._stated])
        self._shown = _Entries(
            (place, entry)
            for place, matcher in enumerate(matchers)
            if matcher.of_retrieval
            for entry in matcher.must_not
        )
        self._answered = _Entries(
            (place, entry)
            for place, matcher in enumerate(matchers)
            if matcher.of_answers
            for entry in matcher.must_not
        )
        self._must = tuple(tuple(map(compiled, matcher.must)) for matcher in matchers)

    def failing(self, memories: Iterable[JudgedMemory]) -> tuple[FailingMemory, ...]:
        """The memories that fail some rule, in the order given; each memory is judged alone.

        A memory fails a rule if it contains what the rule forbids, or contradicts the rule's
        statement, and the rule's label is higher than the memory's own.
        """
        return self.judged(memories).failing

    def judged(self, memories: Iterable[JudgedMemory]) -> RuleVerdicts:
        """The failing memories, and the rules that memories of an equal or higher label deny."""
        failed: list[FailingMemory] = []
        doubted: set[str] = set()
        for memory in memories:
            folded = skeleton(memory.text)
            ids: list[str] = []
            for place in sorted(self._shown.found_in(folded) | self._denied(folded)):
                only, rule = self._matchers[place].memory_class, self.rules[place]
                if only is not None and only is not memory.memory_class:
                    continue
                if rule.label.trust > memory.label.trust:
                    ids.append(rule.rule_id)
                else:
                    doubted.add(rule.rule_id)
            if ids:
                failed.append(FailingMemory(memory_id=memory.memory_id, rule_ids=tuple(ids)))
        return RuleVerdicts(failing=tuple(failed), doubted=frozenset(doubted))

    def failed_by(self, answer: str) -> tuple[str, ...]:
        """The ids of the rules that forbid or contradict something in a finished reply.

        A reply fails no rule by what it leaves out: it may be about something else (see `lacking`).
        """
        folded = skeleton(answer)
        places = self._answered.found_in(folded) | self._denied(folded)
        return tuple(self.rules[place].rule_id for place in sorted(places))

    def lacking(self, texts: Iterable[str]) -> tuple[str, ...]:
        """The ids of the rules that have a required entry (`must`) which no given text contains.

        The texts are the answer to a rule's own question, or what a search for that question finds.
        No memory is to blame, because what is wrong is that an entry is missing from all of them.
        """
        folded = [skeleton(text) for text in texts]
        return tuple(
            rule.rule_id
            for rule, patterns in zip(self.rules, self._must, strict=True)
            if not all(any(each.search(text) for text in folded) for each in patterns)
        )

    def _denied(self, folded: str) -> set[int]:
        return {self._stated[place] for place in self._statements.denied_by(folded)}
