"""Faults in the way back of hidden memories: trials, probations, and what ends them."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_TRIAL: Final = "proxy/aftermath/trial.py"
_PAROLING: Final = "proxy/aftermath/paroling.py"
_WRITES: Final = "storage/write/paroling.py"
_TESTS: Final = "tests/unit/proxy/aftermath/test_paroling.py"
_QUARANTINES: Final = "tests/unit/storage/write/test_quarantine.py"
_ISOLATION: Final = "tests/unit/storage/repair/test_isolation.py"
_BACK: Final = at(_TESTS, "test_what_was_true_once_comes_back_one_class_lower_and_a_lie_does_not")

PAROLE: Final = (
    Mutant(
        name="a wrong answer is not judged again",
        file=_TRIAL,
        old="        return Against.FAILS if found.failing or found.doubted else None\n",
        new="        return None if found.failing or found.doubted else None\n",
        invariant="what would make an answer wrong again is not shown again",
        tests=(_BACK,),
    ),
    Mutant(
        name="a wrong answer whose words are gone counts as passed",
        file=_TRIAL,
        old="            if case.own_words:\n                return Against.GONE\n",
        new="            if case.own_words:\n                return None\n",
        invariant="a step of a trial that cannot be made speaks against the memory",
        tests=(at(_TESTS, "test_words_that_a_restart_forgot_count_as_a_failure"),),
    ),
    Mutant(
        name="a judge that says nothing acquits",
        file=_TRIAL,
        old="        return None if ask.ending is Ending.NOT_REPRODUCED else Against.GONE\n",
        new="        return None\n",
        invariant="a judge that cannot be heard speaks against the memory",
        tests=(at(_TESTS, "test_a_judge_that_blamed_a_memory_is_asked_again"),),
    ),
    Mutant(
        name="registered questions are asked without the memory alone",
        file=_TRIAL,
        old="                if _outcome(judge, without) != _outcome(judge, back):\n",
        new="                if _outcome(judge, without) != _outcome(judge, without):\n",
        invariant="no registered question has another outcome by a parole",
        tests=(at(_TESTS, "test_a_question_that_would_be_answered_differently_speaks_against_it"),),
    ),
    Mutant(
        name="a client that claimed more is no forger",
        file=_TRIAL,
        old="        elif hidden.claimed_more:\n",
        new="        elif hidden.claimed_more and hidden.structural:\n",
        invariant="what came in under a claim above its label stays hidden",
        tests=(at(_TESTS, "test_a_client_that_claimed_more_than_it_is_gets_nothing_back"),),
    ),
    Mutant(
        name="a memory comes back as often as it is tried",
        file=_TRIAL,
        old="        against = Against.ENOUGH if count >= PAROLES_MAX else None\n",
        new="        against = Against.ENOUGH if count > 1_000 else None\n",
        invariant="a third trial gives nothing back",
        tests=(at(_TESTS, "test_a_third_parole_is_refused_and_an_operator_may_do_without"),),
    ),
    Mutant(
        name="a memory keeps its class over a parole",
        file=_WRITES,
        old="            to = lowered(memory.memory_class)\n",
        new="            to = lowered(memory.memory_class) and memory.memory_class\n",
        invariant="what comes back has less power than before",
        tests=(_BACK, at(_TESTS, "test_the_lowest_class_stays_and_each_other_is_lowered")),
    ),
    Mutant(
        name="a memory that was changed during its trial is shown",
        file=_WRITES,
        old="            or known.ordinal != hidden.newest\n",
        new="",
        invariant="what is shown again is what was tried",
        tests=(at(_TESTS, "test_a_memory_that_was_changed_during_its_trial_is_not_shown"),),
    ),
    Mutant(
        name="a wrong answer leaves what is on probation",
        file=_PAROLING,
        old="            one.memory_id for one in watched if one.memory_id in shown and not "
        "self._is_over(one)\n",
        new="            one.memory_id for one in watched if one.memory_id not in shown\n",
        invariant="the first wrong answer that shows a memory on probation hides it",
        tests=(
            at(_TESTS, "test_the_first_answer_that_is_wrong_hides_what_is_on_probation_at_once"),
        ),
    ),
    Mutant(
        name="what is on probation fills a search",
        file="storage/read/origins.py",
        old="if origin.on_probation or intake.",
        new="if intake.",
        invariant="of what is on probation a search shows one in ten",
        tests=(at(_TESTS, "test_of_what_is_on_probation_one_in_ten_places_is_filled"),),
    ),
    Mutant(
        name="lies are tried again by themselves",
        file="storage/repair/way_back.py",
        old="                    if one.act is Act.EXPIRE:\n",
        new="                    if one.act is not Act.NOTHING:\n",
        invariant="what is under quarantine waits for a person",
        tests=(at(_TESTS, "test_what_was_true_once_is_tried_again_by_itself_and_a_lie_never_is"),),
        more=(
            (
                "LIVE:\n" + 20 * " " + "continue\n                if not is_expired",
                "DELETED and not known:\n" + 20 * " " + "continue\n                if isinstance",
            ),
            ("known.ordinal), self._clock()):\n", "known.ordinal), tuple[int]):\n"),
        ),
    ),
    Mutant(
        name="an isolation that is finished later hides what was paroled meanwhile",
        file="storage/write/quarantine.py",
        old="        self._next = incident.leaf_count\n",
        new="        self._next = 1 << 62\n",
        invariant="what a person paroled since an isolation began stays shown",
        tests=(
            at(
                _ISOLATION,
                "test_what_a_person_paroled_meanwhile_stays_shown_when_an_isolation_is_finished",
            ),
        ),
    ),
    Mutant(
        name="a paroled memory is appended out of order",
        file="storage/derived/catalogue.py",
        old="        at = int(np.searchsorted(kept, ordinal))\n",
        new="        at = len(kept)\n",
        invariant="the lists of live memories ascend",
        tests=(
            at(
                _QUARANTINES,
                "test_a_memory_comes_back_although_its_place_in_the_lists_was_given_up",
            ),
        ),
    ),
    Mutant(
        name="a rule implicates all that stood beside what it speaks of",
        file="proxy/aftermath/paroling.py",
        old="        if signal.kind in _OF_RULES:\n",
        new="        if False:\n",
        invariant="nobody hides a memory on probation by a lie of his own beside it",
        tests=(at(_TESTS, "test_a_rule_implicates_the_memory_that_it_names_and_none_beside_it"),),
    ),
)
