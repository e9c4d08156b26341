"""The words of a text as numbers under a key, for `policy.withheld.matching`.

Words are those of the skeleton, after what spells them another way (JSON escapes, percent signs,
entities) is taken back. A *run* is any five words in a row; a letter of a script that is written
without spaces is half a word.
"""

from __future__ import annotations

import html
import re
from array import array
from base64 import b64decode
from hashlib import blake2b
from heapq import nlargest
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from policy.text.repeating import unmarked
from policy.text.skeleton import skeleton

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
_ESCAPE: Final = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})"
    r"|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# What begins an escape; a stray one before a word takes letters of it. So they are read as marks
# as well.
_STRAY: Final = str.maketrans("\\%&", "   ")
# Between two words it is what shows as nothing, and so no letter of theirs.
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u2064\u2800\u3164\ufeff\uffa0]+"
)
_BLANKS: Final = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " ", "v": " "}
_PERCENT: Final = re.compile("%[0-9A-Fa-f]{2}")
# Leading zeros, and numbers beyond every code point: no number that long is read.
_ZEROS: Final = re.compile("&#0+(?=[0-9])")
_BEYOND: Final = re.compile("&#[0-9]{8,}")
_ROUNDS: Final = 8
_BLOB: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/_-]{8,})*={0,2}")
_HEX: Final = re.compile("[0-9A-Fa-f]{24,}")
_HEX_PAIRS: Final = re.compile(r"(?:(?:0x)?[0-9A-Fa-f]{2}[\s:,]{1,4}){11,}(?:0x)?[0-9A-Fa-f]{2}")
_PAIRS_JOINED: Final = re.compile(r"0x|[\s:,]")
# Of bytes that are no text as a whole, what somebody reads all the same.
_PRINTABLE: Final = re.compile(rb"[\t\n\r -~]{16,}")
_QUANTUM: Final = 4
_WIDE: Final = frozenset({b"\xff\xfe", b"\xfe\xff"})  # how a text in UTF-16 begins
_LAST_CODE_POINT: Final = 0x10FFFF
_URL_SAFE: Final = str.maketrans("-_", "+/")
BLOBS_MAX: Final = 4_096
_KNOWN_WORDS_MAX: Final = 200_000
NUMBER_LEN: Final = 8


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared."""
    shape = skeleton(_spelled_out(text))
    return (_ASCII_WORD if shape.isascii() else _WORD).findall(shape)


def readings_of(text: str) -> Iterator[str]:
    """Every text that a text is to somebody who reads or decodes it; itself first, none twice."""
    spelled = _spelled_out(text)
    found = [text, unmarked(spelled)]
    if spelled != text:
        stray = text.translate(_STRAY)
        found += [stray, unmarked(stray)]
    if not spelled.isascii():
        found.append(_UNSEEN.sub(" ", spelled))
    told = dict.fromkeys(found)
    yield from told
    for source in dict.fromkeys((text, spelled, found[1])):
        for one in blobs_in(source):
            if one not in told:
                told[one] = None
                yield one


def blobs_in(text: str, *, depth: int = 2) -> Iterator[str]:
    """Texts that stand in a text as base64 or in hexadecimal, on one line or several."""
    blobs: list[str] = []
    for found in _BLOB.finditer(text):
        lines = found[0].split()
        blobs += ("".join(lines), *(lines if len(lines) > 1 else ()))
    if len(blobs) > BLOBS_MAX:
        # The longest: what is to hide one among others has to be as long.
        blobs = nlargest(BLOBS_MAX, blobs, key=len)
    blobs += [_PAIRS_JOINED.sub("", found[0]) for found in _HEX_PAIRS.finditer(text)]
    for blob in blobs:
        for decoded in _decoded(blob):
            yield decoded
            bare = unmarked(_spelled_out(decoded))
            if bare != decoded:
                yield bare
            if depth > 1:
                yield from blobs_in(bare, depth=depth - 1)


def _decoded(blob: str) -> Iterator[str]:
    for digits in _HEX.findall(blob):
        # Who knows where it begins: a word before it may end in a digit.
        for start in range(1 + len(digits) % 2):
            even = digits[start : start + len(digits) // 2 * 2]
            yield from _text_of(bytes.fromhex(even))
    data = blob.rstrip("=").translate(_URL_SAFE)
    # What stands before it without a gap moves it by up to three letters.
    for start in range(_QUANTUM):
        moved = data[start:]
        if len(moved) % _QUANTUM == 1:
            moved = moved[:-1]
        found = b64decode(moved + "=" * (-len(moved) % _QUANTUM))
        yield from _text_of(found) if start == 0 else _pieces_of(found)


def _text_of(data: bytes) -> Iterator[str]:
    marked = data[:2] in _WIDE
    wide = data[1:2] == b"\0" or data[:1] == b"\0"
    name = ("utf-16-le" if data[1:2] == b"\0" else "utf-16-be") if wide else "utf-8"
    try:
        yield data.decode("utf-16" if marked else name)
    except ValueError:
        marked = True
    if marked:
        yield from _pieces_of(data)


def _pieces_of(data: bytes) -> Iterator[str]:
    """What is readable of bytes."""
    pieces = _PRINTABLE.findall(data)
    if pieces:
        yield b"\n".join(pieces).decode("ascii")


def _spelled_out(text: str) -> str:
    """The text without escapes, however often they were put upon each other."""
    for _ in range(_ROUNDS):
        before = text
        if "\\" in text:
            text = _PAIR.sub(_paired, _ESCAPE.sub(_unescaped, text))
        if "%" in text and _PERCENT.search(text):
            text = unquote(text, errors="replace")
        if "&" in text:
            text = html.unescape(_BEYOND.sub("&#0", _ZEROS.sub("&#", text)))
        if text == before:
            break
    return text


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3] or found[4]
    if digits:
        code = int(digits, 16)
        return chr(code) if code <= _LAST_CODE_POINT else " "
    if found[5]:
        return chr(int(found[5], 8))
    return _BLANKS.get(found[6], found[6])


def _paired(found: re.Match[str]) -> str:
    return found[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


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
