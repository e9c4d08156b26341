"""Whether a person said what a candidate says (design 5.4): the one way in which text raises.

Both sides are fingerprints, so that nobody has to keep what was said. A candidate asks for each of
its sentences, and for the words of each name in it; a user segment answers with what stands in it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from policy.forwarding import call_of
from policy.model import ChangeKind
from policy.sentence_words import GENERIC, NEGATING
from policy.sentences import exact, fingerprint, spoken_in, stated_in

if TYPE_CHECKING:
    from policy.model import Candidate

NAME_LEN_MAX: Final = 64
NAME_WORDS_MAX: Final = 6
NAMED_MAX: Final = 4_096
"""Words and pairs of words of one segment that may be names; later ones are not."""
ASKED_MAX: Final = 512
"""A candidate that asks for more is endorsed by nobody."""

_NAME_WORD: Final = re.compile(r"[^\W_]+(?:['][^\W_]+)*")
_NAME_GAP: Final = re.compile(r"[\s_\-./:#]*")
_ORDINARY: Final = re.compile(
    # Numbers, ids in hexadecimal, times: no words can be spelled in them.
    r"[0-9][0-9.,:+\-]{0,31}|[0-9a-f]{16,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,]{2,18})?(?:Z|[+-][0-9:]{2,6})?"
)
_ADDRESS: Final = re.compile(rf"\S{{1,{NAME_LEN_MAX}}}")
_METADATA: Final = msgspec.json.Decoder()
_DEPTH_MAX: Final = 32
_JOINT: Final = "\x1f"


class Said(NamedTuple):
    """Fingerprints of sentences, and of words and neighbouring words that may be a name."""

    sentences: frozenset[int]
    names: frozenset[int]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What of a candidate somebody must have said: its texts as sentences, its names as words.

    `sayable` is False where a part of it is neither: then nobody endorses it.
    """

    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    sayable: bool = False


def asked_of(candidate: Candidate, labels: tuple[int, ...] | None = None) -> Asked:
    """What a recall of this candidate would say, or file it under.

    `labels` are the pieces that only name something in a call that the guard has read; None for
    what no guard has read, whatever it looks like: any client may write metadata that is spelled
    like a call. A removal says nothing, so nobody can have said it.
    """
    if candidate.text is None or candidate.change in {ChangeKind.DELETE, ChangeKind.PURGE}:
        return Asked()
    scope = candidate.scope
    addresses = {scope.user_id, scope.agent_id, scope.run_id, scope.app_id, candidate.actor}
    if labels is not None:
        call = call_of(candidate)
        if call is None:
            return Asked()
        named = {call.pieces[at] for at in labels if at < len(call.pieces)} | {call.key}
        texts = tuple(piece for piece in call.pieces if piece not in named)
        inside: list[str] | None = [piece for piece in call.pieces if piece in named]
    else:
        texts = (candidate.text,)
        inside = _strings(candidate.metadata_json)
        addresses.add(candidate.target)
    # Where it is filed says nothing, as long as it has no room for a sentence.
    if inside is None or any(one and not _ADDRESS.fullmatch(one) for one in addresses):
        return Asked(texts=texts)
    names = [name for name in inside if name not in addresses and not _says_nothing(name)]
    return Asked(texts=texts, names=tuple(dict.fromkeys(names)), sayable=True)


def said_by(text: str, key: bytes) -> Said:
    """What one segment of a person endorses."""
    sentences = frozenset(fingerprint(one, key) for one in spoken_in(text))
    names: set[int] = set()
    words = _NAME_WORD.findall(exact(text))[: NAMED_MAX // 2]
    names.update(fingerprint(word, key) for word in set(words))
    names.update(fingerprint(_JOINT.join(pair), key) for pair in set(pairwise(words)))
    return Said(sentences=sentences, names=frozenset(names))


def wanted_by(asked: Asked, key: bytes) -> Said | None:
    """What one segment must have said to endorse all that is asked; None where none could."""
    if not asked.sayable:
        return None
    sentences: set[int] = set()
    for text in asked.texts:
        stated = stated_in(text)
        if not stated:
            return None  # it says nothing, or too much: there is nothing to hold on to
        sentences.update(fingerprint(one, key) for one in stated)
    names: set[int] = set()
    for name in asked.names:
        parts = _parts_of(name)
        if parts is None:
            return None
        names.update(fingerprint(part, key) for part in parts)
    if not sentences or len(sentences) + len(names) > ASKED_MAX:
        return None
    return Said(sentences=frozenset(sentences), names=frozenset(names))


def endorses(said: Said, wanted: Said) -> bool:
    """Whether everything that is wanted stands in this one segment."""
    return (
        bool(wanted.sentences) and wanted.sentences <= said.sentences and wanted.names <= said.names
    )


def _says_nothing(name: str) -> bool:
    """Whether a string has no room for words, or only words that file a memory."""
    if _ORDINARY.fullmatch(name):
        return True
    parts = _parts_of(name)
    return parts is not None and not parts


def _parts_of(name: str) -> tuple[str, ...] | None:
    """The words of a name that somebody must have said, neighbours together; None for no name."""
    shape = exact(name)
    words = _NAME_WORD.findall(shape)
    if not words or len(name) > NAME_LEN_MAX or len(words) > NAME_WORDS_MAX:
        return None
    if _NAME_GAP.fullmatch(_NAME_WORD.sub("", shape)) is None or NEGATING.search(" ".join(words)):
        return None
    said = [word for word in words if word not in GENERIC and not word.isdecimal()]
    beside = [
        _JOINT.join(pair)
        for pair in pairwise(words)
        if not any(word in GENERIC or word.isdecimal() for word in pair)
    ]
    return (*said, *beside)


def _strings(metadata_json: str | None) -> list[str] | None:
    """Every string of the metadata, keys included; None for what cannot be read."""
    if metadata_json is None:
        return []
    try:
        pending: list[tuple[object, int]] = [(_METADATA.decode(metadata_json), 0)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    strings: list[str] = []
    while pending:
        value, depth = pending.pop()
        if isinstance(value, str):
            strings.append(value)
        elif depth >= _DEPTH_MAX:
            return None
        elif isinstance(value, list):
            pending += [(part, depth + 1) for part in cast("list[object]", value)]
        elif isinstance(value, dict):
            for key, part in cast("dict[str, object]", value).items():
                pending += ((key, depth + 1), (part, depth + 1))
    return strings
