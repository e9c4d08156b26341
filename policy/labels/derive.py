"""Where a label comes from, and which class a text is really aimed at.

Text may only lower a label or raise a class. Raising a label needs a channel the operator bound.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from policy.labels.ceiling import FIRM_BASES, lowered
from policy.labels.forwarded_call import is_forwarded
from policy.labels.landing import LOWERED
from policy.labels.taint import Joined, LabelRule, Seen
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
    SourceKind,
    meet,
)
from policy.text.language import language_of
from policy.text.phrases import Language
from policy.text.skeleton import skeleton

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.labels.editing import Edit, TextStanding

_BOUND: Final = {Channel.USER: SourceKind.USER_INPUT, Channel.OPERATOR: SourceKind.OPERATOR}
_METADATA: Final = msgspec.json.Decoder()
_METADATA_DEPTH_MAX: Final = 32
_NAMES_KEPT_MAX: Final = 1_024
_NAME_KEPT_LEN_MAX: Final = 64
# The last so many characters of a text are enough to complete a sentence that goes on in the
# metadata.
_TAIL_LEN: Final = 200


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate's text says to a model that reads it.

    `skeleton` is made of the text alone. The flags `directive` and `injection` cover the strings in
    the metadata as well, because a recall splices text and metadata into the context together.
    """

    skeleton: str
    directive: bool
    injection: bool

    @property
    def flagged(self) -> bool:
        """Whether the text is written to steer its reader, even in a quotation or an example."""
        return self.directive or self.injection


NOTHING_READ = Reading(skeleton="", directive=False, injection=False)


def read_text(text: str | None, metadata_json: str | None) -> Reading:
    """Read a candidate's text and every string in its metadata, keys included.

    Metadata that is not JSON, or deeper than 32 levels, reads as an injection.
    """
    shape = skeleton(text) if text else ""
    found = language_of(shape) | _language_within(text) if text else Language.PLAIN
    if metadata_json is not None:
        found |= _language_of_metadata(metadata_json, shape[-_TAIL_LEN:])
    return Reading(
        skeleton=shape,
        directive=Language.DIRECTIVE in found,
        injection=Language.INJECTION in found,
    )


def read_beside(reading: Reading, text: str) -> Reading:
    """A copy of `reading` with the flags of another text added: readers see both together."""
    found = language_of(skeleton(text))
    return msgspec.structs.replace(
        reading,
        directive=reading.directive or Language.DIRECTIVE in found,
        injection=reading.injection or Language.INJECTION in found,
    )


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
            found |= _language_of_name(name)
    if found is Language.PLAIN:
        return reading
    return msgspec.structs.replace(
        reading,
        directive=reading.directive or Language.DIRECTIVE in found,
        injection=reading.injection or Language.INJECTION in found,
    )


def _language_of_name(name: str) -> Language:
    known = len(name) <= _NAME_KEPT_LEN_MAX
    return _language_of_known_name(name) if known else language_of(skeleton(name))


@lru_cache(maxsize=_NAMES_KEPT_MAX)
def _language_of_known_name(name: str) -> Language:
    # Every write of an agent comes with the same few names, so the readings of names are cached.
    return language_of(skeleton(name))


def _language_of_metadata(metadata_json: str, tail: str) -> Language:
    try:
        return _language_of_strings(_METADATA.decode(metadata_json), tail)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Language.INJECTION


def _language_within(text: str) -> Language:
    """What the strings of a text read as that is JSON itself; such a text is shown as an object."""
    if not text.lstrip().startswith(("{", "[")):
        return Language.PLAIN
    try:
        return _language_of_strings(_METADATA.decode(text), "")
    except (msgspec.DecodeError, UnicodeError):
        return Language.PLAIN
    except RecursionError:
        return Language.INJECTION


def _language_of_strings(value: object, tail: str) -> Language:
    """Whether JSON reads as an order or an attack; JSON that is nested too deep counts as one.

    Each string is read by itself, and all of them in a row behind the text, as a recall shows them.
    """
    found = _strings_of(value)
    if found is None:
        return Language.INJECTION
    # A recall shows all strings in a row, so "always" under one key and "recommend ..." under the
    # next are one order to its reader.
    rows = {*found.values, "\n".join(found.strings), "\n".join(found.values)}
    rows.update(map(" ".join, pairwise((tail, *found.values) if tail else found.values)))
    # The names of one object may be the words of an order, and so may what stands under one name.
    rows.update(map(" ".join, found.under.values()))
    language = Language.PLAIN
    for row in rows:
        language |= language_of(skeleton(row))
    for name in {*found.names, *found.strings} - rows:
        language |= _language_of_name(name)
    return language


