"""A bounded index of the texts that entered contexts, to find the original of a copied text.

The oldest texts are dropped. The index is in memory only: after a restart, and for dropped texts,
the session is marked as not searchable (`on_lost`), and its taint counts instead.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.labels.containment import Index, prints_of, resemblance
from proxy.ledger.texts import all_readings
from proxy.seams.slices import apart, rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policy.labels.containment import Prints
    from policy.model import Origin

SEGMENTS_MAX: Final = 2_000
PRINTS_MAX: Final = 400_000
"""Of all principals together, about 60 MB; a page of a thousand words takes about a thousand."""
# A long text is indexed in overlapping parts of so many characters, because a note is usually made
# of one part.
_PART_LEN: Final = 2_048
_PART_OVERLAP: Final = 256
_TEXT_LEN_MAX: Final = 262_144

AGAIN_MAX: Final = 4
"""Sayings of the model that are looked behind for one text; a further one says it by itself."""

# A text counts as a copy of an earlier one if at least this share of its words stands there, in a
# row.
COPY_SHARE: Final = 0.8
COPY_WORDS: Final = 12
VERBATIM_RUNS: Final = 4
"""Fewer words in a row (one per run, and two more) are said by everybody."""


class RingText(NamedTuple):
    """One indexed text, with where it came from."""

    key: int
    origin: Origin
    # The id of the session whose context the text entered; "" if no front could tell.
    session: str
    # The turn that the text stands in. It is named when the text is dropped from the index.
    digest: int
    # Whether these are a model's own words: they are no source, but the texts they were made of
    # are.
    derived: tuple[Origin, ...] | None
    prints: Prints
    print_count: int


class Ring:
    """The index of one principal's texts, oldest first; when it is full, the oldest is dropped."""

    def __init__(
        self,
        on_lost: Callable[[RingText], None],
        readings: Callable[[str], Iterable[str]] = all_readings,
    ) -> None:
        self._index = Index()
        self._kept: deque[RingText] = deque()
        # Keys of the texts of each session.
        self._of: dict[str, set[int]] = {}
        self.next = 0
        self._on_lost = on_lost
        self._readings = readings
        self.print_count = 0

    def add(
        self,
        text: str,
        origin: Origin,
        *,
        session: str,
        digest: int,
        derived: tuple[Origin, ...] | None = None,
    ) -> bool:
        """Index a text in all its readings; False where it is too long to be kept whole."""
        looked_at = text[:_TEXT_LEN_MAX]
        seen: set[int] = set()
        parts = (
            (at > 0, reading[start : start + _PART_LEN + _PART_OVERLAP])
            for at, reading in enumerate(self._readings(looked_at))
            for start in range(0, len(reading), _PART_LEN)
        )
        for respelled, part in parts:
            rest()
            prints = prints_of(part)
            if respelled and seen.issuperset(prints.runs):
                continue
            seen.update(prints.runs)
            count = self._index.add(self.next, prints)
            kept = RingText(self.next, origin, session, digest, derived, prints, count)
            self._kept.append(kept)
            self._of.setdefault(session, set()).add(self.next)
            self.next += 1
            self.print_count += count
            if len(self._kept) > SEGMENTS_MAX:
                self.drop()
        return len(text) <= _TEXT_LEN_MAX

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
            self._on_lost(oldest)

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
        """Whether this text is indexed, and stays so until half of the index was replaced."""
        here = bool(self._kept) and self._kept[0].key <= key
        return here and self.next - key <= SEGMENTS_MAX // 2

    def containing(self, text: str, session: str | None) -> list[RingText]:
        """The texts that contain this one, the likeliest first: of one session, or of all.

        A text without a session is in the context of every session.
        """
        if session is None:
            return self._found(apart(prints_of, text))
        # The session is filtered before the likeliest are chosen: copies in other sessions must not
        # hide this text.
        prints = apart(prints_of, text)
        return self._found(prints, self._of.get("", set()) | self._of.get(session, set()))

    def bringing(self, text: str, known: str, session: str) -> list[RingText]:
        """The texts of one session that may have brought those words of `text` that `known` lacks.

        The model's own words are no source: the texts that they were made of are searched instead.
        """
        was, pending = apart(prints_of, known), [apart(prints_of, text)]
        there = self._of.get("", set()) | self._of.get(session, set())
        texts = [(kept.key, kept.prints) for kept in self._kept if kept.key in there]
        found: dict[int, RingText] = {}
        while pending:
            prints = pending.pop()
            fresh = prints.beyond(was)
            if not (fresh.runs or fresh.words or fresh.marks):
                continue
            for kept in self._found(prints, fresh.shared_by(texts)):
                if kept.key in found:
                    continue
                again = bool(kept.derived) and len(found) < AGAIN_MAX
                found[kept.key] = kept._replace(derived=()) if again else kept
                if again:
                    pending.append(kept.prints)
        return [*found.values()]

    def copied(self, text: str) -> list[RingText]:
        """The texts of which this one is mostly a verbatim copy."""
        prints = apart(prints_of, text)
        found: list[RingText] = []
        for kept in self._found(prints):
            alike = resemblance(prints, kept.prints)
            if alike.copied >= COPY_SHARE and alike.copied_words >= COPY_WORDS:
                found.append(kept)
        return found

    def verbatim(self, text: str) -> list[RingText]:
        """The texts that contain all words of this one in a row, if it has enough words."""
        prints = apart(prints_of, text)
        if len(prints.runs) < VERBATIM_RUNS:
            return []
        runs, words = frozenset(prints.runs), prints.words.keys()
        return [
            kept
            for kept in self._kept
            if words <= kept.prints.words.keys() and runs.issubset(kept.prints.runs)
        ]

    def _found(self, prints: Prints, among: set[int] | None = None) -> list[RingText]:
        if not self._kept:
            return []
        # Keys are consecutive numbers, so a key tells the position in the ring.
        first = self._kept[0].key
        return [self._kept[found.key - first] for found in self._index.search(prints, among)]
