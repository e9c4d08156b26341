"""Where a label comes from, and which class a text is really aimed at.

Only a proof raises a label: a key that the operator bound, or a person's decision. Everything else
has the floor's label and gets a low class. A text may raise its class, and never its label.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, cast

import msgspec

from policy.labels.forwarded_call import is_forwarded
from policy.model import (
    Basis,
    Candidate,
    ChangeKind,
    Channel,
    Claims,
    MemoryClass,
    Origin,
    Principal,
    Provenance,
    Reading,
    SourceKind,
    meet,
)
from policy.text.characters import displays
from policy.text.language import language_of
from policy.text.phrases import Language
from policy.text.skeleton import skeleton

HOST: Final = "//"
"""The prefix of a host's name among the names of tools and hosts that a session had read."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the session ledger saw of one candidate; by default, that the ledger saw nothing."""

    # Our own id of the session (32 hex digits), never a client's; None where no session was found.
    session: str | None = None
    # Whether a model of that session made the call that writes the candidate.
    called: bool = False
    # Whether the session had read foreign text. Where no session was found: whether one of the
    # principal's sessions had, in the last day.
    after_reading: bool = False
    # The texts of the session that contain the candidate's text, the least trusted first.
    contained: tuple[Origin, ...] = ()
    # The tools and hosts that the session had read, as `Provenance` has them.
    read_origins: tuple[str, ...] = ()


_TEXTS: Final = frozenset({ChangeKind.CREATE, ChangeKind.UPDATE})
# The chat roles of an item that the holder of a key of channel `user` may have said.
_HERS: Final = (None, "user")
_BOUND: Final = {Channel.USER: SourceKind.USER_INPUT, Channel.OPERATOR: SourceKind.OPERATOR}
_METADATA: Final = msgspec.json.Decoder()
_METADATA_DEPTH_MAX: Final = 32
_NAMES_KEPT_MAX: Final = 1_024
_NAME_KEPT_LEN_MAX: Final = 64
# The last so many characters of a text are enough to complete a sentence that continues in the
# metadata.
_TAIL_LEN: Final = 200


NOTHING_READ = Reading(skeleton="", directive=False, injection=False)


def read_text(text: str | None, metadata_json: str | None) -> Reading:
    """Read a candidate's text and every string in its metadata, keys included.

    Metadata that is not JSON, or deeper than 32 levels, reads as an injection.
    """
    shape = skeleton(text) if text else ""
    found = _language(text, shape) if text else Language.PLAIN
    if text and text.lstrip().startswith(("{", "[")):
        found |= _language_of_json(text, "", Language.PLAIN)
    if metadata_json is not None:
        found |= _language_of_json(metadata_json, shape[-_TAIL_LEN:], Language.INJECTION)
    return _with_language(Reading(skeleton=shape, directive=False, injection=False), found)


def read_beside(reading: Reading, text: str) -> Reading:
    """A copy of `reading` with the flags of a second text, for texts that are read together."""
    return _with_language(reading, _language(text, skeleton(text)))


def _language(text: str, shape: str) -> Language:
    """The kind of a text, whose skeleton is `shape`, as it is written and as it is displayed."""
    shown = dict.fromkeys(displays(text))
    shown.pop(text, None)
    found = language_of(shape)
    return found | language_of(skeleton("\n".join(shown))) if shown else found


def read_candidate(candidate: Candidate) -> Reading:
    """Read everything of a candidate that a recall may show: text, metadata, and the names.

    The names (target, role, speaker, user, agent, run, app) have room for a sentence, and every
    read returns them beside the text, so a directive in a name steers the agent too.
    """
    reading = read_text(candidate.text, candidate.metadata_json)
    scope = candidate.scope
    found = Language.PLAIN
    for name in (
        *(candidate.target, candidate.role, candidate.actor),
        *(scope.user_id, scope.agent_id, scope.run_id, scope.app_id),
    ):
        if name is not None and not name.isalnum():
            kind = _language_of_name(name)
            found = kind if found is Language.PLAIN else found | kind
    return _with_language(reading, found)


def _with_language(reading: Reading, found: Language) -> Reading:
    if found is Language.PLAIN:
        return reading
    return msgspec.structs.replace(
        reading,
        directive=reading.directive or Language.DIRECTIVE in found,
        injection=reading.injection or Language.INJECTION in found,
        at_stake=reading.at_stake or Language.AT_STAKE in found,
    )


def _language_of_name(name: str) -> Language:
    known = len(name) <= _NAME_KEPT_LEN_MAX
    return _language_of_known_name(name) if known else _language(name, skeleton(name))


