"""Whether a text is plain, gives orders to an agent, attacks it, or says where money goes.

The check works on the skeleton and ignores how an order is wrapped: an order in quotation marks, in
a report or in an example counts as the order, because a model that recalls it may follow it. This
check is never the only protection: the matrix also limits texts whose orders are not found here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from policy.text.addresses import is_at_stake
from policy.text.languages import LANGUAGES
from policy.text.phrases import CLAUSE, START, Group, Language, Lexicon
from policy.text.skeleton import skeleton

# A model reads "from=now=on", "from, now, on, always", "1. from 2. now" and "f/r/o/m" as the words
# that they spell. Such marks are recognised by regularity: they are the same between all words.
_LETTER: Final = r"[^\W\d_]"
_WORD: Final = rf"{_LETTER}++(?:'{_LETTER}++)?+"
_MARKS: Final = r"[\W\d_]{1,8}+"
_NUMBER: Final = re.compile(r"[0-9]+")
_TRAILING: Final = re.compile(r"_+(?![^\W_])")
# Four letters or more with the same marks between all of them; between two words the marks are
# doubled.
_LETTERS: Final = re.compile(
    r"(?<![^\W_])[^\W_]([\W_]{1,4}+)[^\W_](?:\1(?:\s?\1)?[^\W_](?![^\W_])){2,}+"
)
# Four words or more with the same separator: marks and numbers, or a word between marks.
_WORDS: Final = re.compile(
    rf"(?<![^\W\d_]){_WORD}({_MARKS}{_LETTER}{{1,16}}+{_MARKS}|(?! {_LETTER}){_MARKS})"
    rf"(?={_LETTER})(?:{_WORD}\1(?={_LETTER})){{2,}}+{_WORD}"
)
# A cheap search for what the two patterns above may match in ASCII: marks, a single word, marks, a
# single word, marks. A match begins only at the first of several marks, so that each is read once.
_REGULAR: Final = re.compile(r"(?<![^a-z])[ ']*+[^a-z '](?:[^a-z]*+[a-z]++ ?[^a-z ']){2}")
# Marks between two letters, and marks that end no clause.
_GLUE: Final = re.compile(
    rf"[^\w\s'()\[\]{{}}](?<={_LETTER}.)[^\w\s'()\[\]{{}}]*+(?={_LETTER})"
    r"|[^\w\s'\".,;:!?()\[\]{}-]"
)
_SPACES: Final = re.compile(" {2,}")


def set_together(shape: str) -> str:
    """The text with one space for each separator between its words; `shape` is its skeleton.

    Separators are marks without white space beside them, and marks that recur regularly. A sentence
    of ordinary prose stays as it is, with the marks that end its clauses.
    """
    if not shape.isascii() or _REGULAR.search(shape):
        shape = _NUMBER.sub("0", _TRAILING.sub("", shape))
        shape = _WORDS.sub(_spaced, _LETTERS.sub(_letters_joined, shape))
    return _SPACES.sub(" ", _GLUE.sub(" ", shape.replace("_", "-")))


def _letters_joined(found: re.Match[str]) -> str:
    mark = found[1]
    words = found[0].replace(f"{mark} {mark}", " ").replace(mark + mark, " ")
    return words.replace(mark, "")


def _spaced(found: re.Match[str]) -> str:
    return found[0].replace(found[1], " ")


_GROUPS: Final = tuple((spoken, group) for spoken in LANGUAGES for group in spoken.groups)
_JOINED: Final = tuple(joined for spoken in LANGUAGES for joined in spoken.joined)
_LEADING: Final = frozenset[str]().union(*(group.words for _, group in _GROUPS))
_GROUPS_OF: Final = {
    word: tuple(number for number, (_, group) in enumerate(_GROUPS) if word in group.words)
    for word in _LEADING
}

# Words end at every character that is no letter, digit, apostrophe, hyphen or underscore.
_TO_SPACES: Final = str.maketrans(
    dict.fromkeys('\n\t.,;:!?()[]{}<>|/\\*#"=+~`^%&$@\u2022\u00ab\u00bb\u2039\u203a', " ")
)
# A word between blanks, without marks around it: "_always" is emphasis, not a name.
_BARE_WORD: Final = re.compile(r"[^\s\-_'](?:\S*[^\s\-_'])?")
# A word as long as the shortest of `_JOINED`.
_LONG_WORD: Final = re.compile(r"(?<!\S)\S{12,}")
# Quotation marks, and marks that make words bold or code: such marks may be around an order, or
# inside it.
_MARKED: Final = re.compile("[\"'`*~\u00ab\u00bb\u2039\u203a\u300c\u300d\u300e\u300f]")
_MARK: Final = re.compile(
    r"[\"`*~\u00ab\u00bb\u2039\u203a\u300c\u300d\u300e\u300f]|(?<!\w)'|'(?!\w)"
)
# Marks at the beginning of a line in a quotation, a list or a table.
_LINE_START: Final = re.compile(r"(?:^|\n)(?:[>|#*+\-] ?){0,4}")
# Digits and signs that stand for letters, inside a word that has letters: "1gn0re".
_LEET: Final = (
    dict(zip(map(ord, "013457@$!"), "oieastasi", strict=True)),
    dict(zip(map(ord, "013457@$!"), "oleastasl", strict=True)),
)
_LEET_WORD: Final = re.compile(
    r"(?<![\w@$!])(?=[\w@$!]*[a-z])(?=[\w@$]*[013457@$!][a-z])[\w@$!]{3,}"
)
_LEET_SIGN: Final = re.compile(r"[013457@$!][a-z]")
# A long text is searched in parts, each up to the end of a sentence or line, and in each part only
# for the groups of phrases whose words the part has.
_PART_LEN: Final = 128
_PART: Final = re.compile(rf"[\s\S]{{{_PART_LEN},}}?(?:[.!?]\s|\n)|[\s\S]++")


def language_of(shape: str) -> Language:
    """The kinds of a text, `Language.PLAIN` for none; `shape` is its skeleton."""
    found = _spoken(shape)
    if is_at_stake(shape):
        found |= Language.AT_STAKE
    if _LEET_SIGN.search(shape):
        for letters in _LEET:
            found |= _spoken("\n".join(_unleeted(shape, letters)))
    return found


def _unleeted(shape: str, letters: dict[int, str]) -> Iterator[str]:
    """The parts of a text that have digits or signs for letters, with the letters put back."""
    plain = _LEET_WORD.sub(lambda word: word[0].translate(letters), shape)
    parts = _parts_of(plain)
    spelled = [at for at, (start, end) in enumerate(parts) if plain[start:end] != shape[start:end]]
    runs = _with_neighbours(len(parts), spelled)
    return (plain[parts[first][0] : parts[last][1]] for first, last in runs)


def _spoken(shape: str) -> Language:
    words = shape.translate(_TO_SPACES)
    readings = [shape]
    # A quotation or emphasis mark may be inside a sentence or begin one, so the text is read both
    # ways.
    if _MARKED.search(shape) and (bare := _MARK.sub("", shape)) != shape:
        readings += (bare, _MARK.sub("\n", shape))
    # "from-now-on" is three words, "never-ending" is one: so words with marks between them are read
    # both ways.
    if (together := set_together(shape)) != shape:
        words += " " + together.translate(_TO_SPACES)
        readings.append(together)
    found = _joined(words)
    # Most texts, and most names and values of metadata, lack the words that phrases need. Readings
    # without line ends have no other words than these.
    known = _Parts()
    said = known[" ".join(readings).translate(_TO_SPACES)]
    needed = [_GROUPS[number][1].also for number in said.groups]
    if all(also and also.isdisjoint(said.words) for also in needed):
        return found
    # A line end may also be inside a sentence, together with the mark that begins the next line of
    # a quotation, list or table.
    if "\n" in shape:
        lines = _LINE_START.sub("\n", shape)
        readings += (_LINE_START.sub(" ", shape).lstrip(), lines, *_two_by_two(lines))
    # Most sentences are the same in several readings, and are searched once.
    searched = defaultdict[int, set[tuple[str, int]]](set)
    for reading in dict.fromkeys(readings):
        for number, places in _asked(reading, known):
            lexicon, group = _GROUPS[number]
            if group.speaks not in found:
                # No pattern looks further back than at one character, which is part of a place.
                fresh = {(reading[max(0, start - 1) : end], min(1, start)) for start, end in places}
                fresh -= searched[number]
                searched[number] |= fresh
                if any(_speaks(place, at, lexicon, group) for place, at in fresh):
                    found |= group.speaks
    return found


def _two_by_two(lines: str) -> Iterator[str]:
    """Two copies of a text, each with every other line end a blank: an order may span two lines."""
    each = lines.split("\n")
    for first in (0, 1):
        pairs = [" ".join(each[at : at + 2]) for at in range(first, len(each), 2)]
        yield "\n".join((*each[:first], *pairs))


def _speaks(place: str, at: int, lexicon: Lexicon, group: Group) -> bool:
    """Whether one of the group's patterns matches in a place, from `at` on."""
    shapes = group.shapes
    if any(reach.found(place, at) for reach in shapes.reaching):
        return True
    patterns = shapes.by_place
    if "" in patterns and patterns[""].search(place, at):
        return True
    for where, opening in ((START, lexicon.starts), (CLAUSE, lexicon.clauses)):
        pattern = patterns.get(where)
        if pattern is not None:
            begins = opening.finditer(place, at)
            if any(pattern.match(place, begin.end()) for begin in begins):
                return True
    return False


