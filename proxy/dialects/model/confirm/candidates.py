"""Which candidates a person may be asked about in a conversation: those that can be shown whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policy.labels.derive import read_candidate
from policy.labels.editing import How
from policy.labels.forwarded_call import call_of, is_forwarded
from policy.model import ChangeKind, MemoryClass
from policy.text.naming_words import GENERIC
from policy.text.own_words_form import words
from policy.text.skeleton import skeleton
from policy.text.visible import is_hidden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.model import Candidate
    from proxy.dialects.strict_json.tolerant import Json

TEXT_LEN_MAX: Final = 300
KINDS: Final = {
    MemoryClass.L2: "preference",
    MemoryClass.L3: "knowledge",
    MemoryClass.L4: "an episode",
}
# Words of which questions and answers are made, in all languages that `policy.text.languages` has.
# A candidate with one of them is not shown in a question, because it could pass for a part of it.
_ENGLISH: Final = "yes no code codes confirm confirms confirmed confirmation mnemogate"
_GERMAN: Final = "ja nein kode codewort bestätige bestätigen bestätigt bestätigung"
_ROMANCE: Final = "oui non sí si não sim sì codigo código codice confirmer confirmar confermare"
WORDS: Final = frozenset(skeleton(f"{_ENGLISH} {_GERMAN} {_ROMANCE}").casefold().split())
# A candidate is not shown in a question if its text has a phrase of the sidecar's own question, or
# a run of blanks behind which the rest could go unseen.
_OURS: Final = ("conversation had read", "may it remember", "may it replace")
_GAP: Final = re.compile(r"\s{4,}")
# A candidate of a tool call is shown in a question only if its arguments' names are made of these
# words. Any other name could itself tell the person something.
_ARGUMENTS: Final = words(
    """
    action assertion block body chunks collection command conclusion contents custom deletions
    description destination directory documents edge embedding embeddings entities entityname
    entitynames entitytype episode excluded extraction feedback file find folder from function
    gate group identifier input insert instructions items label messages metadata metadatas mode
    new node observations old operation operations outcome output passage patch path payload peer
    previous query recall receipt reference refs relations relationtype replaces report saga scope
    section shared str string summary target to types uri uuid uuids with workspace
    """
)
_MARKS: Final = frozenset("“”„\n\r\t\u2028\u2029`")
_PLACE: Final = re.compile(r"#[0-9]+")
_ID: Final = re.compile(r"[A-Za-z0-9_.@:-]{1,64}")
_LETTERS: Final = re.compile(r"[^\W_]+")


class ShownWhole(NamedTuple):
    """A candidate as a question shows it. `before` is the text that it would replace."""

    text: str
    kind: str
    before: str | None = None


def shown_whole(
    candidate: Candidate, judged_as: MemoryClass, stored: str | None = None
) -> ShownWhole | None:
    """The candidate as a question shows it; None if it can only be shown on the review page.

    Args:
        candidate: The held candidate.
        judged_as: Its class, if a person confirms it.
        stored: The text of the memory that it changes; None for a new one.
    """
    kind = KINDS.get(judged_as)
    if kind is None or read_candidate(candidate).flagged or not _files_only(candidate):
        return None
    if candidate.change is ChangeKind.CREATE:
        text = _said(candidate)
        return ShownWhole(text, kind) if _fits(text) else None
    changes = candidate.change is ChangeKind.UPDATE and not is_forwarded(candidate)
    if changes and candidate.text is not None and stored is not None:
        fits = _fits(candidate.text) and _fits(stored)
        return ShownWhole(candidate.text, kind, stored) if fits else None
    return None


def _said(candidate: Candidate) -> str:
    call = call_of(candidate) if is_forwarded(candidate) else None
    if call is None:
        return candidate.text or ""
    if call.effect is not None and call.effect.how is How.REPLACE:
        return ""
    return " / ".join(piece for piece in call.pieces if piece)


def _fits(text: str) -> bool:
    folded = skeleton(text).casefold()
    found = _LETTERS.findall(folded)
    if _GAP.search(text) is not None or any(one in " ".join(found) for one in _OURS):
        return False
    return (
        0 < len(text) <= TEXT_LEN_MAX
        and bool(found)
        and _MARKS.isdisjoint(text)
        and not any(map(is_hidden, text))
        and WORDS.isdisjoint(found)
    )


def _files_only(candidate: Candidate) -> bool:
    """Whether the names and ids beside a candidate's text have forms that can say nothing."""
    scope = candidate.scope
    names = (scope.user_id, scope.agent_id, scope.run_id, scope.app_id)
    beside = (*names, candidate.role, candidate.actor)
    if any(one is not None and _ID.fullmatch(one) is None for one in beside):
        return False
    call = call_of(candidate) if is_forwarded(candidate) else None
    if is_forwarded(candidate) and call is None:
        return False
    given = candidate.metadata_json if call is None else call.arguments
    if given is None:
        return True
    value: Json = msgspec.json.decode(given)
    strings = [one for one in _strings(value) if _PLACE.fullmatch(one) is None]
    found = [word for one in strings for word in _LETTERS.findall(skeleton(one).casefold())]
    known = GENERIC if call is None else GENERIC | _ARGUMENTS
    return all(word in known for word in found)


def _strings(value: Json) -> Iterator[str]:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, dict):
            pending.extend(part)
            pending.extend(part.values())
        elif part is not None:
            yield str(part)