@lru_cache(maxsize=_NAMES_KEPT_MAX)
def _language_of_known_name(name: str) -> Language:
    # Every write of an agent comes with the same few names, so the readings of names are cached.
    return _language(name, skeleton(name))


def _language_of_json(text: str, tail: str, broken: Language) -> Language:
    """What the strings in a JSON text read as, after the end of another; `broken` for no JSON."""
    try:
        return _language_of_strings(_METADATA.decode(text), tail)
    except (msgspec.DecodeError, UnicodeError):
        return broken
    except RecursionError:
        return Language.INJECTION


def _language_of_strings(value: object, tail: str) -> Language:
    """The kind of text that JSON reads as; JSON that is nested too deep counts as an attack.

    Each string is read by itself, and all of them in a row after the text, as a recall shows them.
    """
    found = _strings_of(value)
    if found is None:
        return Language.INJECTION
    # A recall shows all strings in a row, so "always" under one key and "recommend ..." under the
    # next are one order to its reader.
    rows = {*found.values, "\n".join(found.strings), "\n".join(found.values)}
    rows.update(map(" ".join, pairwise((tail, *found.values) if tail else found.values)))
    # The names of one object may be the words of an order, and so may the values under one name.
    rows.update(map(" ".join, found.under.values()))
    language = Language.PLAIN
    for row in rows.union(found.names, found.strings):
        language |= _language_of_name(row)
    return language


def spell_order(names: tuple[str, ...]) -> bool:
    """Whether any of the names, or all of them in a row, reads as an order or an attack."""
    rows = (*names, " ".join(names)) if len(names) > 1 else names
    return any(_language_of_name(one) & Language.STEERS for one in rows)


def orders_in_names(value: object) -> tuple[str, ...]:
    """The rows of names, one row for each object in a JSON value, that read as an order.

    Empty for JSON that is nested too deep. Stored JSON has its names sorted, but a read shows them
    in their original order, so that the stored form does not reveal such a row.
    """
    found = _strings_of(value)
    names = dict.fromkeys(found.names) if found is not None else ()
    return tuple(row for row in names if _language_of_name(row) & Language.STEERS)


class _Strings(NamedTuple):
    """The strings of a JSON value: all of them with the keys, and the values alone.

    `names` has one row for each object: its own name, then the names in it. `under` maps a name to
    the strings that are its values.
    """

    strings: list[str]
    values: list[str]
    names: list[str]
    under: dict[str, list[str]]


def _strings_of(value: object) -> _Strings | None:
    """The strings of a JSON value; None for one that is nested deeper than 32 levels."""
    found = _Strings([], [], [], {})
    pending: list[tuple[object, int, str, bool]] = [(value, 0, "", False)]
    while pending:
        value, depth, name, is_key = pending.pop()
        if isinstance(value, str):
            found.strings.append(value)
            if not is_key:
                found.values.append(value)
                found.under.setdefault(name, []).append(value)
        elif depth >= _METADATA_DEPTH_MAX:
            return None
        elif isinstance(value, list):
            parts = cast("list[object]", value)
            pending.extend((part, depth + 1, name, False) for part in reversed(parts))
        elif isinstance(value, dict):
            members = cast("dict[str, object]", value)
            found.names.append(f"{name}\n{' '.join(members)}")
            for key, part in reversed(members.items()):
                pending += ((part, depth + 1, key, False), (key, depth + 1, "", True))
    return found


def derive_provenance(
    principal: Principal,
    candidate: Candidate,
    lineage: SourceKind | None,
    seen: Seen | None = None,
    *,
    culprits: tuple[Origin, ...] = (),
    extracted: bool = False,
) -> Provenance:
    """The label of a candidate: what a proof gives it, else the floor.

    The proofs are the operator's word for a key (its channel), and for a harness whose labels
    count (`claims = "trusted"`). A key of channel `user` vouches for what its holder says: not for
    another role of a conversation, not for what a model `extracted` from one, and not for a call
    that a model was seen to make. `seen` is what the session ledger knows of the candidate, None
    where no ledger is kept; it raises no label.
    """
    by_model = extracted or (seen is not None and seen.called)
    source, basis = _of_channel(principal, candidate, by_model=by_model)
    if basis is Basis.UNPROVEN and seen is not None and seen.called:
        source = SourceKind.TOOL_RESULT
    found = (*culprits, *(seen.contained if seen is not None else ()))
    provenance = Provenance(
        source=source,
        basis=basis,
        culprits=(*found, Origin(kind=source)),
        session=None if seen is None else seen.session,
        after_reading=seen is not None and seen.after_reading,
        read_origins=() if seen is None else seen.read_origins,
    )
    return with_lineage(provenance, candidate, lineage)


