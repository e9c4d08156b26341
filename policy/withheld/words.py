"""The words of a text as keyed hashes, for `policy.withheld.refused_texts`.

Words are those of the skeleton, after JSON escapes, percent signs and entities are decoded. A *run*
is any eight words in a row; in a script that is written without spaces a letter counts as a word.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, chain
from threading import Lock
from typing import Final, NamedTuple

from policy.bounded import Bounded
from policy.text.language import language_of
from policy.text.phrases import Language
from policy.text.readings import spelled_out
from policy.text.skeleton import skeleton

RUN: Final = 8
"""How many words in a row a text must share with a refused one to carry it."""
ORDER_MIN: Final = 5
"""A sentence of fewer words, as “never do that”, is too common to recognise a text by."""
SHORT_LEN_MIN: Final = 8
"""A text shorter than a run is searched for inside others only from this many characters on."""

# Scripts that are written without spaces between words: each letter counts as a word.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
)
_SENTENCE_END: Final = re.compile(r"\n+|(?<=[.!?\u3002\uff01\uff1f])\s+|(?<=[\u3002\uff01\uff1f])")
# Marks at which a reported sentence begins or ends.
_FRAME: Final = re.compile('["\u201c\u201d\u201e\u00ab\u00bb]|: ')
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_WORD: Final = re.compile(f"[{UNSPACED}]|[^\\W_{UNSPACED}]+")
_LETTER: Final = re.compile(f"[{UNSPACED}]")
_ONE_WORD: Final = re.compile(r"[^\W\d_]+")
_KNOWN_WORDS_MAX: Final = 200_000
_LONG: Final = 1_024
# How many lists of short texts are cached: twice as many as candidates are judged together; each
# takes at most 130 KB.
_EACH_MAX: Final = 512
# How many shorter texts are cached; each takes at most 15 KB.
_SHORT_MAX: Final = 512
_NOTHING: Final = array("Q")
NUMBER_LEN: Final = 8


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared: of its skeleton, with escapes decoded."""
    shape = skeleton(spelled_out(text))
    return (_ASCII_WORD if shape.isascii() else _WORD).findall(shape)


