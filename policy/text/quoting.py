"""What of a text is quoted, in brackets, struck out or in code: it is no sentence of its own.

Whoever quotes says nothing with it that could stand alone. Each such piece goes behind a number, so
that no sentence is cut inside it, and comes back with the sentence that it stands in.
"""

from __future__ import annotations

import re
from typing import Final

_TAGS_MAX: Final = 64
_PAIRS: Final = {"(": ")", "[": "]", "{": "}", "\u00ab": "\u00bb", "\u2039": "\u203a"}
_PAIRS.update({"\u300c": "\u300d", "\u300e": "\u300f", "\u300a": "\u300b", '"': '"', "`": "`"})
_PAIRS.update({"\u3008": "\u3009", "\u3010": "\u3011", "\u3014": "\u3015", "\uff3b": "\uff3d"})
_PAIRS.update({"\ufe41": "\ufe42", "\ufe43": "\ufe44", "\uff5b": "\uff5d", "\uff62": "\uff63"})
_PAIRS.update({"\u275d": "\u275e", "\u275b": "\u275c", "\u301d": "\u301e", "<!--": "-->"})
_OPENING: Final = re.compile(
    r"```|~~~|~~|<!--|<([a-z][\w.:-]*)(?:\s[^<>\n]*)?>|\[([a-z]{1,16})(?:=[^\]\n]*)?\]|"
    r"(?:^|(?<=\n)) ?(?:>|\|)[^\n]*(?:\n ?(?:>|\|)[^\n]*)*|"
    r"(?<![:;=8x'\-])[(\[{](?![:;=])|``|"
    "[\u00ab\u2039\u300c\u300e\u300a\u3008\u3010\u3014\uff3b\ufe41\ufe43\uff5b\uff62\u275d\u275b"
    r"\u301d`\u00bb\u203a]|(?<!\d)\"|(?<!\w)'(?=\w)"
)
# What opens nothing where nothing closes it: 'tis; ~5 euros; Home \u00bb Blog.
_CLOSING: Final = {
    "'": re.compile(r"(?<=\S)'(?!\w)"),
    "~~": re.compile("~~"),
    "``": re.compile("``|''"),
    # Some write \u00bbso\u00ab, and some \u00bbso\u00bb.
    "\u00bb": re.compile("[\u00ab\u00bb]"),
    "\u203a": re.compile("[\u2039\u203a]"),
}
HELD: Final = re.compile("\x00([0-9]+)\x00")
"""Where a piece was taken out."""


class Held:
    """The quoted pieces of one folded text, which has no NUL of its own."""

    def __init__(self, text: str) -> None:
        self._pieces: list[str] = []
        self._tags = 0
        self._quotes = True  # a single one may still be closed
        self._brackets_close = "[/" in text
        self.text = self._without(text)

    def restored(self, text: str) -> str:
        """A part of `text` with its pieces in it again."""
        return HELD.sub(lambda number: self._pieces[int(number[1])], text)

    def _without(self, text: str) -> str:
        kept: list[str] = []
        at = 0
        while (opening := _OPENING.search(text, at)) is not None:
            end = self._end_of(text, opening)
            if end is None:
                kept.append(text[at : opening.end()])
                at = opening.end()
                continue
            kept.append(f"{text[at : opening.start()]}\x00{len(self._pieces)}\x00")
            self._pieces.append(text[opening.start() : end])
            at = end
        kept.append(text[at:])
        return "".join(kept)

    def _end_of(self, text: str, opening: re.Match[str]) -> int | None:
        """Where it closes; None where it opened nothing."""
        mark, at = opening[0], opening.end()
        if opening[1] is not None or opening[2] is not None:
            return self._end_of_tag(text, opening)
        if mark.lstrip(" ")[:1] in {">", "|"}:
            return at
        if mark == "'" and not self._quotes:
            return None
        if mark not in _CLOSING:
            return _closing(text, at, mark)
        closed = _CLOSING[mark].search(text, at)
        if mark == "'":
            self._quotes = closed is not None
        return None if closed is None else closed.end()

    def _end_of_tag(self, text: str, opening: re.Match[str]) -> int | None:
        """Behind the tag that closes this one, those of the same name in it aside."""
        if not opening[1] and not self._brackets_close:
            return opening.end()
        self._tags += 1
        if self._tags > _TAGS_MAX:
            return len(text)
        begin, end, name = ("<", ">", opening[1]) if opening[1] else ("[", "]", opening[2])
        closing = f"{begin}/{name}{end}"
        if text.find(closing, opening.end()) < 0:
            # "[x]" and the like are brackets; a tag that nobody closes opens nothing.
            return None if opening[1] else opening.end()
        either = re.compile(rf"{re.escape(closing)}|{re.escape(begin + name)}(?=[\s=>\]])")
        depth, last = 1, len(text)
        for place in either.finditer(text, opening.end()):
            closes = place[0] == closing
            depth += -1 if closes else 1
            last = place.end() if closes else last
            if not depth:
                break
        return last


def _closing(text: str, at: int, mark: str) -> int:
    """Behind the mark that closes this one; the end of the text where none does."""
    close = _PAIRS.get(mark, mark)
    if mark == close or len(close) > 1:
        found = text.find(close, at)
        return len(text) if found < 0 else found + len(close)
    depth = 1
    for place in re.compile(f"[{re.escape(mark + close)}]").finditer(text, at):
        depth += 1 if place[0] == mark else -1
        if not depth:
            return place.end()
    return len(text)
