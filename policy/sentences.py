"""The whole sentences of a text, for two purposes that err on opposite sides.

`sentences_of` finds a text again and may lower a label: it cuts freely and sees skeletons.
`stated_in` and `spoken_in` are for endorsement, which raises one (design 5.4): only what a person
said as a sentence of its own counts, so where a cut is in doubt there is none. What is quoted, in
brackets, in code or in a list under "these are false:" is no sentence of its own; an accent, an
inequality sign or an invisible letter more makes it another sentence. Case, spaces, kinds of
quotation marks and the final full stop do not.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b
from typing import Final

from policy.sentence_words import (
    ABBREVIATIONS,
    FOLLOWING,
    HANGING,
    LEAD_INS,
    LEAD_OUTS,
    NEGATING,
    NO_STATEMENT,
    REQUEST,
    RETRACTION,
)
from policy.skeleton import skeleton, unpiled

SENTENCES_MAX: Final = 4_096
"""More of one text is not looked at, and so endorses nothing and is endorsed by nobody."""
_LEAD_INS_MAX: Final = 3
_WORD_LEN_MAX: Final = 32
_TAGS_MAX: Final = 64

_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_ALIKE: Final = {
    "'": "\u2018\u2019\u201a\u2032",
    '"': "\u201c\u201d\u201e\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "\n": "\u2028\u2029\x0b\x0c\x1c\x1d\x1e\x85\r",
    ".": "\u3002\uff0e\uff61\u06d4\u0964\u0965\u0589\u1362\u17d4\u104b\u0f0d",
    "...": "\u2026",
    "!": "\uff01",
    "?": "\uff1f\u061f\u037e",
    ":": "\uff1a",
    ",": "\uff0c\u3001\u060c",
    ";": "\uff1b\u061b",
    "(": "\uff08",
    ")": "\uff09",
    " ": "\x00",
}
_MARKS: Final = {ord(mark): plain for plain, marks in _ALIKE.items() for mark in marks}
_SPACE: Final = re.compile(r"[^\S\n]+")
_TERMINAL: Final = re.compile(rf"[.!?]+(?=[\s\x00]|$)|(?<=[{_UNSPACED}])[.!?]+(?=[{_UNSPACED}])")
_LAST_WORD: Final = re.compile(r"[^\s(\"']+$")
_INITIALS: Final = re.compile(r"[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+")
_WORD: Final = re.compile(r"\w")

# Whoever quotes, asides or shows code says nothing with it that could stand alone.
_PAIRS: Final = {"(": ")", "[": "]", "{": "}", "\u00ab": "\u00bb", "\u2039": "\u203a"}
_PAIRS.update({"\u300c": "\u300d", "\u300e": "\u300f", "\u300a": "\u300b", '"': '"', "`": "`"})
_OPENING: Final = re.compile(
    r"```|~~~|<([a-z][\w.:-]*)(?:\s[^<>\n]*)?>|"
    r"(?:^|(?<=\n)) ?(?:>|\|)[^\n]*(?:\n ?(?:>|\|)[^\n]*)*|"
    r"(?<![:;=8x'\-])[(\[{](?![:;=])|[\u00ab\u2039\u300c\u300e\u300a`]|(?<!\d)\"|(?<!\w)'(?=\w)"
)
_CLOSING_QUOTE: Final = re.compile(r"(?<=\S)'(?!\w)")
_HELD: Final = re.compile("\x00([0-9]+)\x00")

_ITEM: Final = re.compile(
    r" ?(?:[-*\u2022\u00b7\u2023+]|\(?[0-9]{1,3}[.)]|\(?[a-z][.)])[ \n](?=\S)"
)
_HEADING: Final = re.compile(r" ?#{1,6} ")
_EMPHASIS: Final = "*_ "
_COLON: Final = re.compile(r":(?=\s)")
_GOES_ON: Final = (",", ";", "-", "(", "/", "&")


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences and lines of a text, as skeletons: to find it again, which may lower a label.

    Never to endorse by: see `spoken_in`.
    """
    found: list[str] = []
    for line in skeleton(text).split("\n"):
        item = _ITEM.match(line)
        for part in _parts(line[item.end() :] if item else line):
            sentence = _normal(part.strip("\"'`*_> "))
            if sentence and _WORD.search(sentence):
                found.append(sentence)
    return tuple(found)


