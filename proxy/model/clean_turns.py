"""A cache of turns that need no second search: no text in them had to be withheld."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.dialects.model.reading import list_of
from proxy.ledger.by_identity import ByIdentity

if TYPE_CHECKING:
    from proxy.dialects.model.transcript import ModelRequest, Turn
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.ledger.sessions import Entered
    from proxy.ledger.turn_values import TurnRead


class CleanTurns:
    """Remembers turns of a conversation in which no text had to be withheld.

    A turn counts as clean while it is the same object with the same labels, under the same `stamp`,
    which changes when another text may have to be withheld. Event loop only.
    """

    def __init__(self) -> None:
        self._kept: ByIdentity[Turn, tuple[tuple[int, ...], TurnRead]] = ByIdentity()

    def of(self, stamp: tuple[int, ...], request: ModelRequest, entered: Entered) -> frozenset[int]:
        """The indexes of a request's turns that need no new search for withheld text."""
        known = zip(self._kept.each(request.turns), entered.turns, strict=False)
        return frozenset(
            at
            for at, (kept, read) in enumerate(known)
            if kept is not None and kept[1] is read and kept[0] == stamp
        )

    def note(
        self,
        stamp: tuple[int, ...],
        request: ModelRequest,
        entered: Entered,
        *,
        clean: frozenset[int],
        body: dict[str, Json],
        edited: dict[str, Json],
    ) -> None:
        """Note the turns that are equal in `body` and `edited`, so that they need no new search.

        `clean` are the indexes of turns that needed no search this time.
        """
        if len(request.prefix) != 1:
            return
        (key,) = request.prefix
        came, went = (list_of(one.get(str(key))) for one in (body, edited))
        stayed = {id(part) for part in went}
        for at, (turn, read) in enumerate(zip(request.turns, entered.turns, strict=False)):
            if at < len(came) and at not in clean and id(came[at]) in stayed:
                self._kept[turn] = (stamp, read)
