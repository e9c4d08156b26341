"""Judges the lines of the files in one model request against those that were let in. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from policy.lines import is_attack, is_order
from policy.model import Principal
from policy.places import Places, is_instructions
from policy.text.paths import folded_path
from proxy.dialects.model.transcript import ContextText, ModelRequest, Voice
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
from storage.features.kept_places import KeptPlaces, PlaceRecord, SeenPlace, SeePlaces

HOME: Final = "~/"
"""The root of files that are neither in the agent's folder nor above it."""


Waiting = Sequence[tuple[MarkedText, Sequence[PlaceLine]]]
"""Files of a request, each with its lines that wait."""


class PlaceReader(NamedTuple):
    """Reads the files in the requests of one tenant; `known` and `full` are its kept places."""

    principal: Principal
    places: Places
    kept: KeptPlaces
    known: Mapping[str, PlaceRecord]
    full: bool

    def read(self, request: ModelRequest, texts: HostTexts) -> tuple[SeePlaces, Waiting]:
        """Read the files of a request, from the strings in which its host may put files.

        Return the order that records them, and the files.
        """
        strings = (*request.system, *texts.strings)
        said = [(one, marks_in(request, one, self.places)) for one in strings]
        marks = [mark for _, some in said for mark in some]
        root = root_of(said, self.places) or (_folder(marks[0].path) if marks else "")
        first = {mark.key for mark in marks if texts.begins and self._is_first(mark.key, root)}
        starts = first | {key for key, record in self.known.items() if record.lines}
        files = [file for one, some in said for file in texts_in(one, some, starts.__contains__)]
        files += self._unread(strings, root, files)
        lines = [[*self._judged(file, first)] for file in files]
        order = SeePlaces(
            tenant=self.principal.tenant,
            by=self.principal.principal_id,
            roots=(f"{root.rstrip('/')}/", HOME) if root and texts.begins else (),
            begins=texts.begins,
            seen=_seen(files, lines, first),
        )
        waiting = [[line for line in some if line.waits] for some in lines]
        return order, tuple(zip(files, waiting, strict=True))

    def _is_first(self, key: str, root: str) -> bool:
        """Whether a file is seen at the first sight of its root."""
        folder = f"{_folder(key)}/"
        if self.full:  # a further root is not kept, and so was perhaps seen
            return False
        if key in self.known or not _are_related(folder, f"{folded_path(root)}/"):
            return key not in self.known and HOME not in self.known
        return not any(one.endswith("/") and _are_related(folder, one) for one in self.known)

    def _unread(
        self,
        strings: Sequence[ContextText],
        root: str,
        files: list[MarkedText],
    ) -> Iterator[MarkedText]:
        """Files that a host names and puts between no known marks: each to its string's end."""
        read = {mark.key for one in files for mark in one.marks}
        base = f"{folded_path(root)}/"
        lost = [
            Mark(0, 0, self.kept.path(one), key, None)
            for key, one in self.known.items()
            # A file of which no line was let in may be one that only a file's text names.
            if one.lines and key not in read and _are_related(f"{_folder(key)}/", base)
        ]
        for said in strings if lost else ():
            inside = [(one.marks[0].start, one.end) for one in files if one.said is said]
            for mark in lost if said.voice is not Voice.TOOL else ():
                at = said.text.find(mark.path)
                if at >= 0 and not any(start <= at < end for start, end in inside):
                    end = min((len(said.text), *(start for start, _ in inside if start > at)))
                    named = at + len(said.text[at:end].partition("\n")[0])
                    yield MarkedText(said, end, (mark._replace(start=at, end=named),))

    def _judged(self, file: MarkedText, first: set[str]) -> Iterator[PlaceLine]:
        """The lines of a file, each with its digest, and whether it waits."""
        lines = [*lines_of(file, self.places)]
        texts = ["", *(one.text for one in lines), ""]
        known = {mark.key: self.known.get(mark.key) for mark in file.marks}
        let_in = {key: frozenset(one.lines) if one else () for key, one in known.items()}
        for at, line in enumerate(lines):
            digest = self.kept.digest(self.principal.tenant, line.mark.path, line.text)
            waits = digest not in let_in[line.mark.key] and self._waits(
                line, file.marks[0], texts[at], texts[at + 2], first=line.mark.key in first
            )
            yield line._replace(digest=digest, waits=waits)

    def _waits(self, line: PlaceLine, own: Mark, *beside: str, first: bool) -> bool:
        """Whether a line that was not let in before waits."""
        if first:
            return is_attack(line.text, *beside)
        if line.is_mark or any(map(self._has_instructions, (own, line.mark))):
            return True
        return is_order(line.text, *beside, as_rules=self.places.has_rules(line.mark.path))

    def _has_instructions(self, mark: Mark) -> bool:
        """Whether the host reads a file as instructions; a file of no known kind counts as one."""
        place = self.places.of_path(mark.path)
        return mark.marker is not None and (place is None or is_instructions(place))


def _seen(
    files: list[MarkedText], lines: list[list[PlaceLine]], first: set[str]
) -> tuple[SeenPlace, ...]:
    """The files that marks name, with all of their lines."""
    found: dict[str, tuple[Mark, list[PlaceLine]]] = {}
    for mark in (mark for file in files for mark in file.marks):
        found.setdefault(mark.key, (mark, []))
    for line in chain.from_iterable(lines):
        found[line.mark.key][1].append(line)
    return tuple(
        SeenPlace(
            path=mark.path,
            first=key in first,
            unread=mark.marker is None,
            lines=tuple(one.digest for one in some if not one.waits),
            waiting=tuple((one.digest, one.text) for one in some if one.waits),
        )
        for key, (mark, some) in found.items()
    )


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _are_related(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
