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
from typing import Final, NamedTuple

from policy.text.quoting import HELD, Held
from policy.text.sentence_words import (
    ABBREVIATIONS,
    FALSE_TITLE,
    FOLLOWING,
    FRAME,
    HANGING,
    LEAD_INS,
    LEAD_OUTS,
    NEGATING,
    NO_STATEMENT,
    POINTING,
    REQUEST,
    RETRACTION,
    SAYING,
)
from policy.text.skeleton import skeleton, unpiled

SENTENCES_MAX: Final = 4_096
"""More of one text is not looked at, and so endorses nothing and is endorsed by nobody."""
_GOVERNING_MAX: Final = 64
_LEAD_INS_MAX: Final = 3
_WORD_LEN_MAX: Final = 32

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
# Marks alone say nothing; a symbol, a thumb down say something.
_SILENT: Final = re.compile(r"[\s!-/:-@\[-`{-~]*")

_ITEM: Final = re.compile(
    r" ?(?:[-*\u2022\u00b7\u2023+]|\(?([0-9]{1,3})[.)]|\(?([a-z])[.)])[ \n](?=\S)"
)
_HEADING: Final = re.compile(r" ?#{1,6} ")
_UNDERLINE: Final = re.compile(r" ?(?:={2,}|-{3,}) ?")
_BOLD_LINE: Final = re.compile(r" ?(\*\*|__)(?=\S)(?:(?!\1).)+[^.!?\s](\1) ?")
_EMPHASIS: Final = "*_ "
_COLON: Final = re.compile(r":(?=\s|[^\W\d])")
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
    return None if found is None else tuple(one.whole for one in found)


class Utterance(NamedTuple):
    """One sentence of a person: what it endorses, and its own words without what governs them."""

    versions: tuple[str, ...]
    said: str


def utterances_in(text: str) -> tuple[Utterance, ...]:
    """The sentences that the words of a person endorse, with and without what leads into them.

    Nothing of what she takes back in the same breath, and nothing out of a text that is too long.
    """
    spoken: list[Utterance] = []
    for one in _Reader(exact(text)).sentences() or ():
        if RETRACTION.match(one.said):
            spoken.clear()
        spoken.append(Utterance(tuple(_versions(one.whole)), one.said))
    return tuple(spoken)


def spoken_in(text: str) -> tuple[str, ...]:
    """All that `utterances_in` endorses, sentence by sentence."""
    return tuple(dict.fromkeys(one for said in utterances_in(text) for one in said.versions))


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


class _Sentence(NamedTuple):
    whole: str  # with all that stands over it
    said: str


