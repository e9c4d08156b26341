"""Prints `policy/text/unicode_table.py` from the data of a package such as `unicodedata2`.

    pip install 'unicodedata2==17.*'
    python tests/unit/policy/generate_unicode.py unicodedata2 > policy/text/unicode_table.py

The package is needed here alone. Run with Python 3.11, whose own table (Unicode 14) is the oldest
that the program runs on: what that table lacks is what the printed one has to add.
"""

from __future__ import annotations

import importlib
import sys
import unicodedata
from collections.abc import Iterator
from typing import Protocol, cast

# Blocks for emoji: an unassigned code point in them will be an emoji of a newer Unicode.
EMOJI = range(0x1F000, 0x1FB00)
MARKS = frozenset({"Mn", "Me", "Cf"})
_ROW_LEN = 10

_HEADER = '''"""The code points of Unicode {version}, on every Python. Generated; do not edit.

Made by tests/unit/policy/generate_unicode.py (see there for what is kept).
"""

from __future__ import annotations

from typing import Final

'''
_BOUNDS = '''BOUNDS: Final[tuple[int, ...]] = (
{rows})
"""Where runs of assigned and of unassigned code points begin, in turn; from 0 on all are assigned.
"""

'''
_NEWER = '''NEWER: Final[dict[int, str]] = {{
{rows}}}
"""Newer code points that a skeleton drops ("") or decomposes: not each interpreter knows them."""
'''


class Database(Protocol):
    """The part of `unicodedata` that the generator uses."""

    unidata_version: str

    def category(self, char: str, /) -> str:
        """The general category of a character."""
        ...

    def normalize(self, form: str, text: str, /) -> str:
        """The normal form of a text."""
        ...


def bounds(data: Database) -> Iterator[int]:
    """Yield each code point that is assigned where the one before is not, or the reverse."""
    before = True
    for code in range(sys.maxunicode + 1):
        now = data.category(chr(code)) != "Cn" or code in EMOJI
        if now != before:
            yield code
        before = now


def newer(data: Database) -> Iterator[tuple[int, str]]:
    """Yield what a skeleton makes of the code points that the interpreter's own table lacks."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) != "Cn" or data.category(char) == "Cn":
            continue
        form = data.normalize("NFKD", char)
        kept = "".join(one for one in form if data.category(one) not in MARKS)
        if kept != char:
            yield code, kept


def source(data: Database) -> str:
    """The whole text of the generated module."""
    ends = [f"0x{code:X}," for code in bounds(data)]
    rows = [" ".join(ends[at : at + _ROW_LEN]) for at in range(0, len(ends), _ROW_LEN)]
    forms = [f"    0x{code:X}: {ascii(form)!s},\n" for code, form in newer(data)]
    return "".join(
        (
            _HEADER.format(version=data.unidata_version),
            "# fmt: off\n",
            _BOUNDS.format(rows="".join(f"    {row}\n" for row in rows)),
            _NEWER.format(rows="".join(forms).replace("'", '"')),
        )
    )


if __name__ == "__main__":
    table = cast("Database", importlib.import_module(sys.argv[1]))
    print(source(table), end="")  # noqa: T201 - its output is the module
