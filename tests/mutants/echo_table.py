"""Faults of what counts as nobody's words: echoes of a write, and what the gate itself gave."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_ECHOES: Final = "tests/unit/proxy/ledger/test_echoes.py"
_IN_PLACE: Final = "test_what_is_admitted_here_and_refused_elsewhere_is_no_intent"
_TOLD: Final = "test_a_refusal_by_taint_alone_is_held_and_told_to_the_ledger"

ECHOES: Final = (
    Mutant(
        name="what was written may stand among other things in its answer",
        file="proxy/ledger/reading.py",
        old="            left = [call for call in left if in_order(prints, call.spelled)]\n",
        new="",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_answer_that_says_anything_else_is_its_servers"),),
    ),
    Mutant(
        name="keys of an answer are nobody's words",
        file="proxy/ledger/texts.py",
        old=" or not says.issuperset(names):\n",
        new=":\n",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_answer_that_says_anything_else_is_its_servers"),),
    ),
    Mutant(
        name="the answer of any call is an echo of it",
        file="proxy/ledger/reading.py",
        old="        left = [call for call in calls if call.mapped]",
        new="        left = [*calls]",
        invariant="only an answer to a write is an echo",
        tests=(at(_ECHOES, "test_a_call_that_wrote_nothing_is_answered_by_a_tool"),),
    ),
    Mutant(
        name="a tool that no map takes answers with an echo",
        file="proxy/ledger/state.py",
        old="                call.open, call.mapped = False, True\n",
        new="                call.open = False\n            call.mapped = True\n",
        invariant="only an answer to a mapped write is an echo",
        tests=(at(_ECHOES, "test_a_call_that_no_map_takes_is_answered_by_a_tool"),),
    ),
    Mutant(
        name="any server answers with an echo of a call",
        file="proxy/ledger/core.py",
        old=".isdisjoint(servers_by(named, segment.tool))",
        new=" is not None",
        invariant="only an answer to a mapped write is an echo",
        tests=(
            at(_ECHOES, "test_an_answer_without_an_id_is_an_echo_only_of_its_own_server_and_tool"),
        ),
    ),
    Mutant(
        name="the order of an answer's strings is nobody's",
        file="proxy/ledger/texts.py",
        old="    left = iter(spelled)\n",
        new="    left = {*spelled}\n",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_answer_that_says_anything_else_is_its_servers"),),
    ),
    Mutant(
        name="an answer that nobody can read is an echo",
        file="proxy/ledger/reading.py",
        old="            if strings is None:\n                return False\n",
        new="            if strings is None:\n                strings = []\n",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_answer_that_says_anything_else_is_its_servers"),),
    ),
    Mutant(
        name="the order of an answer's members is nobody's",
        file="proxy/ledger/texts.py",
        old=" or [*members] != names",
        new="",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_echo_has_the_parts_of_its_call_in_their_order"),),
    ),
    Mutant(
        name="which strings an answer leaves out is nobody's",
        file="proxy/ledger/texts.py",
        old="    if len(spelled) > _LEFT_OUT_OF_MAX and found:\n",
        new="    if not spelled and found:\n",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_echo_has_the_parts_of_its_call_in_their_order"),),
    ),
    Mutant(
        name="how an answer puts its strings together is nobody's",
        file="proxy/ledger/texts.py",
        old="            if depth > 1:\n",
        new="            if depth < 0:\n",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_echo_has_the_parts_of_its_call_in_their_order"),),
    ),
    Mutant(
        name="white space inside an answer is nobody's",
        file="proxy/ledger/texts.py",
        old="any(text == json.dumps(value, **style) for style in _STYLES)",
        new="text",
        invariant="an answer is an echo only where every string of it is the candidate's or fixed",
        tests=(at(_ECHOES, "test_an_answer_that_says_anything_else_is_its_servers"),),
    ),
    Mutant(
        name="what begins as the gate speaks is the gate's",
        file="proxy/seams/observations.py",
        old="    return text in _all()",
        new='    return text.startswith(("Not ", "Stored "))',
        invariant="nobody's words have room in an observation",
        tests=(at(_ECHOES, "test_an_answer_that_says_anything_else_is_its_servers"),),
    ),
    Mutant(
        name="whoever sounds like the gate is the gate",
        file="proxy/ledger/reading.py",
        old="        return fresh and all(self.print(one) in book.gave for one in lines)",
        new='        return all(one.startswith("Not ") for one in lines)',
        invariant="only what the gate said to this principal is the gate's own word",
        tests=(at(_ECHOES, "test_what_the_gate_could_have_said_and_did_not_is_its_senders"),),
    ),
    Mutant(
        name="white space around the gate's words is nobody's",
        file="proxy/ledger/reading.py",
        old='        said = text.removesuffix("\\n")\n',
        new="        said = text.strip()\n",
        invariant="only what the gate said to this principal is the gate's own word",
        tests=(at(_ECHOES, "test_what_the_gate_could_have_said_and_did_not_is_its_senders"),),
    ),
    Mutant(
        name="what the gate says often is forgotten as the oldest",
        file="proxy/ledger/state.py",
        old="                    book.gave.move_to_end(one)\n",
        new="",
        invariant="the gate's own observations taint nothing",
        tests=(at(_ECHOES, "test_what_the_gate_gives_again_is_kept_the_longest"),),
    ),
    Mutant(
        name="the gate's lines may be repeated as often as a page likes",
        file="proxy/ledger/reading.py",
        old="        return fresh and all(",
        new="        return all(",
        invariant="only what the gate said to this principal is the gate's own word",
        tests=(at(_ECHOES, "test_what_the_gate_could_have_said_and_did_not_is_its_senders"),),
    ),
    Mutant(
        name="a call has as many answers of the gate as its sender likes",
        file="proxy/ledger/reading.py",
        old="            found.by_gate.add(said.call_id)\n",
        new="            pass\n",
        invariant="a call has one answer of the gate",
        tests=(at(_ECHOES, "test_a_call_has_one_answer_of_the_gate"),),
    ),
    Mutant(
        name="what the gate said is forgotten with a snapshot",
        file="proxy/ledger/snapshot.py",
        old="    if book.gave:\n",
        new="    if not book.gave:\n",
        invariant="the gate's own observations taint nothing",
        tests=(
            at(
                _ECHOES,
                "test_what_the_gate_said_is_known_after_a_restart_and_only_to_its_principal",
            ),
        ),
    ),
    Mutant(
        name="what stands in the place of a refused call is a stranger's word",
        file="proxy/model/judge_calls.py",
        old="        self._gave(principal.principal_id, filter(None, texts))\n",
        new="",
        invariant="the gate's own observations taint nothing",
        tests=(at("tests/unit/proxy/model/test_calls_judged.py", _IN_PLACE),),
    ),
    Mutant(
        name="what the gate says taints as a tool does",
        file="proxy/ledger/reading.py",
        old="            self.is_given(said.text, ground.book)\n            or self",
        new="            self",
        invariant="the gate's own observations taint nothing",
        tests=(at(_ECHOES, "test_what_the_gate_says_of_a_write_taints_nothing"),),
    ),
    Mutant(
        name="an echo washes the session that it is said in",
        file="proxy/ledger/reading.py",
        old="            self._echoed(said, call, label, found)",
        new="            self._echoed(said, call, SourceKind.MODEL_INFERENCE, found)",
        invariant="an echo carries the label of what was written",
        tests=(at(_ECHOES, "test_an_echo_is_no_better_than_what_was_written"),),
    ),
    Mutant(
        name="the ledger is not told what a refused write was answered",
        file="proxy/intercept/interceptor.py",
        old="                self._sessions.gave(principal_id, (written.observation,))\n",
        new="                pass\n",
        invariant="the gate's own observations taint nothing",
        tests=(at("tests/unit/proxy/seams/test_ledger.py", _TOLD),),
    ),
)
