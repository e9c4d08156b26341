"""A cache of turns that need no second search: no text in them had to be withheld."""

from __future__ import annotations

from proxy.dialects.model.reading import list_of
from proxy.dialects.model.transcript import ModelRequest, Turn
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.by_identity import ByIdentity


class CleanTurns:
    """Remembers turns of a conversation in which no text had to be withheld.

    A turn counts as clean while it is the same object under the same `stamp`, which changes when
    another text may have to be withheld. Event loop only.
    """

    def __init__(self) -> None:
        self._kept: ByIdentity[Turn, tuple[int, ...]] = ByIdentity()

    def of(self, stamp: tuple[int, ...], request: ModelRequest) -> frozenset[int]:
        """The indexes of a request's turns that need no new search for withheld text."""
        known = self._kept.each(request.turns)
        return frozenset(at for at, kept in enumerate(known) if kept == stamp)

    def note(
        self,
        stamp: tuple[int, ...],
        request: ModelRequest,
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
        for at, turn in enumerate(request.turns):
            if at < len(came) and at not in clean and id(came[at]) in stayed:
                self._kept[turn] = stamp