def _of_channel(
    principal: Principal, candidate: Candidate, *, by_model: bool
) -> tuple[SourceKind, Basis]:
    bound = _BOUND.get(principal.channel)
    claimed = candidate.claimed_source if principal.claims is Claims.TRUSTED else None
    if claimed is not None:
        return claimed if bound is None else meet(bound, claimed), Basis.VOUCHED
    if bound is SourceKind.USER_INPUT and (by_model or candidate.role not in _HERS):
        return SourceKind.UNKNOWN, Basis.UNPROVEN
    if bound is not None:
        return bound, Basis.CHANNEL
    vouched = principal.claims is Claims.TRUSTED
    return SourceKind.UNKNOWN, Basis.VOUCHED if vouched else Basis.UNPROVEN


def with_lineage(
    provenance: Provenance, candidate: Candidate, lineage: SourceKind | None
) -> Provenance:
    """The label lowered to the least trusted memory that the candidate says it derives from.

    A memory that is named and cannot be found counts as unknown.
    """
    if not candidate.derived_from and lineage is None:
        return provenance
    return lowered(provenance, SourceKind.UNKNOWN if lineage is None else lineage)


def lowered(label: Provenance, source: SourceKind) -> Provenance:
    """The label, lowered to at most the given source; a lowered label has the basis `LINEAGE`."""
    if source.trust >= label.source.trust:
        return label
    return msgspec.structs.replace(label, source=source, basis=Basis.LINEAGE)


def confirmed_by_a_person(label: Provenance) -> Provenance:
    """The label of a text after a person saw the whole of it and confirmed it.

    Nothing else raises a label once it is given. A label that is at least as trusted is kept.
    """
    if label.source.proven:
        return label
    return msgspec.structs.replace(label, source=SourceKind.USER_INPUT, basis=Basis.CONFIRMATION)


def more_powerful(first: MemoryClass, second: MemoryClass) -> MemoryClass:
    """Of two classes the one whose memories can do more to the agent."""
    return second if second.power > first.power else first


def effective_class(
    candidate: Candidate,
    reading: Reading,
    stored: MemoryClass | None,
    order: MemoryClass = MemoryClass.L1,
) -> MemoryClass:
    """The class that a candidate asks for (named or mapped), raised by the class floor.

    `order` is the least class of a text that reads as an order or an attack
    (`policy.labels.floor`).
    """
    asked = _asked_class(candidate, stored)
    return more_powerful(asked, order) if reading.flagged else asked


def _asked_class(candidate: Candidate, stored: MemoryClass | None) -> MemoryClass:
    """The class that a candidate names, or that a rule, its target or the stored memory gives it.

    A change of a stored memory keeps the stored class unless an update names another. On an
    upstream server the place of a memory decides its class, so a move to a place for more powerful
    memories raises the class.
    """
    if stored is None or candidate.change is ChangeKind.CREATE:
        return candidate.memory_class
    if candidate.change is ChangeKind.UPDATE and candidate.class_named:
        return candidate.memory_class
    if candidate.change is ChangeKind.UPDATE and is_forwarded(candidate):
        # Without this, harmless notes that are moved to a folder `rules/` would become rules.
        return more_powerful(candidate.memory_class, stored)
    return stored


def is_unproven(provenance: Provenance) -> bool:
    """Whether nothing proves who said a text: its label is the floor, and no harness named it."""
    return provenance.source.trust == 0 and provenance.basis is not Basis.VOUCHED


def landing_of(asked: MemoryClass, candidate: Candidate, stored: MemoryClass | None) -> MemoryClass:
    """The class at which an unproven text lands: knowledge at most, whatever class was asked for.

    A policy (L1) that the client itself names is refused, and a change of a memory of a more
    powerful class is judged as that class.
    """
    named_policy = candidate.class_named and candidate.memory_class is MemoryClass.L1
    above = stored is not None and stored.power > MemoryClass.L3.power
    if named_policy or above or asked.power <= MemoryClass.L3.power:
        return asked
    return MemoryClass.L3


def is_lowered(change: ChangeKind, named: MemoryClass | None, landed: MemoryClass) -> bool:
    """Whether a memory got a lower class than its client named; False where none was named.

    The audit log has no field for this fact, because its leaves have both classes.
    """
    return change in _TEXTS and named is not None and landed.power < named.power


def named_class(candidate: Candidate) -> MemoryClass | None:
    """The class that the client itself named; None where a rule mapped the target to a class."""
    return candidate.memory_class if candidate.class_named else None
