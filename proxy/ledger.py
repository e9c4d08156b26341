"""What entered each principal's context lately, as prints: to name the culprit of a candidate.

A ring per principal, and a limit over all, that who was quiet longest pays first. What falls out is
counted, because a culprit that is not named may have been there. No text is kept.
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
PRINTS_MAX: Final = 400_000
"""Of all principals together, about 60 MB; a page of a thousand words takes about a thousand."""
PRINCIPALS_MAX: Final = 64
CULPRITS_MAX: Final = 3
_NAME_LEN_MAX: Final = 128
# A text is looked for as a whole, so it is kept in parts that a note of it could be made of.
_PART_LEN: Final = 2_048
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
        self._next = 0

    def add(self, text: str, origin: Origin) -> int:
        """Keep one text; how many prints that takes."""
        key = self._next
        self._next += 1
        count = self.index.add(key, prints_of(text))
        self.kept.append(_Kept(key=key, origin=origin, prints_count=count))
        return count

    def drop(self) -> int:
        """Forget the oldest text; how many prints that frees."""
        oldest = self.kept.popleft()
        self.index.remove(oldest.key)
        return oldest.prints_count

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
        self._prints_count = 0

    def saw(self, principal_id: PrincipalId, segment: Segment) -> None:
        """Note the texts of one segment."""
        ring = self._rings.get(principal_id)
        if ring is None:
            ring = self._rings[principal_id] = _Ring()
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
                self._prints_count += ring.add(part, origin)
                if len(ring.kept) > SEGMENTS_MAX:
                    self._drop(principal_id)
        while self._prints_count > PRINTS_MAX or len(self._rings) > PRINCIPALS_MAX:
            self._drop(next(iter(self._rings)))

    def _drop(self, principal_id: PrincipalId) -> None:
        """Forget the oldest text of a principal, and him with the last one."""
        ring = self._rings[principal_id]
        self._prints_count -= ring.drop()
        self.lost_count += 1
        if not ring.kept:
            del self._rings[principal_id]

    def culprits(self, principal_id: PrincipalId, text: str) -> tuple[Origin, ...]:
        """Segments of this principal that the text is contained in, the likeliest first."""
        ring = self._rings.get(principal_id)
        return () if ring is None else ring.find(text)
