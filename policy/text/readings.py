"""All readings of a text: the text itself, and its decoded forms.

A model understands escapes, percent signs, entities, tags, words divided at a line end, base64 and
hexadecimal. So a refused text is searched for in every reading.
"""

from __future__ import annotations

import html
import re
from base64 import b64decode
from binascii import a2b_qp
from collections.abc import Iterator
from heapq import nlargest
from typing import Final
from urllib.parse import unquote

_MARKS_MAX: Final = 4
# Line numbers, with the file's name or without, and marks of quotations, changes and comments.
_MARK: Final = re.compile(
    r"\s*(?:[0-9]{1,7}(?:\s*[\u2192|:]|\t)|[^\s:]{1,200}:[0-9]{1,7}[:\-]"
    r"|[>+|#*/;!\-]{1,8}(?=\s)|>+)"
)
_FIELD: Final = re.compile(r"\s*[^:\n]{1,64}:\s+(?=\S)")
_CELL: Final = re.compile('[|\t"`]+')
_INLINE: Final = re.compile(
    r"</?(?:a|abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|small|span|strong|sub|sup|tt|u|"
    r"var|wbr)(?:\s[^<>]{0,400})?/?>",
    re.IGNORECASE,
)
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>")
_COMMENT: Final = re.compile(r"<!--[^<>]*-->")
_LINK: Final = re.compile(r"\](?:\([^()]{0,2000}\)|\[[^\[\]]{0,200}\])")
# Escape sequences for terminal colours.
_COLOUR: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_ITEM: Final = re.compile(r"\s*[0-9]{1,7}[.)]\s")
_FIELDS: Final = re.compile(r"([^|\t,;]*)([|\t,;]|$)")
_NUMBER: Final = re.compile(r"[\s0-9.:,#-]*")


def unmarked(text: str) -> str:
    """The words of a text without tags, link addresses, quotation marks and line numbers."""
    bare = text
    if "\x1b" in text:
        bare = _COLOUR.sub("", bare)
    if "<" in text:
        bare = _TAG.sub("|", _INLINE.sub("", _COMMENT.sub(" ", bare)))
    if "](" in bare or "][" in bare:
        bare = _LINK.sub("]", bare)
    return "\n".join(map(_alone, bare.split("\n")))


def _alone(line: str) -> str:
    line = _without_marks(line)
    item = _ITEM.match(line)
    if item is not None:
        line = line[item.end() :]
    # A field that is only a number has no words and is dropped. The marks after other fields stay,
    # because the words after a mark may be quoted alone.
    fields = _FIELDS.findall(line)
    return "".join([f"{cell}{mark}" for cell, mark in fields if not _NUMBER.fullmatch(cell)])


def repeated(text: str) -> Iterator[str]:
    """The other forms in which a text may be quoted; no form of a text that is plain words."""
    bare = _INLINE.sub("", text) if "<" in text else text
    lines = [_without_marks(line) for line in bare.split("\n")]
    cells: list[str] = []
    for line in lines:
        field = _FIELD.match(line)
        found = [one for one in _CELL.split(line) if one.strip()]
        if field is not None:
            cells.append(line[field.end() :])
        if field is not None or len(found) > 1:
            cells += found
    if cells:
        yield "\n".join(cells)
    if len(lines) > 1 or lines[0] != text:
        yield _flowing(lines)


def flowing(text: str) -> str:
    """The text with the lines of each paragraph joined into one line."""
    return _flowing(text.split("\n"))


def _flowing(lines: list[str]) -> str:
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            paragraphs[-1].append(line.strip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n".join(" ".join(part) for part in paragraphs if part)


def _without_marks(line: str) -> str:
    for _ in range(_MARKS_MAX):
        mark = _MARK.match(line)
        if mark is None:
            break
        line = line[mark.end() :]
    return line


_ESCAPE: Final = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})"
    r"|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# Characters that begin an escape. A stray one before a word would swallow letters of the word, so
