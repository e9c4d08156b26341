"""The pieces of memories: lines and sentences, each identified by a digest of all of its words.

Pieces with the same words are equal, whatever their letter case, marks and white space. A piece is
not found inside a longer sentence. A single word is no piece, because it is a name or a kind.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b
from itertools import islice, pairwise
from typing import Final, NewType

from policy.text.sentences import ends_of
from policy.text.skeleton import skeleton
from policy.withheld.words import words_of

Piece = NewType("Piece", bytes)
"""The number of a piece's words, in two bytes, and a digest of them."""
PIECE_LEN: Final = 16
DIGEST_LEN: Final = 16
WORDS_MIN: Final = 2
ATOMS_MAX: Final = 16
"""How many lines or sentences of an answer are joined at most in the search for one piece."""
EVER: Final = 1 << 63
"""An age that no memory reaches: a memory's age is the ordinal of its row."""
_COUNT_LEN: Final = 2
_WORDS_MAX: Final = 0xFFFF
_SPACES: Final = re.compile(r"\s+")
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n")
_BREAK: Final = re.compile(r"[\n\r\t\v\f\x85\u2028\u2029]+")
# The number or the name that a list or a record gives to a line.
_LEAD: Final = re.compile(r"^[^\S\n]*(?:[-*+\u2022]|[0-9]{1,4}[.):]|\w+:)(?=\s)")
# Where a piece may begin or end: also at a tag, a quotation mark, or an escaped line end.
_CUT: Final = re.compile(
    rf"{_BREAK.pattern}|{_LEAD.pattern}|<[^<>\n]{{1,256}}>"
    r"""|\\+["nrt]|["\u201c\u201d\u201e\u00ab\u00bb]|(?<!\w)'|'(?!\w)""",
    re.MULTILINE,
)
_ENDS: Final = str.maketrans("\u3002\uff01\uff1f", ".!?")


def shape_of(text: str) -> str:
    """The words of a text; for a text without words, its punctuation."""
    return " ".join(words_of(text)) or _SPACES.sub(" ", skeleton(text)).strip()


def digest_of(shape: str) -> bytes:
    """A digest of a shape, equal for equal shapes."""
    return blake2b(shape.encode("utf-8", "surrogatepass"), digest_size=DIGEST_LEN).digest()


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences of each line of a text, and those that several of its lines make together."""
    lines = _BREAK.split(text)
    if len(lines) > 1:
        lines += [_BREAK.sub(" ", part) for part in _PARAGRAPH.split(text)]
    lines += [line[lead.end() :] for line in lines if (lead := _LEAD.match(line))]
    return tuple(dict.fromkeys(_spoken(lines)))


def pieces_of(texts: Iterable[str]) -> frozenset[Piece]:
    """The pieces of some texts; a text of one word, such as a name or a kind, is none."""
    words = (words_of(sentence) for text in texts for sentence in sentences_of(text))
    return frozenset(_piece(one) for one in words if len(one) >= WORDS_MIN)


def hidden_pieces(texts: Iterable[str], key: str, age: int) -> dict[Piece, int]:
    """The pieces of a hidden memory, each with the age below which another memory exempts it.

    The memory's key is the name of what the memory is about, and others may write about the same
    thing: a memory of any age exempts a piece that is the key.
    """
    names = pieces_of((key,))
    return {one: EVER if one in names else age for one in pieces_of(texts)}


def pieces_in(text: str, counts: Collection[int]) -> Iterator[Piece]:
    """The pieces in a shown text that have one of the given counts of words, in the text's order.

    A server may break the lines of a text anew, and add line numbers, list marks and tags, so
    neighbouring lines and sentences are also tried together.
    """
    words: list[str] = []
    bounds = [0]
    for atom in _atoms_of(text):
        words += words_of(atom)
        if len(words) > bounds[-1]:
            bounds.append(len(words))
    most = max(counts, default=0)
    for at, start in enumerate(bounds):
        for end in islice(bounds, at + 1, None):
            if end - start > most:
                break
            if end - start in counts:
                yield _piece(words[start:end])


def runs_of(text: str) -> Iterator[dict[str, list[tuple[int, int]]]]:
    """The parts of a text that may be a piece, the shortest parts first, each with its places.

    One mapping has all parts of one length in lines or sentences, which is at most `ATOMS_MAX`.
    """
    at, spans = 0, list[tuple[int, int]]()
    for atom in _atoms_of(text):
        if words_of(atom):
            spans.append((at, at + len(atom)))
        at += len(atom)
    for count in range(1, min(ATOMS_MAX, len(spans)) + 1):
        runs: dict[str, list[tuple[int, int]]] = {}
        for (start, _), (_, end) in zip(spans, spans[count - 1 :], strict=False):
            runs.setdefault(text[start:end], []).append((start, end))
        yield runs


def _atoms_of(text: str) -> list[str]:
    """A text cut where a piece of it may begin or end; joined, the atoms are the text."""
    cuts = {0, len(text)}
    for found in _CUT.finditer(text):
        cuts.update(found.span())
    cuts.update(ends_of(text.translate(_ENDS)))
    return [text[start:end] for start, end in pairwise(sorted(cuts))]


def _spoken(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        cuts = (0, *ends_of(part.translate(_ENDS)), len(part))
        for start, end in pairwise(cuts):
            sentence = part[start:end].strip()
            if sentence:
                yield sentence


def _piece(words: list[str]) -> Piece:
    count = min(len(words), _WORDS_MAX).to_bytes(_COUNT_LEN, "big")
    data = " ".join(words).encode("utf-8", "surrogatepass")
    return Piece(count + blake2b(data, digest_size=PIECE_LEN - _COUNT_LEN).digest())


def count_of(piece: Piece) -> int:
    """How many words a piece has."""
    return int.from_bytes(piece[:_COUNT_LEN], "big")
