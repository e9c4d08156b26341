"""The words of a text without the marks that a tool put around its lines.

Line numbers, marks of quotations and diffs, field names, table cells and line breaks come and go
when a text is pasted. The readings made here find a pasted text again, and can only lower a label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MARKS_MAX: Final = 4
# Numbers of lines, with the file's name or without, and marks of quotations, changes and comments.
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
    # A field that is only a number has no words and is dropped. The marks behind other fields stay:
    # the words behind a mark may be quoted alone.
    fields = _FIELDS.findall(line)
    return "".join([f"{cell}{mark}" for cell, mark in fields if not _NUMBER.fullmatch(cell)])


def repeated(text: str) -> Iterator[str]:
    """The other forms in which this text may be quoted.

    None if the text is plain words already.
    """
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
