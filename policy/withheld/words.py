"""The words of a text as numbers under a key, for `policy.withheld.matching`.

Words are those of the skeleton, after what spells them another way (JSON escapes, percent signs,
entities) is taken back. A *run* is any five words in a row; a letter of a script that is written
without spaces is half a word.
"""

from __future__ import annotations

import re
from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.text.readings import spelled_out
from policy.text.skeleton import skeleton

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RUN: Final = 5
"""Words in a row that make a text carry another."""
_WORD_WEIGHT, _LETTER_WEIGHT = 2, 1
_RUN_WEIGHT: Final = RUN * _WORD_WEIGHT
RUN_MAX: Final = _RUN_WEIGHT // _LETTER_WEIGHT
SHORT_LEN_MIN: Final = 8
"""A text of fewer words is looked for inside others from this length on, else only as a whole."""

# Scripts that are written without spaces: a letter is half a word.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
)
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_WORD: Final = re.compile(f"[{UNSPACED}]|[^\\W_{UNSPACED}]+")
_LETTER: Final = re.compile(f"[{UNSPACED}]")
_ONE_WORD: Final = re.compile(r"[^\W\d_]+")
_KNOWN_WORDS_MAX: Final = 200_000
NUMBER_LEN: Final = 8


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared."""
    shape = skeleton(spelled_out(text))
    return (_ASCII_WORD if shape.isascii() else _WORD).findall(shape)


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
        digest = blake2b(data, key=self._key, digest_size=NUMBER_LEN).digest()
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
    found = [Print(packed(numbers), whole=False) for numbers in telling]
    if not telling:
        found = [Print(packed(numbers), whole=True) for _, numbers in read]
    for text in beside:
        numbers = printer.numbers(text)
        if run_end(numbers, 0) is not None:
            found.append(Print(packed(numbers), whole=False))
    return list(dict.fromkeys(found))


def _tells(text: str, numbers: list[int]) -> bool:
    if len(numbers) > 1:
        return len(text.strip()) >= SHORT_LEN_MIN or run_end(numbers, 0) is not None
    shape = skeleton(text)
    return len(shape) >= SHORT_LEN_MIN and _ONE_WORD.fullmatch(shape) is None


def packed(numbers: Sequence[int]) -> bytes:
    """Numbers as bytes."""
    return array("Q", numbers).tobytes()


def unpacked(data: bytes) -> array[int]:
    """Bytes as numbers."""
    numbers = array("Q")
    numbers.frombytes(data)
    return numbers


def run_end(numbers: Sequence[int], start: int) -> int | None:
    """Where the run ends that begins here; None where too few words are left for one."""
    weight = 0
    for at in range(start, min(len(numbers), start + RUN_MAX)):
        weight += _LETTER_WEIGHT if numbers[at] & 1 else _WORD_WEIGHT
        if weight >= _RUN_WEIGHT:
            return at + 1
    return None
