"""Which pieces of a memory tell it from others, and short prints of them.

Texts are compared by their shape, which is their words: letter case, marks and white space between
them make no other text.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

from policy.text.skeleton import skeleton
from policy.withheld.words import words_of

CONTAINED_LEN_MIN: Final = 8
"""A shorter piece is known only as a whole string, not inside another one."""
DIGEST_LEN: Final = 16
SHORT_DIGEST_LEN: Final = 8
_SPACES: Final = re.compile(r"\s+")
# A piece of one word is a name or a kind: a text that mentions it does not repeat the memory.
_ONE_WORD: Final = re.compile(r"[^\W\d_]+")
_START_BITS: Final = 0xFFFF


class ShortPrint(NamedTuple):
    """The print of one piece that may be kept for years.

    `start` has 16 bits of the first letters, to search by: too few to tell what they are.
    """

    start: int
    length: int
    digest: bytes
    whole: bool  # whether only an equal string matches, and not one that contains the piece


def short_prints_of(pieces: tuple[str, ...]) -> tuple[ShortPrint, ...]:
    """Short prints of the pieces that tell a memory from others (`telling`)."""
    shapes, whole = telling(pieces)
    return tuple(
        ShortPrint(
            start=0 if whole else start_of(shape[:CONTAINED_LEN_MIN]),
            length=len(shape),
            digest=digest_of(shape)[:SHORT_DIGEST_LEN],
            whole=whole,
        )
        for shape in shapes
    )


def start_of(letters: str) -> int:
    """The 16 bits by which the first letters of a piece are searched for."""
    return crc32(letters.encode("utf-8", "surrogatepass")) & _START_BITS


def telling(pieces: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The shapes of the pieces that tell a memory from others, and whether they are names alone.

    If one piece carries meaning by itself, the pieces beside it are names and kinds, which any
    memory may share: withholding them too would hide every memory of the same name.
    """
    shapes = {shape for piece in pieces if (shape := shape_of(piece))}
    tell = {shape for piece in pieces if _tells(piece, shape := shape_of(piece))}
    return tuple(sorted(tell or shapes)), not tell


def shape_of(text: str) -> str:
    """The words of a text; for a text without words, its punctuation."""
    return " ".join(words_of(text)) or _spelled(text)


def digest_of(shape: str) -> bytes:
    """A digest by which equal shapes are known."""
    return blake2b(shape.encode("utf-8", "surrogatepass"), digest_size=DIGEST_LEN).digest()


def _tells(piece: str, shape: str) -> bool:
    spelled = _spelled(piece)
    long_enough = min(len(shape), len(spelled)) >= CONTAINED_LEN_MIN
    return long_enough and _ONE_WORD.fullmatch(spelled) is None


def _spelled(text: str) -> str:
    return _SPACES.sub(" ", skeleton(text)).strip()
