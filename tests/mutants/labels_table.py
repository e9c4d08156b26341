"""Faults in what a decision rests on: labels, classes, trust, tokens, permits, canonical bytes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_GATE: Final = "policy/gate.py"
_LABELS: Final = "policy/labels/derive.py"
_CHECK_TESTS: Final = "tests/unit/policy/test_checks.py"
_LABEL_TESTS: Final = "tests/unit/policy/labels/test_derive.py"
_SESSION_TESTS: Final = "tests/unit/policy/labels/test_derive_session.py"

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
        old="    if reading.flagged:\n        return MemoryClass.L1\n",
        new="",
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
        old="    if label.basis in _KNOWN_WRITER:\n",
        new="    if label.basis:\n",
        invariant="what was in a context that was forgotten counts as the worst that is likely",
        tests=("tests/unit/policy/labels/test_ceiling.py",),
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
        old="    return lowered(label, facts.stored.source, facts.stored.ceiling)\n",
        new="    return label\n",
        invariant="an updated memory keeps the lower of both labels",
        tests=(at(_CHECK_TESTS, "test_an_updated_memory_keeps_the_lower_label"),),
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
