"""Faults in the record of a wrong answer, and in what follows a conviction."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_CLOSURE: Final = "policy/after/closure.py"
_CLOSURES: Final = "tests/unit/policy/after/test_closure.py"
_FOLLOWING: Final = "storage/write/following.py"
_RECORDS: Final = "storage/write/case_records.py"
_CASES: Final = "tests/unit/storage/repair/test_wrong_answers.py"

_BLAMING: Final = "proxy/aftermath/blaming.py"
_BLAMED: Final = "tests/unit/proxy/aftermath/test_blaming.py"

CASES: Final = (
    Mutant(
        name="a reply is held against all that its searches found",
        file="proxy/aftermath/replay.py",
        old="            return self._of(signal.tenant, hits, searches, lost=reply.incomplete)\n",
        new="            hits = (hit for one in searches for hit in one.hits)\n"
        "            return self._of(signal.tenant, hits, searches, lost=reply.incomplete)\n",
        invariant="what stood in the model's request is what made its reply",
        tests=(
            at(
                "tests/integration/test_blame.py",
                "test_a_reply_is_held_against_what_its_request_had_and_not_what_a_search_found",
            ),
        ),
    ),
    Mutant(
        name="a fault in one case ends the sidecar",
        file=_BLAMING,
        old="        except (StorageError, InvariantBroken):\n",
        new="        except Exception:\n",
        invariant="no wrong answer stops the gate",
        tests=(at(_BLAMED, "test_a_fault_ends_its_own_case_alone_and_is_seen"),),
    ),
    Mutant(
        name="a judge's broken pipe is a fault of ours",
        file="proxy/aftermath/judges.py",
        old="        if several.split(OSError)[1] is not None:\n",
        new="        if several:\n",
        invariant="a judge that cannot be heard says nothing",
        tests=(
            at(
                "tests/unit/proxy/aftermath/test_judges.py",
                "test_a_pipe_that_breaks_is_no_answer_and_a_fault_is_no_opinion",
            ),
        ),
    ),
    Mutant(
        name="one round is enough",
        file=_BLAMING,
        old="        for number in range(1, ROUNDS_MAX + 1):\n",
        new="        for number in range(1, 2):\n",
        invariant="copies that come up where others stood are found",
        tests=(at(_BLAMED, "test_copies_that_come_up_one_after_the_other_are_all_hidden"),),
    ),
    Mutant(
        name="a caller's judge convicts by itself",
        file=_BLAMING,
        old="            CaseMode.JUDGE: acts.judges_propose,\n",
        new="            CaseMode.JUDGE: acts.rules_propose,\n",
        invariant="what may be a model's word is a proposal",
        tests=(at(_BLAMED, "test_a_judge_that_is_asked_finds_both_copies_and_only_proposes"),),
    ),
    Mutant(
        name="the second control of rules is left out",
        file="proxy/aftermath/rounds.py",
        old="    ids = {one.memory_id for one in found.blamed}\n",
        new="    ids = {one.memory_id for one in found.failing}\n",
        invariant="a word that a trusted memory says as well blames nobody",
        tests=(at(_BLAMED, "test_a_persons_word_convicts_no_other_persons_word"),),
    ),
    Mutant(
        name="each round may hide as many as a whole case",
        file=_RECORDS,
        old="blast_max=max(0, blast_max - hidden)",
        new="blast_max=max(0, blast_max - 0 * hidden)",
        invariant="one wrong answer hides no more memories than an operator allows",
        tests=(at(_BLAMED, "test_a_case_hides_no_more_in_all_than_its_bound"),),
    ),
    Mutant(
        name="what cannot be judged is not wrong",
        file=_BLAMING,
        old="        return fails is not False\n",
        new="        return bool(fails)\n",
        invariant="a case is healed only where a judge says so",
        tests=(at(_BLAMED, "test_after_five_rounds_a_silent_judge_heals_nothing"),),
    ),
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
        name="any edit mends a lie",
        file=_FOLLOWING,
        old=" and row.source.trust > bad.source.trust and ",
        new=" and ",
        invariant="who edits his lie after it was read does not save it",
        tests=(at(_CASES, "test_another_edit_of_no_more_trusted_source_saves_nothing"),),
    ),
    Mutant(
        name="nothing follows a lie that was mended",
        file=_CLOSURE,
        old="if not one.fact.outdated]",
        new="if one.act not in {Act.EXPIRE, Act.NOTHING}]",
        invariant="what was derived from a lie goes, even if the lie itself was corrected",
        tests=(
            at(
                _CLOSURES,
                "test_a_memory_that_was_mended_is_left_alone_and_what_came_of_the_lie_is_not",
            ),
        ),
    ),
    Mutant(
        name="what was derived from the correction goes with the lie",
        file=_FOLLOWING,
        old="            if parent.mended is not None and ordinal > parent.mended:\n",
        new="            if parent.mended is not None and ordinal < 0:\n",
        invariant="a memory that was derived from the truth stays",
        tests=(
            at(
                _CASES,
                "test_what_a_more_trusted_source_mended_stays_and_what_came_of_the_lie_goes",
            ),
        ),
    ),
    Mutant(
        name="a step that was taken back is taken back again",
        file=_FOLLOWING,
        old="            if row.salt in before:\n",
        new="            if not row.salt:\n",
        invariant="a text that was taken back does not return",
        tests=(at(_CASES, "test_a_step_that_was_taken_back_is_not_taken_back_again"),),
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