class _Reader:
    """Reads one folded text, line by line, and keeps what governs what."""

    def __init__(self, text: str) -> None:
        self._held = Held(text)
        self._lines = self._held.text.split("\n")
        self._found: list[_Sentence] = []
        self._open = ""  # the paragraph or item that is being read
        self._open_lines = 0
        self._in_list = False
        self._counted = 0  # the number of the last item that had one
        self._heading = ""
        self._governing: list[str] = []  # what stands over the block that is read
        self._unused = False  # whether any of both stands over nothing as yet

    def sentences(self) -> list[_Sentence] | None:
        """All of them; None where there are too many, or too much stands over them."""
        empty = False
        for line in self._lines:
            if not line.strip():
                empty = True
                continue
            self._line(line, after_empty=empty)
            empty = False
            if self._too_much():
                return None
        self._close()
        if self._unused:
            # It leads to nothing, and is there all the same; as a statement nobody made it.
            over = " ".join([self._heading, *self._governing]).strip()
            self._found.append(_Sentence(f"{over.rstrip(':')}:", over))
        found = [one for one in self._found if not _SILENT.fullmatch(one.whole)]
        return None if self._too_much() else found

    def _too_much(self) -> bool:
        return len(self._found) > SENTENCES_MAX or len(self._governing) > _GOVERNING_MAX

    def _line(self, line: str, *, after_empty: bool) -> None:
        title = self._title(line, after_empty=after_empty)
        if title is not None:
            self._head(title)
        elif HELD.fullmatch(line.strip()):
            # Lines of code, or of somebody else's words: with what leads to them, and no further.
            self._add(line)
            self._end_block()
        elif (item := _ITEM.match(line)) and self._counts(item):
            self._close(leads=not self._in_list)
            self._in_list = True
            self._add(line[item.end() :])
        elif after_empty and not self._hangs():
            self._end_block()
            self._add(line)
        else:
            self._add(line)

    def _add(self, line: str) -> None:
        self._open = f"{self._open} {line}" if self._open else line
        self._open_lines += 1

    def _title(self, line: str, *, after_empty: bool) -> str | None:
        """What a line makes a heading of: itself, or the one line above it."""
        if heading := _HEADING.match(line):
            return line[heading.end() :]
        if (after_empty or not self._open) and _BOLD_LINE.fullmatch(line):
            return line if NEGATING.search(line) else None
        if not self._open:
            return None
        alone = self._open_lines == 1 and not self._in_list
        if not alone or self._open.rstrip(_EMPHASIS).endswith((".", "!", "?")):
            return None
        if not after_empty and _UNDERLINE.fullmatch(line):
            title, self._open = self._open, ""
            return title
        return None

    def _head(self, title: str) -> None:
        self._end_block()
        over = f"{self._heading} " if self._unused else ""
        self._heading = f"{over}{self._held.restored(title)}".strip()
        self._unused = True

    def _counts(self, item: re.Match[str]) -> bool:
        """Whether a number at the start of a line only counts: else it is said, "on / 3. May"."""
        number = int(item[1]) if item[1] else ord(item[2]) - ord("a") + 1 if item[2] else None
        if number is None:
            return True
        if number > 1 and number != self._counted + 1:
            return False
        self._counted = number
        return True

    def _hangs(self) -> bool:
        text = self._open.rstrip(_EMPHASIS)
        if not text or text.endswith(_GOES_ON):
            return bool(text)
        words = text.rsplit(None, 1)
        return bool(words) and words[-1] in HANGING

    def _end_block(self) -> None:
        """A paragraph or a list is over, and with it what stood over it, unless that negates."""
        over = FALSE_TITLE.fullmatch(_normal(self._open).strip(_EMPHASIS)) is not None
        led = self._close(leads=over)
        self._in_list = False
        if not led and not self._unused:
            self._governing = [one for one in self._governing if _lasts(one)]

    def _close(self, *, leads: bool = False) -> bool:
        """Take what is open as sentences; True where its end stands over what comes next."""
        parts = _parts(self._open)
        self._open, self._open_lines = "", 0
        local: list[str] = []  # what stands over the rest of this paragraph
        over: list[str] = []  # what of it points at the list that comes next
        led = False
        for at, part in enumerate(parts):
            if self._too_much():
                break
            said = _normal(self._held.restored(part).strip())
            bare = said.rstrip(_EMPHASIS)
            last = at == len(parts) - 1
            if bare.endswith(":") or (last and leads and not part.rstrip().endswith((".", "!"))):
                led = True
                if not _is_lead_in(bare):
                    self._governing.append(bare)
                    self._unused = True
                continue
            whole = " ".join([self._heading, *self._governing, *local, said]).strip()
            self._found.append(_Sentence(whole, said))
            self._unused = False
            for colon in _COLON.finditer(part):
                leading = self._held.restored(part[: colon.end()]).strip()
                if not _is_lead_in(leading):
                    local.append(leading)
                    break
            if _governs(said):
                self._governing.append(said)
            elif leads and POINTING.search(said) and (said.endswith("?") or NEGATING.search(said)):
                over.append(said)
        self._governing += over
        return led or bool(over)


def _governs(said: str) -> bool:
    """Whether a sentence says that those after it are not to be taken at their word."""
    if FRAME.match(said):
        return True
    return FOLLOWING.search(said) is not None and (
        NEGATING.search(said) is not None or SAYING.search(said) is not None
    )


def _lasts(over: str) -> bool:
    """Whether what stands over one block stands over all that come after it."""
    return NEGATING.search(over) is not None or FRAME.match(over) is not None
