"""A bounded index of the texts that entered contexts, to name the origin of a copied text.

The oldest texts are dropped, and the index is in memory only. A text that is not found has no named
origin; nothing else follows from that.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from policy.labels.containment import PrintIndex, Prints, prints_of
from policy.model import Origin
from proxy.ledger.fingerprinter import all_readings
from proxy.seams.slices import apart, rest

SEGMENTS_MAX: Final = 2_000
PRINTS_MAX: Final = 400_000
"""The most prints of all principals, about 60 MB; a page of 1,000 words takes about 1,000."""
# A long text is indexed in overlapping parts of so many characters, because a note is usually made
# of one part.
_PART_LEN: Final = 2_048
_PART_OVERLAP: Final = 256
_TEXT_LEN_MAX: Final = 262_144


class RingText(NamedTuple):
    """One indexed text, with where it came from."""

    key: int
    # Where the text came from; for a model's own words, the origins of the texts they are made of.
    origins: tuple[Origin, ...]
    # The id of the session whose context the text entered; "" if that is not known.
    session: str
    print_count: int


class Ring:
    """The index of one principal's texts, oldest first; when it is full, the oldest is dropped."""

    def __init__(self) -> None:
        self._index = PrintIndex()
        self._kept: deque[RingText] = deque()
        # For each session, the keys of its texts.
        self._of: dict[str, set[int]] = {}
        self.next = 0
        self.print_count = 0

    def add(self, text: str, origins: tuple[Origin, ...], *, session: str) -> None:
        """Index a text in all its readings; of a very long text, index only the beginning."""
        looked_at = text[:_TEXT_LEN_MAX]
        seen: set[int] = set()
        parts = (
            (at > 0, reading[start : start + _PART_LEN + _PART_OVERLAP])
            for at, reading in enumerate(apart(all_readings, looked_at))
            for start in range(0, len(reading), _PART_LEN)
        )
        for respelled, part in parts:
            rest()
            prints = prints_of(part)
            if respelled and seen.issuperset(prints.runs):
                continue
            seen.update(prints.runs)
            count = self._index.add(self.next, prints)
            kept = RingText(self.next, origins, session, count)
            self._kept.append(kept)
            self._of.setdefault(session, set()).add(self.next)
            self.next += 1
            self.print_count += count
            if len(self._kept) > SEGMENTS_MAX:
                self.drop()

    def drop(self) -> None:
        """Drop the oldest text from the index."""
        if self._kept:
            oldest = self._kept.popleft()
            self._index.remove(oldest.key)
            of = self._of[oldest.session]
            of.discard(oldest.key)
            if not of:
                del self._of[oldest.session]
            self.print_count -= oldest.print_count

    def merged(self, gone: str, into: str) -> None:
        """Treat two sessions as one: texts of each are in the other's context."""
        found = self._of.pop(gone, None)
        if found:
            self._of.setdefault(into, set()).update(found)
            self._kept = deque(
                kept._replace(session=into) if kept.session == gone else kept for kept in self._kept
            )

    def __len__(self) -> int:
        return len(self._kept)

    def keeps(self, key: int) -> bool:
        """Whether a text is indexed, and among the newest `SEGMENTS_MAX // 2` texts."""
        here = bool(self._kept) and self._kept[0].key <= key
        return here and self.next - key <= SEGMENTS_MAX // 2

    def containing(self, text: str, session: str | None) -> list[RingText]:
        """The texts that contain this one, the likeliest first: of one session, or of all for None.

        An indexed text without a session counts as in the context of every session.
        """
        if session is None:
            return self._found(apart(prints_of, text))
        # The session is filtered before the likeliest are chosen: copies in other sessions must not
        # hide this text.
        prints = apart(prints_of, text)
        return self._found(prints, self._of.get("", set()) | self._of.get(session, set()))

    def _found(self, prints: Prints, among: set[int] | None = None) -> list[RingText]:
        if not self._kept:
            return []
        # Keys are consecutive numbers, so a key gives the position in the ring.
        first = self._kept[0].key
        return [self._kept[found.key - first] for found in self._index.search(prints, among)]
