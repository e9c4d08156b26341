"""Faults of an operator's commands about memory servers behind the gate."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_CHECK: Final = "proxy/cli/backend_check.py"
_ADOPT: Final = "proxy/cli/backend_adopt.py"
_WALK: Final = "proxy/cli/backend_walk.py"
_TRAIL: Final = "proxy/cli/list_trail.py"
_TRAILS: Final = "tests/unit/proxy/cli/test_list_trail.py"
_COMPARED: Final = "proxy/admin/backends_compared.py"
_KEPT: Final = "storage/behind/kept_here.py"
_LANGGRAPH: Final = "proxy/backends/langgraph/adapter.py"
_CHROMA: Final = "proxy/backends/chroma/writes.py"
_DOCTOR: Final = "proxy/doctor/past_gate.py"
_DOCTORS: Final = "tests/unit/proxy/doctor/test_past_gate.py"
_TEST: Final = "tests/integration/test_cli_backend.py"
_TOLD: Final = at(
    _TEST,
    "test_a_check_tells_what_came_past_the_gate_what_was_changed_and_what_is_gone",
)
_ONCE: Final = at(_TEST, "test_what_was_there_before_is_taken_in_as_of_unknown_origin_once")
_SAME: Final = at(
    "tests/unit/proxy/backends/chroma/test_whole_server.py",
    "test_a_record_is_the_same_with_all_that_was_sent_and_no_other_text",
)

COMPARED: Final = (
    Mutant(
        name="a check that finds a difference ends as one that finds none",
        file=_CHECK,
        old="    return Exit.FAILED if differences else Exit.OK\n",
        new="    return Exit.OK\n",
        invariant="the exit status says whether server and gate differ",
        tests=(_TOLD,),
    ),
    Mutant(
        name="a check prints a key with room for a sentence",
        file=_WALK,
        old='    return key if _PLAIN_KEY.fullmatch(key) else ""\n',
        new="    return key\n",
        invariant="a check prints no text of a memory",
        tests=(_TOLD,),
    ),
    Mutant(
        name="a check counts what an agent changed while it read",
        file=_CHECK,
        old="                again = await self._walk.one(placed(memory.item))\n",
        new="                again = memory\n",
        invariant="a difference is asked for once more before it counts",
        tests=(at(_TEST, "test_what_an_agent_changes_during_a_check_is_no_difference"),),
    ),
    Mutant(
        name="a check counts what the server says no more",
        file=_CHECK,
        old="        stay = tuple(one for one in differ if one == again.get(one.key))\n",
        new="        stay = tuple(one for one in differ if one.key in again)\n",
        invariant="a difference counts where the server says the same a second time",
        tests=(at(_TEST, "test_what_an_agent_changes_during_a_check_is_no_difference"),),
    ),
    Mutant(
        name="a page of a walk begins behind what moved towards the beginning",
        file=_TRAIL,
        old="        if at and not self._joins(part):\n",
        new="        if at < 0:\n",
        invariant="what stays on the server is found, whatever is deleted meanwhile",
        tests=(
            at(_TEST, "test_deletions_during_a_check_move_nothing_out_of_its_sight"),
            at(_TRAILS, "test_what_stays_in_a_list_is_found_whatever_is_deleted_between_two_pages"),
        ),
    ),
    Mutant(
        name="an entry of a list that moved counts once more",
        file=_TRAIL,
        old="                del new[known]\n",
        new="                pass\n",
        invariant="each memory of a server counts once",
        tests=(at(_TRAILS, "test_a_list_that_nobody_changes_is_read_once"),),
    ),
    Mutant(
        name="what was hidden of a server's old memories lets the rest wait for a person",
        file="storage/write/trust_intake.py",
        old="        holders = [] if adopted else [self._principal(event.principal_id)]\n",
        new="        holders = [self._principal(event.principal_id)]\n",
        invariant="`backend adopt --quarantine` hides all that came past the gate",
        tests=(at(_TEST, "test_however_much_came_past_the_gate_one_command_hides_all_of_it"),),
    ),
    Mutant(
        name="a walk goes on in a list that has no end",
        file=_TRAIL,
        old="        if self._idle > IDLE_MAX:\n",
        new="        if self._idle > 100 * IDLE_MAX:\n",
        invariant="a walk ends on every server",
        tests=(at(_TRAILS, "test_a_list_without_an_end_is_left_with_the_reason"),),
    ),
    Mutant(
        name="a walk keeps names without a bound",
        file=_TRAIL,
        old="        if len(self._known) > NAMES_MAX:\n",
        new="        if len(self._known) > 100 * NAMES_MAX:\n",
        invariant="a walk ends on every server",
        tests=(at(_TRAILS, "test_a_server_with_ever_new_names_is_left_too"),),
    ),
    Mutant(
        name="an answer that no adapter reads ends a check with a traceback",
        file=_WALK,
        old="        except (UpstreamError, MalformedRequest, Busy) as error:\n",
        new="        except (UpstreamError, Busy) as error:\n",
        invariant="a check that cannot be made ends with 3 and the reason",
        tests=(at(_TEST, "test_what_an_adapter_of_another_kind_kept_ends_a_check_that_says_so"),),
    ),
    Mutant(
        name="what no verdict let in counts as known",
        file=_COMPARED,
        old='        return ComparedView(state="foreign")\n',
        new='        return ComparedView(state="same")\n',
        invariant="what came past the gate is foreign",
        tests=(_TOLD,),
    ),
    Mutant(
        name="a memory is held against its oldest text",
        file=_KEPT,
        old="            if one.sent.change is not ChangeKind.DELETE or newest is None:\n",
        new="            if newest is None:\n",
        invariant="what stands there is the newest change that was sent",
        tests=(_TOLD,),
    ),
    Mutant(
        name="an item of LangGraph's store is the same whatever it says",
        file=_LANGGRAPH,
        old='== request_parts(found)[2].get("value")\n',
        new='== request_parts(kept)[2].get("value")\n',
        invariant="an item is the same where its whole value is",
        tests=(_TOLD,),
    ),
    Mutant(
        name="a text beside what was sent to Chroma is no difference",
        file=_CHROMA,
        old="        and {*there.strings()} <= {*kept.pieces}\n",
        new="",
        invariant="a record shows no text that was not judged",
        tests=(_SAME,),
    ),
    Mutant(
        name="what was sent to Chroma may say something else by now",
        file=_CHROMA,
        old="        there.after(sent.record()) == unchanged\n        and ",
        new="        ",
        invariant="a record has every part that was sent",
        tests=(_SAME,),
    ),
    Mutant(
        name="what is known already is taken in once more",
        file=_ADOPT,
        old=" if view.state == _FOREIGN\n",
        new=" if view.state\n",
        invariant="only what no verdict let in is taken in",
        tests=(_ONCE,),
    ),
    Mutant(
        name="what is taken in to be hidden is shown",
        file=_ADOPT,
        old="        state = await _hidden(api, one, tenant) if asked.quarantine else one.state\n",
        new="        state = one.state\n",
        invariant="one command hides what came past the gate",
        tests=(at(_TEST, "test_what_somebody_wrote_past_the_gate_is_hidden_by_one_command"),),
    ),
    Mutant(
        name="a memory server that answers an agent past the gate passes",
        file=_DOCTOR,
        old="    if status in REFUSED:\n",
        new="    if status in REFUSED or status:\n",
        invariant="a server may answer nobody past the gate but with 401 or 403",
        tests=(
            at(
                _DOCTORS,
                "test_a_server_that_answers_without_the_sidecars_credential_fails_with_the_cure",
            ),
        ),
    ),
    Mutant(
        name="a memory server that is down counts as separated",
        file=_DOCTOR,
        old="        if unknown:\n",
        new="        if not attempt:\n",
        invariant="no connection proves something only where the gate reaches the server",
        tests=(
            at(
                _DOCTORS,
                "test_a_server_that_cannot_be_reached_is_separated_only_if_the_gate_reaches_it",
            ),
        ),
    ),
    Mutant(
        name="a memory server tells the sidecar's credential to the agent",
        file="proxy/fronts/backend_behind.py",
        old="            raise UpstreamError(_TELLS_CREDENTIAL)\n",
        new="            pass\n",
        invariant="the sidecar's credential is in no byte to the agent",
        tests=(
            at(
                "tests/integration/test_backend_credential.py",
                "test_the_credential_is_in_no_byte_to_the_agent_in_no_log_no_span_and_no_file",
            ),
        ),
    ),
    Mutant(
        name="an order that was found on a memory server is shown on",
        file=_COMPARED,
        old="        if flagged:\n",
        new="        if not done:\n",
        invariant="what is flagged on a server is hidden from everybody",
        tests=(_ONCE,),
    ),
    Mutant(
        name="a run that hides what it takes in takes many in at once",
        file="proxy/cli/backend_adopt.py",
        old="        at_once = 1 if asked.quarantine else ADOPTED_AT_ONCE\n",
        new="        at_once = ADOPTED_AT_ONCE\n",
        invariant="an interrupted run leaves one memory at most that no later run finds",
        tests=(
            at(
                "tests/integration/test_cli_backend.py",
                "test_an_interrupted_run_that_hides_leaves_no_more_than_one_memory_visible",
            ),
        ),
    ),
    Mutant(
        name="what became another tenant's meanwhile is taken in",
        file="proxy/admin/backends_compared.py",
        old="        if any(one.tenant not in {None, asked.tenant} for one in views):\n",
        new="        if not views:\n",
        invariant="a memory of a server is one tenant's",
        tests=(
            at(
                "tests/integration/test_cli_backend.py",
                "test_what_became_another_tenants_meanwhile_is_not_taken_in",
            ),
        ),
    ),
)
