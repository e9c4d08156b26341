"""Whether a text carries another one that was refused (design section 12).

A refused text is known by numbers of its words under a secret key, never by the words: an index of
refused texts would be one more place to find them in. Any five words in a row that a text shares
with a refused one are a *run*; a shorter text is one run. Words are those of the skeleton, after
what spells them another way (JSON escapes, percent signs, entities) is taken back, so that case,
look-alike letters, marks between the words and JSON inside a string do not matter.

What also stands in a text that may be shown is no secret: else a steered model could blank a system
prompt, or a memory that was admitted, by proposing it again. But only where all of a place does: a
stretch of refused words is left alone if one shown text has that very stretch.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.withheld.words import NUMBER_LEN, RUN, RUN_MAX, Print, packed, run_end, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WORDS_MAX: Final = 200_000
"""Of one principal's refused texts; beyond it the longest text goes, which a flood is made of."""
SHOWN_WORDS_MAX: Final = 100_000
OPEN_MAX: Final = 4_096


def _runs(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Every run of a refused text; a short one is a run itself."""
    if run_end(numbers, 0) is None:
        yield numbers
        return
    for start in range(len(numbers)):
        end = run_end(numbers, start)
        if end is None:
            return
        yield numbers[start:end]


class Span(NamedTuple):
    """A stretch of words of a text, each in a run that is refused; `key` of whose it is."""

    start: int
    end: int
    key: int


class Index:
    """Runs of many texts. `key` is a number of the text; the lowest names a run of several."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._firsts: set[int] = set()
        self._seconds: set[int] = set()
        self._alone: set[int] = set()  # texts of one word
        self._letters = False  # whether some run has letters of a script without spaces
        self._wholes: dict[int, int] = {}
        # Lengths of texts shorter than a run.
        self._shorts: list[int] = []
        self._added: list[Print] = []
        self._begins: set[int] | None = None

    def __bool__(self) -> bool:
        return bool(self._added)

    def add(self, key: int, printed: Print) -> None:
        """Take in one text."""
        numbers = unpacked(printed.numbers)
        self._added.append(printed)
        if printed.whole:
            self._wholes.setdefault(hash(tuple(numbers)), key)
            return
        if run_end(numbers, 0) is None and len(numbers) not in self._shorts:
            self._shorts.append(len(numbers))
        self._letters = self._letters or any(number & 1 for number in numbers)
        for run in _runs(numbers):
            self._of.setdefault(hash(tuple(run)), key)
            self._firsts.add(run[0])
            if len(run) > 1:
                self._seconds.add(run[1])
            else:
                self._alone.add(run[0])
        self._begins = None

    def find(self, numbers: Sequence[int]) -> list[Span]:
        """The longest stretches that are refused, in order; runs that touch are one stretch."""
        firsts, seconds, known = self._firsts, self._seconds, self._of
        found: list[Span] = []
        # Most words of a long text begin nothing: the two cheap looks are for them.
        starts = [
            at
            for at, (number, after) in enumerate(pairwise(numbers))
            if number in firsts and (after in seconds or number in self._alone)
        ]
        if numbers and numbers[-1] in self._alone:
            starts.append(len(numbers) - 1)
        for start in starts:
            for end in self._ends(numbers, start):
                key = known.get(hash(tuple(numbers[start:end])))
                if key is None:
                    continue
                last = found[-1] if found else None
                if last is not None and start <= last.end:
                    found[-1] = Span(last.start, max(end, last.end), min(key, last.key))
                else:
                    found.append(Span(start, end, key))
        return found

    def _ends(self, numbers: Sequence[int], start: int) -> Iterator[int]:
        for length in self._shorts:
            if start + length <= len(numbers):
                yield start + length
        end = run_end(numbers, start) if self._letters else start + RUN
        if end is not None and end <= len(numbers):
            yield end

    def whole(self, numbers: Sequence[int]) -> int | None:
        """The key of a refused text that is these words and no others."""
        return self._wholes.get(hash(tuple(numbers))) if self._wholes else None

    def begun_at(self, numbers: Sequence[int]) -> int:
        """From where on the last words may become a run; their number where they cannot."""
        begins = self._begins
        if begins is None:
            begins = self._begins = self._beginnings()
        for start in range(max(0, len(numbers) - RUN_MAX + 1), len(numbers)):
            if hash(tuple(numbers[start:])) in begins:
                return start
        return len(numbers)

    def _beginnings(self) -> set[int]:
        return {
            hash(tuple(run[:length]))
            for printed in self._added
            if not printed.whole
            for run in _runs(unpacked(printed.numbers))
            for length in range(1, len(run))
        }


class Withheld:
    """What of one principal is withheld, and what may be shown all the same. One thread.

    Keys are given in order and never twice.
    """

    def __init__(self) -> None:
        self._index = Index()
        self._texts: dict[int, Print] = {}
        self._keys: dict[Print, int] = {}
        self._words = 0
        self._next = 0
        # Moves with whatever may change an answer.
        self.generation = 0
        # Texts that were pushed out: what is sent may hold them again.
        self.lost_count = 0
        self._shown: OrderedDict[bytes, None] = OrderedDict()
        self._shown_words = 0
        # Of what may be shown, the stretches that are refused as well.
        self._open: dict[bytes, None] = {}

    def __bool__(self) -> bool:
        return bool(self._index)

    def refuse(self, printed: Print) -> tuple[int, list[int]]:
        """Withhold a text from now on; its key, and the keys of those that had to go for it."""
        known = self._keys.get(printed)
        if known is not None:
            return known, []
        key, self._next = self._next, self._next + 1
        self._texts[key] = printed
        self._keys[printed] = key
        self._words += len(printed.numbers) // NUMBER_LEN
        self._index.add(key, printed)
        self.generation += 1
        self._open_for(printed, key)
        return key, self._make_room()

    def forgive(self, keys: Iterable[int]) -> None:
        """Withhold these texts no longer."""
        gone = [self._texts.pop(key) for key in keys if key in self._texts]
        if not gone:
            return
        for printed in gone:
            del self._keys[printed]
            self._words -= len(printed.numbers) // NUMBER_LEN
        self._index = Index()
        for key, printed in self._texts.items():
            self._index.add(key, printed)
        self.generation += 1

    def _make_room(self) -> list[int]:
        if self._words <= WORDS_MAX:
            return []
        left, going = self._words, list[int]()
        for key in sorted(self._texts, key=lambda one: (-len(self._texts[one].numbers), one)):
            if left <= WORDS_MAX * 3 // 4:
                break
            left -= len(self._texts[key].numbers) // NUMBER_LEN
            going.append(key)
        self.lost_count += len(going)
        self.forgive(going)
        return going

    def show(self, numbers: Sequence[int]) -> None:
        """A text that may be shown, from now on: a memory that was admitted."""
        words = packed(numbers)
        if words in self._shown:
            self._shown.move_to_end(words)
            return
        self._shown[words] = None
        self._shown_words += len(numbers)
        while self._shown_words > SHOWN_WORDS_MAX:
            gone, _ = self._shown.popitem(last=False)
            self._shown_words -= len(gone) // NUMBER_LEN
        self.open(numbers)

    def open(self, numbers: Sequence[int]) -> None:
        """A text that stands where it may be shown; only what is refused as well is kept of it."""
        for span in self._index.find(numbers):
            words = packed(numbers[span.start : span.end])
            if words not in self._open:
                self._open[words] = None
                self.generation += 1
        while len(self._open) > OPEN_MAX:
            del self._open[next(iter(self._open))]

    def _open_for(self, printed: Print, key: int) -> None:
        fresh = Index()
        fresh.add(key, printed)
        for words in self._shown:
            numbers = unpacked(words)
            if fresh.find(numbers):
                self.open(numbers)

    def spans(self, numbers: Sequence[int]) -> list[Span]:
        """The stretches of a text that are withheld, in order."""
        found = self._index.find(numbers)
        return [span for span in found if not self.is_open(numbers[span.start : span.end])]

    def whole(self, numbers: Sequence[int]) -> int | None:
        """The key of a text that is too plain to be looked for inside others, and is this one."""
        key = self._index.whole(numbers)
        return None if key is None or self.is_open(numbers) else key

    def knows(self, key: int) -> bool:
        """Whether the text of this key is still withheld."""
        return key in self._texts

    def is_open(self, stretch: Sequence[int]) -> bool:
        """Whether one text that may be shown has these words in a row."""
        if not self._open:
            return False
        words = packed(stretch)
        return any(_contains(shown, words) for shown in self._open)

    def stretches(self, numbers: Sequence[int]) -> list[Span]:
        """The stretches that are refused, those that may be shown too."""
        return self._index.find(numbers)

    def begun_at(self, numbers: Sequence[int]) -> int:
        """From where on the last words may become a run; their number where they cannot."""
        return self._index.begun_at(numbers)


def _contains(text: bytes, part: bytes) -> bool:
    at = text.find(part)
    while at >= 0 and at % NUMBER_LEN:
        at = text.find(part, at + 1)
    return at >= 0
