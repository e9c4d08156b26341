"""Finds texts that were purged here in what their server answers, by prints alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.withheld.prints import (
    CONTAINED_LEN_MIN,
    SHORT_DIGEST_LEN,
    digest_of,
    start_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.withheld.prints import ShortPrint
    from proxy.guard.prints import Print
    from storage.values import Forgotten


class _Entry:
    """One forgotten piece, and how many live memories open it again."""

    __slots__ = ("openers", "piece", "step")

    def __init__(self, piece: ShortPrint, step: int | None) -> None:
        self.piece = piece
        # Only a person opens what was hidden by this change, or who wrote before it.
        self.step = step
        self.openers = 0


class ForgottenTexts:
    """The forgotten texts of one server and tenant. One thread at a time.

    What was shown when it was purged is opened by any live memory that says it. What was hidden is
    opened by a person's alone, and by one that was there when it was purged: an agent that says a
    lie again makes no server show its old copy. A name, which many memories share, counts as shown.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[bytes, int, bool], list[_Entry]] = {}
        self._starts: dict[int, list[ShortPrint]] | None = {}
        self._wholes: frozenset[tuple[bytes, int]] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything was ever forgotten."""
        return bool(self._entries)

    def add(self, forgotten: Forgotten) -> None:
        """Take in a record, before the live memories that are there are counted again."""
        for piece in forgotten.prints:
            step = forgotten.step if forgotten.hidden and not piece.whole else None
            name = (piece.digest, piece.length, piece.whole)
            self._entries.setdefault(name, []).append(_Entry(piece, step))
        self._starts = None

    def forget_openers(self) -> None:
        """Count no live memory any more."""
        for entries in self._entries.values():
            for one in entries:
                one.openers = 0

    def count(
        self, prints: Iterable[Print], ordinal: int, *, by_person: bool, count: int = 1
    ) -> None:
        """Count a live memory that says these pieces, or with -1 count it no longer."""
        for one in prints:
            name = (one.digest[:SHORT_DIGEST_LEN], one.length, one.whole)
            for entry in self._entries.get(name, ()):
                if by_person or entry.step is None or ordinal < entry.step:
                    entry.openers += count
                    self._starts = None

    def stand_in(self, shapes: Iterable[str]) -> bool:
        """Whether one of these shapes is, or contains, a forgotten piece that is not open."""
        starts = self._starts
        if starts is None:
            starts = self._build()
        if not starts and not self._wholes:
            return False
        return any(self._stands(shape, starts) for shape in shapes)

    def _build(self) -> dict[int, list[ShortPrint]]:
        closed = [
            entries[0].piece
            for entries in self._entries.values()
            if any(not one.openers for one in entries)
        ]
        self._wholes = frozenset((one.digest, one.length) for one in closed if one.whole)
        starts: dict[int, list[ShortPrint]] = {}
        for one in closed:
            if not one.whole:
                starts.setdefault(one.start, []).append(one)
        self._starts = starts
        return starts

    def _stands(self, shape: str, starts: dict[int, list[ShortPrint]]) -> bool:
        if self._wholes and (digest_of(shape)[:SHORT_DIGEST_LEN], len(shape)) in self._wholes:
            return True
        if not starts:
            return False
        for at in range(len(shape) - CONTAINED_LEN_MIN + 1):
            for one in starts.get(start_of(shape[at : at + CONTAINED_LEN_MIN]), ()):
                part = shape[at : at + one.length]
                if len(part) == one.length and digest_of(part)[:SHORT_DIGEST_LEN] == one.digest:
                    return True
        return False
