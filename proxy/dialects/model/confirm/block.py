"""The question that asks a person to confirm a held memory, and the turns that answer it.

The question shows a code for each memory; the person answers with yes or no and the code. A code is
eight characters without vowels, so that no word is one. Only ASCII counts: a letter of another
script that looks alike is another letter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.text.skeleton import skeleton
from policy.text.visible import is_hidden, named

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADING: Final = "Mnemogate asks you, not your agent."
ABOVE: Final = "What stands above this line is your agent's text."
APART: Final = "\n\n"
ALPHABET: Final = "23456789BCDFGHJKMNPQRSTVWXYZ"
CODE_LEN: Final = 8
QUESTIONS_MAX: Final = 3
ANSWERED: Final = (
    "I have answered Mnemogate. A call that you may make again once I allowed it can be made now."
)
"""What a model reads in place of an answer: always the same, so that a prompt cache holds."""

_ONE: Final = rf"`?(yes|no)[ \t]+([{ALPHABET}]{{{CODE_LEN}}})`?"
_ONE_ANSWER: Final = re.compile(_ONE, re.ASCII | re.IGNORECASE)
_ANSWERS: Final = re.compile(
    rf"\s*{_ONE}(?:[ \t]*[\s,;][ \t]*{_ONE}){{0,{QUESTIONS_MAX - 1}}}[.!]?\s*",
    re.ASCII | re.IGNORECASE,
)
# `_WORD` matches the word before a code. `_PARTING` matches characters that a person may have typed
# inside a code.
_WORD: Final = re.compile(r"\b(?:yes|no)\b", re.IGNORECASE)
_PARTING: Final = re.compile(r"[\W_]+")
_OTHERS_MAX: Final = 1
# Matches the form of an answer, a word and a code, anywhere in a model's text.
_FORM: Final = re.compile(
    rf"\b(?:yes|no)\W{{1,6}}(?:[{ALPHABET.lower()}]{{{CODE_LEN}}}"
    rf"|(?=[a-z]*[0-9])[0-9a-z]{{{CODE_LEN}}})\b"
)
_NAME: Final = "mnemogate"
_ASKS: Final = ("asks you, not your agent", "may it remember")
_MARKDOWN: Final = frozenset(r"\`*_[]<>#|~!&")
_HOST_LEN_MAX: Final = 40
# Longer turns are no answers. The limit also bounds the work of matching their blanks.
_TURN_LEN_MAX: Final = 256


class TextAsked(NamedTuple):
    """One held text, as a question shows it. `before` is the text that it would replace."""

    text: str
    kind: str
    code: str
    before: str | None = None


class Answer(NamedTuple):
    """One answer of a person: yes or no to the text with this code."""

    yes: bool
    code: str


class Outcomes:
    """The fixed lines that tell a person the result of an answer, at the end of the reply to it."""

    STORED: Final = "Mnemogate: what you said yes to is stored, what you denied is not."
    SENT: Final = (
        "Mnemogate: what you said yes to goes to its memory server now, or as soon as that is "
        "connected. What you denied does not."
    )
    ALLOWED: Final = (
        "Mnemogate: what you said yes to is allowed and not written yet: your agent writes it when "
        "it asks again, so tell it to. What you denied is not allowed."
    )
    BEFORE: Final = "Mnemogate: this was decided before; your answer changed nothing."
    REFUSED: Final = "Mnemogate: it cannot be remembered all the same, and its text is destroyed."
    NO_ANSWER: Final = (
        "Mnemogate: that was no answer, so nothing was decided; it waits on the review page."
    )
    UNDECIDED: Final = "Mnemogate: nothing was decided; it still waits on the review page."
    UNDER_A_CALL: Final = (
        "Mnemogate: nothing was decided, because a tool call of an agent with the same key has no "
        "result yet; it still waits on the review page."
    )


TOLD: Final = frozenset(
    {
        Outcomes.STORED,
        Outcomes.SENT,
        Outcomes.ALLOWED,
        Outcomes.BEFORE,
        Outcomes.REFUSED,
        Outcomes.NO_ANSWER,
        Outcomes.UNDECIDED,
        Outcomes.UNDER_A_CALL,
    }
)


def code_of(number: int) -> str:
    """A code for a held text, made from a random number of at least 64 bits."""
    found: list[str] = []
    for _ in range(CODE_LEN):
        number, digit = divmod(number, len(ALPHABET))
        found.append(ALPHABET[digit])
    return "".join(found)


def block_of(questions: Iterable[TextAsked], had_read: tuple[str, ...]) -> str:
    """The whole question as the person sees it.

    `had_read` must be names made by `host_of` or by an operator.
    """
    read = f" This conversation had read: {', '.join(map(shown, had_read))}." if had_read else ""
    lines = [f"{HEADING} {ABOVE}{read}"]
    for one in questions:
        asked = f"May it remember: “{shown(one.text)}” ({one.kind})?"
        if one.before is not None:
            asked = f"May it replace “{shown(one.before)}” by “{shown(one.text)}” ({one.kind})?"
        lines.append(f"{asked} Answer `yes {one.code}` or `no {one.code}`.")
    return "\n".join(lines)


def shown(text: str) -> str:
    """The text as a question shows it: no Markdown takes effect, no character is invisible."""
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if is_hidden(char):
        return f"[{named(char)}]"
    return f"\\{char}" if char in _MARKDOWN else char


def host_of(host: str) -> str:
    """A host's name in ASCII. A long name loses its beginning, because its end names the owner."""
    try:
        plain = host.encode("idna").decode("ascii")
    except UnicodeError:
        plain = host.encode("ascii", "backslashreplace").decode("ascii")
    return plain if len(plain) <= _HOST_LEN_MAX else f"…{plain[-_HOST_LEN_MAX:]}"


