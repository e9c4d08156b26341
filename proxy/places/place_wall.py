"""Takes the lines that wait out of a model request, and records what the request has of files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final, Literal, NamedTuple

from policy.bounded import Bounded
from policy.model import Principal
from policy.places import Places
from policy.verdict import InvariantBroken
from proxy.dialects.model.reading import object_of
from proxy.dialects.model.transcript import ModelRequest, Turn, Where
from proxy.dialects.strict_json.tolerant import Json
from proxy.places.marked import HostTexts, MarkedText, PlaceLine
from proxy.places.place_reader import PlaceReader, PlacesRead
from proxy.seams.by_identity import ByPast, past_of
from proxy.seams.slices import RunsAside
from storage.features.kept_places import KeptPlaces, SeePlaces

PlacesMode = Literal["hold", "tell", "off"]
Spans = Mapping[Where, tuple[tuple[int, int], ...]]
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_RECORDED_MAX: Final = 4_096


class Walled(NamedTuple):
    """A request's body without lines that wait, and where its strings have text of files."""

    body: dict[str, Json]
    spans: Spans


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
    ) -> Walled:
        """The body without lines that wait for a person; new lines are durable on return.

        Raises:
            StorageError: What is new could not be recorded.
        """
        if self._mode == "off":
            return Walled(body, {})
        read = await self._read(principal, request, places)
        order = SeePlaces(
            tenant=principal.tenant,
            by=principal.principal_id,
            roots=read.roots,
            begins=read.begins,
            seen=read.seen,
        )
        name = hash(order)
        if (read.seen or read.roots) and self._recorded.get(name) != self._kept.generation:
            await self._kept.order(order)
            self._recorded[name] = self._kept.generation
            read = await self._read(principal, request, places)
        return self._without(body, read)

    async def _read(
        self, principal: Principal, request: ModelRequest, places: Places
    ) -> PlacesRead:
        tenant = principal.tenant
        reader = PlaceReader(places, self._kept.of(tenant), partial(self._kept.digest, tenant))
        texts = self._texts(request, places)
        size = sum(len(said.text) for _, said in texts.of(request))
        return await self._pace.aside(principal.principal_id, size, reader.read, request, texts)

    def _texts(self, request: ModelRequest, places: Places) -> HostTexts:
        """The strings in which a host may put files; a conversation's past is read once."""
        turns, past = request.turns, past_of(request.turns)
        heard, found = self._pasts.longest(turns, HostTexts())
        if past is not None and heard < len(past.values):
            found = found.and_more(turns[heard : len(past.values)], heard, places)
            self._pasts[past] = found
            heard = len(past.values)
        return found.and_more(turns[heard:], heard, places)

    def _without(self, body: dict[str, Json], read: PlacesRead) -> Walled:
        texts: dict[Where, str] = {}
        spans: dict[Where, tuple[tuple[int, int], ...]] = {}
        # From the last file of a string to the first, so that the places of earlier ones stay.
        for file, lines in sorted(read.files, key=lambda one: -one[0].end):
            text = texts.get(file.where, file.string)
            begins, left = file.marks[0].end, self._left(file, lines)
            moved = len(left) - (file.end - begins)
            later = tuple((one + moved, end + moved) for one, end in spans.get(file.where, ()))
            spans[file.where] = ((begins, begins + len(left)), *later)
            texts[file.where] = text[:begins] + left + text[file.end :]
            if lines:
                body = object_of(_edited(body, file.where, texts[file.where]))
        return Walled(body, spans)

    def _left(self, file: MarkedText, lines: list[PlaceLine]) -> str:
        """The text of a file that the model reads."""
        counts = Counter(line.mark.path for line in lines)
        at, text = file.marks[0].end, ""
        for line in lines:
            text += file.string[at : line.start]
            at = line.start if self._mode == "tell" else line.end
            if line.mark.path in counts:
                said = _notice(line.mark.path, counts.pop(line.mark.path))
                text += f"{said}\n" if self._mode == "tell" else said
            elif self._mode == "hold":
                text = text.removesuffix("\n")
        return text + file.string[at : file.end]


def _edited(value: Json, where: Where, text: str) -> Json:
    """A copy of a body with another text at one place."""
    match value, where:
        case _, ():
            return text
        case dict(), (str(step), *rest):
            return value | {step: _edited(value.get(step), tuple(rest), text)}
        case list(), (int(step), *rest):
            return [*value[:step], _edited(value[step], tuple(rest), text), *value[step + 1 :]]
        case _:
            raise InvariantBroken("a text of a request is not where it was read")


def _notice(path: str, count: int) -> str:
    """The text that the model reads in place of new lines of a file."""
    name = path.rpartition("/")[2]
    is_plain = _NAME.fullmatch(name) is not None
    lines = "1 new line" if count == 1 else f"{count} new lines"
    wait = "waits" if count == 1 else "wait"
    way = f"accept {name}" if is_plain else "list"
    return f"{lines} of {name if is_plain else 'a file'} {wait}. Tell her: `mnemogate places {way}`"
