"""A text that goes out while it is being written, without what of it is withheld.

It is held back only from the first word on that may be the beginning of a refused run. Any cut of
the same text gives the same text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.withheld import RUN_MAX, UNSPACED

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.withheld import Printer, Withheld

# A word with the one white space behind it, a letter of a script without spaces, a white space.
_ATOM: Final = re.compile(rf"[{UNSPACED}]\s?|[^\s{UNSPACED}]+\s?|\s")
_HELD_MAX: Final = 4_096
"""Characters of one word that are waited for; a longer one is no word."""


class _Atom(NamedTuple):
    raw: str
    numbers: tuple[int, ...]


class Flow:
    """One text. `instead` gives what stands in the place of a stretch, by its key."""

    def __init__(self, printer: Printer, withheld: Withheld, instead: Callable[[int], str]) -> None:
        self._printer = printer
        self._withheld = withheld
        self._instead = instead
        self._rest = ""  # a word whose end did not come yet
        self._single = ""  # letters one by one, which may spell a word
        self._held: list[_Atom] = []
        # How many words of the held atoms were left out already: they only end a stretch.
        self._gone = 0

    @property
    def holds(self) -> bool:
        """Whether something of what came waits."""
        return bool(self._rest or self._single or self._held)

    def feed(self, text: str) -> str:
        """What may go out now."""
        self._rest += text
        end = 0
        out: list[str] = []
        for found in _ATOM.finditer(self._rest):
            if found.end() == len(self._rest) and not _is_whole(found[0]):
                break
            end = found.end()
            out.append(self._take(found[0]))
        self._rest = self._rest[end:]
        if len(self._rest) > _HELD_MAX:
            rest, self._rest = self._rest, ""
            out.append(self._take(rest))
        return "".join(out)

    def end(self) -> str:
        """What is left to go out at the end."""
        rest, self._rest = self._rest, ""
        out = self._take(rest) if rest else ""
        return out + self._close_single() + self._settle(over=True)

    def _take(self, raw: str) -> str:
        letters = raw.strip()
        if len(letters) <= 1 and (letters.isalnum() or not letters) and (letters or self._single):
            self._single += raw
            if len(self._single) <= _HELD_MAX:
                return ""
            return self._close_single()
        return self._close_single() + self._push(raw)

    def _close_single(self) -> str:
        single, self._single = self._single, ""
        return self._push(single) if single else ""

    def _push(self, raw: str) -> str:
        self._held.append(_Atom(raw, tuple(self._printer.numbers(raw))))
        return self._settle(over=False)

    def _settle(self, *, over: bool) -> str:
        """Let go of what cannot become part of a refused stretch any more."""
        numbers = [number for atom in self._held for number in atom.numbers]
        begun = len(numbers) if over else self._withheld.begun_at(numbers)
        spans = self._withheld.stretches(numbers)
        # A stretch may go on as long as the next word could still end a run that begins in it.
        kept_from = begun
        if spans and not over and begun <= spans[-1].end and begun < len(numbers):
            kept_from = spans[-1].start
        out: list[str] = []
        at = 0
        left = 0
        for atom in self._held:
            if at + len(atom.numbers) > kept_from:
                break
            at += len(atom.numbers)
            left += 1
        del out, left
        return ""


def _is_whole(atom: str) -> bool:
    return atom[-1].isspace()