class _Part(msgspec.Struct, frozen=True):
    """The words of a part of a text, and the numbers of the groups that need one of them."""

    words: frozenset[str]
    groups: frozenset[int]


class _Parts(dict[str, _Part]):
    """The parts of all readings of one text; each is split into words once."""

    def __missing__(self, text: str) -> _Part:
        words = frozenset(_BARE_WORD.findall(text))
        groups = map(_GROUPS_OF.__getitem__, _LEADING & words)
        part = self[text] = _Part(words, frozenset[int]().union(*groups))
        return part


def _asked(reading: str, known: _Parts) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The numbers of the groups whose needed words occur, each with the places to search."""
    spaced, length = reading.translate(_TO_SPACES), len(reading)
    places = _parts_of(reading) if length > _PART_LEN else [(0, length)]
    parts = [known[spaced[start:end]] for start, end in places]
    having = defaultdict[int, list[int]](list)
    for at, part in enumerate(parts):
        for number in part.groups:
            having[number].append(at)
    for number in sorted(having):
        also = _GROUPS[number][1].also
        yield (
            number,
            [
                (places[first][0], places[last][1])
                for first, last in _with_neighbours(len(parts), having[number])
                if not (also and all(also.isdisjoint(one.words) for one in parts[first : last + 1]))
            ],
        )


def _parts_of(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in _PART.finditer(text)]


def _with_neighbours(count: int, chosen: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of chosen parts and of their neighbours, out of `count`.

    A phrase may cross a part's end.
    """
    for _, run in groupby(enumerate(chosen), lambda one: one[1] - one[0]):
        near = [at for _, at in run]
        yield max(0, near[0] - 1), min(count - 1, near[-1] + 1)


def _joined(words: str) -> Language:
    """The kinds of the words that are phrases without blanks."""
    found = Language.PLAIN
    for word in _LONG_WORD.findall(words):
        bare = word.replace("_", "")
        for speaks, pattern in _JOINED:
            if pattern.search(bare):
                found |= speaks
    return found


_SPACED_WORD: Final = re.compile(r"\S+\s*")


def words_that_fired(text: str) -> str | None:
    """A short stretch of a flagged text that is flagged by itself; None for a plain text.

    The stretch is found with the same check that the gate uses: words are left out at the end and
    at the beginning, many and then few, for as long as the remaining words are flagged.
    """
    whole = language_of(skeleton(text))
    if whole is Language.PLAIN:
        return None
    words: Sequence[str] = _SPACED_WORD.findall(text)
    for from_end in (True, False):
        cut = len(words) // 2
        while cut:
            fewer = words[:-cut] if from_end else words[cut:]
            if fewer and language_of(skeleton("".join(fewer))) & whole:
                words = fewer
                cut = min(cut, len(words) - 1)
            else:
                cut //= 2
    return "".join(words).strip()