def spell_order(names: tuple[str, ...]) -> bool:
    """Whether one of some names, or all of them in a row, reads as an order or an attack."""
    rows = (*names, " ".join(names)) if len(names) > 1 else names
    return any(_language_of_name(one) is not Language.PLAIN for one in rows)


def orders_in_names(value: object) -> tuple[str, ...]:
    """The names of each object in JSON that, in their order, read as an order; none if too deep.

    For what is kept as canonical JSON, which sorts the names, and is shown in its own order.
    """
    found = _strings_of(value)
    names = dict.fromkeys(found.names) if found is not None else ()
    return tuple(row for row in names if _language_of_name(row) is not Language.PLAIN)


class _Strings(NamedTuple):
    """The strings of the metadata: all of them, keys included, and the values alone.

    Then the names of each object, behind the name it stands under, and the values under each name.
    """

    strings: list[str]
    values: list[str]
    names: list[str]
    under: dict[str, list[str]]


def _strings_of(value: object) -> _Strings | None:
    """The strings of the metadata; None where the metadata is nested too deep."""
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
    culprits: tuple[Origin, ...] = (),
    seen: Seen | None = None,
    rule: LabelRule = LabelRule.TAINT,
) -> Provenance:
    """The label of a candidate, from the channel it came on and from what was seen of its session.

    A client's claim counts only where the operator vouches for the harness. Even there the claimed
    label cannot be above that of a bound channel, or of a segment that the text is found in. `seen`
    is None where no request of the conversation was seen; `rule` is that of the class the candidate
    is judged as.

    The last culprit is always the channel itself, with the label that the channel has before
    anything lowers it.
    """
    own, basis = _of_channel(principal, candidate)
    source = own
    found = (*culprits, *(seen.contained if seen is not None else ()))
    if seen is not None and seen.endorsed and seen.joined is not Joined.NONE:
        # A person's words stay her own, even where a web page repeats them afterwards.
        found = ()
        if basis is Basis.UNJOINED:
            own = source = SourceKind.USER_INPUT
            basis = Basis.ENDORSEMENT
    elif seen is not None and basis is Basis.UNJOINED:
        own, source, basis = _of_session(seen, rule)
    for origin in found:
        if origin.kind.trust < source.trust:
            source, basis = origin.kind, Basis.CONTAINMENT
    provenance = Provenance(
        source=source,
        ceiling=source,
        basis=basis,
        culprits=(*found, Origin(kind=own)),
        session=None if seen is None else seen.session,
        by_person=basis is Basis.ENDORSEMENT and seen is not None and seen.by_person,
    )
    return with_lineage(provenance, candidate, lineage)


def _of_channel(principal: Principal, candidate: Candidate) -> tuple[SourceKind, Basis]:
    bound = _BOUND.get(principal.channel)
    claimed = candidate.claimed_source if principal.claims is Claims.TRUSTED else None
    if claimed is not None:
        return claimed if bound is None else meet(bound, claimed), Basis.VOUCHED
    if bound is not None:
        return bound, Basis.CHANNEL
    if principal.claims is Claims.TRUSTED:
        return SourceKind.UNKNOWN, Basis.VOUCHED
    return SourceKind.UNKNOWN, Basis.UNJOINED


def _of_session(seen: Seen, rule: LabelRule) -> tuple[SourceKind, SourceKind, Basis]:
    """The label of a text that a model wrote in some session.

    Returns the label before its session lowered it, the label afterwards, and the basis.
    """
    written = SourceKind.MODEL_INFERENCE
    tainted = meet(written, seen.taint)
    if seen.joined is Joined.NONE:
        return tainted, tainted, Basis.UNJOINED
    if rule is LabelRule.CONTAINMENT and seen.whole:
        return written, written, Basis.CONTAINMENT
    # If some text that entered the session can no longer be searched, not finding the candidate's
    # words in the rest proves nothing, and taint counts.
    return written, tainted, Basis.TAINT


def label_rule(
    candidate: Candidate,
    reading: Reading,
    stored: MemoryClass | None,
    rules: Mapping[MemoryClass, LabelRule],
    edit: Edit | None = None,
) -> LabelRule:
    """The rule for labels, by the class that a candidate is judged as; taint where none is given.

    Containment can be used only for a candidate that has a text and a known class. A removal has no
    text. A change on another server has one only where it is an `edit` of a text that is known
    whole from our own verdicts. An edit that adds no word counts as a removal.
    """
    if candidate.text is None or candidate.change in {ChangeKind.DELETE, ChangeKind.PURGE}:
        return LabelRule.TAINT
    if candidate.change is not ChangeKind.CREATE and is_forwarded(candidate):
        known = edit is not None and stored is not None and edit.says_more
        if not known:
            return LabelRule.TAINT
    return rules.get(judged_class(candidate, reading, stored), LabelRule.TAINT)


