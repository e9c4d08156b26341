"""Faults in the model front: keys, routes, and what goes upstream."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_FRONT: Final = "tests/integration/test_model_front.py"
_COUPLING: Final = "tests/integration/test_model_coupling.py"
_CREDENTIALS: Final = "tests/unit/proxy/model/test_credentials.py"
_EDITORS: Final = "tests/unit/proxy/dialects/model/test_editors.py"
_CLEAN_TURNS: Final = "tests/unit/proxy/model/test_clean_turns.py"
_RECURRING: Final = "tests/unit/proxy/model/test_recurring.py"
_REPLY: Final = "tests/unit/proxy/dialects/model/test_replies_withheld.py"
_ROUTES: Final = "tests/unit/proxy/model/test_routes.py"
_SSE: Final = "tests/unit/proxy/dialects/test_sse.py"
_PLACE: Final = at(_REPLY, "test_no_event_brings_it_wherever_it_stands")
_BESIDE: Final = at(_REPLY, "test_nothing_stands_beside_the_data_of_an_event")
_UNJUDGED: Final = at(_EDITORS, "test_no_call_goes_on_unjudged_wherever_a_stream_brings_it")

MODEL: Final = (
    Mutant(
        name="a key of ours stays in its header",
        file="proxy/model/credentials.py",
        old="        del headers[name]\n",
        new="",
        invariant="no key of ours goes upstream",
        tests=(at(_CREDENTIALS, "test_no_key_of_ours_goes_upstream_from_any_place"),),
    ),
    Mutant(
        name="hosted memory is any other route",
        file="proxy/model/routes.py",
        old="    if method not in _SAFE and any(part in _HOSTED for part in parts):\n",
        new="    if method not in _SAFE and not parts:\n",
        invariant="a write on the provider's side is an unknown write",
        tests=(at(_FRONT, "test_other_routes_pass_untouched_and_hosted_memory_does_not"),),
    ),
    Mutant(
        name="the request goes upstream as it came",
        file="proxy/model/with_ledger.py",
        old="            body=body,\n            session=entered.session,\n",
        new="            session=entered.session,\n",
        invariant="no later model request carries what was refused",
        tests=(at(_COUPLING, "test_what_was_refused_is_in_no_later_request_and_in_no_reply"),),
    ),
    Mutant(
        name="another principal goes on from a response",
        file="proxy/model/histories.py",
        old="        kept = self._kept.get(principal_id, OrderedDict())\n",
        new="        kept = next(iter(self._kept.values()), OrderedDict[str, _Kept]())\n",
        invariant="what was said is its principal's alone",
        tests=(at(_FRONT, "test_a_known_response_is_gone_on_from_with_its_whole_history"),),
    ),
    Mutant(
        name="a call that tells late what it is passes",
        file="proxy/dialects/model/openai/responses_stream.py",
        old="            # An item may turn out to be a call only after its beginning.\n"
        "            self._held.setdefault(index, [])\n",
        new="            pass\n",
        invariant="no call reaches the agent unjudged",
        tests=(at(_EDITORS, "test_a_call_that_only_the_end_of_its_item_tells_is_judged"),),
    ),
    Mutant(
        name="what held nothing once holds nothing for ever",
        file="proxy/model/clean_turns.py",
        old="kept[1] is read and kept[0] == stamp",
        new="kept[1] is read",
        invariant="nothing that was refused goes upstream",
        tests=(at(_CLEAN_TURNS, "test_an_old_turn_is_looked_at_again_when_something_is_refused"),),
    ),
    Mutant(
        name="what one person typed is hers wherever it comes from",
        file="proxy/model/clean_turns.py",
        old="kept[1] is read and kept[0] == stamp",
        new="kept[0] == stamp",
        invariant="only what a person typed is left alone",
        tests=(
            at(_CLEAN_TURNS, "test_what_she_typed_is_looked_at_where_it_is_another_ones_words"),
        ),
    ),
    Mutant(
        name="a thought of a clean turn stays behind a turn that changed",
        file="proxy/dialects/model/anthropic/withheld.py",
        old="        if at in leave.clean and not (loosened and binds):\n",
        new="        if at in leave.clean:\n",
        invariant="a signed block goes with what it is bound to",
        tests=(
            at(
                _CLEAN_TURNS,
                "test_a_thought_behind_a_turn_that_changed_is_left_out_though_its_turn_was_clean",
            ),
        ),
    ),
    Mutant(
        name="a principal is given another one's elements",
        file="proxy/model/recurring.py",
        old="        element = self._old.get(principal_id, {}).get(name)\n",
        new="        element = next((a[name] for a in self._young.values() if name in a), None)\n",
        invariant="what was said is its principal's alone",
        tests=(at(_RECURRING, "test_a_turn_that_came_before_is_the_same_object"),),
    ),
    Mutant(
        name="a tool is where it stood first",
        file="proxy/model/recurring.py",
        old="        name = (read, args)\n",
        new="        name = (read, ())\n",
        invariant="a tool is left alone only as it was approved",
        tests=(at(_RECURRING, "test_a_tool_at_another_place_is_read_at_that_place"),),
    ),
    Mutant(
        name="a piece is looked at alone",
        file="proxy/dialects/model/replies_withheld.py",
        old="        told = before + text\n",
        new="        told = text\n",
        invariant="a text that comes in pieces is cut wherever it stands",
        tests=(_PLACE,),
    ),
    Mutant(
        name="the rest of a delta passes",
        file="proxy/dialects/model/replies_withheld.py",
        old='        lean = self._whole({**body, "delta": {**delta, field: ""}}, (index, kind))\n',
        new="        lean = body\n",
        invariant="a text that comes in pieces is cut wherever it stands",
        tests=(_PLACE,),
    ),
    Mutant(
        name="an event goes on as the bytes that came",
        file="proxy/dialects/model/replies_withheld.py",
        old="    raw = event_of(_name(event), body)\n",
        new="    raw = event.raw if payload(event) == body else event_of(_name(event), body)\n",
        invariant="nothing stands beside the data of an event",
        tests=(_BESIDE,),
    ),
    Mutant(
        name="a comment passes",
        file="proxy/dialects/model/replies_withheld.py",
        old="            kept = self._trailed((), text) == text\n",
        new="            kept = bool(text)\n",
        invariant="nothing stands beside the data of an event",
        tests=(_BESIDE,),
    ),
    Mutant(
        name="a block without a number passes",
        file="proxy/dialects/model/anthropic/stream.py",
        old="            # An event without an index belongs to no block.\n"
        '            return b"", ()\n',
        new="            return event.raw, ()\n",
        invariant="no call reaches the agent unjudged",
        tests=(_UNJUDGED,),
    ),
    Mutant(
        name="the beginning of a response names calls",
        file="proxy/dialects/model/openai/responses_stream.py",
        old='        if self._brings_more(object_of(body.get("response"))):\n',
        new="        if self._brings_more({}):\n",
        invariant="no call reaches the agent unjudged",
        tests=(_UNJUDGED,),
    ),
    Mutant(
        name="a chunk with whole calls passes",
        file="proxy/dialects/model/openai/chat_stream.py",
        old="    if not _calls_of(message):\n",
        new="    if message or not message:\n",
        invariant="no call reaches the agent unjudged",
        tests=(_UNJUDGED,),
    ),
    Mutant(
        name="what others may read passes unread",
        file="proxy/dialects/model/stream.py",
        old="            raise Unread from None\n",
        new="            return None\n",
        invariant="no call reaches the agent unjudged",
        tests=(
            at(_EDITORS, "test_an_event_that_others_may_be_able_to_read_is_not_passed_on_unread"),
        ),
    ),
    Mutant(
        name="a text may end a line",
        file="proxy/dialects/sse.py",
        old='    b"\\xe2\\x80\\xa8": b"\\\\u2028",\n',
        new="",
        invariant="a model cannot write an event of its own into its text",
        tests=(at(_SSE, "test_no_text_of_a_model_ends_a_line_for_any_reader"),),
    ),
    Mutant(
        name="any path is sent",
        file="proxy/model/routes.py",
        old="    if _PATH.fullmatch(rest) is None:\n",
        new='    if rest and not rest.startswith("/"):\n',
        invariant="what is classified is what is served",
        tests=(at(_ROUTES, "test_a_path_that_two_servers_may_read_differently_is_refused"),),
    ),
    Mutant(
        name="fields that no API has pass in a chat",
        file="proxy/dialects/model/openai/withheld.py",
        old="    return swept(change(part, where, leave, asks, *waiting), where, leave, asks)\n",
        new="    return change(part, where, leave, asks, *waiting)\n",
        invariant="no place of a request brings what was refused",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding_swept.py",
                "test_no_place_of_a_request_brings_it",
            ),
        ),
    ),
    Mutant(
        name="fields that no API has pass in a message",
        file="proxy/dialects/model/anthropic/withheld.py",
        old="swept(_message(message, place, leave, asks, waiting), place, leave, asks)",
        new="_message(message, place, leave, asks, waiting)",
        invariant="no place of a request brings what was refused",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding_swept.py",
                "test_no_place_of_a_request_brings_it",
            ),
        ),
    ),
    Mutant(
        name="a key is not looked into",
        file="proxy/dialects/model/withheld.py",
        old="    return _KEY.fullmatch(key) is not None or asks.of(key) is None\n",
        new="    return bool(key) or asks.of(key) is None\n",
        invariant="no place of a request brings what was refused",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding_swept.py",
                "test_no_place_of_a_request_brings_it",
            ),
        ),
    ),
    Mutant(
        name="a file is not opened",
        file="proxy/dialects/model/withheld.py",
        old='        said = asks.of(b64decode(data).decode("utf-8"))\n',
        new="        said = asks.of(data) if not data else None\n",
        invariant="no place of a request brings what was refused",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding_swept.py",
                "test_no_place_of_a_request_brings_it",
            ),
        ),
    ),
    Mutant(
        name="the name of a tool is a text",
        file="proxy/dialects/model/withheld.py",
        old='        *("name", "namespace", "object", "server_label", "server_name"),\n',
        new="",
        invariant="who proposes a tool's name cannot take it away",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding_swept.py",
                "test_a_tool_is_not_taken_away_by_proposing_to_remember_its_name",
            ),
        ),
    ),
    Mutant(
        name="other routes wait for nothing",
        file="proxy/withhold/withholding.py",
        old="        await self.quiet(principal.principal_id, deadline_s)\n",
        new="",
        invariant="nothing goes on while a candidate of its principal is undecided",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding_in_flight.py",
                "test_other_routes_wait_as_well_and_then_know_what_is_withheld",
            ),
        ),
    ),
)