def fingerprint(sentence: str, key: bytes) -> int:
    """A sentence without its words: 64 bits that nobody can search without the key."""
    data = sentence.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=key).digest(), "big")


def stated_in(text: str) -> tuple[str, ...] | None:
    """The sentences that a text states; all must be said by a person to endorse it.

    None where there are too many to look at.
    """
    found = _Reader(exact(text)).sentences()
    return None if len(found) > SENTENCES_MAX else tuple(found)


def spoken_in(text: str) -> tuple[str, ...]:
    """The sentences that the words of a person endorse, with and without what leads into them.

    Nothing of what she takes back in the same breath, and nothing out of a text that is too long.
    """
    found = _Reader(exact(text)).sentences()
    if len(found) > SENTENCES_MAX:
        return ()
    spoken: list[str] = []
    for sentence in found:
        if RETRACTION.match(sentence):
            spoken.clear()
        spoken += _versions(sentence)
    return tuple(dict.fromkeys(spoken))


def _versions(sentence: str) -> list[str]:
    versions = [sentence]
    for _ in range(_LEAD_INS_MAX):
        end = _led_in(sentence)
        if not end:
            break
        asked = REQUEST.match(sentence) is not None
        sentence = sentence[end:]
        if NO_STATEMENT.match(sentence):
            break
        versions.append(sentence.removesuffix("?") if asked else sentence)
    for version in tuple(versions):
        trailing = LEAD_OUTS.search(version)
        if trailing is not None:
            versions.append(version[: trailing.start()])
    return versions


def _led_in(sentence: str) -> int:
    """Where the statement begins behind a lead-in; 0 without one."""
    return max((found.end() for one in LEAD_INS if (found := one.match(sentence))), default=0)


def _is_lead_in(text: str) -> bool:
    """Whether what stands before a list or a colon does nothing but lead into it."""
    for _ in range(_LEAD_INS_MAX):
        end = _led_in(f"{text} x")
        if not end or end >= len(text):
            return bool(end)
        text = text[end:]
    return False


