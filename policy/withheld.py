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

import html
import re
from array import array
from base64 import b64decode
from collections import OrderedDict
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from policy.skeleton import skeleton

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RUN: Final = 5
"""Words in a row that make a text carry another."""
_WORD_WEIGHT, _LETTER_WEIGHT = 2, 1
_RUN_WEIGHT: Final = RUN * _WORD_WEIGHT
RUN_MAX: Final = _RUN_WEIGHT // _LETTER_WEIGHT
SHORT_LEN_MIN: Final = 8
"""A text of fewer words is looked for inside others from this length on, else only as a whole."""
WORDS_MAX: Final = 200_000
"""Of one principal's refused texts; beyond it the longest text goes, which a flood is made of."""
SHOWN_WORDS_MAX: Final = 100_000
OPEN_MAX: Final = 4_096

# Scripts that are written without spaces: a letter is half a word.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
)
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_WORD: Final = re.compile(f"[{UNSPACED}]|[^\\W_{UNSPACED}]+")
_LETTER: Final = re.compile(f"[{UNSPACED}]")
_ONE_WORD: Final = re.compile(r"[^\W\d_]+")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_BLANKS: Final = frozenset("nrtbfv")
_PERCENT: Final = re.compile("%[0-9A-Fa-f]{2}")
_ROUNDS: Final = 4
_BLOB: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_URL_SAFE: Final = str.maketrans("-_", "+/")
BLOBS_MAX: Final = 256
_KNOWN_WORDS_MAX: Final = 200_000
_NUMBER_LEN: Final = 8


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared."""
    shape = skeleton(_spelled_out(text))
    return (_ASCII_WORD if shape.isascii() else _WORD).findall(shape)


def blobs_in(text: str) -> Iterator[str]:
    """Texts that stand in a text as base64."""
    for found in islice(_BLOB.finditer(text), BLOBS_MAX):
        data = found[0].rstrip("=").translate(_URL_SAFE)
        if len(data) % 4 == 1:
            continue
        try:
            yield b64decode(data + "=" * (-len(data) % 4), validate=True).decode("utf-8")
        except ValueError:
            continue


def _spelled_out(text: str) -> str:
    """The text without escapes, however often they were put upon each other."""
    for _ in range(_ROUNDS):
        before = text
        if "\\" in text:
            text = _ESCAPE.sub(_unescaped, text)
        if "%" in text and _PERCENT.search(text):
            text = unquote(text, errors="replace")
        if "&" in text and ";" in text:
            text = html.unescape(text)
        if text == before:
            break
    return text


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    if digits:
        return chr(int(digits, 16))
    return " " if found[3] in _BLANKS else found[3]


class Printer:
    """Numbers of words under a key. The same in every process that has the key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[str, int] = {}

    def numbers(self, text: str) -> list[int]:
        """One number for each word of a text, in order."""
        words = words_of(text)
        known = self._known
        new = set(words).difference(known)
        if new:
            if len(known) + len(new) > _KNOWN_WORDS_MAX:
                known.clear()
                new = set(words)
            for word in new:
                known[word] = self._number(word)
        return [known[word] for word in words]

    def _number(self, word: str) -> int:
        data = word.encode("utf-8", "surrogatepass")
        digest = blake2b(data, key=self._key, digest_size=_NUMBER_LEN).digest()
        # The last bit tells letters of scripts without spaces from words.
        letter = len(word) == 1 and not word.isascii() and _LETTER.match(word) is not None
        return int.from_bytes(digest, "little") & ~1 | letter

    def digest(self, *parts: str) -> bytes:
        """A name for a text as it stands, under the key."""
        hasher = blake2b(key=self._key, digest_size=16)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            hasher.update(len(data).to_bytes(8, "little"))
            hasher.update(data)
        return hasher.digest()


class Print(NamedTuple):
    """One refused text. `whole`: too plain to be looked for inside others."""

    numbers: bytes
    whole: bool


def prints_of(printer: Printer, texts: Iterable[str], beside: Iterable[str] = ()) -> list[Print]:
    """Prints of the texts of one candidate, and of what stands beside them (metadata, names).

    Where one text says something by itself, the others are names and kinds, which anything may
    share; and of what stands beside, what is shorter than a run is no more than that.
    """
    read = [(text, printer.numbers(text)) for text in texts]
    read = [(text, numbers) for text, numbers in read if numbers]
    telling = [numbers for text, numbers in read if _tells(text, numbers)]
    found = [Print(_packed(numbers), whole=False) for numbers in telling]
    if not telling:
        found = [Print(_packed(numbers), whole=True) for _, numbers in read]
    for text in beside:
        numbers = printer.numbers(text)
        if _run_end(numbers, 0) is not None:
            found.append(Print(_packed(numbers), whole=False))
    return list(dict.fromkeys(found))


