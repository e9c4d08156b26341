"""Keeps the history of each response, for clients that continue a response without repeating it.

If the provider alone kept the history, the sidecar could neither label nor withhold the texts in
it. So a request that names an earlier response is sent with its whole history.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from policy.model import PrincipalId
from proxy.dialects.model.reading import list_of, text_of
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.faults import Busy
from proxy.transport.exchange import Pieces

BYTES_MAX: Final = 32 * 1024 * 1024
PREVIOUS: Final = "previous_response_id"


class _HistoryStep(msgspec.Struct, frozen=True):
    """The items that one response added to its history; `before` is the id of the one before."""

    before: str | None
    items: tuple[Json, ...]
    size: int


class Histories:
    """Keeps a bounded number of histories per principal, dropping the least recently used.

    Event loop only.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: dict[PrincipalId, OrderedDict[str, _HistoryStep]] = {}
        self._sizes: dict[PrincipalId, int] = {}

    def whole(self, principal_id: PrincipalId, body: dict[str, Json]) -> dict[str, Json] | None:
        """The request with its whole history; None if the history is not known."""
        previous = text_of(body.get(PREVIOUS))
        if previous is None:
            return body
        before = self._before(principal_id, previous)
        if before is None:
            return None
        rest = {key: value for key, value in body.items() if key != PREVIOUS}
        longer: list[Json] = [*before, *items_of(body)]
        return {**rest, "input": longer}

    def keep(
        self,
        principal_id: PrincipalId,
        response_id: str,
        body: dict[str, Json],
        output: tuple[Json, ...],
        size: int,
    ) -> None:
        """Keep a response: `body` as the agent sent it, `output` as the agent got it."""
        kept = self._kept.setdefault(principal_id, OrderedDict())
        self._drop(principal_id, response_id)
        before = text_of(body.get(PREVIOUS))
        kept[response_id] = _HistoryStep(before, (*items_of(body), *output), size)
        self._sizes[principal_id] = self._sizes.get(principal_id, 0) + size
        while self._sizes[principal_id] > self._bytes_max:
            self._drop(principal_id, next(iter(kept)))

    def _drop(self, principal_id: PrincipalId, response_id: str) -> None:
        gone = self._kept[principal_id].pop(response_id, None)
        if gone is not None:
            self._sizes[principal_id] -= gone.size

    def _before(self, principal_id: PrincipalId, response_id: str) -> list[Json] | None:
        kept = self._kept.get(principal_id, OrderedDict())
        chain: list[_HistoryStep] = []
        at: str | None = response_id
        while at is not None:
            one = kept.get(at)
            if one is None or len(chain) > len(kept):
                return None
            kept.move_to_end(at)
            chain.append(one)
            at = one.before
        return [item for one in reversed(chain) for item in one.items]


def items_of(body: dict[str, Json]) -> list[Json]:
    """The `input` of a Responses request as a list of items."""
    given = body.get("input")
    if isinstance(given, str):
        message: dict[str, Json] = {"type": "message", "role": "user", "content": given}
        return [message]
    return list_of(given)


ROOM_BYTES_MAX: Final = 512 * 1024 * 1024


class Room:
    """Counts the bytes that bodies in memory take. Event loop only."""

    def __init__(self, bytes_max: int = ROOM_BYTES_MAX) -> None:
        self._left = bytes_max

    def take(self, size: int) -> Callable[[int], None]:
        """Reserve room for a body; returns the function that keeps only so much of it, or none.

        Raises:
            Busy: There is no room at present.
        """
        if size > self._left:
            raise Busy
        self._left -= size
        held = size

        def keep(size: int) -> None:
            nonlocal held
            self._left += held - size
            held = size

        return keep


class RoomHolder:
    """A stream of byte strings that holds its reserved room until it is closed (`Pieces`)."""

    def __init__(self, pieces: Pieces, keep: Callable[[int], None]) -> None:
        """`keep` is what `Room.take` returned."""
        self._pieces = pieces
        self._keep = keep

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the stream, leaving out empty ones."""
        return aiter(self._pieces)

    async def aclose(self) -> None:
        """Close the inner stream, and release the room."""
        try:
            await self._pieces.aclose()
        finally:
            self._keep(0)
