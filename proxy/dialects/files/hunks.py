"""The changes of an edit, line by line, and each changed part with its neighbouring lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import commonprefix
from typing import Final

import msgspec

from policy.labels.derive import read_text

CELLS_MAX: Final = 250_000
"""The most old lines times new lines, between the beginning and the end that two texts share."""
HUNKS_MAX: Final = 100
_NEIGHBOUR_LEN_MAX: Final = 1_000
# Matches the beginning of a line that is a Markdown block of its own: an entry of a list, a
# heading, a quotation, a row of a table, a fence.
_OWN_BLOCK: Final = re.compile(r"\s*(?:[-*+\u2022]\s|\d{1,4}[.)]\s|#|>|\||```|~~~)")
_MARK: Final = re.compile(r"\s*(?:[-*+\u2022]\s+|\d{1,4}[.)]\s+|#+\s+|>\s*)*")
# `_ENDED` matches a line that ends a sentence, `_GOES_ON` a line that the next one continues.
_ENDED: Final = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201d\u2019)\]*_`]*\s*$")
_GOES_ON: Final = re.compile(r"[,:;\u2013\u2014-][*_`]*\s*$")
_QUOTES: Final = " \t*_\"'([\u201c\u2018\u2026"


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """Adjacent added and removed lines, without those that are blank or only the mark of a list.

    `reads` is one text: the added lines, joined with the line before them and the line after.
    """

    came: tuple[str, ...]
    went: tuple[str, ...]
    reads: str


def hunks_of(before: str, after: str) -> tuple[Hunk, ...] | None:
    """The changes between two texts; None if the texts differ in too many lines."""
    old, new = _lines(before), _lines(after)
    start = len(commonprefix([old, new]))
    end = len(commonprefix([old[start:][::-1], new[start:][::-1]]))
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    if len(gone) * len(come) > CELLS_MAX:
        return None
    found: list[Hunk] = []
    for went, first, last in _runs(gone, come):
        came = come[first:last]
        if not _said(came) and not _said(went):
            continue
        found.append(
            Hunk(
                came=_said(came),
                went=_said(went),
                reads=_beside(new, start + first, start + last),
            )
        )
    return None if len(found) > HUNKS_MAX else tuple(found)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")]


def _said(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if _MARK.sub("", line, count=1).strip())


def _runs(old: Sequence[str], new: Sequence[str]) -> list[tuple[list[str], int, int]]:
    """Compare two texts line by line (longest common subsequence).

    Returns each run of removed lines, with the range of new lines that replace it: the index of the
    first, and the index past the last.
    """
    rows = [[0] * (len(new) + 1)]
    for one in reversed(old):
        below, row = rows[-1], [0] * (len(new) + 1)
        for at in range(len(new) - 1, -1, -1):
            same = below[at + 1] + 1 if one == new[at] else 0
            row[at] = max(same, below[at], row[at + 1])
        rows.append(row)
    rows.reverse()
    # The run before each line that both texts have, and the run after the last one.
    found: list[tuple[list[str], int, int]] = [([], 0, 0)]
    at, to = 0, 0
    while at < len(old) or to < len(new):
        went, first, _ = found[-1]
        if at < len(old) and to < len(new) and old[at] == new[to]:
            at, to = at + 1, to + 1
            found.append(([], to, to))
            continue
        if to == len(new) or (at < len(old) and rows[at + 1][to] >= rows[at][to + 1]):
            went.append(old[at])
            at += 1
        else:
            to += 1
        found[-1] = (went, first, to)
    return [(went, first, past) for went, first, past in found if went or past > first]


def _beside(lines: list[str], first: int, last: int) -> str:
    """The new lines of an edit as one text, joined with the line before them and the line after.

    Beside a neighbour that is a directive, every new line would read as a directive. So such a
    neighbour is left out, unless a sentence may continue from it into the new lines or from them
    into it. No sentence continues into a block of its own, such as an entry of a list; of other
    lines, `_is_over` decides.
    """
    above = next((at for at in range(first - 1, -1, -1) if lines[at].strip()), None)
    below = next((at for at in range(last, len(lines)) if lines[at].strip()), None)
    came = [line for line in lines[first:last] if line.strip()]
    parts = [line.strip() for line in came]
    if above is not None:
        apart = not came or _is_over(lines[above], came[0], blank=above < first - 1)
        beside = lines[above].strip()[-_NEIGHBOUR_LEN_MAX:]
        if not (apart and read_text(beside, None).flagged):
            parts.insert(0, beside)
    if below is not None:
        own = below > last or _OWN_BLOCK.match(lines[below]) is not None
        apart = not came or (own and _GOES_ON.search(came[-1]) is None)
        beside = lines[below].strip()[:_NEIGHBOUR_LEN_MAX]
        if not (apart and read_text(beside, None).flagged):
            parts.append(beside)
    return " ".join(parts)


def _is_over(line: str, following: str, *, blank: bool) -> bool:
    """Whether a line's sentence ends before `following`; `blank`: blank lines are between both."""
    if _GOES_ON.search(line) is not None:
        return False
    if _OWN_BLOCK.match(following) is not None:
        return True
    # A paragraph that begins in lower case continues the paragraph before it, whatever its end.
    if following.lstrip(_QUOTES)[:1].islower():
        return False
    # An indented paragraph belongs to the entry of a list before it.
    block = _OWN_BLOCK.match(line) is not None and not following[:1].isspace()
    return blank and (block or _ENDED.search(line) is not None)
