"""The search for refused texts inside other texts (docs/glossary.md#decisions).

A refused text is stored as keyed hashes of its words and never as words: an index of readable texts
would be one more place to read refused ones. Any eight words in a row that a text shares with a
refused one are a *run*; a shorter text is one run. The words are those of `policy.withheld.words`.

Three kinds of text exempt a stretch that they contain whole: what the agent's program itself writes
(otherwise a steered model could have a system prompt withheld by proposing it as a memory), a
memory whose label is proven, and a memory that was there before the refusal.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from policy.withheld.words import NUMBER_LEN, RUN, WordPrint, packed, unpacked

Applies = Callable[[int], bool]
WORDS_MAX: Final = 200_000
"""The most words that are stored of one principal's refused texts; the longest texts go first."""
SHOWN_WORDS_MAX: Final = 100_000
OPEN_MAX: Final = 4_096
_REST: Final = RUN // 2
"""So many words in a row beside a removed stretch count as a further piece of its text."""


def _runs(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Every run of a refused text (eight words in a row). A shorter text counts as one run."""
    if len(numbers) < RUN:
        yield numbers
        return
    for start in range(len(numbers) - RUN + 1):
        yield numbers[start : start + RUN]


class Terms(NamedTuple):
    """The conditions under which one refused text is withheld."""

    # The only conversation in which the text is withheld; "" for all conversations of the
    # principal.
    session: str = ""
    # Whether the text is written to steer its reader.
    flagged: bool = False
    # Whether a person refused the text: then no memory exempts it.
    denied: bool = False
    # Whether the text waits for a person: until the decision only the model's own words are
    # searched for it.
    held: bool = False
    # Whether the text is one of a quarantined memory: then it takes no room from refused texts.
    withdrawn: bool = False

    @property
    def stops_calls(self) -> bool:
        """Whether a call is refused if it contains the whole refused text."""
        return (self.flagged or self.denied) and not self.held


class Sight(NamedTuple):
    """The place of a searched text, so far as the place decides which texts are withheld there."""

    # The ids of the conversation that the searched text is part of; some refused texts are withheld
    # in one conversation alone.
    sessions: frozenset[str] = frozenset()
    # Whether the model itself said the searched text.
    by_model: bool = False


class StoredText(NamedTuple):
    """A stored memory whose text may exempt refused words from withholding."""

    # The id of the memory; "" where it is not known.
    memory_id: str
    # The version of the store when the memory was written.
    version: int
    # Whether the memory's label is proven: then the memory also exempts texts that were refused
    # before the memory was written.
    proven: bool


class Span(NamedTuple):
    """A stretch of words that belongs to refused runs; `key` names the refused text."""

    start: int
    end: int
    key: int


class RunIndex:
    """The runs of many refused texts.

    Each text has a number, its `key`; a run that several texts share is found under the lowest key.
    """

    def __init__(self) -> None:
        self._of: dict[int, int | tuple[int, ...]] = {}
        self._firsts: set[int] = set()
        self._seconds: set[int] = set()
        self._alone: set[int] = set()  # The words that are a whole refused text by themselves.
        self._wholes: dict[int, int | tuple[int, ...]] = {}
        # The lengths of refused texts that are shorter than a run.
        self._shorts: list[int] = []
        self._added: list[WordPrint] = []
        self._begins: set[int] | None = None

    def add(self, key: int, printed: WordPrint) -> None:
        """Add the runs of one refused text."""
        numbers = unpacked(printed.numbers)
        self._added.append(printed)
        if printed.whole:
            _put(self._wholes, hash(tuple(numbers)), key)
            return
        if len(numbers) < RUN and len(numbers) not in self._shorts:
            self._shorts.append(len(numbers))
        for run in _runs(numbers):
            _put(self._of, hash(tuple(run)), key)
            self._firsts.add(run[0])
            if len(run) > 1:
                self._seconds.add(run[1])
            else:
                self._alone.add(run[0])
        self._begins = None

    def find(self, numbers: Sequence[int], applies: Applies) -> list[Span]:
        """The longest refused stretches in a text's words, in order.

        Runs that touch are one stretch.
        """
        found: list[Span] = []
        for start, end, keys in self._matches(numbers):
            key = min(filter(applies, keys), default=None)
            if key is None:
                continue
            last = found[-1] if found else None
            if last is not None and start <= last.end:
                found[-1] = Span(last.start, max(end, last.end), min(key, last.key))
            else:
                found.append(Span(start, end, key))
        return found

    def keys(self, numbers: Sequence[int], applies: Applies) -> set[int]:
        """The keys of all refused texts that share a run with the given words."""
        return {key for _, _, keys in self._matches(numbers) for key in filter(applies, keys)}

    def _matches(self, numbers: Sequence[int]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        firsts, seconds, known = self._firsts, self._seconds, self._of
        if not firsts:
            return
        # Two cheap checks come before the lookup of a run, because most words of a text begin no
        # refused run.
        starts = [
            at
            for at, (number, after) in enumerate(pairwise(numbers))
            if number in firsts and (after in seconds or number in self._alone)
        ]
        if numbers and numbers[-1] in self._alone:
            starts.append(len(numbers) - 1)
        for start in starts:
            for length in (*self._shorts, RUN):
                end = start + length
                keys = known.get(hash(tuple(numbers[start:end]))) if end <= len(numbers) else None
                if keys is not None:
                    yield start, end, _all(keys)

    def whole(self, numbers: Sequence[int], applies: Applies) -> int | None:
        """The key of a refused text that consists of exactly the given words."""
        keys = self._wholes.get(hash(tuple(numbers))) if self._wholes else None
        return None if keys is None else min(filter(applies, _all(keys)), default=None)

    def begun_at(self, numbers: Sequence[int]) -> int:
        """The position from which the last words may still become a run, when more words follow.

        If the last words cannot begin a refused run, the position is after the last word.
        """
        begins = self._begins
        if begins is None:
            begins = self._begins = self._beginnings()
        for start in range(max(0, len(numbers) - RUN + 1), len(numbers)):
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


class WholeTexts:
    """Short refused texts and refused sentences, each searched for as all of its words in a row."""

    def __init__(self) -> None:
        self._of: dict[int, list[tuple[int, int, int]]] = {}

    def add(self, key: int, words: bytes) -> None:
        """Add the words of a refused text or sentence; from now on `find` searches for them."""
        numbers = tuple(unpacked(words))
        if numbers:
            begin = hash(numbers[:2])
            self._of.setdefault(begin, []).append((len(numbers), hash(numbers), key))

    def find(self, numbers: Sequence[int], applies: Applies) -> Iterator[Span]:
        """The places in a text where one of the added texts or sentences occurs whole."""
        if not self._of:
            return
        for start in range(len(numbers)):
            # The index has texts by their first two words, and a text of one word by that word.
            for begin in {hash(tuple(numbers[start : start + length])) for length in (1, 2)}:
                for length, whole, key in self._of.get(begin, ()):
                    end = start + length
                    if hash(tuple(numbers[start:end])) == whole and applies(key):
                        yield Span(start, end, key)


class PlaceSearch:
    """The search for refused texts at one place of a conversation.

    `typed` are the words that a person typed there: they exempt refused texts that still wait for a
    person. `own` are refused stretches that the agent's program itself wrote there.
    """

    def __init__(
        self,
        withheld: RefusedTexts,
        sight: Sight = Sight(),  # noqa: B008 - a value that nobody changes
        typed: Callable[[], Iterable[bytes]] = tuple,
        own: Callable[[], Iterable[bytes]] = tuple,
    ) -> None:
        self._withheld = withheld
        self.sight = sight
        self._typed = typed
        self._own = own

    def stretches(self, numbers: Sequence[int]) -> list[Span]:
        """The refused stretches of a text at this place, also those that may be shown."""
        return self._withheld.stretches(numbers, self.sight)

    def spans(self, numbers: Sequence[int]) -> list[Span]:
        """The stretches of a text that are withheld at this place of a conversation, in order."""
        return [
            span
            for span in self.stretches(numbers)
            if not self.is_open(numbers[span.start : span.end])
        ]

    def begun_at(self, numbers: Sequence[int]) -> int:
        """The position from which the last words may become a run (`RefusedTexts.begun_at`)."""
        return self._withheld.begun_at(numbers)

    def is_open(self, stretch: Sequence[int]) -> bool:
        """Whether some text that may be shown contains this stretch (`RefusedTexts.is_open`)."""
        words = packed(stretch)
        return any(_contains(shown, words) for shown in self._own()) or self._withheld.is_open(
            stretch, self.sight, self._typed
        )


class RefusedTexts:
    """The refused texts of one principal, and the texts that exempt parts of them. One thread.

    Keys of refused texts are given in rising order and never twice.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[WordPrint, Terms]] = {}
        self._keys: dict[tuple[WordPrint, Terms], int] = {}
        self._versions: dict[int, int] = {}
        self._ordered: dict[int, tuple[bytes, ...]] = {}
        self._anew()
        self._words = 0
        self._next = 0
        # A counter that rises whenever a search in the same text may have another result.
        self.generation = 0
        # How many refused texts were dropped for lack of room: such a text may be shown again.
        self.lost_count = 0
        # The texts of stored memories, as hashes of words: they may exempt refused texts.
        self._stored: OrderedDict[tuple[bytes, StoredText], None] = OrderedDict()
        self._stored_words = 0
        self._stored_open: dict[tuple[bytes, StoredText], None] = {}
        # Refused stretches that a trusted text contains.
        self._open: dict[bytes, None] = {}

    def _anew(self) -> None:
        self._index = RunIndex()
        self._said = WholeTexts()
        self._orders = WholeTexts()
        self._counts: Counter[tuple[str, bool]] = Counter()

    def any_in(self, sight: Sight) -> bool:
        """Whether any text is withheld at this place."""
        counts = self._counts
        if not counts:
            return False
        ways = (False, True) if sight.by_model else (False,)
        return any((name, held) in counts for held in ways for name in ("", *sight.sessions))

    @property
    def holds(self) -> bool:
        """Whether some text that still waits for a person is withheld in all conversations."""
        return self._counts["", True] > 0

    @property
    def sessions(self) -> frozenset[str]:
        """The conversations that have texts withheld in them alone."""
        return frozenset(name for name, _ in self._counts if name)

    def refuse(
        self,
        printed: WordPrint,
        terms: Terms = Terms(),  # noqa: B008 - a value that nobody changes
        *,
        orders: tuple[bytes, ...] = (),
        version: int = 0,
    ) -> tuple[int, list[int]]:
        """Withhold a text from now on.

        Returns the text's key, and the keys of texts that were dropped to make room. `orders` are
        the sentences of the text that steer its reader, `version` is the store's version then.
        """
        known = self._keys.get((printed, terms))
        if known is not None:
            return known, []
        key = self._refuse(printed, terms, orders, version)
        self._open_for([printed])
        return key, self._make_room()

    def withdraw(self, prints: Sequence[WordPrint], version: int) -> list[int]:
        """Withhold, from now on, texts of memories that no read shows; returns the texts' keys.

        `version` is the store's version at that time. The caller limits the words of the texts.
        """
        terms = Terms(withdrawn=True)
        new = [one for one in dict.fromkeys(prints) if (one, terms) not in self._keys]
        for printed in new:
            self._refuse(printed, terms, (), version)
        self._open_for(new)
        return [self._keys[printed, terms] for printed in prints]

    def _refuse(
        self, printed: WordPrint, terms: Terms, orders: tuple[bytes, ...], version: int
    ) -> int:
        key, self._next = self._next, self._next + 1
        self._texts[key] = printed, terms
        self._keys[printed, terms] = key
        self._versions[key] = version
        self._ordered[key] = orders
        self._words += _room_of(printed, terms)
        self._add(key, printed, terms)
        self.generation += 1
        return key

    def _add(self, key: int, printed: WordPrint, terms: Terms) -> None:
        self._index.add(key, printed)
        self._counts[terms.session, terms.held] += 1
        if terms.stops_calls and not printed.whole:
            self._said.add(key, printed.numbers)
        if terms.flagged:
            for order in self._ordered[key]:
                self._orders.add(key, order)

    def forgive(self, keys: Iterable[int]) -> None:
        """Stop withholding the refused texts that have these keys."""
        gone = [(key, self._texts.pop(key)) for key in keys if key in self._texts]
        if not gone:
            return
        for key, (printed, terms) in gone:
            del self._keys[printed, terms], self._versions[key], self._ordered[key]
            self._words -= _room_of(printed, terms)
        self._anew()
        for key, (printed, terms) in self._texts.items():
            self._add(key, printed, terms)
        self.generation += 1

    def _make_room(self) -> list[int]:
        if self._words <= WORDS_MAX:
            return []
        left, going = self._words, list[int]()
        for key in sorted(self._texts, key=lambda one: (-len(self._texts[one][0].numbers), one)):
            if left <= WORDS_MAX * 3 // 4:
                break
            left -= _room_of(*self._texts[key])
            going += [] if self._texts[key][1].withdrawn else [key]
        self.lost_count += len(going)
        self.forgive(going)
        return going

    # ---- words of refused texts that may be shown all the same -----------------------------------

    def show(self, stored: StoredText, *texts: Sequence[int]) -> None:
        """Add the texts of a stored memory: refused words that they contain may be shown."""
        for numbers in filter(len, texts):
            entry = packed(numbers), stored
            if entry in self._stored:
                self._stored.move_to_end(entry)
                continue
            self._stored[entry] = None
            self._stored_words += len(numbers)
            while self._stored_words > SHOWN_WORDS_MAX:
                (gone, _), _ = self._stored.popitem(last=False)
                self._stored_words -= len(gone) // NUMBER_LEN
            if self._texts:
                self._open_stored(numbers, stored)

    def _open_stored(self, numbers: Sequence[int], stored: StoredText) -> None:
        for span in self.anywhere(numbers):
            entry = packed(numbers[span.start : span.end]), stored
            if entry not in self._stored_open:
                self._stored_open[entry] = None
                self.generation += 1
        while len(self._stored_open) > OPEN_MAX:
            del self._stored_open[next(iter(self._stored_open))]

    def _open_for(self, prints: Sequence[WordPrint]) -> None:
        if not self._stored:
            return
        fresh = RunIndex()
        for key, printed in enumerate(prints):
            fresh.add(key, printed)
        for words, stored in self._stored:
            numbers = unpacked(words)
            if fresh.find(numbers, _any):
                self._open_stored(numbers, stored)

    @property
    def opening(self) -> frozenset[str]:
        """The ids of the stored memories that contain refused words, and so exempt these words."""
        ids = (stored.memory_id for _, stored in self._stored_open)
        return frozenset(one for one in ids if one)

    def unshow(self, memory_ids: frozenset[str]) -> None:
        """Forget texts of memories that no longer exist: they exempt no refused words any more."""
        stored = [one for one in self._stored if one[1].memory_id in memory_ids]
        for one in stored:
            del self._stored[one]
            self._stored_words -= len(one[0]) // NUMBER_LEN
        for one in [one for one in self._stored_open if one[1].memory_id in memory_ids]:
            del self._stored_open[one]
            self.generation += 1

    def open(self, numbers: Sequence[int]) -> None:
        """Add a trusted text: refused stretches in it may be shown from now on."""
        for span in self.anywhere(numbers):
            words = packed(numbers[span.start : span.end])
            if words not in self._open:
                self._open[words] = None
                self.generation += 1
        while len(self._open) > OPEN_MAX:
            del self._open[next(iter(self._open))]

    def is_open(
        self, stretch: Sequence[int], sight: Sight, typed: Callable[[], Iterable[bytes]] = tuple
    ) -> bool:
        """Whether an exempting text has these words; `typed` exempts only texts that are held."""
        words = packed(stretch)
        if any(_contains(shown, words) for shown in self._open):
            return True
        keys = self._index.keys(stretch, self._applying(sight))
        terms = [self._texts[key][1] for key in keys]
        if all(one.held for one in terms) and any(_contains(one, words) for one in typed()):
            return True
        if not self._stored_open or any(one.denied for one in terms):
            return False
        first = min((self._versions[key] for key in keys), default=0)
        return any(
            _contains(shown, words)
            for shown, stored in self._stored_open
            if stored.proven or stored.version <= first
        )

    # ---- searching for refused texts -------------------------------------------------------------

    def _applying(self, sight: Sight) -> Applies:
        texts = self._texts

        def applies(key: int) -> bool:
            terms = texts[key][1]
            there = not terms.session or terms.session in sight.sessions
            return there and (sight.by_model or not terms.held)

        return applies

    def stretches(self, numbers: Sequence[int], sight: Sight) -> list[Span]:
        """The refused stretches of a text at this place, also those that may be shown."""
        return self._index.find(numbers, self._applying(sight))

    def anywhere(self, numbers: Sequence[int]) -> list[Span]:
        """The stretches of a text that are in a refused text, wherever that text is withheld."""
        return self._index.find(numbers, _any)

    def whole(self, numbers: Sequence[int], looking: PlaceSearch) -> int | None:
        """The key of a plain refused text that has exactly the given words; None if there is none.

        A text counts as plain where its words are too few to be searched for inside other texts.
        """
        key = self._index.whole(numbers, self._applying(looking.sight))
        return None if key is None or looking.is_open(numbers) else key

    def said_in(self, numbers: Sequence[int], looking: PlaceSearch) -> int | None:
        """The key of a refused text for which a call with the given words is refused.

        None if there is none.
        """
        return self._first((self._said, self._orders), numbers, looking)

    def mostly_in(self, numbers: Sequence[int], looking: PlaceSearch) -> int | None:
        """The key of a refused text, if the words have over half of it or one of its directives."""
        ordered = self._first((self._orders,), numbers, looking)
        if ordered is not None:
            return ordered
        stretches = [numbers[span.start : span.end] for span in looking.spans(numbers)]
        applies = self._applying(looking.sight)
        keys = {key for one in stretches for key in self._index.keys(one, applies)}
        # A withdrawn memory does not count, because the read may show honest memories beside it.
        keys = {key for key in keys if not self._texts[key][1].withdrawn}
        there = {tuple(one[at : at + RUN]) for one in stretches for at in range(len(one) - RUN + 1)}
        return min((key for key in keys if self._is_mostly(key, there)), default=None)

    def _is_mostly(self, key: int, there: set[tuple[int, ...]]) -> bool:
        """Whether the runs that a search found cover more than half of a refused text.

        Of a text shorter than a run, all words must be there.
        """
        numbers = unpacked(self._texts[key][0].numbers)
        covered = end = 0
        for at in range(len(numbers) - RUN + 1):
            if tuple(numbers[at : at + RUN]) in there:
                covered += at + RUN - max(at, end)
                end = at + RUN
        return len(numbers) < RUN or 2 * covered > len(numbers)

    def _first(
        self, among: Iterable[WholeTexts], numbers: Sequence[int], looking: PlaceSearch
    ) -> int | None:
        applies = self._applying(looking.sight)
        keys = (
            span.key
            for one in among
            for span in one.find(numbers, applies)
            if not looking.is_open(numbers[span.start : span.end])
        )
        return min(keys, default=None)

    def is_rest(self, numbers: Sequence[int], key: int) -> bool:
        """Whether a line beside a removed stretch is a further piece of the same refused text."""
        if key not in self._texts:
            return False
        text = self._texts[key][0].numbers
        if not numbers or _contains(text, packed(numbers)):
            return bool(numbers)
        ends = range(_REST, len(numbers) + 1)
        return any(_contains(text, packed(numbers[end - _REST : end])) for end in ends)

    def knows(self, key: int) -> bool:
        """Whether the refused text with this key is still withheld."""
        return key in self._texts

    def terms(self, key: int) -> Terms:
        """The conditions under which one refused text is withheld."""
        return self._texts[key][1]

    def begun_at(self, numbers: Sequence[int]) -> int:
        """The position from which the last words may still become a run, when more words follow.

        If the last words cannot begin a refused run, the position is after the last word.
        """
        return self._index.begun_at(numbers)


def _any(_: int) -> bool:
    return True


def _room_of(printed: WordPrint, terms: Terms) -> int:
    """How many words of the limited room for refused texts this text takes."""
    return 0 if terms.withdrawn else len(printed.numbers) // NUMBER_LEN


def _put(table: dict[int, int | tuple[int, ...]], at: int, key: int) -> None:
    there = table.get(at)
    table[at] = key if there is None else tuple(dict.fromkeys((*_all(there), key)))


def _all(keys: int | tuple[int, ...]) -> tuple[int, ...]:
    return (keys,) if isinstance(keys, int) else keys


def _contains(text: bytes, part: bytes) -> bool:
    at = text.find(part)
    while at >= 0 and at % NUMBER_LEN:
        at = text.find(part, at + 1)
    return at >= 0
