"""Faults in the evaluation itself: a harness that sees less, and so finds what was hoped for."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_EVALUATE: Final = "tests/integration/test_evaluate.py"
_SUITE: Final = "tests/integration/test_evaluate_suite.py"
_UNIT: Final = "tests/unit/proxy/evaluate"

EVALUATE: Final = (
    Mutant(
        name="a judge is shown the memories that were left out too",
        file="proxy/aftermath/blaming.py",
        old="            if one.memory.memory_id in present\n",
        new="            if present or not present\n",
        invariant="each question is asked of exactly the memories that it names",
        tests=(
            at(
                _EVALUATE,
                "test_who_caused_a_wrong_answer_is_found_where_the_usual_way_is_blind",
            ),
        ),
    ),
    Mutant(
        name="an answer that shows what was derived from a lie counts as healed",
        file="proxy/evaluate/heal.py",
        old="    count.healed_usual += case.wrong.keys().isdisjoint(shown)\n",
        new="    count.healed_usual += case.lies.keys().isdisjoint(shown)\n",
        invariant="an answer is right where nothing wrong is in it",
        tests=(
            at(
                _EVALUATE,
                "test_a_lie_against_a_registered_truth_reaches_nobody_as_it_does_the_usual_way",
            ),
        ),
    ),
    Mutant(
        name="an isolation that only says so",
        file="storage/write/quarantine.py",
        old="                place(change, name, known, row, before | {incident.incident_id})\n",
        new="",
        invariant="the evaluation looks at what is shown, not at what an answer says",
        tests=(at(_EVALUATE, "test_a_leaked_key_is_isolated_in_one_act_and_given_back_exactly"),),
    ),
    Mutant(
        name="base64 is not looked into",
        file="proxy/evaluate/canary.py",
        old="        for run in _BASE64.findall(piece):",
        new="        for run in _BASE64.findall(b''):",
        invariant="a canary is found in every form",
        tests=(
            at(
                f"{_UNIT}/test_canary.py",
                "test_a_canary_in_base64_is_found_wherever_it_starts",
            ),
        ),
    ),
    Mutant(
        name="a note that was taken out counts as kept",
        file="proxy/evaluate/month.py",
        old="            stopped += not heard.name\n",
        new="            stopped += heard.name not in {kept.tool, ''}\n",
        invariant="a note that did not arrive is held or refused",
        tests=(
            at(
                _EVALUATE,
                "test_notes_of_a_few_days_wait_less_than_once_a_day_and_is_refused_nothing",
            ),
        ),
    ),
    Mutant(
        name="what is compressed is not looked into",
        file="proxy/evaluate/canary.py",
        old="    for piece in (data, *inflated(data)):",
        new="    for piece in (data,):",
        invariant="a canary is found in every form",
        tests=(at(f"{_UNIT}/test_canary.py", "test_each_form_of_a_canary_is_found"),),
    ),
    Mutant(
        name="five words in a row are no leak",
        file="proxy/evaluate/leakage.py",
        old="    return any(wanted & _runs(said) for said in",
        new="    return any(wanted < _runs(said) for said in",
        invariant="a leak is a leak in part as well",
        tests=(at(f"{_UNIT}/test_leakage.py", "test_what_carries_the_text_is_found"),),
    ),
    Mutant(
        name="a control that does not fire is no matter",
        file="proxy/evaluate/book.py",
        old="for one in (*self.promises, *self.controls) if not one.held)",
        new="for one in self.promises if not one.held)",
        more=(
            (
                "not self.broken and bool(self.promises) and bool(self.controls)",
                "not self.broken and bool(self.promises)",
            ),
        ),
        invariant="a zero without its control is no result",
        tests=(at(_EVALUATE, "test_an_evaluation_without_a_promise_or_a_control_is_not_sound"),),
    ),
    Mutant(
        name="a version step is no trace",
        file="proxy/evaluate/core.py",
        old="            and (self.rows, self.vectors, self.version_steps) == (0, 0, 0)\n",
        new="",
        invariant="what was written and removed was written",
        tests=(at(_EVALUATE, "test_tables_2_and_3_come_out_as_the_paper_has_them"),),
    ),
    Mutant(
        name="what cannot be expressed passes",
        file="proxy/evaluate/suite/scenario.py",
        old='            raise _Ended("n/a", f"{request.op}: {reply.na}")',
        new='            raise _Ended("pass", f"{request.op}: {reply.na}")',
        invariant="n/a is neither a pass nor a failure",
        tests=(
            at(
                _SUITE,
                "test_what_an_implementation_cannot_express_is_neither_passed_nor_failed",
            ),
        ),
    ),
    Mutant(
        name="a sidecar loads the wrong gates",
        file="proxy/cli/run.py",
        old="from proxy.cli.command import Command",
        new="import proxy.evaluate.unsafe\nfrom proxy.cli.command import Command",
        invariant="no process of `run` has a gate that is wrong on purpose",
        tests=(at(_EVALUATE, "test_a_sidecar_never_loads_a_gate_that_is_wrong_on_purpose"),),
    ),
)
