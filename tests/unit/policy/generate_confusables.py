"""Prints `policy/text/confusables.py` from the data of the `confusable_homoglyphs` package.

    python tests/unit/policy/generate_confusables.py > policy/text/confusables.py

Kept: one code point that looks like one ASCII letter or digit, survives NFKD unchanged, and is a
letter or a number. Where a shape is shared by l, I and 1, capitals become I and the rest l.
"""

from __future__ import annotations

import importlib.metadata
import string
import unicodedata

from confusable_homoglyphs import confusables  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)
# Lower-case letters that Unicode does not call confusable, and homoglyph generators use all the
# same, because their capitals are.
GENERATORS_USE = dict(
    zip("квмнтпьгαεηκμντυχω\u0131\u0269\u04cf", "kbmhtnbraenkuvtuxwiil", strict=True)
)

_HEADER = '''"""Code points that look like one ASCII letter or digit. Generated; do not edit.

Source: {source}, made by
tests/unit/policy/generate_confusables.py (see there for what is kept).
"""

from __future__ import annotations

from typing import Final

_ALIKE: Final = {{
'''
_FOOTER = """}

ASCII_LOOKALIKES: Final[dict[int, str]] = {
    ord(alike): plain for plain, alikes in _ALIKE.items() for alike in alikes
}
"""
_ROW_LEN = 8
_LINE_LEN_MAX = 101


def chosen(char: str, targets: set[str]) -> str:
    """The one ASCII character a lookalike is folded to."""
    if targets & set("l1I"):
        return "I" if unicodedata.category(char) == "Lu" else "l"
    if targets & set("oO0"):
        return "0" if unicodedata.category(char).startswith("N") else "o"
    letters = sorted(targets & set(string.ascii_letters), key=str.swapcase)
    return letters[0] if letters else min(targets)


def table() -> dict[str, list[str]]:
    """ASCII character to its lookalikes, in code point order."""
    alike: dict[str, list[str]] = {}
    data: dict[str, list[dict[str, str]]] = confusables.confusables_data
    pairs = {
        char: {entry["c"] for entry in entries if entry["c"] in ALPHANUMERIC}
        for char, entries in data.items()
        if len(char) == 1
    }
    for char in sorted(pairs | {char: set[str]() for char in GENERATORS_USE}):
        plain = {GENERATORS_USE[char]} if char in GENERATORS_USE else pairs[char]
        if char.isascii() or not plain or unicodedata.normalize("NFKD", char) != char:
            continue
        if unicodedata.category(char)[0] in "LN":
            alike.setdefault(chosen(char, plain), []).append(char)
    return alike


def escaped(char: str) -> str:
    """The code point as a Python escape: the file itself must stay readable and plain ASCII."""
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def source() -> str:
    """The whole text of the generated module."""
    version = importlib.metadata.version("confusable_homoglyphs")
    lines = [
        _HEADER.format(source=f"confusable_homoglyphs {version} (Unicode 15.1 confusables.txt)")
    ]
    for plain, chars in sorted(table().items()):
        line = f'    "{plain}": "{"".join(map(escaped, chars))}",\n'
        if len(line) <= _LINE_LEN_MAX:
            lines.append(line)
            continue
        rows = [chars[at : at + _ROW_LEN] for at in range(0, len(chars), _ROW_LEN)]
        lines.append(f'    "{plain}": (\n')
        lines.extend(f'        "{"".join(map(escaped, row))}"\n' for row in rows)
        lines.append("    ),\n")
    return "".join([*lines, _FOOTER])


if __name__ == "__main__":
    print(source(), end="")  # noqa: T201 - its output is the module
