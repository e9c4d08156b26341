"""Prints of texts behind another server: each is known by its words, and only hashes are kept."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.labels.forwarded_call import call_of
from policy.text.skeleton import skeleton
from policy.withheld.words import words_of

if TYPE_CHECKING:
    from policy.model import Candidate

CONTAINED_LEN_MIN: Final = 8
_SPACES: Final = re.compile(r"\s+")
# A piece of one word is a name or a kind: a text that mentions it does not repeat the memory.
_ONE_WORD: Final = re.compile(r"[^\W\d_]+")


class Print(NamedTuple):
    """The fingerprint of one piece of a memory's text, without the text.

    It has a hash to search by, the length, and a digest that must be equal.
    """

    anchor: int
    length: int
    digest: bytes
    whole: bool  # whether only an equal string matches, and not one that contains the piece


def prints_of(candidate: Candidate) -> tuple[Print, ...]:
    """The prints of the pieces that tell this candidate from others.

    If one piece carries meaning by itself, the pieces beside it are names and kinds, which any
    memory may share: withholding them too would hide every memory of the same name.
    """
    call = call_of(candidate)
    return () if call is None else prints_of_pieces(call.pieces)


def prints_of_pieces(pieces: tuple[str, ...]) -> tuple[Print, ...]:
    """The prints of pieces that belong to one candidate (`prints_of`)."""
    shapes = {shape for piece in pieces if (shape := shape_of(piece))}
    telling = {shape for piece in pieces if _tells(piece, shape := shape_of(piece))}
    return tuple(print_of(shape, whole=not telling) for shape in sorted(telling or shapes))


def print_of(shape: str, *, whole: bool) -> Print:
    """The print of a shape (`shape_of`)."""
    anchor = 0 if whole else hash(shape[:CONTAINED_LEN_MIN])
    return Print(anchor=anchor, length=len(shape), digest=digest_of(shape), whole=whole)


def shape_of(text: str) -> str:
    """The words of a text; for a text without words, its punctuation."""
    return " ".join(words_of(text)) or _spelled(text)


def digest_of(shape: str) -> bytes:
    """A digest by which equal shapes are known."""
    return blake2b(shape.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _tells(piece: str, shape: str) -> bool:
    spelled = _spelled(piece)
    long_enough = min(len(shape), len(spelled)) >= CONTAINED_LEN_MIN
    return long_enough and _ONE_WORD.fullmatch(spelled) is None


def _spelled(text: str) -> str:
    return _SPACES.sub(" ", skeleton(text)).strip()
