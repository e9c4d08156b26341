"""Prints of texts behind another server: each is known by its words, and only hashes are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policy.labels.forwarded_call import HTTP, call_of
from policy.withheld.prints import CONTAINED_LEN_MIN, digest_of, telling

if TYPE_CHECKING:
    from policy.model import Candidate


class Print(NamedTuple):
    """The fingerprint of one piece of a memory's text, without the text.

    It has a hash to search by, the length, and a digest that must be equal.
    """

    anchor: int
    length: int
    digest: bytes
    whole: bool  # whether only an equal string matches, and not one that contains the piece


def prints_of(candidate: Candidate) -> tuple[Print, ...]:
    """The prints of the pieces that tell this candidate from others (`telling`)."""
    call = call_of(candidate)
    return () if call is None else prints_of_pieces(call.pieces)


def prints_of_pieces(pieces: tuple[str, ...]) -> tuple[Print, ...]:
    """The prints of pieces that belong to one candidate (`prints_of`)."""
    shapes, whole = telling(pieces)
    return tuple(print_of(shape, whole=whole) for shape in shapes)


def said_by(candidate: Candidate) -> bytes:
    """Digests, in a row, of every string that was judged with an item of an HTTP server."""
    call = call_of(candidate) if candidate.target.startswith(HTTP) else None
    return b"" if call is None else b"".join(map(digest_of, dict.fromkeys(call.pieces)))


def print_of(shape: str, *, whole: bool) -> Print:
    """The print of a shape (`shape_of`)."""
    anchor = 0 if whole else hash(shape[:CONTAINED_LEN_MIN])
    return Print(anchor=anchor, length=len(shape), digest=digest_of(shape), whole=whole)
