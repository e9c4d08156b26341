"""Turns that need no second look for what was refused: they held nothing of it last time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.by_identity import ByIdentity
from proxy.dialects.model.reading import list_of

if TYPE_CHECKING:
    from proxy.dialects.model.body import Json
    from proxy.dialects.model.transcript import ModelRequest, Turn
    from proxy.session_ground import TurnRead
    from proxy.sessions import Entered


class CleanTurns:
    """Turns that are the same objects again, with the same labels, under the same refusals.

    `stamp` moves with all that may make a text be withheld which was not. Event loop only.
    """

    def __init__(self) -> None:
        self._kept: ByIdentity[Turn, tuple[tuple[int, int], TurnRead]] = ByIdentity()

    def of(self, stamp: tuple[int, int], request: ModelRequest, entered: Entered) -> frozenset[int]:
        """The indexes of those turns of a request that hold nothing refused."""
        found: list[int] = []
        for at, (turn, read) in enumerate(zip(request.turns, entered.turns, strict=False)):
            kept = self._kept.get(turn)
            if kept is not None and kept[0] == stamp and kept[1] is read:
                found.append(at)
        return frozenset(found)

    def note(
        self,
        stamp: tuple[int, int],
        request: ModelRequest,
        entered: Entered,
        bodies: tuple[dict[str, Json], dict[str, Json]],
    ) -> None:
        """The first of the two bodies came to the second one: what stayed in it is clean."""
        if len(request.prefix) != 1:
            return
        (key,) = request.prefix
        came, went = (list_of(body.get(str(key))) for body in bodies)
        known = self.of(stamp, request, entered)
        stayed = {id(part) for part in went}
        for at, (turn, read) in enumerate(zip(request.turns, entered.turns, strict=False)):
            if at < len(came) and at not in known and id(came[at]) in stayed:
                self._kept[turn] = (stamp, read)
