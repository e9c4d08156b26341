"""Finds the files that a host has put into a model request, by the lines around them. Pure.

A file may contain such lines itself. So a file reaches to the last end mark of its string, or to
the start of a file that was there before; any other mark inside is a line of the file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from policy.places import Marker, Places
from policy.text.paths import folded_path
from proxy.dialects.model.transcript import ContextText, ModelRequest, Voice
from proxy.dialects.model.withheld import strings as strings_in

_VOICES: Final = {"system": Voice.SYSTEM, "user": Voice.USER, "result": Voice.TOOL}
_PATH_LEN_MAX: Final = 512
# The steps of a pattern of paths before its first wild one; a text with a blank is no pattern.
_WILD: Final = re.compile(r"\A(?P<fixed>(?:[^\s*{]*/)?)[^\s*{/]*[*{]\S*\Z")


class Mark(NamedTuple):
    """The line before a file in a string: from `start` to `end`. `key` is the folded path.

    `marker` is None if the line names the file and is no known mark.
    """

    start: int
    end: int
    path: str
    key: str
    marker: Marker | None


class MarkedText(NamedTuple):
    """The text of a file in a string of a request: from the first mark's end to `end`.

    `marks` are the file's own mark, and marks inside its text that are no start of another file.
    """

    said: ContextText
    end: int
    marks: tuple[Mark, ...]


class PlaceLine(NamedTuple):
    """A line of a marked text. `mark`: the last mark before it; `is_mark`: it has a mark itself.

    `digest` and `waits` are known once the line was judged.
    """

    start: int
    end: int
    text: str
    mark: Mark
    is_mark: bool
    digest: bytes = b""
    waits: bool = False


class HostTexts(NamedTuple):
    """The strings of turns in which a host may have put files; `where` is a place in the body.

    `begins`: no model or tool has said anything in these turns.
    """

    begins: bool = True
    strings: tuple[ContextText, ...] = ()

    def and_more(self, request: ModelRequest, turns: range, places: Places) -> HostTexts:
        """These strings and those of further turns of a request, by the indexes of the turns."""
        strings, begins = [*self.strings], self.begins
        for at in turns:
            begins = begins and not request.turns[at].calls
            for said in request.turns[at].said:
                begins = begins and said.voice not in {Voice.MODEL, Voice.TOOL}
                # A host's string is kept without any mark too: its wording may have changed.
                may_have = _counts if said.voice is Voice.TOOL else _is_part
                if said.voice is Voice.SYSTEM or any(may_have(one, said) for one in places.marks):
                    above = (*request.prefix, at) if request.prefix else ()
                    strings.append(replace(said, where=(*above, *said.where)))
        return HostTexts(begins, tuple(strings))


def root_of(strings: Iterable[tuple[ContextText, list[Mark]]], places: Places) -> str:
    """The folder in which the agent works, as its host states it; "" if no string states one.

    Each string comes with its marks: what follows a mark may be the text of a file.
    """
    before = ((said, marks[0].start if marks else sys.maxsize) for said, marks in strings)
    return next(filter(None, (folder_in(said, places, end) for said, end in before)), "")


def folder_in(said: ContextText, places: Places, end: int = sys.maxsize) -> str:
    """The folder in which the agent works, as its host states it in a string, before `end`.

    "" if the host does not.
    """
    for root in places.roots:
        found = root.starts.search(said.text, 0, end) if _counts(root, said) else None
        if found is not None:
            return _kept(found["path"])
    return ""


def marks_in(request: ModelRequest, said: ContextText, places: Places) -> list[Mark]:
    """The marks of files in a string of a request, in order."""
    found: dict[int, Mark] = {}
    for marker in places.markers:
        for match in marker.starts.finditer(said.text) if _counts(marker, said) else ():
            path = _kept(marker.file.replace("{path}", match.groupdict().get("path", "")))
            if said.voice is not Voice.TOOL or _names(request, said.call_id, path):
                mark = Mark(match.start(), match.end(), path, folded_path(path), marker)
                found.setdefault(match.start(), mark)
    return [found[at] for at in sorted(found)]


def _counts(marker: Marker, said: ContextText) -> bool:
    """Whether a marker counts in a string: by who speaks, and what the string begins with."""
    return _is_part(marker, said) and marker.start.partition("{")[0] in said.text


def _is_part(marker: Marker, said: ContextText) -> bool:
    return said.voice is _VOICES[marker.role] and said.text.startswith(marker.part)


def _kept(path: str) -> str:
    """A path of bounded length, which can be stored, and as that of a file ends with no slash."""
    kept = path[:_PATH_LEN_MAX].encode("utf-8", "replace").decode()
    return kept.rstrip("/ \t\r") or "/"


def _names(request: ModelRequest, call_id: str | None, path: str) -> bool:
    """Whether the call of a result names a file in the folder of a path."""
    folder = folded_path(path).rpartition("/")[0] + "/"
    calls = (call for turn in request.turns for call in turn.calls if call.call_id == call_id)
    named = (folded_path(one) for call in calls for one in strings_in(call.arguments))
    return any(one.startswith(folder) or _may_begin_in(one, folder) for one in named)


def _may_begin_in(path: str, folder: str) -> bool:
    """Whether a pattern, or a relative path or its first steps, may lead to a folder."""
    if pattern := _WILD.match(path):
        return f"/{pattern['fixed'].lstrip('/')}" in folder
    steps = path.split("/")[: folder.count("/")]
    return any(folder.endswith(f"/{'/'.join(steps[:end])}/") for end in range(1, len(steps) + 1))


def texts_in(
    said: ContextText, marks: list[Mark], is_start: Callable[[str], bool]
) -> list[MarkedText]:
    """The files in a string. `is_start`: whether the file with a folded path may start anywhere."""
    found: list[MarkedText] = []
    for at, mark in enumerate(marks):
        if found and mark.start < found[-1].end and not is_start(mark.key):
            found[-1] = found[-1]._replace(marks=(*found[-1].marks, mark))
        else:
            later = (one.start for one in marks[at + 1 :] if is_start(one.key))
            end = _end(said.text, mark, next(later, len(said.text)))
            found.append(MarkedText(said, end, (mark,)))
    return found


def _end(text: str, mark: Mark, limit: int) -> int:
    """The end of a file: the last end mark before `limit`, which is the start of the next file."""
    marker = mark.marker
    # An end mark without the path is that of the last file, so that it ends no earlier one.
    if marker is None or not marker.end or (limit < len(text) and "{path}" not in marker.end):
        return limit
    ends = [match.start() for match in marker.ends(mark.path).finditer(text, mark.end, limit)]
    return ends[-1] if ends else limit


def lines_of(marked: MarkedText, places: Places) -> Iterator[PlaceLine]:
    """The lines of a file that are not blank, without those that the host itself writes."""
    mark, *inside = marked.marks
    ends = mark.marker.ends() if mark.marker is not None and mark.marker.end else None
    at = mark.end
    for text in marked.said.text[at : marked.end].split("\n"):
        start, at = at, at + len(text) + 1
        if inside and inside[0].start < at:
            mark = inside.pop(0)
        if text.strip() and not any(one.match(text) for one in places.own_lines):
            is_start = mark is not marked.marks[0] and start < mark.end
            is_mark = is_start or (ends is not None and ends.match(text) is not None)
            yield PlaceLine(start, start + len(text), text, mark, is_mark)
