"""Faults in what a model is allowed to ask for, and a backend's model to answer."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_VETO: Final = "proxy/model/calls_judged.py"
_VETO_TESTS: Final = "tests/unit/proxy/model/test_calls_judged.py"
_AHEAD: Final = "proxy/guard/ahead.py"
_AHEAD_TESTS: Final = "tests/unit/proxy/guard/test_ahead.py"
_UNMOVED: Final = "storage/behind/unmoved.py"
_UNMOVED_TESTS: Final = "tests/unit/storage/behind/test_unmoved.py"
_TOOLS: Final = "proxy/dialects/model/memory_tools.py"
_TOOL_TESTS: Final = "tests/unit/proxy/dialects/model/test_memory_tools.py"
_EXTRACTION: Final = "proxy/model/extraction.py"
_EXTRACTION_TESTS: Final = "tests/unit/proxy/model/test_extraction.py"
_OUTPUTS: Final = "proxy/dialects/model/outputs.py"
_OUTPUT_TESTS: Final = "tests/unit/proxy/dialects/model/test_outputs.py"
_CALLS: Final = "proxy/dialects/mcp/calls.py"

VETO: Final = (
    Mutant(
        name="a host that puts a server's name before a tool's hides its memory",
        file=_TOOLS,
        old='    elif there.endswith(f"_{wanted}"):\n',
        new="    elif there == wanted:\n",
        invariant="a memory tool is known under the name that any host gives it",
        tests=(at(_TOOL_TESTS, "test_a_hosts_name_for_a_servers_tool_is_read_as_both"),),
    ),
    Mutant(
        name="one tool that ends like a memory tool makes its server one",
        file=_TOOLS,
        old="if n >= _MANY or at in likely})",
        new="if n >= 1 or at in likely})",
        invariant="tools of others are left alone",
        tests=(at(_TOOL_TESTS, "test_a_tool_that_only_ends_like_one_of_memory_is_none"),),
    ),
    Mutant(
        name="a memory write of a model is not judged",
        file=_VETO,
        old="        if named.call.kind in _CHANGES:\n",
        new="        if named.call.kind in ():\n",
        invariant="a model's memory write is judged before its agent hears of it",
        tests=(at(_VETO_TESTS, "test_what_steers_is_withheld_and_leaves_nothing"),),
        quick=True,
    ),
    Mutant(
        name="an item that waits already is told as if it were new",
        file="proxy/guard/local.py",
        old="                again=True,\n",
        new="",
        invariant="who proposes again what waits is told that it waits, and nobody else is",
        tests=(at(_VETO_TESTS, "test_what_waits_is_asked_about_once"),),
    ),
    Mutant(
        name="a refused item goes on with its call",
        file=_VETO,
        old="        if any(one.decision != _ADMIT for one in judged):\n",
        new="        if all(one.decision != _ADMIT for one in judged):\n",
        invariant="a call goes on whole or not at all",
        tests=(
            at(_VETO_TESTS, "test_one_refused_item_stops_its_call_and_the_others_are_not_kept"),
        ),
    ),
    Mutant(
        name="items of a stopped call count as written",
        file=_VETO,
        old="server, undone, Forwarded.FAILED)\n",
        new="server, undone, Forwarded.DONE)\n",
        invariant="what never reached the agent is no memory",
        tests=(
            at(_VETO_TESTS, "test_one_refused_item_stops_its_call_and_the_others_are_not_kept"),
        ),
    ),
    Mutant(
        name="a call that cannot be read goes on",
        file=_VETO,
        old='            return f"{observation_of_call(Reason.CALL_MALFORMED)} ({error.detail})"\n',
        new="            return None if error else None\n",
        invariant="an unknown way to write is refused",
        tests=(at(_VETO_TESTS, "test_what_cannot_be_read_is_not_called"),),
    ),
    Mutant(
        name="a gate that is away opens",
        file=_VETO,
        old="            return observation_of_call(Reason.GATE_UNAVAILABLE)\n",
        new="            return None\n",
        invariant="a check that cannot run is a check that failed",
        tests=(at(_VETO_TESTS, "test_a_gate_that_cannot_answer_is_a_refusal"),),
    ),
    Mutant(
        name="an error settles a write as done",
        file=_VETO,
        old="Forwarded.FAILED if failed else Forwarded.DONE",
        new="Forwarded.DONE",
        invariant="what the agent could not write is no memory",
        tests=(at(_VETO_TESTS, "test_a_result_that_says_error_ends_the_intent"),),
    ),
    Mutant(
        name="a release is not spent",
        file=_VETO,
        old="                self._held.pop(content, None)\n",
        new="                self._released[candidate_id] = None\n",
        invariant="what a person released lets one call through",
        tests=(at(_VETO_TESTS, "test_what_a_person_released_goes_on_once"),),
    ),
    Mutant(
        name="what a relay serves is judged by nobody else",
        file=_VETO,
        old="            server = relayed or MODEL_SERVERS + named.map_name\n",
        new="            if relayed:\n                return None\n            server = ''\n",
        invariant="the model front judges every call, whoever serves the server",
        tests=(at(_AHEAD_TESTS, "test_a_relay_that_is_gone_leaves_no_gap"),),
    ),
    Mutant(
        name="a front's verdict is that of an earlier call",
        file=_VETO,
        old="await judge(self._guard.judge_ahead, principal, part)",
        new="await judge(self._guard.judge, principal, part)",
        invariant="two equal calls are two candidates",
        tests=(at(_AHEAD_TESTS, "test_what_makes_room_for_others_is_unknown"),),
    ),
    Mutant(
        name="an id is enough to take an admission over",
        file=_AHEAD,
        old="if one.content == content and not one.late and (",
        new="if not one.late and (",
        invariant="only the very call that was judged goes on unjudged",
        tests=(at(_AHEAD_TESTS, "test_what_a_hook_rewrites_in_between_is_judged_anew_and_held"),),
    ),
    Mutant(
        name="an id is not looked at",
        file=_AHEAD,
        old="(not ids or call_id in ids)",
        new="(not ids or bool(call_id))",
        invariant="a call that says which one it is takes that one's admission alone",
        tests=(at(_AHEAD_TESTS, "test_an_id_that_no_admitted_call_has_takes_nothing"),),
    ),
    Mutant(
        name="an admission is taken any number of times",
        file=_AHEAD,
        old="        del mine[one.call_id]\n        return True\n",
        new="        return True\n",
        invariant="an admission is taken once",
        tests=(at(_AHEAD_TESTS, "test_two_equal_calls_are_two_candidates_and_each_is_taken_once"),),
    ),
    Mutant(
        name="an admission is taken however old it is",
        file=_AHEAD,
        old="if one.content == content and not one.late and (",
        new="if one.content == content and (",
        invariant="an admission waits for its relay for an hour",
        tests=(at(_AHEAD_TESTS, "test_after_an_hour_nobody_knows_and_no_relay_takes_it"),),
    ),
    Mutant(
        name="any agent's relay takes an admission over",
        file=_AHEAD,
        old="        mine = self._open.get(principal)\n        if not mine:\n",
        new="        mine = next(iter(self._open.values()), None)\n        if not mine:\n",
        invariant="an admission is for the principal whose call it was",
        tests=(at(_AHEAD_TESTS, "test_nobody_else_takes_it_nor_another_server_or_tool"),),
    ),
    Mutant(
        name="what moved before the forward is not looked at",
        file="proxy/guard/local.py",
        old="        if stands:\n",
        new="        if stands is not None:\n",
        invariant="an admission counts while all that it was given for stands",
        tests=(at(_AHEAD_TESTS, "test_where_a_person_or_an_operator_acted_it_is_judged_anew"),),
    ),
    Mutant(
        name="the ladder is not looked at before the forward",
        file=_UNMOVED,
        old="if (verdict.ruleset_epoch, verdict.trust_level) != (self._epoch, level):",
        new="if verdict.ruleset_epoch != self._epoch and level:",
        invariant="an admission counts while all that it was given for stands",
        tests=(at(_AHEAD_TESTS, "test_where_the_ladder_sank_it_is_judged_anew"),),
    ),
    Mutant(
        name="a denial moves nothing",
        file=_UNMOVED,
        old="                case VerdictLeaf(reason=Reason.DENIED_BY_PERSON):\n",
        new="                case VerdictLeaf(reason=Reason.OVERSIZE):\n",
        invariant="an admission counts while all that it was given for stands",
        tests=(at(_AHEAD_TESTS, "test_where_a_person_or_an_operator_acted_it_is_judged_anew"),),
    ),
    Mutant(
        name="edits of one text are taken in any order",
        file=_UNMOVED,
        old="        if waits or one.row.version > row.version:\n",
        new="        if one.row.version > row.version:\n",
        invariant="the text that was judged is the text that comes to stand there",
        tests=(
            at(
                _UNMOVED_TESTS,
                "test_calls_for_one_key_are_taken_in_the_order_in_which_they_were_judged",
            ),
        ),
    ),
    Mutant(
        name="a name that is not offered passes",
        file=_TOOLS,
        old="        return MemoryTool(tool_map=None, tool=None) if self.writes else None\n",
        new="        return None\n",
        invariant="what an agent may take for a memory tool is not called under another name",
        tests=(
            at(
                _TOOL_TESTS,
                "test_a_name_that_is_not_offered_is_closed_where_memory_can_be_written",
            ),
        ),
    ),
    Mutant(
        name="a memory tool of a later version passes",
        file=_TOOLS,
        old="            elif tool.type.startswith(_MEMORY_TYPE):\n",
        new='            elif tool.type.startswith("never"):\n',
        invariant="a memory tool that no map lists is not called",
        tests=(at(_TOOL_TESTS, "test_a_memory_type_of_tomorrow_is_closed"),),
    ),
    Mutant(
        name="what a memory server adds passes",
        file=_TOOLS,
        old="        self._close(tools, score)\n",
        new="",
        invariant="a tool that the map of its server does not list is not called",
        tests=(
            at(
                _TOOL_TESTS,
                "test_what_a_memory_server_adds_is_closed_and_what_stands_beside_it_is_not",
            ),
        ),
    ),
    Mutant(
        name="a name twice in the arguments is read once",
        file="proxy/dialects/model/reading.py",
        old="        _UNIQUE.decode(value)\n",
        new="",
        invariant="what is judged is what the agent will read",
        tests=("tests/unit/proxy/dialects/model/test_reading.py",),
    ),
    Mutant(
        name="a removal may carry additions",
        file=_CALLS,
        old="    _check_absent(rule, arguments)\n",
        new="",
        invariant="a call is judged as what the tool will do",
        tests=(at(_VETO_TESTS, "test_a_removal_that_carries_operations_is_none"),),
    ),
    Mutant(
        name="a removal in a batch is an addition",
        file=_CALLS,
        old="        if any(value in words for _, value in _places(arguments, path(text))):\n"
        "            return ChangeKind.DELETE\n",
        new="        if any(value in words for _, value in _places(arguments, path(text))):\n"
        "            return ChangeKind.CREATE\n",
        invariant="a call is judged as what the tool will do",
        tests=("tests/unit/proxy/dialects/mcp/test_calls_of_models.py",),
    ),
    Mutant(
        name="a change without a key is of anything",
        file="storage/write/gathering.py",
        old="        if not key or made_new:\n",
        new="        if made_new:\n",
        invariant="a change that names nothing is of nothing known",
        tests=("tests/unit/proxy/guard/test_local_keys.py",),
    ),
    Mutant(
        name="an extracted fact stays",
        file=_EXTRACTION,
        old="        return kept_of(read, refused) if refused else read.arguments\n",
        new="        return read.arguments\n",
        invariant="a refused fact does not reach the backend",
        tests=(at(_EXTRACTION_TESTS, "test_a_refused_fact_is_taken_out_and_the_others_stay"),),
    ),
    Mutant(
        name="what no form fits goes on",
        file=_EXTRACTION,
        old="Changed(text=replied.tool_map.model.empty if kept is None else spelled(kept))",
        new="Changed(text=text if kept is None else spelled(kept))",
        invariant="an answer that nobody understands is withheld whole",
        tests=(at(_EXTRACTION_TESTS, "test_what_no_form_fits_is_withheld_whole"),),
    ),
    Mutant(
        name="an extraction passes a gate that is away",
        file=_EXTRACTION,
        old="        except UNDECIDED:\n            return None\n        refused",
        new="        except UNDECIDED:\n            return read.arguments\n        refused",
        invariant="a check that cannot run is a check that failed",
        tests=(at(_EXTRACTION_TESTS, "test_a_gate_that_cannot_answer_lets_nothing_through"),),
    ),
    Mutant(
        name="marks of a backend are spelled as they are",
        file=_OUTPUTS,
        old='    return text.replace("<", "\\\\u003c").replace("`", "\\\\u0060")\n',
        new="    return text\n",
        invariant="the backend reads what was judged",
        tests=(
            at(_OUTPUT_TESTS, "test_what_is_spelled_reads_back_and_holds_no_mark"),
            at(
                _EXTRACTION_TESTS,
                "test_marks_that_a_backend_would_take_away_are_judged_as_they_arrive",
            ),
        ),
    ),
    Mutant(
        name="an answer may say a name twice",
        file=_OUTPUTS,
        old="    if len(found) < len(pairs):\n",
        new="    if len(found) > len(pairs):\n",
        invariant="the backend reads what was judged",
        tests=(at(_OUTPUT_TESTS, "test_what_two_parsers_could_read_differently_is_no_object"),),
    ),
    Mutant(
        name="a program's words are a person's",
        file="proxy/dialects/model/api.py",
        old="    return msgspec.structs.replace(said, voice=Voice.UNPLACED)\n",
        new="    return said\n",
        invariant="what a program puts into a user turn has no person's label",
        tests=("tests/unit/proxy/dialects/model/test_api.py",),
    ),
)