# the text is also read with these characters as plain marks.
_STRAY: Final = str.maketrans("\\%&", "   ")
# An escape between two words stands for an invisible character, which belongs to neither word.
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u2064\u2800\u3164\ufeff\uffa0]+"
)
# Letters that are invisible and that a model still reads (tag characters); an escape may be spelled
# in them as well.
_TAGGED: Final = re.compile("[\U000e0020-\U000e007e]")
_BLANKS: Final = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " ", "v": " "}
_PERCENT: Final = re.compile("%[0-9A-Fa-f]{2}")
# Leading zeros are skipped, and a number of more digits than any code point has is not parsed:
# parsing very long numbers is slow.
_ZEROS: Final = re.compile("&#0+(?=[0-9])")
_BEYOND: Final = re.compile("&#[0-9]{8,}")
_ROUNDS: Final = 8
_BLOB: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/_-]{8,})*={0,2}")
_HEX: Final = re.compile("[0-9A-Fa-f]{24,}")
_HEX_PAIRS: Final = re.compile(r"(?:(?:0x)?[0-9A-Fa-f]{2}[\s:,]{1,4}){11,}(?:0x)?[0-9A-Fa-f]{2}")
_PAIRS_JOINED: Final = re.compile(r"0x|[\s:,]")
# Stretches of text that can be read inside bytes which are not text as a whole.
_PRINTABLE: Final = re.compile(rb"[\t\n\r -~]{16,}")
_QUANTUM: Final = 4
_WIDE: Final = frozenset({b"\xff\xfe", b"\xfe\xff"})  # The byte order marks of UTF-16.
_LAST_CODE_POINT: Final = 0x10FFFF
_TAGS_BEGIN: Final = 0xE0000
_URL_SAFE: Final = str.maketrans("-_", "+/")
# Find a word that is divided at a line end, and the soft line breaks and byte codes of
# quoted-printable mail.
_DIVIDED: Final = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010][ \t]*\r?\n[ \t]*(?=[^\W\d_])")
_QUOTED: Final = re.compile(r"=\r?\n|(?:=[0-9A-F]{2}){3,}")
# Footnote marks inside or behind a word, and small capitals; a text that has them may be a refused
# one, and is equal to none.
_FOOTNOTES: Final = re.compile(r"(?<=\w)(?:\[[^\[\]\s]{1,4}\]|\([^()\s]{1,4}\)|\{[^{}\s]{1,4}\})+")
_SMALL_CAPITALS: Final = str.maketrans(
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f"
    "\u1d18\ua7af\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22",
    "abcdefghijklmnopqrstuvwyz",
)
BLOBS_MAX: Final = 4_096


def readings_of(text: str) -> Iterator[str]:
    """All readings of a text, each of them once, the text itself first."""
    spelled = spelled_out(text)
    found = [text, unmarked(spelled)]
    if spelled != text:
        stray = text.translate(_STRAY)
        found += [stray, unmarked(stray)]
    if not spelled.isascii():
        found.append(_UNSEEN.sub(" ", spelled))
    if _DIVIDED.search(found[1]):
        found.append(_DIVIDED.sub("", found[1]))
    for source in dict.fromkeys((text, spelled)):
        if _QUOTED.search(source):
            data = a2b_qp(source.encode("utf-8", "surrogatepass"))
            found.append(unmarked(spelled_out(data.decode("utf-8", "replace"))))
    found.append(_FOOTNOTES.sub("", found[1].translate(_SMALL_CAPITALS)))
    told = dict.fromkeys(found)
    yield from told
    for source in dict.fromkeys((text, spelled, found[1])):
        for one in blobs_in(source):
            if one not in told:
                told[one] = None
                yield one


def blobs_in(text: str, *, depth: int = 2) -> Iterator[str]:
    """Texts that are hidden in a text as base64 or hexadecimal, on one line or several."""
    blobs: list[str] = []
    for found in _BLOB.finditer(text):
        lines = found[0].split()
        blobs += ("".join(lines), *(lines if len(lines) > 1 else ()))
    if len(blobs) > BLOBS_MAX:
        # Only the longest candidates are decoded: a blob with a text worth hiding has to be long.
        blobs = nlargest(BLOBS_MAX, blobs, key=len)
    blobs += [_PAIRS_JOINED.sub("", found[0]) for found in _HEX_PAIRS.finditer(text)]
    for blob in blobs:
        for decoded in _decoded(blob):
            yield decoded
            bare = unmarked(spelled_out(decoded))
            if bare != decoded:
                yield bare
            if depth > 1:
                yield from blobs_in(bare, depth=depth - 1)


def texts_in_blob(blob: str) -> Iterator[str]:
    """The readable texts in a base64 string, in any of its spellings.

    A string that is not base64 is yielded unchanged.
    """
    letters = "".join(blob.split()).rstrip("=").translate(_URL_SAFE)
    if len(letters) % _QUANTUM == 1:
        letters = letters[:-1]
    try:
        data = b64decode(letters + "=" * (-len(letters) % _QUANTUM), validate=True)
    except ValueError:
        yield blob
        return
    whole = list(_text_of(data))
    yield from whole or _pieces_of(data)
    if not whole and b"\0" in data:
        yield from _pieces_of(data.replace(b"\0", b""))


def _decoded(blob: str) -> Iterator[str]:
    for digits in _HEX.findall(blob):
        # It is unknown where a blob begins: a word before it may end in characters of the same
        # alphabet.
        for start in range(1 + len(digits) % 2):
            even = digits[start : start + len(digits) // 2 * 2]
            yield from _text_of(bytes.fromhex(even))
    data = blob.rstrip("=").translate(_URL_SAFE)
    # Letters that stand directly before a blob shift its decoding, so up to three of them are
    # skipped.
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
    """The readable stretches of text in the given bytes."""
    pieces = _PRINTABLE.findall(data)
    if pieces:
        yield b"\n".join(pieces).decode("ascii")


def spelled_out(text: str) -> str:
    """The text with its escapes decoded, nested escapes included."""
    if not text.isascii():
        text = _TAGGED.sub(lambda found: chr(ord(found[0]) - _TAGS_BEGIN), text)
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
