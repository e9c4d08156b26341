"""Faults in what outcomes make of trust: the closed list, the score, the latch, the intake."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_SCORE: Final = "policy/trust/score.py"
_INTAKE: Final = "storage/write/trust_intake.py"
_SCORE_TESTS: Final = "tests/unit/policy/trust/test_score.py"
_OUTCOME_TESTS: Final = "tests/unit/policy/trust/test_outcomes.py"
_INTAKE_TESTS: Final = "tests/unit/storage/write/test_trust_intake.py"
_CHECK_TESTS: Final = "tests/unit/policy/test_checks.py"

TRUST: Final = (
    Mutant(
        name="unlatch on good",
        file=_SCORE,
        old="    if left == 0 and at_ms - since_ms >= PROBATION_MS:\n",
        new="    if left >= 0:\n",
        invariant="a latch ends with a whole probation, not with one good outcome",
        tests=(
            at(
                _SCORE_TESTS,
                "test_a_latch_outlives_twenty_nine_good_outcomes_and_ends_with_the_thirtieth",
            ),
        ),
    ),
    Mutant(
        name="own recall counts",
        file="policy/trust/outcomes.py",
        old="[one for one in reported.recalled_by if one != reported.principal_id]",
        new="[one for one in reported.recalled_by]",
        invariant="an agent raises its trust by no recall of its own",
        tests=(
            at(
                _OUTCOME_TESTS,
                "test_recalls_of_three_sessions_of_others_count_and_own_ones_never",
            ),
        ),
    ),
    Mutant(
        name="no forgetting",
        file=_SCORE,
        old="    keep, weight = scoring.forgetting, rule.weight\n",
        new="    keep, weight = 1.0, rule.weight\n",
        invariant="what a sleeper banked is forgotten",
        tests=(
            at(
                _SCORE_TESTS,
                "test_a_sleeper_falls_below_a_threshold_within_as_many_bad_outcomes",
            ),
        ),
    ),
    Mutant(
        name="good outcomes are banked against the latch",
        file=_SCORE,
        old="cusum=max(0.0, state.cusum + evidence)",
        new="cusum=state.cusum + evidence",
        invariant="a sleeper is latched by the sixth bad outcome, whatever it banked",
        tests=(at(_SCORE_TESTS, "test_a_sleeper_is_latched_by_the_sixth_whatever_it_banked"),),
    ),
    Mutant(
        name="a probation in a day",
        file=_SCORE,
        old="    if left == 0 and at_ms - since_ms >= PROBATION_MS:\n",
        new="    if left == 0:\n",
        invariant="a probation takes seven days",
        tests=(at(_SCORE_TESTS, "test_thirty_good_outcomes_in_a_day_are_no_probation"),),
    ),
    Mutant(
        name="a bad outcome leaves a probation as it is",
        file=_SCORE,
        old="probation_left=PROBATION_OUTCOMES, probation_since_ms=None\n        )\n    if state.",
        new="probation_since_ms=None\n        )\n    if state.",
        invariant="any bad outcome begins a probation again",
        tests=(at(_SCORE_TESTS, "test_one_bad_outcome_begins_the_probation_again"),),
    ),
    Mutant(
        name="good outcomes without end in a day",
        file=_SCORE,
        old="    return state.good_today < GOOD_PER_DAY_MAX\n",
        new="    return True\n",
        invariant="good outcomes cannot be earned in bulk",
        tests=(at(_INTAKE_TESTS, "test_of_one_day_twenty_good_outcomes_count"),),
    ),
    Mutant(
        name="a latch holds creations alone",
        file="policy/checks.py",
        old="    if judged is not MemoryClass.L4 and _is_latched(facts):\n",
        new="    if candidate.change not in _REMOVALS and _is_latched(facts):\n",
        invariant="a latch holds changes of any kind",
        tests=(at(_CHECK_TESTS, "test_a_latch_holds_changes_of_any_kind_but_scratch"),),
    ),
    Mutant(
        name="a latched origin writes on",
        file="policy/checks.py",
        old="for one in (facts.trust, facts.origin_trust))",
        new="for one in (facts.trust,))",
        invariant="what comes from a latched tool waits, whoever writes it",
        tests=(
            at(
                _INTAKE_TESTS,
                "test_a_latched_origin_holds_what_comes_from_it_and_nothing_else",
            ),
        ),
    ),
    Mutant(
        name="one bad outcome stops a newcomer",
        file=_SCORE,
        old="state if state.good + bad_count >= RATE_OUTCOMES_MIN else NEWCOMER",
        new="state if bad_count else NEWCOMER",
        invariant="one outcome is no rate",
        tests=(at(_CHECK_TESTS, "test_a_bad_soft_score_holds_and_a_good_one_opens_nothing"),),
    ),
    Mutant(
        name="a denial costs nothing",
        file="storage/write/judging.py",
        old="            self.intake.denied(change, row, ruleset, leaf_index)\n",
        new="",
        invariant="a person's denial moves the score",
        tests=(at(_INTAKE_TESTS, "test_a_denial_counts_and_its_leaf_says_why"),),
    ),
    Mutant(
        name="a conviction costs nothing",
        file="storage/write/case_records.py",
        old="                if leaf_index is not None and guilty:\n",
        new="                if leaf_index is None and guilty:\n",
        invariant="whose memory caused a wrong answer pays for it",
        tests=(
            at(
                "tests/integration/test_trust_moves.py",
                "test_what_turns_out_badly_costs_whoever_wrote_it",
            ),
        ),
    ),
    Mutant(
        name="an anchor contradicted costs nothing",
        file="storage/write/judging.py",
        old="docket.contradicts = contradicted_anchors(docket.candidate, facts, ruleset)",
        new="pass",
        invariant="what contradicts an anchor at write moves the score",
        tests=(at(_INTAKE_TESTS, "test_a_contradicted_anchor_costs_half_once_a_day"),),
    ),
    Mutant(
        name="an outcome counts again and again",
        file=_INTAKE,
        old="        if not counts_again(event.kind, last_ms, change.now_ms):\n",
        new="        if last_ms == 0:\n",
        invariant="an outcome about one subject counts as often as the list says",
        tests=(
            at(_INTAKE_TESTS, "test_a_contradicted_anchor_costs_half_once_a_day"),
            at(_INTAKE_TESTS, "test_two_memories_of_one_origin_in_one_conviction_are_one_outcome"),
        ),
    ),
    Mutant(
        name="what was taken back stood",
        file=_INTAKE,
        old="read_id(change.draft, one.name) != IdRecord(one.ordinal, MemoryStatus.LIVE)",
        new="read_id(change.draft, one.name) is None",
        invariant="a release that was taken back is no good outcome",
        tests=(
            at(
                _INTAKE_TESTS,
                "test_a_release_that_stood_seven_days_is_good_and_one_taken_back_is_nothing",
            ),
        ),
    ),
    Mutant(
        name="an origin is the name that a leaf may say",
        file=_INTAKE,
        old='self._names.origin(candidate.tenant, named.server or "", named.tool or "")',
        new="self._names.origin(candidate.tenant, said.server, said.tool)",
        invariant="a page sheds no history by naming its own server",
        tests=(at(_INTAKE_TESTS, "test_an_origin_sheds_no_history_by_naming_itself_in_its_text"),),
    ),
)
