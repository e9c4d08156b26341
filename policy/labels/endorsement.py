"""Endorsement: whether a person said what a candidate says. Nothing else in a text raises a label.

A candidate is endorsed when its whole text is what one turn of a person makes her own
(`policy.text.own_words`). The strings that name or file the candidate have to be words of that
text. Candidate and turn are compared as fingerprints, so that the turn itself need not be stored
(docs/architecture.md#where-a-label-comes-from).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

import msgspec

from policy.labels.editing import How
from policy.labels.forwarded_call import call_of
from policy.labels.who_writes import UserTurns
from policy.model import ChangeKind
from policy.text.language import language_of
from policy.text.naming_words import COUNTING, GENERIC, NEGATING, PRONOUNS, SPEAKING
from policy.text.own_words import TURN_LEN_MAX, folded, own_forms
from policy.text.phrases import Language
from policy.text.sentences import exact
from policy.text.skeleton import skeleton

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.labels.forwarded_call import ForwardedCall
    from policy.model import Candidate

NAME_LEN_MAX: Final = 64
NAME_WORDS_MAX: Final = 6
RUN_MAX: Final = 4
"""So many words of a sentence in a row may be a name; of one that negates, `NEGATED_RUN_MAX`."""
NEGATED_RUN_MAX: Final = 2
ASKED_MAX: Final = 512
"""A candidate with more texts and names than this is endorsed by nobody."""
_FILED_WORDS_MAX: Final = 4
_FILED_WORD_LEN_MAX: Final = 16
_FILED_DIGITS_MAX: Final = 8
# A text that was rewritten to speak of "the user" is longer than the turn that it came from, so a
# candidate may be so many times as long as a turn.
_TEXT_LEN_MAX: Final = 4 * TURN_LEN_MAX

_NAME_WORD: Final = re.compile(r"[^\W_]+(?:['][^\W_]+)*")
_NAME_GAP: Final = re.compile(r"[\s_\-./:#]*")
_UNSPELLED: Final = re.compile(
    # Ids in hexadecimal, days and times: no words can be spelled in such strings.
    r"[0-9a-f]{16,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,]{2,18})?(?:Z|[+-][0-9:]{2,6})?"
)
_NUMBER: Final = re.compile(r"-?[0-9][0-9.,:+\-]{0,31}(?:e[+-]?[0-9]{1,3})?")
_ADDRESS: Final = re.compile(rf"\S{{1,{NAME_LEN_MAX}}}")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Letters and digits drawn at random, as most services make their ids.
_DRAWN: Final = re.compile(r"(?<![A-Za-z0-9])(?=(?:[A-Za-z]*[0-9]){2})[A-Za-z0-9]{8,}")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_METADATA: Final = msgspec.json.Decoder()
_DEPTH_MAX: Final = 32


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a person must have said to endorse a candidate: its texts, each whole, and its names.

    `sayable` is False where a part of the candidate is neither a text nor a name: then no turn
    endorses it.
    """

    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    sayable: bool = False


def asked_of(candidate: Candidate, labels: tuple[int, ...] | None = None) -> Asked:
    """The texts and names of a candidate that a person must have said to endorse it.

    `labels` are the indexes of the pieces that name something, for a call that the guard has read;
    None for any other candidate, because a client may write metadata that looks like a call. A
    removal has no words, so it cannot be endorsed.
    """
    if candidate.text is None or candidate.change in {ChangeKind.DELETE, ChangeKind.PURGE}:
        return Asked()
    scope = candidate.scope
    addresses = {scope.user_id, scope.agent_id, scope.run_id, scope.app_id}
    addresses |= {candidate.actor, candidate.role}
    inside: list[str] | None
    if labels is not None:
        call = call_of(candidate)
        if call is None or (candidate.change is ChangeKind.UPDATE and not _brings(call)):
            return Asked()
        named = {call.pieces[at] for at in labels if at < len(call.pieces)} | {call.key}
        texts = tuple(piece for piece in call.pieces if piece not in named)
        inside = [piece for piece in call.pieces if piece in named]
    else:
        texts = (candidate.text,)
        inside = _names_in(candidate.metadata_json)
        addresses |= {candidate.target, candidate.memory_id}
    if inside is None or any(one and not _only_files(one) for one in addresses):
        return Asked(texts=texts)
    names = [name for name in inside if name not in addresses and not _says_nothing(name)]
    return Asked(texts=texts, names=tuple(dict.fromkeys(names)), sayable=True)


def endorsed_by(turn: str, user_turns: UserTurns | None) -> tuple[str, ...]:
    """The whole texts that one turn makes a person's own words, each in the form of `folded`."""
    if user_turns is UserTurns.PROGRAM:
        return ()
    forms = own_forms(turn)
    return forms.asked if user_turns is None else (*forms.said, *forms.asked)


