"""Faults in the record of a wrong answer, and in what follows a conviction."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_CLOSURE: Final = "policy/after/closure.py"
_CLOSURES: Final = "tests/unit/policy/after/test_closure.py"
_FOLLOWING: Final = "storage/write/following.py"
_RECORDS: Final = "storage/write/case_records.py"
_CASES: Final = "tests/unit/storage/repair/test_wrong_answers.py"

CASES: Final = (
    Mutant(
        name="nothing follows the root of a lie",
        file=_CLOSURE,
        old="                waiting.append(child)\n",
        new="",
        invariant="what was derived from a lie goes with it, to the end",
        tests=(
            at(_CLOSURES, "test_all_that_was_derived_goes_with_the_root_and_each_once"),
            at(_CASES, "test_a_conviction_hides_the_whole_chain_in_one_transaction"),
        ),
    ),
    Mutant(
        name="a person's words are convicted without a person",
        file=_CLOSURE,
        old="    if any(fact.label.trust >= SourceKind.USER_INPUT.trust for fact in acting):\n",
        new="    if any(fact.label.trust > SourceKind.OPERATOR.trust for fact in acting):\n",
        invariant="what a person said is never hidden by itself",
        tests=(
            at(_CLOSURES, "test_what_a_person_said_is_for_a_person"),
            at(_CASES, "test_a_persons_words_and_anchors_are_left_to_a_person"),
        ),
    ),
    Mutant(
        name="rot is punished as a lie",
        file=_RECORDS,
        old=" and found.act is not Act.EXPIRE\n",
        new="\n",
        invariant="what was true once moves nobody's trust",
        tests=(at(_CASES, "test_what_is_outdated_expires_without_moving_trust"),),
    ),
    Mutant(
        name="a step back leads to what was convicted before",
        file=_FOLLOWING,
        old="            if row.salt == bad.salt:\n",
        new="            if not bad.salt:\n",
        invariant="a text that was taken back does not return",
        tests=(at(_CASES, "test_two_lies_in_a_row_are_both_taken_back_and_none_returns"),),
    ),
    Mutant(
        name="what was derived before the lie goes with it",
        file=_FOLLOWING,
        old="            if ordinal <= parent.step or row.memory_id in seen:\n",
        new="            if row.memory_id in seen:\n",
        invariant="a memory that was derived from the truth stays",
        tests=(at(_CASES, "test_of_an_update_the_step_is_taken_back_and_the_memory_stays"),),
    ),
    Mutant(
        name="a closed case convicts",
        file=_RECORDS,
        old="            if not may_follow(CaseStep.CONVICTED, case.step):\n",
        new="            if not case.step:\n",
        invariant="what a person closed hides nothing more",
        tests=(at(_CASES, "test_a_step_that_cannot_follow_changes_nothing"),),
    ),
)
