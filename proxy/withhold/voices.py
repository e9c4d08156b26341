"""The fingerprints of the sentences in each string of a request, and whose words they are. Pure.

In a person's turn, text outside of tags is hers. A `system-reminder` in her turn, system text and
the descriptions of tools are the words of the agent's program (the host), unless someone other than
she and the host said the sentences before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from policy.text.readings import flowing, readings_of, repeated
from policy.text.sentences import sentences_between, tails_of
from policy.withheld.words import fingerprint
from proxy.dialects.model.transcript import ContextText, ModelReply, Turn, Voice
from proxy.withhold.texts import strings_in

_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w.:-]*)(\s[^<>]*)?>")

_Place = tuple[int, int]
"""The index of a string, and a position in it."""


class Tagged(NamedTuple):
    """A part of a string between a pair of tags, the tags included.

    `name` is the tags' name in small letters, and empty where two pairs overlap.
    """

    start: int
    end: int
    name: str


class _Pair(NamedTuple):
    start: _Place
    end: _Place
    name: str


def tagged(texts: Sequence[str]) -> list[list[Tagged]]:
    """For each string of one turn its parts between tags, in order.

    A tag that is closed only in a later string includes the strings between.
    """
    found: list[list[Tagged]] = [[] for _ in texts]
    for start, end, name in _apart(sorted(_pairs(texts), key=lambda one: (one.start, _back(one)))):
        for at in range(start[0], end[0] + 1):
            begins = start[1] if at == start[0] else 0
            ends = end[1] if at == end[0] else len(texts[at])
            found[at].append(Tagged(begins, ends, name))
    return found


def _back(pair: _Pair) -> _Place:
    return -pair.end[0], -pair.end[1]


def _pairs(texts: Sequence[str]) -> Iterator[_Pair]:
    begun: dict[str, _Place] = {}
    across: dict[str, _Pair] = {}
    for at, text in enumerate(texts):
        first: dict[str, int] = {}
        newest: dict[str, int] = {}
        closed: dict[str, int] = {}
        for tag in _TAG.finditer(text):
            name = tag[2].lower()
            if tag[1]:
                closed[name] = tag.end()
                if name in begun and name not in first:
                    across[name] = _Pair(begun[name], (at, tag.end()), name)
            elif not (tag[3] or "").endswith("/"):
                first.setdefault(name, tag.start())
                newest[name] = tag.start()
        for name, start in first.items():
            if closed.get(name, 0) > start:
                yield _Pair((at, start), (at, closed[name]), name)
            if closed.get(name, 0) <= newest[name]:
                begun.setdefault(name, (at, newest[name]))
    yield from across.values()


def _apart(pairs: list[_Pair]) -> list[_Pair]:
    """The outermost pairs of tags; pairs that overlap become one pair without a name."""
    apart: list[_Pair] = []
    for pair in pairs:
        last = apart[-1] if apart else None
        if last is None or pair.start >= last.end:
            apart.append(pair)
        elif pair.end > last.end:
            apart[-1] = _Pair(last.start, pair.end, "")
    return apart


REMINDER: Final = "system-reminder"
"""The name of the tags around a host's text in a person's turn."""
TAIL: Final = 0x7A11
"""Distinguishes the print of a part of a sentence from that of a whole sentence."""
WHOLE: Final = 0x3C0DE
"""Distinguishes the print of a whole string from that of a sentence."""
_LED_IN_WORDS_MIN: Final = 7
_END_LEN: Final = 640
_JSON_LEN_MAX: Final = 4_000_000
_PART_END: Final = re.compile(r"\n\s*|(?<=[.!?\u3002\uff01\uff1f])\s+|(?<=[\u3002\uff01\uff1f])")
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n+")
_JSON: Final = msgspec.json.Decoder()


class HostSentence(NamedTuple):
    """A sentence or line of a host's text, and its place.

    `told` are the prints of the parts of the sentence that another speaker may have quoted alone.
    `flows` are the prints of the sentences that its paragraph has when the lines are joined; all
    sentences of a paragraph share one tuple.
    """

    start: int
    end: int
    prints: tuple[int, ...]
    told: tuple[int, ...] = ()
    flows: tuple[int, ...] = ()


class UserString(NamedTuple):
    """A string of a user turn: the parts outside of tags, and the reminders of a host in it."""

    name: int
    hers: tuple[tuple[int, int], ...]
    # The prints of the sentences outside of tags; empty once they are recorded.
    prints: tuple[int, ...]
    reminders: tuple[tuple[HostSentence, ...], ...]


class TurnWords(NamedTuple):
    """The sentences of one turn, string by string, and the prints of others' and models' words."""

    by_model: bool
    users: tuple[UserString | None, ...]
    hosts: tuple[tuple[HostSentence, ...], ...]
    others: tuple[int, ...] = ()
    models: tuple[int, ...] = ()


class SentencePrinter:
    """Makes the fingerprints of sentences, with one key. Any thread."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def print(self, text: str) -> int:
        """The fingerprint of a string."""
        return fingerprint(text, self._key)

    def turn(self, turn: Turn) -> TurnWords:
        """The prints of the sentences in one turn, by whose words they are."""
        beside = any(said.voice is Voice.TOOL or said.call_id for said in turn.said)
        users, others, models = list[UserString | None](), list[str](), list[str]()
        hosts: list[tuple[HostSentence, ...]] = []
        inside = iter(tagged([one.text for one in turn.said if one.voice is Voice.USER]))
        for said in turn.said:
            user, host = None, tuple[HostSentence, ...]()
            if said.voice is Voice.USER:
                user, between = self._user(said, next(inside), beside=beside)
                others += between
            elif said.voice is Voice.SYSTEM:
                host = self.host(said.text)
            else:
                (models if said.voice is Voice.MODEL else others).append(said.text)
            users.append(user)
            hosts.append(host)
        models += (text for call in turn.calls for text in strings_in(call.arguments))
        return TurnWords(
            bool(turn.calls) or any(said.voice is Voice.MODEL for said in turn.said),
            tuple(users),
            tuple(hosts),
            self.others(others),
            self.others(models),
        )

    def reply(self, reply: ModelReply) -> TurnWords:
        """The prints of a model's words in a reply, and of the provider's own tools' words."""
        said = [*reply.said]
        said += (text for call in reply.calls for text in strings_in(call.arguments))
        heard = [one.text for one in reply.heard]
        return TurnWords(True, (), (), self.others(heard), self.others(said))  # noqa: FBT003

    def _user(
        self, said: ContextText, inside: Iterable[tuple[int, int, str]], *, beside: bool
    ) -> tuple[UserString, list[str]]:
        text, at = said.text, 0
        hers, others = list[tuple[int, int]](), list[str]()
        reminders: list[tuple[HostSentence, ...]] = []
        for start, end, name in (*inside, (len(text), len(text), "")):
            if text[at:start].strip():
                hers.append((at, start))
            if name == REMINDER:
                reminders.append(self.host(text, start, end))
            elif start < end:
                others.append(text[start:end])
            at = end
        if beside:
            # Text beside results of tools is not what a person typed.
            others += [text[start:end] for start, end in hers]
            hers.clear()
        outside = (one for start, end in hers for one in sentences_between(text[start:end]))
        prints = tuple(map(self.print, outside))
        return UserString(self.print(text) ^ WHOLE, tuple(hers), prints, tuple(reminders)), others

    def others(self, texts: list[str]) -> tuple[int, ...]:
        """The prints of sentences that others say, in every reading in which they may be quoted."""
        said: dict[str, None] = {}
        for text in (*texts, *_across(texts)):
            for one in _strings_of(text):
                for reading in dict.fromkeys((*readings_of(one), *repeated(one))):
                    said.update(dict.fromkeys(sentences_between(reading)))
        found: dict[int, None] = {}
        for sentence in said:
            found[self.print(sentence)] = None
            found.update((self.print(tail) ^ TAIL, None) for tail in tails_of(sentence))
        return tuple(found)

    def host(self, text: str, start: int = 0, end: int | None = None) -> tuple[HostSentence, ...]:
        """The sentences of a host's text, each with its place in the string."""
        end = len(text) if end is None else end
        parts: list[HostSentence] = []
        for first, last in _ranges(text, start, end, _PARAGRAPH):
            flows = set(sentences_between(flowing(text[first:last])))
            lines = [
                (begins, ends, sentences_between(text[begins:ends]))
                for begins, ends in _ranges(text, first, last, _PART_END)
            ]
            flowing_prints = tuple(map(self.print, flows.difference(*(one[2] for one in lines))))
            for begins, ends, said in lines:
                prints = tuple(map(self.print, said))
                told = {one ^ TAIL for one in prints}
                for sentence in said:
                    long = (
                        self.print(one)
                        for one in tails_of(sentence)
                        if one.count(" ") >= _LED_IN_WORDS_MIN - 1
                    )
                    told.update(one for tail in long for one in (tail, tail ^ TAIL))
                parts.append(HostSentence(begins, ends, prints, tuple(told), flowing_prints))
        return tuple(parts)


def _ranges(text: str, start: int, end: int, ends: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """The start and end of each stretch between the given marks; blank stretches are left out."""
    at = start
    for gap in (*ends.finditer(text, start, end), None):
        stop = end if gap is None else gap.start()
        if text[at:stop].strip():
            yield at, stop
        at = end if gap is None else gap.end()


def _across(texts: list[str]) -> tuple[str, ...]:
    """The ends of neighbouring strings joined, because a sentence may run from one to the next."""
    ends = [
        one if len(one) <= 2 * _END_LEN else f"{one[:_END_LEN]}\n{one[-_END_LEN:]}" for one in texts
    ]
    return (" ".join(ends), "".join(ends)) if len(ends) > 1 else ()


def _strings_of(text: str) -> Iterator[str]:
    """The text itself, and, if it is JSON, the strings in it."""
    yield text
    if text[:1] in {"{", "["} and len(text) <= _JSON_LEN_MAX:
        try:
            value: object = _JSON.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return
        yield from strings_in(value)
