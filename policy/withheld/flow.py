"""Withholding refused texts in a text that is still being written, such as a streamed reply.

Words are forwarded at once, up to the first word that may begin a refused run. The output does not
depend on how the text is cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from policy.text.skeleton import skeleton
from policy.withheld.refused_texts import PlaceSearch, Span
from policy.withheld.words import RUN, UNSPACED, WordHasher

_ATOM_LEN_MAX: Final = 1_024
# The text is cut into atoms. An atom is a word with the one white space after it, a letter of a
# script without spaces, or a white space. An atom is complete before the next one begins, so the
# same text has the same atoms however it arrives.
_ATOM: Final = re.compile(
    rf"[{UNSPACED}]|\s|[^\s{UNSPACED}]{{{_ATOM_LEN_MAX}}}"
    rf"|[^\s{UNSPACED}]{{1,{_ATOM_LEN_MAX - 1}}}\s?"
)
_LETTER: Final = re.compile(f"[{UNSPACED}]")
_SINGLES_LEN_MAX: Final = 4_096
_OPEN_WORDS_MAX: Final = 512
"""The longest stretch that is held back until it is known whether all of it may be shown."""


class _Atom(NamedTuple):
    raw: str
    numbers: tuple[int, ...]


class Flow:
    """One text that arrives in pieces. `instead` gives the notice in place of a withheld stretch.

    More text may follow after `end`: words that were shown by then may be the beginning of a
    refused stretch.
    """

    def __init__(
        self, printer: WordHasher, looking: PlaceSearch, instead: Callable[[int], str]
    ) -> None:
        self._printer = printer
        self._looking = looking
        self._instead = instead
        self._rest = ""  # An atom (a word or a blank) of which more characters may still arrive.
        self._singles = ""  # Single letters in a row: together they may spell a word.
        self._held: list[_Atom] = []
        # How many of the first held words are already left out: they belong to a refused stretch
        # that continues after them.
        self._gone = 0
        # The last words that were shown since a stretch was left out, fewer than a run.
        self._shown: list[int] = []

    @property
    def holds(self) -> bool:
        """Whether some words are held back until more of the text is known."""
        return bool(self._rest or self._singles or any(atom.raw for atom in self._held))

    def feed(self, text: str) -> str:
        """Add a piece of text; return the part of the text that may be shown now."""
        rest = self._rest + text
        out: list[str] = []
        end = 0
        for found in _ATOM.finditer(rest):
            if not _is_over(rest, found):
                break
            end = found.end()
            out.append(self._take(found[0]))
        self._rest = rest[end:]
        return "".join(out)

    def end(self) -> str:
        """End the text; return the rest of it that may be shown."""
        rest, self._rest = self._rest, ""
        out = self._take(rest) if rest else ""
        out += self._spell() + self._settle(over=True)
        self._held = [_Atom("", (number,)) for number in self._shown]
        self._shown, self._gone = [], 0
        return out

    def _take(self, raw: str) -> str:
        if (
            len(raw) <= _SINGLES_LEN_MAX
            and len(skeleton(raw)) <= 1
            and (raw.strip() or self._singles)
        ):
            self._singles += raw
            return "" if len(self._singles) <= _SINGLES_LEN_MAX else self._spell()
        return self._spell() + self._push(raw)

    def _spell(self) -> str:
        singles, self._singles = self._singles, ""
        return self._push(singles) if singles else ""

    def _push(self, raw: str) -> str:
        atom = _Atom(raw, self._printer.numbers(raw))
        waits = bool(self._held)
        self._held.append(atom)
        # White space and marks after a held word are held with it; they are not compared.
        return "" if waits and not atom.numbers else self._settle(over=False)

    def _settle(self, *, over: bool) -> str:
        """Release the words that can no longer become part of a refused stretch."""
        numbers = [number for atom in self._held for number in atom.numbers]
        begun = len(numbers) if over else self._looking.begun_at(numbers)
        cut = begun
        left_out: list[Span] = []
        for span in self._looking.stretches(numbers):
            goes_on = not over and begun <= span.end
            if self._may_be_shown(span, numbers):
                # Until the text ends, it is not known whether this stretch belongs to a longer
                # refused one.
                cut = min(cut, span.start) if goes_on else cut
            else:
                left_out.append(span)
        return self._release(cut, left_out)

    def _may_be_shown(self, span: Span, numbers: list[int]) -> bool:
        if (self._gone and span.start <= self._gone) or span.end - span.start > _OPEN_WORDS_MAX:
            return False
        return self._looking.is_open(numbers[span.start : span.end])

    def _release(self, cut: int, left_out: list[Span]) -> str:
        out: list[str] = []
        at = count = 0
        told = {span.start for span in left_out if self._gone and span.start <= self._gone}
        gone = self._gone
        for atom in self._held:
            end = at + len(atom.numbers)
            if atom.numbers and end > cut:
                break
            span = _over(left_out, at, end)
            if span is not None:
                gone = max(gone, span.end)
                if span.start not in told:
                    told.add(span.start)
                    out.append(f"{self._instead(span.key)} ")
            elif at >= gone:
                out.append(atom.raw)
            left = span is not None or at < gone
            self._shown = [] if left else [*self._shown, *atom.numbers][1 - RUN :]
            at = end
            count += 1
        del self._held[:count]
        self._gone = max(0, gone - at)
        return "".join(out)


def _is_over(text: str, found: re.Match[str]) -> bool:
    raw = found[0]
    if found.end() < len(text) or len(raw) == _ATOM_LEN_MAX or raw[-1].isspace():
        return True
    return _LETTER.match(raw) is not None


def _over(spans: list[Span], at: int, end: int) -> Span | None:
    """The refused stretch with a word from `at` to `end`, or with the gap at `at`; or None."""
    for span in spans:
        if (at < span.end and span.start < end) if at < end else span.start < at < span.end:
            return span
    return None