def derive_edit(
    principal: Principal,
    candidate: Candidate,
    lineage: SourceKind | None,
    seen: Seen,
    edit: Edit,
) -> Provenance:
    """The label of an edit by containment.

    The source of the text that stays as it was does not count.

    An agent looks at a memory before it changes it, so the whole memory stands in a tool's result.
    Words that the old text shares with that result are therefore not counted as brought in by the
    edit. `seen.brought` has the other segments that the edit may be made of. The label is at most
    that of the text that is edited.
    """
    brought = msgspec.structs.replace(seen, contained=seen.brought or ())
    rule = LabelRule.CONTAINMENT
    provenance = derive_provenance(principal, candidate, lineage, (), brought, rule)
    return lowered(provenance, edit.source, edit.ceiling)


class Attested(NamedTuple):
    """The label that a candidate was given when it was intercepted.

    If the label in `provenance` was found by containment, `tainted` is the label that the rule
    `taint` would have given. `edit` is the edit of a known text that the labels were found for, if
    the candidate is one.
    """

    provenance: Provenance
    tainted: Provenance | None = None
    edit: Edit | None = None


def attest(
    principal: Principal,
    candidate: Candidate,
    lineage: SourceKind | None,
    culprits: tuple[Origin, ...],
    *,
    seen: Seen | None,
    edit: Edit | None,
    rule: LabelRule,
) -> Attested:
    """The label of a candidate by the rule of its class, and the label by the stricter rule."""
    tainted = derive_provenance(principal, candidate, lineage, culprits, seen, LabelRule.TAINT)
    if rule is LabelRule.TAINT or seen is None:
        return Attested(tainted)
    if edit is not None and (seen.brought is None or not seen.whole):
        return Attested(tainted)  # Nobody can say which part of the text the edit added.
    if edit is not None:
        provenance = derive_edit(principal, candidate, lineage, seen, edit)
    else:
        provenance = derive_provenance(principal, candidate, lineage, culprits, seen, rule)
    if provenance.source.trust > tainted.source.trust:
        # A text that the search did not find may still come from the session, so the ceiling is
        # that of the whole session.
        provenance = lowered(provenance, provenance.source, tainted.ceiling)
        return Attested(provenance, tainted, edit)
    return Attested(provenance if provenance.source is tainted.source else tainted)


def standing_label(
    attested: Attested,
    standing: TextStanding,
    candidate: Candidate,
    reading: Reading,
    stored: MemoryClass | None,
    rules: Mapping[MemoryClass, LabelRule],
) -> Provenance:
    """The label that a candidate is judged by, made anew at the moment of decision.

    Other writes may have come between interception and decision, so the label of an edit counts
    only while the text to be edited is still the same. Class and text are read again, and the
    stricter rule counts: the one at interception or the one now.
    """
    provenance, tainted, edit = attested
    if tainted is None:
        return provenance
    same = edit is not None and standing.mine and standing.text == edit.before
    rule = label_rule(candidate, reading, stored, rules, edit if same else None)
    return provenance if rule is LabelRule.CONTAINMENT else tainted


def with_lineage(
    provenance: Provenance, candidate: Candidate, lineage: SourceKind | None
) -> Provenance:
    """The label lowered to the least trusted memory that the candidate says it derives from.

    A memory that is named and cannot be found counts as unknown.
    """
    if not candidate.derived_from and lineage is None:
        return provenance
    least = SourceKind.UNKNOWN if lineage is None else lineage
    return lowered(provenance, least, least)


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

    A change of a stored memory keeps the stored class unless an update names another. On a server
    behind us the place of a memory decides its class, so a move to a place for more powerful
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


def judged_class(candidate: Candidate, reading: Reading, stored: MemoryClass | None) -> MemoryClass:
    """The class a candidate is judged as: the more powerful of the class asked for and the stored.

    Without this, a policy could be overwritten by naming a lower class for the new text.
    """
    asked = effective_class(candidate, reading, stored)
    return asked if stored is None else more_powerful(asked, stored)


def may_be_lowered(
    candidate: Candidate, reading: Reading, stored: MemoryClass | None, provenance: Provenance
) -> bool:
    """Whether a candidate becomes knowledge instead of being refused for the class it names.

    Without a named class it would become knowledge, and naming one must not get a worse answer.
    Three cases stay refused: a named L1, a class that came with a vouched label, and a text that
    reads as an order.
    """
    return (
        candidate.class_named
        and candidate.memory_class is LOWERED[0]
        and candidate.change is ChangeKind.CREATE
        and stored is None
        and not reading.flagged
        and provenance.basis not in FIRM_BASES
    )


def named_class(candidate: Candidate) -> MemoryClass | None:
    """The class that the client itself named; None where a rule mapped the target to a class."""
    return candidate.memory_class if candidate.class_named else None
