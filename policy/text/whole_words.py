"""Finds an operator's entries in skeletons as whole words, in linear time.

An entry is a literal, or `re:` and a pattern of a strict subset that is compiled to the standard
library's `re`. An agent writes the searched text, and `re` backtracks. So the number of steps that
a pattern may take at one place of a text is counted when the entry is read (`_STEPS_MAX`), and the
time of a search grows only with the text's length
(docs/decisions/041-patterns-with-counted-steps.md). `re` holds the interpreter's lock while it
searches, so a text is searched piece by piece, and other threads run between two pieces.
"""

from __future__ import annotations

import re
from typing import Final

from policy.text.skeleton import skeleton

ENTRY_LEN_MAX: Final = 256
"""How many characters one entry may have, `re:` included."""

PATTERN_PREFIX: Final = "re:"

REPEATS_MAX: Final = 64
"""How often `*`, `+` and `{2,}` repeat at most: no repeat is unbounded."""

# How often a pattern may test one character, at one place of a text, in the worst case. `.*` with
# twenty letters after it needs 1,364 tests; two `.*` in one alternative need 4,224.
_STEPS_MAX: Final = 4_096

# A test inside a group with a choice or a repeat takes `re` six times as long as a test elsewhere:
# about 22 ns instead of 4 ns.
_GROUP_STEP: Final = 6

# How many characters are searched at once. At the most steps that a pattern may have, one piece
# takes less than twenty milliseconds.
_PIECE_LEN: Final = 1_024

# The number of characters after a match that have to be known, to see whether a number continues: a
# point or comma, and a digit after it.
_BEHIND_LEN: Final = 2

_REPEAT: Final = re.compile(r"[*+?]|\{([0-9]{1,3})(?:(,)([0-9]{0,3}))?\}")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPE: Final = re.compile(r"\\(?:[dDwWsSbB]|[^\w\s])")
_ZERO_WIDTH: Final = frozenset({"\\b", "\\B"})

# A match begins and ends where a word does, except at an edge of the entry that is no letter. A
# number is one word with the points and commas in it: an entry 30 does not match in 30.5.
_BEGINS: Final = r"(?:(?<!\w)|(?=\W))(?!(?<=\d[.,:])\d)"
_ENDS: Final = r"(?:(?!\w)|(?<=\W))(?!(?<=\d)[.,:]\d)"
_WORD: Final = re.compile(r"\w+")


