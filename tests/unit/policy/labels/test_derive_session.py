"""What was seen of a session makes the label: it falls with whatever entered, and rises with nobody
but the person who said the very words."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.labels.derive import (
    NOTHING_READ,
    Reading,
    attest,
    derive_provenance,
    label_rule,
    standing_label,
)
from policy.labels.editing import NOBODY_KNOWS, Edit, TextStanding
from policy.labels.taint import NOTHING_SEEN, Joined, LabelRule, Seen
from policy.model import (
    Basis,
    Candidate,
    ChangeKind,
    Channel,
    Claims,
    MemoryClass,
    MemoryId,
    Origin,
    Principal,
    PrincipalId,
    SourceKind,
    Tenant,
    meet,
)
from tests.property.gate_cases import RULESET

AGENT = Principal(principal_id=PrincipalId("p"), tenant=Tenant("t"))
FLAGGED = Reading(skeleton="", directive=True, injection=False)
PAGE = Origin(kind=SourceKind.TOOL_RESULT, server="web", tool="fetch", call_id="1")
SOURCES = st.sampled_from(SourceKind)
ORIGINS = st.lists(st.builds(Origin, kind=SOURCES), max_size=3).map(tuple)
SEEN = st.builds(
    Seen,
    session=st.just("0" * 32),
    joined=st.sampled_from(Joined),
    taint=SOURCES,
    contained=ORIGINS,
    endorsed=st.booleans(),
    whole=st.booleans(),
)


def candidate(change: ChangeKind = ChangeKind.CREATE, **fields: object) -> Candidate:
    plain = Candidate(
        change=change,
        principal_id=PrincipalId("p"),
        tenant=Tenant("t"),
        nonce="n",
        text="Ada prefers tea.",
        claimed_source=SourceKind.OPERATOR,
    )
    return msgspec.structs.replace(plain, **fields)


def joined(taint: SourceKind, *contained: Origin, endorsed: bool = False) -> Seen:
    return Seen(
        session="0" * 32,
        joined=Joined.CALL,
        taint=taint,
        contained=contained,
        endorsed=endorsed,
        whole=True,
    )


@pytest.mark.parametrize(
    ("seen", "rule", "source", "basis"),
    [
        (None, LabelRule.CONTAINMENT, "unknown", Basis.UNJOINED),
        (NOTHING_SEEN, LabelRule.CONTAINMENT, "unknown", Basis.UNJOINED),
        (joined(SourceKind.USER_INPUT), LabelRule.TAINT, "model_inference", Basis.TAINT),
        (joined(SourceKind.TOOL_RESULT), LabelRule.TAINT, "tool_result", Basis.TAINT),
        (
            joined(SourceKind.TOOL_RESULT),
            LabelRule.CONTAINMENT,
            "model_inference",
            Basis.CONTAINMENT,
        ),
        (
            joined(SourceKind.UNKNOWN, PAGE),
            LabelRule.CONTAINMENT,
            "tool_result",
            Basis.CONTAINMENT,
        ),
        (joined(SourceKind.USER_INPUT, PAGE), LabelRule.TAINT, "tool_result", Basis.CONTAINMENT),
        (
            joined(SourceKind.UNKNOWN, PAGE, endorsed=True),
            LabelRule.TAINT,
            "user_input",
            Basis.ENDORSEMENT,
        ),
        (
            Seen(taint=SourceKind.TOOL_RESULT, endorsed=True, whole=True),
            LabelRule.CONTAINMENT,
            "tool_result",
            Basis.UNJOINED,
        ),
    ],
)
def test_a_label_is_what_was_seen_of_the_session(
    seen: Seen | None, rule: LabelRule, source: str, basis: Basis
) -> None:
    provenance = derive_provenance(AGENT, candidate(), None, (), seen, rule)
    assert (provenance.source.value, provenance.basis) == (source, basis)


def test_with_a_lost_history_not_to_be_found_proves_nothing() -> None:
    seen = joined(SourceKind.TOOL_RESULT)
    lost = msgspec.structs.replace(seen, whole=False)
    provenance = derive_provenance(AGENT, candidate(), None, (), lost, LabelRule.CONTAINMENT)
    assert (provenance.source, provenance.basis) == (SourceKind.TOOL_RESULT, Basis.TAINT)


@given(SEEN, st.sampled_from(LabelRule), ORIGINS, SOURCES)
def test_a_segment_more_never_raises_a_label(
    seen: Seen, rule: LabelRule, culprits: tuple[Origin, ...], kind: SourceKind
) -> None:
    """It falls into the context, and the text may be contained in it."""
    before = derive_provenance(AGENT, candidate(), None, culprits, seen, rule)
    for contained in (seen.contained, (Origin(kind=kind), *seen.contained)):
        more = msgspec.structs.replace(seen, taint=meet(seen.taint, kind), contained=contained)
        after = derive_provenance(AGENT, candidate(), None, culprits, more, rule)
        assert after.source.trust <= before.source.trust


@given(SEEN, st.sampled_from(LabelRule), ORIGINS)
def test_only_endorsement_in_the_joined_session_is_more_than_the_model_itself(
    seen: Seen, rule: LabelRule, culprits: tuple[Origin, ...]
) -> None:
    provenance = derive_provenance(AGENT, candidate(), None, culprits, seen, rule)
    if seen.endorsed and seen.joined is not Joined.NONE:
        assert (provenance.source, provenance.basis) == (
            SourceKind.USER_INPUT,
            Basis.ENDORSEMENT,
        )
    else:
        assert provenance.source.trust <= SourceKind.MODEL_INFERENCE.trust
        assert provenance.basis in {Basis.TAINT, Basis.CONTAINMENT, Basis.UNJOINED}
    if rule is LabelRule.TAINT and provenance.basis is not Basis.ENDORSEMENT:
        assert provenance.source.trust <= seen.taint.trust


@given(SEEN, st.sampled_from(LabelRule))
def test_what_was_lost_never_raises_a_label(seen: Seen, rule: LabelRule) -> None:
    before = derive_provenance(AGENT, candidate(), None, (), seen, rule)
    for lost in (
        msgspec.structs.replace(seen, whole=False),
        msgspec.structs.replace(seen, joined=Joined.NONE, session=None),
        NOTHING_SEEN,
    ):
        after = derive_provenance(AGENT, candidate(), None, (), lost, rule)
        if seen.whole or seen.endorsed:
            assert after.source.trust <= max(before.source.trust, seen.taint.trust)
        assert after.source.trust <= max(before.source.trust, SourceKind.MODEL_INFERENCE.trust)


@given(SEEN, st.sampled_from(LabelRule), SOURCES)
def test_lineage_lowers_what_a_person_endorsed(
    seen: Seen, rule: LabelRule, lineage: SourceKind
) -> None:
    derived = candidate(derived_from=(MemoryId("d"),))
    provenance = derive_provenance(AGENT, derived, lineage, (), seen, rule)
    assert provenance.source.trust <= lineage.trust


def test_a_bound_channel_keeps_its_label_and_is_lowered_by_what_the_text_is_found_in() -> None:
    person = msgspec.structs.replace(AGENT, channel=Channel.USER)
    seen = joined(SourceKind.UNKNOWN)
    assert derive_provenance(person, candidate(), None, (), seen).basis is Basis.CHANNEL
    found = derive_provenance(person, candidate(), None, (), joined(SourceKind.UNKNOWN, PAGE))
    assert (found.source, found.basis) == (SourceKind.TOOL_RESULT, Basis.CONTAINMENT)
    vouched = msgspec.structs.replace(AGENT, claims=Claims.TRUSTED)
    trusted = derive_provenance(vouched, candidate(), None, (), seen)
    assert (trusted.source, trusted.basis) == (SourceKind.OPERATOR, Basis.VOUCHED)


def test_the_segments_are_named_and_last_the_channel_itself() -> None:
    seen = joined(SourceKind.TOOL_RESULT, PAGE)
    provenance = derive_provenance(AGENT, candidate(), None, (), seen)
    assert provenance.culprits == (PAGE, Origin(kind=SourceKind.MODEL_INFERENCE))
    said = derive_provenance(
        AGENT, candidate(), None, (), joined(SourceKind.TOOL_RESULT, PAGE, endorsed=True)
    )
    assert said.culprits == (Origin(kind=SourceKind.USER_INPUT),)
    assert said.session == provenance.session == "0" * 32
    assert derive_provenance(AGENT, candidate(), None, (), NOTHING_SEEN).session is None


@pytest.mark.parametrize(
    ("proposed", "reading", "stored", "rule"),
    [
        (candidate(memory_class=MemoryClass.L3), NOTHING_READ, None, LabelRule.CONTAINMENT),
        (candidate(memory_class=MemoryClass.L2), NOTHING_READ, None, LabelRule.TAINT),
        (candidate(memory_class=MemoryClass.L4), FLAGGED, None, LabelRule.TAINT),
        (
            candidate(ChangeKind.UPDATE, memory_class=MemoryClass.L4, class_named=True),
            NOTHING_READ,
            MemoryClass.L2,
            LabelRule.TAINT,
        ),
        (
            candidate(ChangeKind.UPDATE, memory_class=MemoryClass.L3),
            NOTHING_READ,
            MemoryClass.L4,
            LabelRule.CONTAINMENT,
        ),
        (candidate(ChangeKind.UPDATE, text=None), NOTHING_READ, MemoryClass.L4, LabelRule.TAINT),
        (candidate(ChangeKind.DELETE), NOTHING_READ, MemoryClass.L4, LabelRule.TAINT),
        (candidate(ChangeKind.UPDATE, target="mcp/graph"), NOTHING_READ, None, LabelRule.TAINT),
        (candidate(target="mcp/graph"), NOTHING_READ, None, LabelRule.CONTAINMENT),
    ],
)
def test_the_rule_is_that_of_the_class_it_is_judged_as(
    proposed: Candidate, reading: Reading, stored: MemoryClass | None, rule: LabelRule
) -> None:
    assert label_rule(proposed, reading, stored, RULESET.labels) is rule
    assert label_rule(proposed, reading, stored, {}) is LabelRule.TAINT


@given(SEEN, st.sampled_from(LabelRule), ORIGINS)
def test_a_ceiling_is_the_label_under_taint_whatever_the_rule(
    seen: Seen, rule: LabelRule, culprits: tuple[Origin, ...]
) -> None:
    attested = attest(AGENT, candidate(), None, culprits, seen=seen, edit=None, rule=rule)
    tainted = derive_provenance(AGENT, candidate(), None, culprits, seen, LabelRule.TAINT)
    assert attested.provenance.ceiling is tainted.source
    assert attested.provenance.ceiling.trust <= attested.provenance.source.trust


def test_a_paraphrase_that_is_not_found_keeps_what_its_context_had_read() -> None:
    seen = joined(SourceKind.TOOL_RESULT)
    rule = LabelRule.CONTAINMENT
    found = attest(AGENT, candidate(), None, (), seen=seen, edit=None, rule=rule).provenance
    assert (found.source, found.ceiling) == (SourceKind.MODEL_INFERENCE, SourceKind.TOOL_RESULT)


CONTAINED = LabelRule.CONTAINMENT
FORWARDED = candidate(ChangeKind.UPDATE, target="mcp/graph", memory_class=MemoryClass.L4)
EDIT = Edit(
    before="Ada likes tea.",
    after="Ada likes green tea.",
    source=SourceKind.MODEL_INFERENCE,
    ceiling=SourceKind.MODEL_INFERENCE,
    memory_class=MemoryClass.L3,
)
KNOWN = TextStanding(
    text=EDIT.before,
    mine=True,
    source=EDIT.source,
    ceiling=EDIT.ceiling,
    memory_class=EDIT.memory_class,
)


@pytest.mark.parametrize(
    ("proposed", "reading", "stored", "edit", "rule"),
    [
        (FORWARDED, NOTHING_READ, MemoryClass.L3, EDIT, LabelRule.CONTAINMENT),
        (FORWARDED, NOTHING_READ, MemoryClass.L3, None, LabelRule.TAINT),
        (FORWARDED, NOTHING_READ, None, EDIT, LabelRule.TAINT),
        (FORWARDED, NOTHING_READ, MemoryClass.L2, EDIT, LabelRule.TAINT),
        (FORWARDED, NOTHING_READ, MemoryClass.L1, EDIT, LabelRule.TAINT),
        # Its new place may be where rules are kept; what it says may be an order.
        (
            msgspec.structs.replace(FORWARDED, memory_class=MemoryClass.L2),
            NOTHING_READ,
            MemoryClass.L4,
            EDIT,
            LabelRule.TAINT,
        ),
        (FORWARDED, FLAGGED, MemoryClass.L4, EDIT, LabelRule.TAINT),
        (
            msgspec.structs.replace(FORWARDED, change=ChangeKind.DELETE),
            NOTHING_READ,
            MemoryClass.L4,
            EDIT,
            LabelRule.TAINT,
        ),
        (
            FORWARDED,
            NOTHING_READ,
            MemoryClass.L4,
            msgspec.structs.replace(EDIT, after="Ada likes."),
            LabelRule.TAINT,
        ),
    ],
)
def test_an_edit_of_a_text_that_is_known_follows_the_class_that_it_has(
    proposed: Candidate,
    reading: Reading,
    stored: MemoryClass | None,
    edit: Edit | None,
    rule: LabelRule,
) -> None:
    assert label_rule(proposed, reading, stored, RULESET.labels, edit) is rule


def brought(*origins: Origin) -> Seen:
    """The agent looked at the note before it changed it; and what the change brings in."""
    looked = joined(SourceKind.TOOL_RESULT, PAGE)
    return msgspec.structs.replace(looked, brought=origins)


def test_what_an_edit_leaves_alone_does_not_lower_it_and_what_it_brings_does() -> None:
    tainted = SourceKind.TOOL_RESULT
    for seen, source in ((brought(), SourceKind.MODEL_INFERENCE), (brought(PAGE), tainted)):
        found = attest(
            AGENT, FORWARDED, None, (PAGE,), seen=seen, edit=EDIT, rule=LabelRule.CONTAINMENT
        )
        assert found.provenance.source is source
    lost = msgspec.structs.replace(brought(), whole=False)
    for other in (lost, joined(tainted), NOTHING_SEEN, None):
        found = attest(
            AGENT, FORWARDED, None, (PAGE,), seen=other, edit=EDIT, rule=LabelRule.CONTAINMENT
        )
        assert found.provenance.source.trust <= tainted.trust
        assert found.tainted is None


def test_an_edit_is_labelled_no_better_than_what_it_goes_into() -> None:
    page = msgspec.structs.replace(EDIT, source=SourceKind.UNKNOWN)
    found = attest(
        AGENT, FORWARDED, None, (), seen=brought(), edit=page, rule=LabelRule.CONTAINMENT
    )
    assert found.provenance.source is SourceKind.TOOL_RESULT  # what the context makes of it


@pytest.mark.parametrize(
    ("standing", "stored", "holds"),
    [
        (KNOWN, MemoryClass.L3, True),
        (KNOWN, MemoryClass.L4, True),
        (KNOWN, MemoryClass.L2, False),
        (KNOWN, None, False),
        (NOBODY_KNOWS, MemoryClass.L3, False),
        (msgspec.structs.replace(KNOWN, mine=False), MemoryClass.L3, False),
        (msgspec.structs.replace(KNOWN, text="Ada likes tea. "), MemoryClass.L3, False),
    ],
)
def test_class_and_text_are_read_again_and_the_stricter_rule_counts(
    standing: TextStanding, stored: MemoryClass | None, *, holds: bool
) -> None:
    attested = attest(
        AGENT, FORWARDED, None, (), seen=brought(), edit=EDIT, rule=LabelRule.CONTAINMENT
    )
    assert attested.tainted is not None
    found = standing_label(attested, standing, FORWARDED, NOTHING_READ, stored, RULESET.labels)
    assert found is (attested.provenance if holds else attested.tainted)
    flagged = standing_label(attested, standing, FORWARDED, FLAGGED, stored, RULESET.labels)
    assert flagged is attested.tainted
    # What was strict when it was intercepted stays so, whatever is stored by now.
    strict = attest(AGENT, FORWARDED, None, (), seen=brought(), edit=EDIT, rule=LabelRule.TAINT)
    again = standing_label(strict, KNOWN, FORWARDED, NOTHING_READ, MemoryClass.L4, RULESET.labels)
    assert again.source is SourceKind.TOOL_RESULT


@given(SEEN, st.one_of(st.none(), ORIGINS), ORIGINS, SOURCES, st.sampled_from(LabelRule))
def test_an_edit_is_never_better_than_a_new_memory_of_a_model(
    seen: Seen,
    brought_in: tuple[Origin, ...] | None,
    culprits: tuple[Origin, ...],
    source: SourceKind,
    rule: LabelRule,
) -> None:
    seen = msgspec.structs.replace(seen, brought=brought_in)
    edit = msgspec.structs.replace(EDIT, source=source)
    found = attest(AGENT, FORWARDED, None, culprits, seen=seen, edit=edit, rule=rule)
    tainted = derive_provenance(AGENT, FORWARDED, None, culprits, seen)
    if found.provenance.source.trust > tainted.source.trust:
        assert found.tainted == tainted
        assert found.provenance.source.trust <= SourceKind.MODEL_INFERENCE.trust
        assert found.provenance.source.trust <= source.trust
        assert brought_in is not None
        assert all(one.kind.trust >= found.provenance.source.trust for one in brought_in)
    else:
        assert found.provenance.source is tainted.source
