"""Faults in what a decision rests on: labels, classes, trust, tokens, permits, canonical bytes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_GATE: Final = "policy/gate.py"
_LABELS: Final = "policy/labels/derive.py"
_CHECK_TESTS: Final = "tests/unit/policy/test_checks.py"
_LABEL_TESTS: Final = "tests/unit/policy/labels/test_derive.py"
_SESSION_TESTS: Final = "tests/unit/policy/labels/test_derive_session.py"
_FLOOR_TESTS: Final = "tests/unit/policy/labels/test_floor.py"
_VOUCHING: Final = "tests/unit/storage/write/test_vouching.py"
_CLEARED: Final = (
    "test_a_note_of_a_tainted_context_is_cleared_away_from_one_and_a_persons_words_are_not"
)

LABELS: Final = (
    Mutant(
        name="the meet is a join",
        file="policy/model.py",
        old="return second if second.trust < first.trust else first",
        new="return second if second.trust > first.trust else first",
        invariant="labels that are combined give the lower one",
        tests=("tests/unit/policy/test_model.py",),
        quick=True,
    ),
    Mutant(
        name="the class floor is gone",
        file=_LABELS,
        old="return more_powerful(asked, order) if reading.flagged else asked",
        new="return asked",
        invariant="text that gives directives is policy, whatever it is filed under",
        tests=(
            at(
                _LABEL_TESTS,
                "test_a_directive_raises_the_floor_whatever_the_target_and_never_lowers_it",
            ),
        ),
    ),
    Mutant(
        name="a policy is judged by the class its new text names",
        file=_LABELS,
        old="return asked if stored is None else more_powerful(asked, stored)",
        new="return asked",
        invariant="what is replaced counts as much as what replaces it",
        tests=(at(_LABEL_TESTS, "test_a_policy_is_not_overwritten_by_naming_a_lower_class"),),
    ),
    Mutant(
        name="a claim is believed without an operator's word",
        file=_LABELS,
        old="candidate.claimed_source if principal.claims is Claims.TRUSTED else None",
        new="candidate.claimed_source",
        invariant="what a client says of its source is a claim",
        tests=(at(_LABEL_TESTS, "test_a_label_is_what_the_channel_is_worth"),),
    ),
    Mutant(
        name="a claim climbs above its channel",
        file=_LABELS,
        old="return claimed if bound is None else meet(bound, claimed), Basis.VOUCHED",
        new="return claimed, Basis.VOUCHED",
        invariant="a vouched claim cannot climb above a channel that is bound lower",
        tests=(at(_LABEL_TESTS, "test_a_label_is_what_the_channel_is_worth"),),
    ),
    Mutant(
        name="what is not found in a context has nothing of it",
        file=_LABELS,
        old="        provenance = lowered(provenance, provenance.source, tainted.ceiling)\n",
        new="",
        invariant="a text keeps how far its context could be trusted",
        tests=(
            at(
                _SESSION_TESTS,
                "test_a_paraphrase_that_is_not_found_keeps_what_its_context_had_read",
            ),
        ),
    ),
    Mutant(
        name="a recalled text is as good as it was judged",
        file="proxy/ledger/core.py",
        old="            label = memory.ceiling\n",
        new="            label = memory.source\n",
        invariant="a recall brings the context of its writer into another one",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_splices.py",
                "test_a_recalled_memory_brings_in_its_ceiling",
            ),
        ),
    ),
    Mutant(
        name="a label of before has what it was judged to be as its ceiling",
        file="policy/labels/ceiling.py",
        old="    if label.basis in FIRM_BASES:\n",
        new="    if label.basis:\n",
        invariant="what was in a context that was forgotten counts as the worst that is likely",
        tests=("tests/unit/policy/labels/test_ceiling.py",),
    ),
    Mutant(
        name="what a person confirmed stays what it was",
        file=_GATE,
        old="confirmed_by_a_person(provenance) if confirmed(facts) else provenance\n",
        new="provenance\n",
        invariant="a person's confirmation makes a text hers, in both labels",
        tests=(
            at(
                "tests/unit/policy/test_gate.py",
                "test_a_confirmation_passes_what_was_held_and_nothing_that_was_refused",
            ),
        ),
    ),
    Mutant(
        name="a removal is held against what was judged",
        file="policy/checks.py",
        old="        own, other = provenance.ceiling, stored.ceiling\n",
        new="        own, other = provenance.source, stored.source\n",
        invariant="a note is cleared away where it was written",
        tests=(at(_CHECK_TESTS, _CLEARED),),
    ),
    Mutant(
        name="a person's words are cleared away from where a page was read",
        file="policy/checks.py",
        old="in _REMOVALS and other.trust < SourceKind.USER_INPUT.trust:\n",
        new="in _REMOVALS:\n",
        invariant="whoever removes a person's words is trusted as she is",
        tests=(at(_CHECK_TESTS, _CLEARED),),
    ),
    Mutant(
        name="what stays of a memory is labelled as what is new",
        file="storage/write/gathering.py",
        old="    return kept is not None or bool(left)\n",
        new="    return False\n",
        invariant="a memory that is changed in part keeps the lower labels",
        tests=(
            at(
                "tests/unit/storage/write/test_held.py",
                "test_a_memory_has_the_label_of_a_change_where_nothing_of_it_stays",
            ),
        ),
    ),
    Mutant(
        name="a person vouches for what was not shown",
        file="storage/write/vouching.py",
        old="        if row.version != version:\n",
        new="        if row.version < version:\n",
        invariant="a label is raised for the version that a person read",
        tests=(at(_VOUCHING, "test_nobody_vouches_for_what_was_not_shown"),),
    ),
    Mutant(
        name="what is vouched for is shown without who is said to speak",
        file="proxy/cli/review.py",
        old=(
            '            ("role", memory.role or "-"),\n'
            '            ("speaker", memory.actor or "-"),\n'
        ),
        new="",
        invariant="a person sees all that she vouches for",
        tests=(
            at(
                "tests/integration/test_cli_life.py",
                "test_a_person_vouches_for_what_was_shown_to_her",
            ),
        ),
    ),
    Mutant(
        name="a row is held against the ceiling that it has",
        file="storage/audit/leaves.py",
        old="        label = (leaf.source, ceiling_of(leaf), leaf.basis)\n",
        new="        label = (leaf.source, ceiling_of(row), leaf.basis)\n",
        invariant="no label is raised without a leaf",
        tests=(at(_VOUCHING, "test_a_row_that_was_raised_without_a_leaf_is_found"),),
    ),
    Mutant(
        name="lineage goes by what was judged",
        file="storage/write/gathering.py",
        old="is_expired(row, change.now_ms) else ceiling_of(row)\n",
        new="is_expired(row, change.now_ms) else row.source\n",
        invariant="what derives from a note comes from where that was written",
        tests=(
            at(
                _VOUCHING,
                "test_what_derives_from_a_note_is_no_better_than_where_that_was_written",
            ),
        ),
    ),
    Mutant(
        name="lineage is ignored",
        file=_LABELS,
        old="    return lowered(provenance, least, least)\n",
        new="    return provenance\n",
        invariant="a derived memory takes the minimum of what it derives from",
        tests=(at(_LABEL_TESTS, "test_lineage_only_lowers"),),
    ),
    Mutant(
        name="metadata is not read",
        file=_LABELS,
        old="    if metadata_json is not None:\n        found",
        new="    if metadata_json is not None and not metadata_json:\n        found",
        invariant="words hidden in metadata are read like the text",
        tests=("tests/unit/policy/text/test_language.py",),
    ),
    Mutant(
        name="an order is a preference, whoever gave it",
        file="policy/labels/floor.py",
        old="    if reading.injection or provenance is None:\n        return MemoryClass.L1\n",
        new="    if provenance is not None:\n        return MemoryClass.L2\n",
        invariant="an order is policy, but a person's own",
        tests=(at(_FLOOR_TESTS, "test_only_an_endorsed_text_is_believed_unseen"),),
    ),
    Mutant(
        name="a program's turn is a person's wish",
        file="policy/labels/floor.py",
        old=" and provenance.by_person\n",
        new="\n",
        invariant="an order is hers where the operator vouches that people type",
        tests=(at(_FLOOR_TESTS, "test_the_same_where_nobody_vouches_that_people_type_is_held"),),
    ),
    Mutant(
        name="a pasted letter is a plain rule",
        file="policy/labels/floor.py",
        old="typed and is_plain_rule(_said_in(candidate))",
        new="typed",
        invariant="what names an address, an account or an amount is seen by a person first",
        tests=(at(_FLOOR_TESTS, "test_what_a_pasted_letter_would_say_is_no_plain_rule"),),
    ),
    Mutant(
        name="a quotation is not read",
        file="policy/text/language.py",
        old='readings += (bare, _MARK.sub("\\n", shape))',
        new='readings = [re.sub(r"[\\"`][^\\"`]*[\\"`]", " ", shape)]',
        invariant="an order is an order in any frame",
        tests=(
            at(
                "tests/unit/policy/text/languages/test_languages.py",
                "test_no_frame_makes_an_order_harmless",
            ),
        ),
    ),
    Mutant(
        name="words with marks between them are no sentence",
        file="policy/text/language.py",
        old="set_together(shape)) != shape",
        new="shape) != shape",
        invariant="an order is an order however its words are set apart",
        tests=(
            at(
                "tests/unit/policy/text/test_language.py",
                "test_words_set_apart_by_marks_are_one_sentence",
            ),
        ),
    ),
    Mutant(
        name="letters with marks between them are no words",
        file="policy/text/set_apart.py",
        old="_LETTERS.sub(_joined, shape)",
        new="shape",
        invariant="an order is an order however its letters are set apart",
        tests=(
            at(
                "tests/unit/policy/text/test_language.py",
                "test_letters_set_apart_by_marks_are_one_sentence",
            ),
        ),
    ),
    Mutant(
        name="names of an object are no sentence",
        file=_LABELS,
        old="{*found.names, *found.strings}",
        new="{*found.strings}",
        invariant="names of an object are read in their order",
        tests=(
            at(
                "tests/unit/policy/text/test_language.py",
                "test_words_that_a_structure_sets_apart_are_one_sentence",
            ),
        ),
    ),
    Mutant(
        name="what stands under one name is no sentence",
        file=_LABELS,
        old='    rows.update(map(" ".join, found.under.values()))\n',
        new="",
        invariant="what stands under one name is read in its order",
        tests=(
            at(
                "tests/unit/policy/text/test_language.py",
                "test_words_that_a_structure_sets_apart_are_one_sentence",
            ),
        ),
    ),
    Mutant(
        name="a text that is an object is read as prose alone",
        file=_LABELS,
        old="language_of(shape) | _language_within(text)",
        new="language_of(shape)",
        invariant="a structure in a text is read like metadata",
        tests=(
            at(
                "tests/unit/policy/text/test_language.py",
                "test_words_that_a_structure_sets_apart_are_one_sentence",
            ),
        ),
    ),
    Mutant(
        name="a language is left out",
        file="policy/text/languages/__init__.py",
        old="(ENGLISH, GERMAN, ROMANCE)",
        new="(ENGLISH, ROMANCE)",
        invariant="orders are found in each language that is promised",
        tests=(
            at(
                "tests/unit/policy/text/languages/test_languages.py",
                "test_every_language_of_its_own_has_enough_examples",
            ),
        ),
    ),
    Mutant(
        name="names are not read",
        file=_LABELS,
        old="    if found is Language.PLAIN:\n        return reading\n",
        new="    if found:\n        return reading\n",
        invariant="words hidden in a name are read like the text",
        tests=(at(_LABEL_TESTS, "test_a_directive_in_a_name_is_read_like_one_in_the_text"),),
    ),
    Mutant(
        name="an updated memory takes the newer label",
        file=_GATE,
        old="    return lowered(label, stored.source, stored.ceiling)\n",
        new="    return label\n",
        invariant="an updated memory keeps the lower of both labels",
        tests=(at(_CHECK_TESTS, "test_an_updated_memory_keeps_the_lower_label"),),
    ),
    Mutant(
        name="unjudged words that stay beside a person's get her label",
        file=_GATE,
        old="        if call is None or not call.sets_all:\n",
        new="        if call is None and not candidate:\n",
        invariant="what stands on a server unjudged never lands under a better label than unknown",
        tests=(
            at(
                "tests/unit/proxy/guard/test_local.py",
                "test_a_persons_words_beside_words_that_nobody_judged_have_the_lowest_label",
            ),
        ),
    ),
    Mutant(
        name="the ladder leads up",
        file="policy/trust/ladder.py",
        old="TrustLevel.DEGRADED: (TrustLevel.DEGRADED, TrustLevel.DEGRADED, TrustLevel.UNTRUSTED)",
        new="TrustLevel.DEGRADED: (TrustLevel.TRUSTED, TrustLevel.DEGRADED, TrustLevel.UNTRUSTED)",
        invariant="trust never rises by a violation",
        tests=("tests/unit/policy/trust/test_ladder.py",),
    ),
    Mutant(
        name="the third violation only degrades",
        file="policy/trust/ladder.py",
        old="TrustLevel.DEGRADED: (TrustLevel.DEGRADED, TrustLevel.DEGRADED, TrustLevel.UNTRUSTED)",
        new="TrustLevel.DEGRADED: (TrustLevel.DEGRADED, TrustLevel.DEGRADED, TrustLevel.DEGRADED)",
        invariant="the third violation makes untrusted (MWP Table 6)",
        tests=("tests/unit/policy/trust/test_ladder.py",),
    ),
    Mutant(
        name="a token outlives its time",
        file="policy/tokens.py",
        old="return TokenState.EXPIRED if stale or expired else TokenState.VALID",
        new="return TokenState.EXPIRED if stale else TokenState.VALID",
        invariant="a promotion token expires",
        tests=("tests/unit/policy/test_tokens.py",),
    ),
    Mutant(
        name="a token opens any class",
        file="policy/tokens.py",
        old="        and token.to_class is context.to_class\n",
        new="",
        invariant="a token is bound to the class the candidate lands in",
        tests=("tests/unit/policy/test_tokens.py",),
    ),
    Mutant(
        name="a token fits any text",
        file="policy/tokens.py",
        old="token.binding == binding_of(token.serial, context.digest)",
        new="token.binding",
        invariant="a token is bound to one candidate's digest",
        tests=("tests/unit/policy/test_tokens.py",),
    ),
    Mutant(
        name="anybody makes permits",
        file="policy/verdict.py",
        old="        if seal is not _SEAL:\n",
        new="        if seal is None:\n",
        invariant="only the gate makes permits",
        tests=("tests/unit/policy/test_verdict.py",),
    ),
    Mutant(
        name="a permit is spent again",
        file="policy/verdict.py",
        old="        self._spent = True\n",
        new="        self._spent = False\n",
        invariant="a permit is single-use",
        tests=("tests/unit/policy/test_verdict.py",),
    ),
    Mutant(
        name="the speaker is not under the digest",
        file="policy/canonical.py",
        old="return _ENCODER.encode(_with_defaults(candidate))",
        new="return _ENCODER.encode(msgspec.structs.replace(candidate, actor=None))",
        invariant="every field of a candidate is under its digest",
        tests=(
            at("tests/property/test_gate_canonical.py", "test_every_field_is_under_the_digest"),
        ),
    ),
    Mutant(
        name="look-alike letters stay",
        file="policy/text/skeleton.py",
        old=".translate(ASCII_LOOKALIKES).casefold()",
        new=".casefold()",
        more=(("_AFTER_CASE = ASCII_LOOKALIKES | _PUNCTUATION", "_AFTER_CASE = _PUNCTUATION"),),
        invariant="text is read as a person sees it",
        tests=("tests/unit/policy/text/test_skeleton.py",),
    ),
)