class EntryError(ValueError):
    """The error for an entry that cannot be used: what is wrong, and at which character, from 1."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(f"{problem}, at character {at + 1}")
        self.at = at


class WholeWords:
    """Finds one entry in skeletons. Immutable; may be used from any thread."""

    __slots__ = ("_len_max", "_pattern")

    def __init__(self, pattern: re.Pattern[str], len_max: int) -> None:
        """No match is longer than `len_max` characters."""
        self._pattern = pattern
        self._len_max = len_max

    def search(self, text_skeleton: str) -> re.Match[str] | None:
        """The first match in the skeleton, piece by piece: other threads run in between."""
        piece = max(_PIECE_LEN, self._len_max)
        for begun in range(0, len(text_skeleton), piece):
            # The search reaches so far beyond the piece that each match which begins in the piece
            # is seen whole. A match that begins later may be cut off; the next piece has it.
            seen = begun + piece + self._len_max + _BEHIND_LEN
            found = self._pattern.search(text_skeleton, begun, seen)
            if found is not None and (found.start() < begun + piece or seen >= len(text_skeleton)):
                return found
        return None

    def replaced(self, by: str, text_skeleton: str) -> str:
        """The given short skeleton, in which each match is replaced by `by`."""
        return self._pattern.sub(lambda _found: by, text_skeleton)


def compiled(entry: str) -> WholeWords:
    """The search for an entry in skeletons, which takes time linear in a skeleton's length.

    Raises:
        EntryError: The entry is empty, is too long, or could take more than linear time.
    """
    if len(entry) > ENTRY_LEN_MAX:
        raise EntryError(f"more than {ENTRY_LEN_MAX} characters", ENTRY_LEN_MAX)
    if entry.startswith(PATTERN_PREFIX):
        body, len_max = _Reader(entry).read()
    else:
        words = skeleton(entry).split()
        if not words:
            raise EntryError("nothing that is compared", 0)
        body, len_max = r"\s".join(map(re.escape, words)), len(" ".join(words))
    return WholeWords(re.compile(f"{_BEGINS}(?:{body}){_ENDS}"), len_max)


def key_word(entry: str) -> str:
    """The longest word of a literal entry, which a matching text must have; "" for a pattern."""
    if entry.startswith(PATTERN_PREFIX):
        return ""
    return max(_WORD.findall(skeleton(entry)), key=len, default="")


def words_of(text_skeleton: str) -> frozenset[str]:
    """The words of a skeleton, to look up `key_word` in."""
    return frozenset(_WORD.findall(text_skeleton))


class _Cost:
    """The number of steps that one part of a pattern may take at one place of a text."""

    __slots__ = ("empty", "len_max", "repeats", "steps", "ways")

    def __init__(
        self, steps: int, ways: int, len_max: int, *, empty: bool, repeats: bool = False
    ) -> None:
        self.steps = steps  # how many characters the part tests, over all ways to match it
        self.len_max = len_max  # how many characters the part matches at most
        self.ways = ways  # in how many ways the part can match
        self.empty = empty  # whether the part can match the empty text
        self.repeats = repeats


class _Reader:
    """Reads one pattern once, from left to right; every refusal names its position."""

    def __init__(self, entry: str) -> None:
        self._text = entry
        self._at = len(PATTERN_PREFIX)
        self._depth = 0

    def read(self) -> tuple[str, int]:
        """The whole pattern, translated for Python's `re`, and the length of its longest match.

        Letters are written as skeletons have them.
        """
        source, cost = self._alternatives()
        if self._at < len(self._text):
            raise EntryError("a closing bracket without its opening one", self._at)
        if cost.empty:
            raise EntryError("the pattern can be found in a text of no words", self._at - 1)
        return source, cost.len_max

    def _alternatives(self) -> tuple[str, _Cost]:
        begun = self._at
        sources: list[str] = []
        steps, ways, len_max, empty, repeats = 0, 0, 0, False, False
        while True:
            source, cost = self._sequence()
            sources.append(source)
            steps, ways = steps + cost.steps, ways + cost.ways
            len_max = max(len_max, cost.len_max)
            empty, repeats = empty or cost.empty, repeats or cost.repeats
            if self._peek() != "|":
                break
            self._at += 1
        self._bounded(steps, begun)
        return "|".join(sources), _Cost(steps, ways, len_max, empty=empty, repeats=repeats)

    def _sequence(self) -> tuple[str, _Cost]:
        sources: list[str] = []
        whole = _Cost(0, 1, 0, empty=True)
        while (found := self._peek()) and found not in "|)":
            begun = self._at
            source, part = self._repeated()
            sources.append(source)
            # The steps of a part are multiplied by the number of ways in which the parts before it
            # can match.
            whole.steps += whole.ways * part.steps
            whole.ways *= part.ways
            whole.len_max += part.len_max
            whole.empty = whole.empty and part.empty
            whole.repeats = whole.repeats or part.repeats
            self._bounded(max(whole.steps, whole.ways), begun)
        return "".join(sources), whole

    def _repeated(self) -> tuple[str, _Cost]:
        source, part = self._atom()
        repeat = _REPEAT.match(self._text, self._at)
        if repeat is None:
            return source, part
        if part.repeats:
            raise EntryError("a repeat inside a repeat", self._at)
        if source in _ZERO_WIDTH:
            raise EntryError("a repeat of what is no character", self._at)
        least, most = self._bounds(repeat)
        self._at = repeat.end()
        if _REPEAT.match(self._text, self._at):
            raise EntryError("a repeat of a repeat", self._at)
        ways = [part.ways**count for count in range(most + 1)]
        self._bounded(sum(ways[least:]), repeat.start())
        steps = part.steps * sum(ways[:most])
        return f"{source}{{{least},{most}}}", _Cost(
            steps,
            sum(ways[least:]),
            part.len_max * most,
            empty=least == 0 or part.empty,
            repeats=True,
        )

    def _bounds(self, repeat: re.Match[str]) -> tuple[int, int]:
        if repeat[0] in {"*", "+", "?"}:
            return (1 if repeat[0] == "+" else 0), (1 if repeat[0] == "?" else REPEATS_MAX)
        least = int(repeat[1])
        most = least if repeat[2] is None else int(repeat[3] or REPEATS_MAX)
        if not least <= most <= REPEATS_MAX or most == 0:
            raise EntryError(f"a repeat goes up to {REPEATS_MAX}", repeat.start())
        return least, most

    def _atom(self) -> tuple[str, _Cost]:
        char = self._text[self._at]
        if char == "(":
            return self._group()
        if _REPEAT.match(self._text, self._at):
            raise EntryError("a repeat of nothing", self._at)
        if char in "^$":
            raise EntryError("^ and $ are not taken: an entry is found as whole words", self._at)
        begun = self._at
        if char in "[\\":
            found = (_CLASS if char == "[" else _ESCAPE).match(self._text, begun)
            if found is None:
                raise EntryError(
                    "a class without its end"
                    if char == "["
                    else "back references and the like are not taken",
                    begun,
                )
            self._at = found.end()
            source = self._class(found[0], begun) if char == "[" else found[0]
            return source, _Cost(1, 1, 1, empty=source in _ZERO_WIDTH)
        if char in "{}]":
            raise EntryError(f"{char} needs \\ before it", begun)
        self._at += 1
        folded = skeleton(char) if not char.isspace() else ""
        if not folded and not char.isspace():
            raise EntryError("a character that is not compared", begun)
        if char == ".":
            return ".", _Cost(1, 1, 1, empty=False)
        source = re.escape(folded) if folded else r"\s"
        if len(folded) > 1:
            source = f"(?:{source})"
        return source, _Cost(max(1, len(folded)), 1, max(1, len(folded)), empty=False)

    def _class(self, given: str, at: int) -> str:
        if not given.isascii():
            raise EntryError("only plain letters between brackets", at)
        lowered = re.sub(r"(?<!\\)[A-Z]", lambda one: one[0].lower(), given)
        # Python warns that later versions may read these characters as an operation on sets, so
        # they are refused.
        if "[" in lowered[1:] or any(twice in lowered for twice in ("--", "&&", "~~", "||")):
            raise EntryError("a set in a set is not taken", at)
        try:
            re.compile(lowered)
        except re.error:
            raise EntryError("a class that cannot be read", at) from None
        return lowered

    def _group(self) -> tuple[str, _Cost]:
        begun = self._at
        self._at += 1
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._peek() == "?":
            raise EntryError("lookaround, names and flags are not taken", begun)
        if self._depth:
            raise EntryError("a group inside a group", begun)
        self._depth += 1
        source, cost = self._alternatives()
        if self._peek() != ")":
            raise EntryError("a group without its end", begun)
        self._depth -= 1
        self._at += 1
        cost.steps *= _GROUP_STEP
        return f"(?:{source})", cost

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _bounded(self, steps: int, at: int) -> None:
        if steps > _STEPS_MAX:
            raise EntryError(
                "this could take too long on a hostile text: one open repeat in each "
                "alternative, others with a small bound such as {0,3}",
                min(at, len(self._text) - 1),
            )