def exact(text: str) -> str:
    """A text with nothing folded away that could change what it says, an accent or a sign."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", unpiled(text))
        text = unicodedata.normalize("NFC", text.casefold())
    return _SPACE.sub(" ", text.translate(_MARKS).lower())


def _normal(sentence: str) -> str:
    """Without what ends it; a question stays one."""
    sentence = " ".join(sentence.split())
    bare = sentence.rstrip(".!? ")
    return bare + "?" if "?" in sentence[len(bare) :] else bare


def _parts(text: str) -> list[str]:
    """A paragraph, cut where a sentence surely ends."""
    parts: list[str] = []
    start = 0
    text = text.rstrip()
    for mark in _TERMINAL.finditer(text):
        if not _is_end(text, start, mark):
            continue
        parts.append(text[start : mark.end()])
        start = mark.end()
    rest = text[start:]
    if rest.strip():
        parts.append(rest)
    return parts


def _is_end(text: str, start: int, mark: re.Match[str]) -> bool:
    if mark[0].startswith("..") or mark.end() == len(text):
        return False  # trailing off, or the end anyway
    if mark[0] != ".":
        return True
    word = _LAST_WORD.search(text[max(start, mark.start() - _WORD_LEN_MAX) : mark.start()])
    if word is None:
        return False
    last = word[0]
    number = last.isdecimal() and len(last) <= 2  # noqa: PLR2004 - "the 3. of May", "1. tea"
    return not (number or len(last) == 1 or last in ABBREVIATIONS or _INITIALS.fullmatch(last))


class _Reader:
    """Reads one folded text, line by line, and keeps what governs what."""

    def __init__(self, text: str) -> None:
        self._held: list[str] = []
        self._tags = 0
        self._quotes = True  # a single one may still be closed
        self._lines = self._hold(text).split("\n")
        self._found: list[str] = []
        self._open = ""  # the paragraph or item that is being read
        self._in_list = False
        self._heading = ""
        self._governing: list[str] = []  # what stands over the block that is read
        self._unused = False  # whether any of both stands over nothing as yet

    def sentences(self) -> list[str]:
        empty = False
        for line in self._lines:
            if not line.strip():
                empty = True
                continue
            self._line(line, after_empty=empty)
            empty = False
        self._close()
        if self._unused:
            # It leads to nothing, and is there all the same; as a statement nobody made it.
            over = " ".join([self._heading, *self._governing]).strip()
            self._found.append(f"{over.rstrip(':')}:")
        return [sentence for sentence in self._found if _WORD.search(sentence)]

    def _line(self, line: str, *, after_empty: bool) -> None:
        if heading := _HEADING.match(line):
            self._end_block()
            over = f"{self._heading} " if self._unused else ""
            self._heading = f"{over}{self._restored(line[heading.end() :])}".strip()
            self._unused = True
        elif _HELD.fullmatch(line.strip()):
            # Lines of code, or of somebody else's words: with what leads to them, and no further.
            self._open = f"{self._open} {line}" if self._open else line
            self._end_block()
        elif item := _ITEM.match(line):
            self._close(leads=not self._in_list)
            self._in_list = True
            self._open = line[item.end() :]
        elif after_empty and not self._hangs():
            self._end_block()
            self._open = line
        else:
            self._open = f"{self._open} {line}" if self._open else line

    def _hangs(self) -> bool:
        text = self._open.rstrip(_EMPHASIS)
        if not text or text.endswith(_GOES_ON):
            return bool(text)
        words = text.rsplit(None, 1)
        return bool(words) and words[-1] in HANGING

    def _end_block(self) -> None:
        """A paragraph or a list is over, and with it what stood over it, unless that negates."""
        led = self._close(leads=False)
        self._in_list = False
        if not led and not self._unused:
            self._governing = [one for one in self._governing if NEGATING.search(one)]

    def _close(self, *, leads: bool = False) -> bool:
        """Take what is open as sentences; True where its end stands over what comes next."""
        parts = _parts(self._open)
        self._open = ""
        local: list[str] = []  # what stands over the rest of this paragraph
        led = False
        for at, part in enumerate(parts):
            said = _normal(self._restored(part).strip())
            bare = said.rstrip(_EMPHASIS)
            last = at == len(parts) - 1
            if bare.endswith(":") or (last and leads and not part.rstrip().endswith((".", "!"))):
                led = True
                if not _is_lead_in(bare):
                    self._governing.append(bare)
                    self._unused = True
                continue
            self._found.append(" ".join([self._heading, *self._governing, *local, said]).strip())
            self._unused = False
            for colon in _COLON.finditer(part):
                leading = self._restored(part[: colon.end()]).strip()
                if not _is_lead_in(leading):
                    local.append(leading)
                    break
            if FOLLOWING.search(said) and NEGATING.search(said):
                self._governing.append(said)
        return led

    # ---- what is quoted ------------------------------------------------------------------------

    def _hold(self, text: str) -> str:
        """The text with each quotation, bracket and piece of code behind a number."""
        kept: list[str] = []
        at = 0
        while (opening := _OPENING.search(text, at)) is not None:
            end = self._end_of(text, opening)
            if end is None:
                kept.append(text[at : opening.end()])
                at = opening.end()
                continue
            kept.append(f"{text[at : opening.start()]}\x00{len(self._held)}\x00")
            self._held.append(text[opening.start() : end])
            at = end
        kept.append(text[at:])
        return "".join(kept)

    def _end_of(self, text: str, opening: re.Match[str]) -> int | None:
        """Where it closes; None where it opened nothing."""
        mark, tag = opening[0], opening[1]
        if tag is not None:
            self._tags += 1
            if self._tags > _TAGS_MAX:
                return len(text)
            closing = text.find(f"</{tag}>", opening.end())
            return None if closing < 0 else closing + len(tag) + 3
        if mark.lstrip(" ")[:1] in {">", "|"}:
            return opening.end()
        if mark == "'":
            # Without an end it is an apostrophe: 'tis.
            closed = _CLOSING_QUOTE.search(text, opening.end()) if self._quotes else None
            self._quotes = closed is not None
            return None if closed is None else closed.end()
        return _closing(text, opening.end(), mark)

    def _restored(self, text: str) -> str:
        return _HELD.sub(lambda number: self._held[int(number[1])], text)


def _closing(text: str, at: int, mark: str) -> int:
    """Behind the mark that closes this one; the end of the text where none does."""
    close = _PAIRS.get(mark, mark)
    if mark == close:
        found = text.find(close, at)
        return len(text) if found < 0 else found + len(close)
    depth = 1
    for place in re.compile(f"[{re.escape(mark + close)}]").finditer(text, at):
        depth += 1 if place[0] == mark else -1
        if not depth:
            return place.end()
    return len(text)