def answers_in(turn: str) -> tuple[Answer, ...]:
    """The answers that a person typed, if the whole turn consists of answers; else ().

    A turn that answers one code twice counts as no answer.
    """
    if len(turn) > _TURN_LEN_MAX or _ANSWERS.fullmatch(turn) is None:
        return ()
    found = tuple(
        Answer(word.lower() == "yes", code.upper()) for word, code in _ONE_ANSWER.findall(turn)
    )
    return found if len({one.code for one in found}) == len(found) else ()


def is_attempt(turn: str) -> bool:
    """Whether a turn seems to be meant as an answer: `yes` or `no`, or a code that may be mistyped.

    A mistyped code may be split by other characters, be written in another script, have one
    character too few or too many, or contain a character that no code has. Without `yes` or `no`,
    and among other words, it counts only if it has a digit.
    """
    if len(turn) > _TURN_LEN_MAX:
        return False
    folded = skeleton(turn)
    if any(map(_is_code, _PARTING.split(folded.upper()))):
        return True
    said = [_PARTING.sub("", one) for one in _WORD.split(folded)]
    codes = [one for one in said if one]
    worded = len(said) > 1
    if not codes:
        return worded
    return all(map(_is_near, codes)) and (worded or any(map(str.isdigit, codes[0])))


def _is_code(word: str) -> bool:
    """Whether a word is one that `code_of` may give, and no word of a language."""
    return len(word) == CODE_LEN and set(word) <= set(ALPHABET) and any(map(str.isdigit, word))


def _is_near(code: str) -> bool:
    others = sum(char not in ALPHABET for char in code.upper())
    return abs(len(code) - CODE_LEN) <= 1 and others <= _OTHERS_MAX


def resembles(text: str) -> bool:
    """Whether a model's text has Mnemogate's name, words of a question, or an answer's form."""
    folded = skeleton(text).casefold()
    return (
        _NAME in folded
        or any(one in folded for one in _ASKS)
        or _FORM.search(folded) is not None
        or _FORM.search(text.casefold()) is not None
    )
