"""Finds the live memories of an upstream server in its answers, by their texts.

An upstream server shows memories without the sidecar's ids, so they are recognised by the words of
their pieces. A memory counts as shown if the answer contains one piece that distinguishes it from
others; a memory of names and kinds alone counts if the answer contains all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Lock
from typing import Final, NamedTuple

from policy.bounded import Bounded
from policy.withheld.pieces import digest_of, shape_of

FOUND_MAX: Final = 1_000
"""The most memories that are found in one answer."""
_SHARED_MAX: Final = 256
"""The most memories that may share a name or kind; one shared by more identifies none."""
_KEPT_MAX: Final = 8
_KEPT_LEN_MAX: Final = 64 * 1024
_CONTAINED_LEN_MIN: Final = 8
"""The fewest characters of a piece that is also searched for inside longer strings."""
# A piece of one word is a name or a kind: a text that mentions it does not repeat the memory.
_ONE_WORD: Final = re.compile(r"[^\W\d_]+")


class PiecePrint(NamedTuple):
    """The fingerprint of one piece of a memory's text, without the text.

    `anchor` is a hash to search by; a match has the same length and digest.
    """

    anchor: int
    length: int
    digest: bytes
    whole: bool  # whether only an equal string matches, and not one that contains the piece


def prints_of_pieces(pieces: tuple[str, ...]) -> tuple[PiecePrint, ...]:
    """The prints of the pieces that distinguish a memory from others.

    Short and one-word pieces are names or kinds, which any memory may share. They have prints only
    if the memory has no other pieces.
    """
    shapes = {shape: piece for piece in pieces if (shape := shape_of(piece))}
    tell = [
        shape
        for shape, piece in shapes.items()
        if len(shape) >= _CONTAINED_LEN_MIN and _ONE_WORD.fullmatch(piece.strip()) is None
    ]
    return tuple(_print_of(shape, whole=not tell) for shape in sorted(tell or shapes))


def _print_of(shape: str, *, whole: bool) -> PiecePrint:
    anchor = 0 if whole else hash(shape[:_CONTAINED_LEN_MIN])
    return PiecePrint(anchor=anchor, length=len(shape), digest=digest_of(shape), whole=whole)


class LiveTexts:
    """An index of one server's live memories of one tenant, by their prints. Any thread."""

    def __init__(self) -> None:
        self._prints: dict[str, tuple[PiecePrint, ...]] = {}
        self._names: dict[PiecePrint, dict[str, None]] = {}
        # Maps the hash of a piece's first letters to the lengths of the pieces that begin with
        # these letters, and each length to the number of such pieces.
        self._lengths: dict[int, dict[int, int]] = {}
        self._lock = Lock()
        # A cache of the latest searches, because an agent reads the same texts again and again. It
        # is cleared with each change, so that it holds no text of a memory that is not live.
        self._found = Bounded[tuple[str, ...], tuple[str, ...]](_KEPT_MAX)
        self._changes = 0

    def __len__(self) -> int:
        """How many memories are live."""
        return len(self._prints)

    def add(self, name: str, prints: tuple[PiecePrint, ...]) -> None:
        """Add a live memory with the prints of its pieces."""
        with self._lock:
            self._change()
            self._prints[name] = prints
            for one in prints:
                names = self._names.get(one)
                if names is None:
                    names = self._names[one] = {}
                    if not one.whole:
                        lengths = self._lengths.setdefault(one.anchor, {})
                        lengths[one.length] = lengths.get(one.length, 0) + 1
                names[name] = None

    def drop(self, name: str) -> None:
        """Remove a memory that is no longer live, if it is in the index."""
        with self._lock:
            self._change()
            for one in self._prints.pop(name, ()):
                names = self._names.get(one, {})
                names.pop(name, None)
                if names or one not in self._names:
                    continue
                del self._names[one]
                if not one.whole:
                    self._forget_length(one)

    def _change(self) -> None:
        self._found.clear()
        self._changes += 1

    def _forget_length(self, one: PiecePrint) -> None:
        lengths = self._lengths[one.anchor]
        lengths[one.length] -= 1
        if not lengths[one.length]:
            del lengths[one.length]
        if not lengths:
            del self._lengths[one.anchor]

    def found_in(self, strings: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the memories that `strings` show, `FOUND_MAX` at most, as they occur."""
        with self._lock:
            before, changes = self._found.get(strings), self._changes
        if before is not None:
            return before
        found = self._search(strings)
        with self._lock:
            if changes == self._changes and sum(map(len, strings)) <= _KEPT_LEN_MAX:
                self._found[strings] = found
        return found

    def _search(self, strings: tuple[str, ...]) -> tuple[str, ...]:
        seen: dict[PiecePrint, None] = {}
        for text in strings:
            shape = shape_of(text)
            if shape:
                seen[_print_of(shape, whole=True)] = None
                seen.update(dict.fromkeys(self._pieces_in(shape)))
        found: dict[str, None] = {}
        for one in seen:
            with self._lock:
                names = self._names.get(one, {})
                sharing = tuple(names) if len(names) <= _SHARED_MAX or not one.whole else ()
                parts = [self._prints[name] for name in sharing]
            for name, prints in zip(sharing, parts, strict=True):
                if not one.whole or all(part in seen for part in prints):
                    found[name] = None
            if len(found) >= FOUND_MAX:
                break
        return tuple(found)[:FOUND_MAX]

    def _pieces_in(self, shape: str) -> Iterator[PiecePrint]:
        """The possible pieces in a shape: from the start of a word to the end of one."""
        lengths_by_anchor = self._lengths
        at, last = 0, len(shape) - _CONTAINED_LEN_MIN
        while 0 <= at <= last:
            anchor = hash(shape[at : at + _CONTAINED_LEN_MIN])
            if anchor in lengths_by_anchor:
                with self._lock:
                    lengths = tuple(lengths_by_anchor.get(anchor, ()))
                for length in lengths:
                    end = at + length
                    if shape[end : end + 1] in {"", " "} and end <= len(shape):
                        digest = digest_of(shape[at:end])
                        yield PiecePrint(anchor=anchor, length=length, digest=digest, whole=False)
            at = shape.find(" ", at) + 1 or -1