class WordHasher:
    """Makes keyed hashes of words. The hashes are the same in every process that has the key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[str, int] = {}
        # A cache of long texts by digest: the same text is read when it is proposed, when it is
        # refused, and when it is shown.
        self._read: OrderedDict[bytes, array[int]] = OrderedDict()
        self._read_count = 0
        self._read_each: Bounded[bytes, tuple[tuple[int, ...], array[int]]] = Bounded(_EACH_MAX)
        self._reading = Lock()
        self._short = lru_cache(_SHORT_MAX)(self._numbers)

    def numbers(self, text: str) -> tuple[int, ...]:
        """The words of a text as numbers, one for each word, in order. Safe from any thread."""
        if len(text) < _LONG:
            return self._short(text)
        name = self.digest(text)
        with self._reading:
            read = self._read.get(name)
        if read is not None:
            return tuple(read)
        numbers = self._numbers(text)
        with self._reading:
            if name not in self._read:
                self._read[name] = array("Q", numbers)
                self._read_count += len(numbers)
            while self._read_count > _KNOWN_WORDS_MAX:
                self._read_count -= len(self._read.popitem(last=False)[1])
        return numbers

    def each(self, texts: tuple[str, ...]) -> Sequence[Sequence[int]]:
        """The words of many short texts as numbers, text by text. Safe from any thread."""
        if sum(map(len, texts)) < _LONG:
            return tuple(map(self._short, texts))
        name = self.digest("each", *texts)
        with self._reading:
            lengths, read = self._read_each.get(name, ((), _NOTHING))
        if not lengths:
            numbers = [self._numbers(text) for text in texts]
            lengths = tuple(map(len, numbers))
            read = array("Q", chain.from_iterable(numbers))
            with self._reading:
                self._read_each[name] = lengths, read
        ends = [*accumulate(lengths)]
        return [read[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    def _numbers(self, text: str) -> tuple[int, ...]:
        words = words_of(text)
        known = self._known
        new = set(words).difference(known)
        if new:
            if len(known) + len(new) > _KNOWN_WORDS_MAX:
                # The cache is replaced and never emptied: another thread may be reading the old
                # one.
                known, new = {}, set(words)
            for word in new:
                known[word] = self._number(word)
            self._known = known
        return tuple(map(known.__getitem__, words))

    def _number(self, word: str) -> int:
        data = word.encode("utf-8", "surrogatepass")
        digest = blake2b(data, key=self._key, digest_size=NUMBER_LEN).digest()
        # The last bit distinguishes letters of unspaced scripts from words; stored logs rely on it.
        letter = len(word) == 1 and not word.isascii() and _LETTER.match(word) is not None
        return int.from_bytes(digest, "little") & ~1 | letter

    def digest(self, *parts: str) -> bytes:
        """A keyed digest of strings exactly as they are, with case and marks, unlike `numbers`."""
        hasher = blake2b(key=self._key, digest_size=16)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            hasher.update(len(data).to_bytes(8, "little"))
            hasher.update(data)
        return hasher.digest()


class WordPrint(NamedTuple):
    """The words of one refused text as hashes.

    `whole`: the text is too short to be searched for inside others; only an equal text is found.
    """

    numbers: bytes
    whole: bool


def prints_of(
    printer: WordHasher,
    texts: Iterable[str],
    beside: Iterable[str] = (),
    strings: tuple[str, ...] = (),
) -> list[WordPrint]:
    """The prints of a candidate's texts, and of the names and metadata beside them.

    `strings` are the parts that a later read shows. Where one text carries meaning by itself, the
    other texts are left out: they are names and kinds, which any text may share. `beside` and
    `strings` count only where they are as long as a run.
    """
    read = [(text, printer.numbers(text)) for text in texts]
    read = [(text, numbers) for text, numbers in read if numbers]
    telling = [numbers for text, numbers in read if _tells(text, numbers)]
    found = [WordPrint(packed(numbers), whole=False) for numbers in telling]
    if not telling:
        found = [WordPrint(packed(numbers), whole=True) for _, numbers in read]
    for numbers in (*printer.each(strings), *map(printer.numbers, beside)):
        if len(numbers) >= RUN:
            found.append(WordPrint(packed(numbers), whole=False))
    return list(dict.fromkeys(found))


def _tells(text: str, numbers: Sequence[int]) -> bool:
    if len(numbers) > 1:
        return len(text.strip()) >= SHORT_LEN_MIN or len(numbers) >= RUN
    shape = skeleton(text)
    return len(shape) >= SHORT_LEN_MIN and _ONE_WORD.fullmatch(shape) is None


def orders_of(printer: WordHasher, texts: Iterable[str]) -> tuple[bytes, ...]:
    """The words of each sentence that gives orders, if it is long enough to be searched for."""
    found: dict[bytes, None] = {}
    sentences = (sentence for text in texts for sentence in _SENTENCE_END.split(text))
    for part in (part for one in sentences for part in (one, *_FRAME.split(one))):
        numbers = printer.numbers(part)
        if len(numbers) >= ORDER_MIN and language_of(skeleton(part)) & Language.STEERS:
            found[packed(numbers)] = None
    return tuple(found)


def fingerprint(sentence: str, key: bytes) -> int:
    """A sentence as a number of 64 bits that no one can look up without the key."""
    data = sentence.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=key).digest(), "big")


def packed(numbers: Sequence[int]) -> bytes:
    """The hashes of words as bytes, to be stored."""
    return array("Q", numbers).tobytes()


def unpacked(data: bytes) -> array[int]:
    """The hashes of words from stored bytes."""
    numbers = array("Q")
    numbers.frombytes(data)
    return numbers
