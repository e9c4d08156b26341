"""Faults in the decision: a step that is gone, a rule turned round, a fact not asked for."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_CHECKS: Final = "policy/checks.py"
_GATE: Final = "policy/gate.py"
_GATE_TESTS: Final = "tests/unit/policy/test_gate.py"
_STEP_TESTS: Final = "tests/unit/policy/test_gate_steps.py"
_CHECK_TESTS: Final = "tests/unit/policy/test_checks.py"
_LABELS: Final = "policy/labels/derive.py"
_READ_TESTS: Final = "tests/unit/storage/read/test_check.py"
_STANDING: Final = "tests/integration/test_http_standing.py"
_VERIFY_TESTS: Final = "tests/unit/proxy/cli/test_verification.py"


def _lowered(test: str) -> str:
    return at("tests/unit/policy/test_class_lowered.py", test)


_ATTACKED: Final = (
    at(_GATE_TESTS, "test_each_attack_is_refused_by_its_step_and_lands_without_it"),
)
_REFERENCE: Final = (
    at(
        "tests/property/test_gate_reference.py",
        "test_gate_agrees_with_the_reference_on_a_share_of_the_label_space",
    ),
)


def _without(number: int, check: str, invariant: str, tests: tuple[str, ...]) -> Mutant:
    """The step is still there by its number, and objects to nothing."""
    return Mutant(
        name=f"step {number} passes everything",
        file=_CHECKS,
        old=f"check={check})",
        new="check=lambda candidate, facts, ruleset: None)",
        invariant=invariant,
        tests=tests,
    )


STEPS: Final = (
    _without(1, "source_class", "a source writes only the classes it may (A1, A2)", _ATTACKED),
    _without(
        2,
        "language",
        "an enhanced pair is free of directive and injection language",
        (at(_GATE_TESTS, "test_flagged_language_in_an_enhanced_pair_is_refused_by_step_2"),),
    ),
    _without(
        3,
        "trust_level",
        "an untrusted principal writes scratch and nothing else",
        (at(_CHECK_TESTS, "test_an_untrusted_principal_writes_scratch_and_nothing_else"),),
    ),
    _without(4, "digest_integrity", "what is judged is what was sent (A5)", _ATTACKED),
    _without(5, "nonce_uniqueness", "a nonce is used once (A4)", _ATTACKED),
    _without(6, "promotion", "a class upgrade carries a token (A3)", _ATTACKED),
    _without(7, "audit_cross_check", "what nobody intercepted is not judged", _REFERENCE),
    _without(8, "cognitive_staging", "no anchor is contradicted or outranked", _REFERENCE),
    _without(
        9,
        "budgets",
        "size, rate and quota are bounded",
        (at(_STEP_TESTS, "test_a_candidate_over_its_budget_is_refused_by_step_9"),),
    ),
    _without(
        10,
        "drift",
        "a name under alarm is held where the ruleset says so",
        (
            at(
                _STEP_TESTS,
                "test_a_name_under_alarm_is_held_by_step_10_only_where_the_ruleset_holds",
            ),
        ),
    ),
)

RULES: Final = (
    Mutant(
        name="integrity is judged last",
        file=_CHECKS,
        old='    Step(number=7, name="audit_cross_check", check=audit_cross_check),\n',
        new="",
        more=(
            (
                '    Step(number=10, name="drift", check=drift),\n',
                (
                    '    Step(number=10, name="drift", check=drift),\n'
                    '    Step(number=7, name="audit_cross_check", check=audit_cross_check),\n'
                ),
            ),
        ),
        invariant="a candidate that nobody intercepted is not judged on its content",
        tests=(at(_GATE_TESTS, "test_every_step_has_its_number_once_and_integrity_comes_first"),),
    ),
    Mutant(
        name="tool results may write identity",
        file="policy/default.toml",
        old='tool_result     = { L1 = "refuse", L2 = "refuse"',
        new='tool_result     = { L1 = "refuse", L2 = "enhanced"',
        invariant="the default matrix is that of the design",
        tests=(
            at(
                "tests/property/test_gate_reference.py",
                "test_the_reference_knows_the_matrix_of_the_design_and_the_default_ruleset_is_it",
            ),
        ),
    ),
    Mutant(
        name="a pair the matrix does not name is open",
        file="policy/ruleset.py",
        old="Cell.REFUSE if row is None else row.get(memory_class, Cell.REFUSE)",
        new="Cell.ADMIT if row is None else row.get(memory_class, Cell.ADMIT)",
        invariant="whatever a ruleset does not open is closed",
        tests=(at(_GATE_TESTS, "test_a_pair_the_ruleset_does_not_name_is_refused"),),
    ),
    Mutant(
        name="an empty ruleset decides",
        file=_GATE,
        old="if not self._steps or not ruleset.matrix:",
        new="if not self._steps:",
        invariant="an empty ruleset rejects with the reason that nothing could be decided",
        tests=(at(_GATE_TESTS, "test_an_empty_ruleset_rejects"),),
    ),
    Mutant(
        name="a gate without steps admits",
        file=_GATE,
        old="if not self._steps or not ruleset.matrix:",
        new="if not ruleset.matrix:",
        invariant="an empty list of checks rejects everything",
        tests=(at(_GATE_TESTS, "test_a_gate_without_steps_rejects"),),
    ),
    Mutant(
        name="a crashed check passes",
        file=_GATE,
        old="a check that raises is a check that refused\n                finding = UNAVAILABLE",
        new="a check that raises is a check that refused\n                finding = None",
        invariant="a check that cannot run is a check that failed",
        tests=(at(_GATE_TESTS, "test_a_step_that_raises_is_a_step_that_refused"),),
        quick=True,
    ),
    Mutant(
        name="a check that answers nonsense passes",
        file=_GATE,
        old="isinstance(finding, Objection) else UNAVAILABLE",
        new="isinstance(finding, Objection) else None",
        invariant="only None passes a step",
        tests=(at(_GATE_TESTS, "test_a_step_that_answers_nonsense_admits_nothing"),),
    ),
    Mutant(
        name="an approval of other bytes counts",
        file=_CHECKS,
        old="facts.approval is not None and facts.approval.digest == facts.staged_digest",
        new="facts.approval is not None",
        invariant="a confirmation is bound to the bytes that a person saw",
        tests=(at(_GATE_TESTS, "test_a_confirmation_of_other_bytes_counts_for_nothing"),),
    ),
    Mutant(
        name="an approval passes what is refused",
        file=_GATE,
        old="if finding is None or (finding.holds and approved):",
        new="if finding is None or approved:",
        invariant="a person passes what was held and nothing that was refused",
        tests=(
            at(
                _GATE_TESTS, "test_a_confirmation_passes_what_was_held_and_nothing_that_was_refused"
            ),
        ),
    ),
    Mutant(
        name="a hold is not outvoted by a later reject",
        file=_GATE,
        old="            elif not finding.holds:\n",
        new="            elif not finding.holds and held is None:\n",
        invariant="a reject at any step decides, whatever was held before it",
        tests=(
            at(
                _GATE_TESTS,
                "test_a_later_reject_wins_over_an_earlier_hold_and_the_first_hold_is_told",
            ),
        ),
    ),
    Mutant(
        name="the gate believes the digest it is told",
        file=_CHECKS,
        old="if judged == facts.staged_digest == facts.intercept.digest:",
        new="if facts.staged_digest == facts.intercept.digest:",
        invariant="the digest is recomputed over the very candidate that is judged",
        tests=(
            at(_GATE_TESTS, "test_the_gate_judges_the_bytes_it_was_given_not_those_it_was_told_of"),
        ),
    ),
    Mutant(
        name="an intercept record of another tenant fits",
        file=_CHECKS,
        old="        and record.tenant == candidate.tenant\n",
        new="",
        invariant="the interceptor's record names candidate, principal, tenant and target",
        tests=(at(_STEP_TESTS, "test_an_intercept_record_of_anything_else_is_refused_by_step_7"),),
    ),
    Mutant(
        name="a forbidden pair that a harness claims is not structural",
        file=_CHECKS,
        old="return Objection(Reason.SOURCE_CLASS_FORBIDDEN, structural=done)",
        new="return Objection(Reason.SOURCE_CLASS_FORBIDDEN)",
        invariant="what a program must have done costs trust",
        tests=(
            at(_GATE_TESTS, "test_five_forbidden_writes_reproduce_the_trust_timeline_of_table_6"),
        ),
    ),
    Mutant(
        name="a class that a model names costs trust",
        file=_CHECKS,
        old="structural=done)",
        new="structural=True)",
        invariant="no page can switch a principal's memory off through its model",
        tests=(
            _lowered("test_a_forbidden_pair_moves_the_ladder_only_where_the_label_is_vouched_for"),
        ),
    ),
    Mutant(
        name="a forged token for a forbidden pair costs nothing",
        file=_CHECKS,
        old=" or facts.token in _FORGED\n",
        new="\n",
        invariant="a forged token costs trust, whichever step is asked first",
        tests=(_lowered("test_a_forged_token_moves_the_ladder_whatever_pair_it_was_forged_for"),),
    ),
    Mutant(
        name="a named preference is refused",
        file=_CHECKS,
        old="    return LOWERED[1] if lowered else asked\n",
        new="    return asked\n",
        invariant="who names the class gets no worse answer than who names none",
        tests=(_lowered("test_who_names_the_class_gets_what_who_names_none_gets"),),
    ),
    Mutant(
        name="named policy is lowered",
        file=_LABELS,
        old="        and candidate.memory_class is LOWERED[0]\n",
        new="",
        invariant="named policy is refused",
        tests=(_lowered("test_named_policy_is_refused_and_never_lowered"),),
    ),
    Mutant(
        name="an order is lowered",
        file=_LABELS,
        old="        and not reading.flagged\n",
        new="",
        invariant="what reads as an order never becomes knowledge",
        tests=(_lowered("test_what_reads_as_an_order_is_never_lowered"),),
    ),
    Mutant(
        name="a vouched pair is lowered",
        file=_LABELS,
        old="        and provenance.basis not in FIRM_BASES\n",
        new="",
        invariant="a label that came with its class is judged with it",
        tests=(_lowered("test_a_label_that_came_with_its_class_is_never_lowered"),),
    ),
    Mutant(
        name="a place's class is lowered",
        file=_LABELS,
        old="        candidate.class_named\n        and candidate.memory_class",
        new="        candidate.memory_class",
        invariant="a class that comes from a place waits for a person",
        tests=(_lowered("test_a_class_that_comes_from_a_place_is_held_and_never_lowered"),),
    ),
    Mutant(
        name="a change of what is stored is lowered",
        file=_LABELS,
        old="        and stored is None\n",
        new="",
        invariant="only what is new is lowered",
        tests=(_lowered("test_a_change_of_what_is_stored_is_never_lowered"),),
    ),
    Mutant(
        name="any landing below the named class is sound",
        file="storage/audit/leaves.py",
        old="    return not to_knowledge or verdict.basis in FIRM_BASES\n",
        new="    return False\n",
        invariant="an auditor sees a class that was lowered where no gate may do that",
        tests=(
            at(_READ_TESTS, "test_a_class_that_was_lowered_where_no_gate_may_do_that_is_named"),
            at(_VERIFY_TESTS, "test_a_class_that_was_lowered_where_no_gate_may_do_that_is_named"),
        ),
    ),
    Mutant(
        name="anybody purges",
        file=_CHECKS,
        old="candidate.change is ChangeKind.PURGE and provenance.source is not SourceKind.OPERATOR",
        new="candidate.change is ChangeKind.PURGE and provenance.source is SourceKind.UNKNOWN",
        invariant="only an operator purges",
        tests=(at(_CHECK_TESTS, "test_only_an_operator_purges"),),
    ),
    Mutant(
        name="a weaker source changes what a stronger one wrote",
        file=_CHECKS,
        old="    if own.trust >= other.trust:",
        new="    if own.trust >= 0:",
        invariant="update and delete need a source at least as trusted as the stored label",
        tests=(
            at(_CHECK_TESTS, "test_an_agent_waits_for_a_person_to_change_what_is_above_it"),
            at(_STANDING, "test_an_agent_changes_no_memory_of_who_is_more_trusted_by_any_route"),
        ),
    ),
    Mutant(
        name="a quarantined memory can be changed",
        file=_CHECKS,
        old="            return provenance.source is SourceKind.OPERATOR\n",
        new="            return True\n",
        invariant="a quarantined memory does not exist for the agent",
        tests=(at(_CHECK_TESTS, "test_a_quarantined_memory_does_not_exist_for_the_agent"),),
    ),
    Mutant(
        name="a forged token counts as none",
        file=_CHECKS,
        old="            return Objection(Reason.PROMOTION_TOKEN_INVALID, structural=True)\n",
        new="            return None\n",
        invariant="a forged token is refused even where none was needed",
        tests=_ATTACKED,
    ),
    Mutant(
        name="a spent token counts",
        file=_CHECKS,
        old="            return Objection(Reason.PROMOTION_TOKEN_SPENT, structural=True)\n",
        new="            return None\n",
        invariant="a promotion token is single-use",
        tests=_REFERENCE,
    ),
    Mutant(
        name="a stored class is raised without a token",
        file=_CHECKS,
        old="    return stored is not None and landing.power > stored.power\n",
        new="    return False\n",
        invariant="raising a stored memory's class needs a token",
        tests=(
            at(_CHECK_TESTS, "test_a_raise_of_a_stored_class_needs_a_token_even_from_an_operator"),
        ),
    ),
    Mutant(
        name="size is believed, not measured",
        file=_CHECKS,
        old="max(state.text_bytes, _bytes_len(candidate.text))",
        new="state.text_bytes",
        invariant="sizes are measured on the candidate itself",
        tests=(at(_CHECK_TESTS, "test_size_is_measured_in_bytes_on_the_candidate_itself"),),
    ),
    Mutant(
        name="every head of a condition is tried",
        file="policy/text/bounded_gap.py",
        old="            if tails[at] <= min(end, start + self.length):\n",
        new="            if end:\n",
        invariant="a text is read in time linear in its length",
        tests=(
            at(
                "tests/unit/policy/text/test_bounded_gap.py",
                "test_a_text_of_heads_is_not_tried_at_each_of_them",
            ),
        ),
    ),
    Mutant(
        name="the tail of a condition is not looked for in reach",
        file="policy/text/bounded_gap.py",
        old="            at = bisect_left(tails, start)\n",
        new="            at = 0\n",
        invariant="what is tried only where it can succeed is found as before",
        tests=(
            at(
                "tests/unit/policy/text/test_bounded_gap.py",
                "test_a_text_of_heads_is_not_tried_at_each_of_them",
            ),
        ),
    ),
)

FIRED: Final = (
    Mutant(
        name="whatever is left of a text is said to have fired",
        file="policy/text/fired.py",
        old='            if fewer and language_of(skeleton("".join(fewer))) & whole:\n',
        new="            if len(fewer) > 1:\n",
        invariant="the words that are said to have fired are flagged by themselves",
        tests=(
            at(
                "tests/unit/policy/text/test_fired.py",
                "test_of_every_example_the_words_that_fired_are_flagged_alone",
            ),
        ),
    ),
)

DECISION: Final = (*STEPS, *RULES, *FIRED)