def _tells(text: str, numbers: list[int]) -> bool:
    if len(numbers) > 1:
        return len(text.strip()) >= SHORT_LEN_MIN or _run_end(numbers, 0) is not None
    shape = skeleton(text)
    return len(shape) >= SHORT_LEN_MIN and _ONE_WORD.fullmatch(shape) is None


def _packed(numbers: Sequence[int]) -> bytes:
    return array("Q", numbers).tobytes()


def _unpacked(data: bytes) -> array[int]:
    numbers = array("Q")
    numbers.frombytes(data)
    return numbers


def _run_end(numbers: Sequence[int], start: int) -> int | None:
    """Where the run ends that begins here; None where too few words are left for one."""
    weight = 0
    for at in range(start, min(len(numbers), start + RUN_MAX)):
        weight += _LETTER_WEIGHT if numbers[at] & 1 else _WORD_WEIGHT
        if weight >= _RUN_WEIGHT:
            return at + 1
    return None


def _runs(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Every run of a refused text; a short one is a run itself."""
    if _run_end(numbers, 0) is None:
        yield numbers
        return
    for start in range(len(numbers)):
        end = _run_end(numbers, start)
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
        self._wholes: dict[int, int] = {}
        # Lengths of texts shorter than a run.
        self._shorts: list[int] = []
        self._added: list[Print] = []
        self._begins: set[int] | None = None

    def __bool__(self) -> bool:
        return bool(self._added)

    def add(self, key: int, printed: Print) -> None:
        """Take in one text."""
        numbers = _unpacked(printed.numbers)
        self._added.append(printed)
        if printed.whole:
            self._wholes.setdefault(hash(tuple(numbers)), key)
            return
        if _run_end(numbers, 0) is None and len(numbers) not in self._shorts:
            self._shorts.append(len(numbers))
        for run in _runs(numbers):
            self._of.setdefault(hash(tuple(run)), key)
            self._firsts.add(run[0])
        self._begins = None

    def find(self, numbers: Sequence[int]) -> list[Span]:
        """The longest stretches that are refused, in order; runs that touch are one stretch."""
        firsts, known = self._firsts, self._of
        found: list[Span] = []
        for start in [at for at, number in enumerate(numbers) if number in firsts]:
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
        end = _run_end(numbers, start)
        if end is not None:
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
            for run in _runs(_unpacked(printed.numbers))
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
        self._words += len(printed.numbers) // _NUMBER_LEN
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
            self._words -= len(printed.numbers) // _NUMBER_LEN
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
            left -= len(self._texts[key].numbers) // _NUMBER_LEN
            going.append(key)
        self.lost_count += len(going)
        self.forgive(going)
        return going

    def show(self, numbers: Sequence[int]) -> None:
        """A text that may be shown, from now on: a memory that was admitted."""
        packed = _packed(numbers)
        if packed in self._shown:
            self._shown.move_to_end(packed)
            return
        self._shown[packed] = None
        self._shown_words += len(numbers)
        while self._shown_words > SHOWN_WORDS_MAX:
            gone, _ = self._shown.popitem(last=False)
            self._shown_words -= len(gone) // _NUMBER_LEN
        self.open(numbers)

    def open(self, numbers: Sequence[int]) -> None:
        """A text that stands where it may be shown; only what is refused as well is kept of it."""
        for span in self._index.find(numbers):
            packed = _packed(numbers[span.start : span.end])
            if packed not in self._open:
                self._open[packed] = None
                self.generation += 1
        while len(self._open) > OPEN_MAX:
            del self._open[next(iter(self._open))]

    def _open_for(self, printed: Print, key: int) -> None:
        fresh = Index()
        fresh.add(key, printed)
        for packed in self._shown:
            numbers = _unpacked(packed)
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
        packed = _packed(stretch)
        return any(_contains(shown, packed) for shown in self._open)

    def stretches(self, numbers: Sequence[int]) -> list[Span]:
        """The stretches that are refused, those that may be shown too."""
        return self._index.find(numbers)

    def begun_at(self, numbers: Sequence[int]) -> int:
        """From where on the last words may become a run; their number where they cannot."""
        return self._index.begun_at(numbers)


def _contains(text: bytes, part: bytes) -> bool:
    at = text.find(part)
    while at >= 0 and at % _NUMBER_LEN:
        at = text.find(part, at + 1)
    return at >= 0
