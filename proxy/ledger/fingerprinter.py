"""Strings and sentences of texts, and the keyed prints by which a text is recognised. Pure."""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterable, Iterator
from hashlib import blake2b
from typing import Final, cast

import msgspec

from policy.text.readings import readings_of
from policy.text.sentences import sentences_between
from policy.text.stems import is_nobodys
from policy.withheld.words import fingerprint
from proxy.seams.slices import apart, resting

_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n+")
_WORDS: Final = re.compile(r"[^\W_]+")


def all_readings(text: str) -> tuple[str, ...]:
    """The readings of a text, without readings that have the same words as an earlier one."""
    known = [_WORDS.findall(text)]
    found = [text]
    for reading in readings_of(text):
        words = _WORDS.findall(reading)
        if words not in known:
            known.append(words)
            found.append(reading)
    return tuple(found)


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each paragraph; together the paragraphs cover the text."""
    at = 0
    for gap in _PARAGRAPH.finditer(text):
        if text[at : gap.start()].strip():
            yield at, gap.end()
            at = gap.end()
    if text[at:].strip():
        yield at, len(text)


def strings_in(value: object) -> Iterator[str]:
    """Every string inside a JSON value, keys excluded."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            pending.extend(reversed(cast("list[object]", part)))
        elif isinstance(part, dict):
            pending.extend(reversed(list(cast("dict[str, object]", part).values())))


BEGIN_WORDS: Final = 3
SERVED_WORDS_MAX: Final = 100
"""A longer sentence of a served memory is recognised only where it is a whole sentence."""
LOOKS_MAX: Final = 20_000
"""How many possible ends of served sentences are tried in one text."""
_MARKS: Final = ".,;:!?\"'`()[]{}*_<>"
_BEGINS: Final = 0xBE615
"""Distinguishes the fingerprint of a sentence's beginning from that of a whole sentence."""
_CHAIN: Final = struct.Struct(">QQ")


class Fingerprinter:
    """Makes the fingerprints of one ledger, with its key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def print(self, text: str) -> int:
        """The fingerprint of a string."""
        return fingerprint(text, self._key)

    def named(self, kind: str, name: str) -> int:
        """The fingerprint of a name, different for each kind of name."""
        return self.print(f"{kind}\0{name}")

    def digest(self, parts: list[str]) -> int:
        """The fingerprint of a list of strings, each with its length."""
        lengths = ",".join([str(len(part)) for part in parts])
        return self.print("\0".join([lengths, *parts]))

    def chained(self, above: int, digest: int) -> int:
        """The fingerprint of a history extended by a turn, from the fingerprint before it."""
        data = _CHAIN.pack(above, digest)
        return int.from_bytes(blake2b(data, digest_size=8, key=self._key).digest(), "big")

    def parts(self, text: str) -> list[int]:
        """The fingerprints of the sentences of a text."""
        return [fingerprint(one, self._key) for one in resting(apart(sentences_between, text))]

    def somebodys(self, text: str) -> list[int]:
        """The fingerprints of sentences that can identify a speaker; short common ones do not."""
        said = resting(apart(sentences_between, text))
        return [self.print(one) for one in said if not is_nobodys(one)]

    def arguments(self, arguments: object) -> int:
        """The fingerprint of a call's arguments, whatever their order; 0 if they are not JSON."""
        try:
            data = msgspec.json.encode(arguments, order="deterministic")
        except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
            return 0
        return self.print(data.decode())

    def served(self, texts: Iterable[str]) -> list[int]:
        """The fingerprints of a served memory's sentences, and of the sentences' beginnings."""
        said = [one for text in texts for one in sentences_between(text)]
        words = [one.split(" ") for one in said if not is_nobodys(one)]
        begun = (self._begins(one) for one in words if len(one) >= BEGIN_WORDS)
        return [*map(self.print, said), *begun]

    def served_in(self, text: str, known: Container[int]) -> Iterator[int]:
        """The fingerprints in `known` whose sentences a text contains, anywhere in a line.

        `known` are those of served memories. Where a text has too many places at which a served
        sentence may begin, the beginning of the sentence is enough.
        """
        left = LOOKS_MAX
        for sentence in resting(apart(sentences_between, text)):
            whole = self.print(sentence)
            if whole in known and not is_nobodys(sentence):
                yield whole
            words = sentence.split(" ")
            for at in range(len(words) - BEGIN_WORDS + 1):
                begins = self._begins(words[at : at + BEGIN_WORDS])
                if begins not in known:
                    continue
                last = min(len(words), at + SERVED_WORDS_MAX)
                left -= last - at
                if left < 0:
                    yield begins
                    continue
                for end in range(at + BEGIN_WORDS, last + 1):
                    said = " ".join(words[at:end])
                    for one in {self.print(said), self.print(said.strip(_MARKS))}:
                        if one in known:
                            yield one

    def _begins(self, words: list[str]) -> int:
        return self.print(" ".join([one.strip(_MARKS) for one in words[:BEGIN_WORDS]])) ^ _BEGINS
