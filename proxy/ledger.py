"""What entered each principal's context lately, as prints: to name the culprit of a candidate.

A ring per principal, and a limit over all. What falls out is counted, because a culprit that is not
named may have been there. No text is kept.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.containment import Index, prints_of
from policy.model import Origin

if TYPE_CHECKING:
    from policy.model import PrincipalId
    from proxy.guard import Segment

SEGMENTS_MAX: Final = 1_000
PRINTS_MAX: Final = 60_000
"""Of one principal; a page of a thousand words takes about a thousand."""
PRINCIPALS_MAX: Final = 64
CULPRITS_MAX: Final = 3
_NAME_LEN_MAX: Final = 128
# A text is looked for as a whole, so it is kept in parts that a note of it could be made of.
_PART_LEN: Final = 8_192
_PART_OVERLAP: Final = 256
_TEXT_LEN_MAX: Final = 262_144


class _Kept(NamedTuple):
    key: int
    origin: Origin
    prints_count: int


class _Ring:
    """The segments of one principal, oldest first."""

    def __init__(self) -> None:
        self.index = Index()
        self.kept: deque[_Kept] = deque()
        self.prints_count = 0
        self._next = 0

    def add(self, text: str, origin: Origin) -> int:
        """Keep one text; how many older ones it pushed out."""
        key = self._next
        self._next += 1
        count = self.index.add(key, prints_of(text))
        self.kept.append(_Kept(key=key, origin=origin, prints_count=count))
        self.prints_count += count
        lost = 0
        while len(self.kept) > 1 and (
            len(self.kept) > SEGMENTS_MAX or self.prints_count > PRINTS_MAX
        ):
            oldest = self.kept.popleft()
            self.index.remove(oldest.key)
            self.prints_count -= oldest.prints_count
            lost += 1
        return lost

    def find(self, text: str) -> tuple[Origin, ...]:
        if not self.kept:
            return ()
        first = self.kept[0].key  # keys are consecutive: the position follows from the key
        origins: list[Origin] = []
        for found in self.index.search(prints_of(text)):
            origin = self.kept[found.key - first].origin
            if origin not in origins:
                origins.append(origin)
        return tuple(origins[:CULPRITS_MAX])


class Ledger:
    """Event loop only. `lost_count` is how many texts were pushed out before anybody asked."""

    def __init__(self) -> None:
        self._rings: OrderedDict[PrincipalId, _Ring] = OrderedDict()
        self.lost_count = 0

    def saw(self, principal_id: PrincipalId, segment: Segment) -> None:
        """Note the texts of one segment."""
        ring = self._rings.get(principal_id)
        if ring is None:
            ring = self._rings[principal_id] = _Ring()
            if len(self._rings) > PRINCIPALS_MAX:
                _, gone = self._rings.popitem(last=False)
                self.lost_count += len(gone.kept)
        self._rings.move_to_end(principal_id)
        origin = Origin(
            kind=segment.kind,
            server=segment.server[:_NAME_LEN_MAX],
            tool=segment.tool[:_NAME_LEN_MAX],
            call_id=segment.call_id[:_NAME_LEN_MAX],
        )
        for text in segment.texts:
            if len(text) > _TEXT_LEN_MAX:
                self.lost_count += 1
            for start in range(0, min(len(text), _TEXT_LEN_MAX), _PART_LEN):
                part = text[start : start + _PART_LEN + _PART_OVERLAP]
                self.lost_count += ring.add(part, origin)

    def culprits(self, principal_id: PrincipalId, text: str) -> tuple[Origin, ...]:
        """Segments of this principal that the text is contained in, the likeliest first."""
        ring = self._rings.get(principal_id)
        return () if ring is None else ring.find(text)
