"""Judges the lines of the files in one model request against those that were let in. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from policy.lines import is_attack, is_order
from policy.places import Places, is_instructions
from policy.text.paths import folded_path
from proxy.dialects.model.transcript import ContextText, ModelRequest, Voice, Where
from proxy.places.marked import (
    HostTexts,
    Mark,
    MarkedText,
    PlaceLine,
    lines_of,
    marks_in,
    root_of,
    texts_in,
)
from storage.features.kept_places import PLACES_MAX, PlaceRecord, SeenPlace

HOME: Final = "~/"
"""The root of files that are neither in the agent's folder nor above it."""


class PlacesRead(NamedTuple):
    """The files of a request: `files` are pairs of a file's text and its lines that wait.

    `roots` are those that become known, () unless the request `begins` a session.
    """

    begins: bool
    roots: tuple[str, ...]
    seen: tuple[SeenPlace, ...]
    files: tuple[tuple[MarkedText, list[PlaceLine]], ...]


class PlaceReader:
    """Reads the files in the requests of one tenant."""

    def __init__(
        self,
        places: Places,
        known: Mapping[str, PlaceRecord],
        digest: Callable[[str, str], bytes],
    ) -> None:
        """`known`: the tenant's files and roots. `digest`: of a line, by the file's path."""
        self._places = places
        self._known = known
        self._digest = digest

    def read(self, request: ModelRequest, texts_of_host: HostTexts) -> PlacesRead:
        """Read the files of a request, from the strings in which its host may put files."""
        begins, strings = texts_of_host.begins, texts_of_host.of(request)
        said = [(one, marks_in(request, one, self._places)) for _, one in strings]
        texts = [(at, one.text, some) for (at, _), (one, some) in zip(strings, said, strict=True)]
        marks = [mark for _, some in said for mark in some]
        root = root_of(said, self._places) or (_folder(marks[0].path) if marks else "")
        first = {mark.key for mark in marks if begins and self._is_first(mark.key, root)}
        starts = first | {key for key, record in self._known.items() if record.lines}
        files = [file for text in texts for file in texts_in(*text, starts.__contains__)]
        files += self._unread(strings, root, files)
        seen: dict[str, SeenPlace] = {}
        held = tuple((one, self._waiting(one, first, seen)) for one in files)
        roots = (f"{root.rstrip('/')}/", HOME) if root and begins else ()
        return PlacesRead(begins, roots, tuple(seen.values()), held)

    def _is_first(self, key: str, root: str) -> bool:
        """Whether a file is seen at the first sight of its root."""
        folder = f"{_folder(key)}/"
        if len(self._known) >= PLACES_MAX:  # a further root is not kept, and so was perhaps seen
            return False
        if key in self._known or not _are_related(folder, f"{folded_path(root)}/"):
            return key not in self._known and HOME not in self._known
        return not any(one.endswith("/") and _are_related(folder, one) for one in self._known)

    def _unread(
        self,
        strings: list[tuple[Where, ContextText]],
        root: str,
        files: list[MarkedText],
    ) -> Iterator[MarkedText]:
        """Files that a host names and puts between no known marks: each to its string's end."""
        read = {mark.key for one in files for mark in one.marks}
        base = f"{folded_path(root)}/"
        lost = [
            Mark(0, 0, one.path, key, None)
            for key, one in self._known.items()
            # A file of which no line was let in may be one that only a file's text names.
            if one.lines and key not in read and _are_related(f"{_folder(key)}/", base)
        ]
        parts = tuple(one.part for one in self._places.markers if one.part)
        for where, said in strings if lost else ():
            inside = [(one.marks[0].start, one.end) for one in files if one.where == where]
            by_host = said.voice is Voice.USER and said.text.startswith(parts)
            for mark in lost if by_host or said.voice is Voice.SYSTEM else ():
                at = said.text.find(mark.path)
                if at >= 0 and not any(start <= at < end for start, end in inside):
                    end = min((len(said.text), *(start for start, _ in inside if start > at)))
                    named = at + len(said.text[at:end].partition("\n")[0])
                    yield MarkedText(where, said.text, end, (mark._replace(start=at, end=named),))

    def _waiting(
        self, marked: MarkedText, first: set[str], seen: dict[str, SeenPlace]
    ) -> list[PlaceLine]:
        """The lines of a file that wait; every line is added to `seen`."""
        lines = [*lines_of(marked, self._places)]
        texts = ["", *(one.text for one in lines), ""]
        for mark in marked.marks:
            one = SeenPlace(path=mark.path, first=mark.key in first, unread=mark.marker is None)
            seen.setdefault(mark.key, one)
        records = {mark.key: self._known.get(mark.key) for mark in marked.marks}
        let_in = {key: frozenset(one.lines) if one else () for key, one in records.items()}
        passing: dict[str, list[bytes]] = {key: [] for key in records}
        waiting: dict[str, list[tuple[bytes, str]]] = {key: [] for key in records}
        found: list[PlaceLine] = []
        for at, line in enumerate(lines):
            key, digest = line.mark.key, self._digest(line.mark.path, line.text)
            beside = texts[at : at + 3 : 2]
            if digest in let_in[key] or not self._waits(line, marked.marks[0], seen[key], *beside):
                passing[key].append(digest)
            else:
                waiting[key].append((digest, line.text))
                found.append(line)
        for key in records:
            one = seen[key]
            seen[key] = replace(
                one, lines=(*one.lines, *passing[key]), waiting=(*one.waiting, *waiting[key])
            )
        return found

    def _waits(self, line: PlaceLine, own: Mark, seen: SeenPlace, *beside: str) -> bool:
        """Whether a line that was not let in before waits."""
        if seen.first:
            return is_attack(line.text, *beside)
        if line.is_mark or any(map(self._has_instructions, (own, line.mark))):
            return True
        return is_order(line.text, *beside, as_rules=self._places.has_rules(seen.path))

    def _has_instructions(self, mark: Mark) -> bool:
        """Whether the host reads a file as instructions; a file of no known kind counts as one."""
        place = self._places.of_path(mark.path)
        return mark.marker is not None and (place is None or is_instructions(place))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _are_related(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
