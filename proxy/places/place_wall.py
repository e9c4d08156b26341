"""Takes the lines that wait out of a model request, and records what the request has of files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from policy.bounded import Bounded
from policy.model import Principal
from policy.places import Places
from proxy.dialects.model.reading import object_of, put_at
from proxy.dialects.model.transcript import ModelRequest, Turn, Where
from proxy.dialects.strict_json.tolerant import Json
from proxy.places.marked import HostTexts, MarkedText, PlaceLine
from proxy.places.place_reader import PlaceReader, Waiting
from proxy.seams.by_identity import ByPast
from proxy.seams.slices import RunsAside
from storage.features.kept_places import KeptPlaces, SeePlaces

PlacesMode = Literal["hold", "tell", "off"]
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_RECORDED_MAX: Final = 4_096


class PlaceWall:
    """Judges the files in the requests of all model fronts. Event loop only."""

    def __init__(self, kept: KeptPlaces, pace: RunsAside, mode: PlacesMode) -> None:
        """`mode`: take out the lines that wait, only mark them (`tell`), or read no file."""
        self._kept = kept
        self._pace = pace
        self._mode = mode
        self._pasts: ByPast[Turn, HostTexts] = ByPast()
        # The generation of the kept places at which each sight was recorded, by its hash.
        self._recorded = Bounded[int, int](_RECORDED_MAX)

    async def without_waiting(
        self, principal: Principal, body: dict[str, Json], request: ModelRequest, places: Places
    ) -> tuple[dict[str, Json], list[str]]:
        """The body without lines that wait for a person, and what is left of the files.

        New lines are durable on return.

        Raises:
            StorageError: What is new could not be recorded.
        """
        if self._mode == "off":
            return body, []
        order, files = await self._read(principal, request, places)
        name = hash(order)
        if (order.seen or order.roots) and self._recorded.get(name) != self._kept.generation:
            await self._kept.order(order)
            self._recorded[name] = self._kept.generation
            _, files = await self._read(principal, request, places)
        return self._without(body, files)

    async def _read(
        self, principal: Principal, request: ModelRequest, places: Places
    ) -> tuple[SeePlaces, Waiting]:
        known, full = self._kept.of(principal.tenant), self._kept.full(principal.tenant)
        reader = PlaceReader(principal, places, self._kept, known, full)
        # A conversation's past is read once.
        texts = self._pasts.grown(
            request.turns,
            HostTexts(),
            lambda found, turns: found.and_more(request, turns, places),
        )
        size = sum(len(said.text) for said in (*request.system, *texts.strings))
        return await self._pace.aside(principal.principal_id, size, reader.read, request, texts)

    def _without(self, body: dict[str, Json], files: Waiting) -> tuple[dict[str, Json], list[str]]:
        texts: dict[Where, str] = {}
        found: list[str] = []
        # From the last file of a string to the first, so that the places of earlier ones stay.
        for file, lines in sorted(files, key=lambda one: -one[0].end):
            where, left = file.said.where, self._left(file, lines)
            text = texts.get(where, file.said.text)
            texts[where] = text[: file.marks[0].end] + left + text[file.end :]
            found.append(left)
            if lines:
                body = object_of(put_at(body, where, texts[where]))
        return body, found

    def _left(self, file: MarkedText, lines: Sequence[PlaceLine]) -> str:
        """The text of a file that the model reads."""
        counts = Counter(line.mark.path for line in lines)
        at, text = file.marks[0].end, ""
        for line in lines:
            text += file.said.text[at : line.start]
            if line.mark.path in counts:
                text += f"{_notice(line.mark.path, counts.pop(line.mark.path))}\n"
            at = line.start if self._mode == "tell" else min(line.end + 1, file.end)
        return text + file.said.text[at : file.end]


def _notice(path: str, count: int) -> str:
    """The text that the model reads in place of new lines of a file."""
    name = path.rpartition("/")[2]
    file, way = (name, f"accept {name}") if _NAME.fullmatch(name) else ("a file", "list")
    what = f"1 new line of {file} waits" if count == 1 else f"{count} new lines of {file} wait"
    return f"{what}. Tell her: `mnemogate places {way}`"