def wanted_by(asked: Asked) -> frozenset[str] | None:
    """The texts that one turn of a person must have to endorse the whole candidate.

    None if no turn could endorse it.
    """
    if not asked.sayable or len(asked.texts) + len(asked.names) > ASKED_MAX:
        return None
    if any(len(text) > _TEXT_LEN_MAX for text in asked.texts):
        return None
    wanted = frozenset(map(folded, asked.texts))
    if not wanted or "" in wanted or not _all_named(asked.names, wanted):
        return None
    return wanted


def _brings(call: ForwardedCall) -> bool:
    """Whether a change gives a whole text of its own; the replacement of a part does not."""
    effect = call.effect
    if effect is None or effect.how is How.REPLACE:
        return False
    return 0 <= effect.text < len(call.pieces)


def _words_of(text: str) -> list[str]:
    return _NAME_WORD.findall(exact(text))


def _only_files(address: str) -> bool:
    """Whether an id only files a memory: no way of joining its parts makes a sentence."""
    if not _ADDRESS.fullmatch(address):
        return False
    if _UNSPELLED.fullmatch(address):
        return True
    spelled = " ".join(_LETTERS.findall(_HUMP.sub(" ", _DRAWN.sub(" ", address))))
    words = [word for word in spelled.lower().split() if word not in GENERIC]
    return (
        len(words) <= _FILED_WORDS_MAX
        and all(len(word) <= _FILED_WORD_LEN_MAX for word in words)
        and SPEAKING.isdisjoint(words)
        and language_of(skeleton(spelled)) is Language.PLAIN
    )


def _says_nothing(name: str) -> bool:
    """Whether a string cannot carry meaning: it has no words, or only words that file a memory."""
    return _UNSPELLED.fullmatch(name) is not None or _run_of(name) == ()


def _run_of(name: str) -> tuple[str, ...] | None:
    """The words of a name that carry meaning; None for a string that is no name.

    Words that only file a memory are cut off at both ends: "tea" is left of "user_tea_preferences".
    """
    shape = exact(name)
    words = _NAME_WORD.findall(shape)
    if not words or len(name) > NAME_LEN_MAX or len(words) > NAME_WORDS_MAX:
        return None
    if _NAME_GAP.fullmatch(_NAME_WORD.sub("", shape)) is None or NEGATING.search(" ".join(words)):
        return None
    # A single letter, such as the name of a list entry or a variable, carries no meaning. The
    # letter "I" does.
    files = [word in GENERIC or (len(word) == 1 and word.isalpha()) for word in words]
    counts = [word.isdecimal() for word in words]
    if all(one or other for one, other in zip(files, counts, strict=True)):
        digits = sum(len(word) for word in words if word.isdecimal())
        return () if digits <= _FILED_DIGITS_MAX and not all(counts) else tuple(words)
    files = [one and word not in PRONOUNS for one, word in zip(files, words, strict=True)]
    first, last = files.index(False), len(files) - files[::-1].index(False)
    return tuple(words[first:last])


def _all_named(names: Sequence[str], stated: Iterable[str]) -> bool:
    """Whether each name consists of words that stand in a row in a text of the candidate."""
    if not names:
        return True
    there: set[tuple[str, ...]] = set()
    for sentence in stated:
        words = _NAME_WORD.findall(sentence)
        most = NEGATED_RUN_MAX if NEGATING.search(sentence) else RUN_MAX
        for length in range(1, most + 1):
            there.update(zip(*(words[at:] for at in range(length)), strict=False))
    return all(_run_of(name) in there for name in names)


def _names_in(metadata_json: str | None) -> list[str] | None:
    """The names in the metadata; None where it cannot be read, or a field's name carries meaning.

    A number, or yes and no, carries as much meaning as a word does, so they count as names too,
    except the numbers that every store keeps.
    """
    if metadata_json is None:
        return []
    try:
        pending: list[tuple[object, int, bool]] = [(_METADATA.decode(metadata_json), 0, False)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    names: list[str] = []
    while pending:
        value, depth, counted = pending.pop()
        if isinstance(value, bool) or depth > _DEPTH_MAX:
            return None
        if isinstance(value, list):
            pending += [(part, depth + 1, counted) for part in cast("list[object]", value)]
        elif isinstance(value, dict):
            fields = cast("dict[str, object]", value)
            if not all(map(_says_nothing, fields)):
                return None
            pending += [(part, depth + 1, _counts(key)) for key, part in fields.items()]
        elif value is not None and not (counted and _NUMBER.fullmatch(str(value))):
            names.append(str(value))
    return names


def _counts(field: str) -> bool:
    return not COUNTING.isdisjoint(_words_of(field.replace("_", " ")))
