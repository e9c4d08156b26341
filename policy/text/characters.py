"""The characters that no stored text may have, and those that move the text beside them.

The table of assigned code points is our own (`policy.text.unicode_table`), so that every Python
gives the same answers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from policy.text.unicode_table import BOUNDS

# C0 and C1 without white space (tab, line ends, form feed, NEL), and DEL; surrogates; and tags, an
# invisible copy of ASCII: a person does not see it, and a model reads it.
_FORBIDDEN: Final = re.compile(
    "([\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f])|([\ud800-\udfff])|([\U000e0000-\U000e007f])"
)
_KINDS: Final = ("", "a control character", "half of a character", "an invisible tag")
FLAGS: Final = re.compile(
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)"
    "\U000e007f"
)
"""The three flags that Unicode recommends as tag sequences: England, Scotland and Wales."""
BREAKS: Final = re.compile("[\n\r\v\f\x85\u2028\u2029]")
"""What ends a line: a pair of bidi controls has to end where it began."""

_CONTROLS: Final = "\u202a-\u202e\u2066-\u2069"
_BIDI: Final = re.compile(f"[{_CONTROLS}]")
# What one scope of bidi controls contains: a part of a line, without a further scope.
_INNER: Final = f"([^{_CONTROLS}{BREAKS.pattern[1:-1]}]*)"
_OVERRIDE: Final = re.compile(f"[\u202d\u202e]{_INNER}\u202c")
_SCOPE: Final = re.compile(f"([\u202a\u202b]){_INNER}\u202c|([\u2066-\u2068]){_INNER}\u2069")
# Where the runs of a scope that is written from the right begin and end.
_APART: Final = re.compile("([ \u061c\u200b\u200f]+)")
_NESTED_MAX: Final = 4


def odd_character(text: str) -> str:
    """The first character that no stored text may have, and its place; "" for a text without one.

    Refused: controls other than white space, halves of surrogate pairs, tag characters outside the
    three flags, what Unicode does not assign, and bidi controls that are not in pairs on one line.
    """
    # Each flag is replaced by as many letters, so that positions stay.
    bare = text if text.isascii() else FLAGS.sub("flag...", text)
    found = _FORBIDDEN.search(bare)
    if found is not None:
        at, kind = found.start(), _KINDS[found.lastindex or 0]
    else:
        at = min((bare.index(char) for char in set(bare) if not is_assigned(char)), default=-1)
        kind = "not a character of Unicode 17"
    if at < 0:
        left = _BIDI.search(displays(bare)[1])
        at, kind = left.start() if left else -1, "a bidi control without its pair"
    return "" if at < 0 else f"U+{ord(text[at]):04X} ({kind}) at offset {at}"


def is_assigned(char: str) -> bool:
    """Whether Unicode 17 has this character, or keeps its place for an emoji."""
    return bisect_right(BOUNDS, ord(char)) % 2 == 0


def displays(text: str) -> tuple[str, str]:
    """The text as bidi controls have it displayed: the overrides alone, and all scopes.

    An approximation of the Unicode bidirectional algorithm (UAX 9). Positions stay; the second text
    has only controls that are not in pairs, or that are in an override or too deep.
    """
    if _BIDI.search(text) is None:
        return text, text
    overridden = shown = _OVERRIDE.sub(lambda found: f"\u200b{found[1][::-1]}\u200b", text)
    for _ in range(_NESTED_MAX):
        shown = _SCOPE.sub(_laid_out, shown)
    return overridden, shown


def _laid_out(found: re.Match[str]) -> str:
    runs = _APART.split(found[2] or found[4] or "")
    # Only what is marked as written from the left stays in its order.
    ordered = runs if found[0][0] in "\u202a\u2066" else reversed(runs)
    return f"\u200b{''.join(ordered)}\u200b"
