"""Faults in the relay: what goes on unjudged, out of turn, twice, or to the wrong end."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_RELAY: Final = "proxy/mcp/relay.py"
_CALLS: Final = "proxy/mcp/calls.py"
_SAME: Final = "tests/unit/proxy/mcp/test_same_answer.py"
_TEST_CALLS: Final = "tests/unit/proxy/mcp/test_calls.py"
_TEST_RELAY: Final = "tests/unit/proxy/mcp/test_relay.py"

_TEST_UNANSWERED: Final = "tests/unit/proxy/mcp/test_unanswered.py"

_NAMING: Final = "proxy/mcp/naming.py"
_TEST_NAMING: Final = "tests/unit/proxy/mcp/test_naming.py"

_TEST_LISTINGS: Final = "tests/unit/proxy/mcp/test_listings.py"

RELAY: Final = (
    Mutant(
        name="the words of tools are not sifted",
        file="proxy/mcp/answers.py",
        old="            return await self._plan(filtering_tools(found))\n",
        new="            return found\n",
        invariant="what a server says of itself is a read",
        tests=(
            at(
                _TEST_LISTINGS,
                "test_a_tool_whose_words_hold_what_is_withheld_is_not_listed",
            ),
        ),
    ),
    Mutant(
        name="any event may be resumed from",
        file="proxy/mcp/http/behind_url.py",
        old="        return event_id in self._events_seen\n",
        new="        return bool(event_id)\n",
        invariant="a session's events are its own principal's",
        tests=(
            at(
                "tests/integration/test_mcp_http_resuming.py",
                "test_the_events_of_another_session_are_not_replayed",
            ),
        ),
    ),
    Mutant(
        name="a culprit has the name that the model called",
        file=_NAMING,
        old="    return pending.tool if known else OTHER\n",
        new="    return pending.tool\n",
        invariant="no byte of a refused candidate is in any file: not in its culprit's name",
        tests=(at(_TEST_NAMING, "test_a_tool_is_named_where_its_server_lists_it_for_this_tenant"),),
    ),
    Mutant(
        name="a culprit has the method that the page chose",
        file=_NAMING,
        old="    return method if method is not None and method in _METHODS else OTHER\n",
        new="    return method or OTHER\n",
        invariant="no byte of a refused candidate is in any file: not in a method's name",
        tests=(at(_TEST_NAMING, "test_only_the_protocol_s_own_methods_have_names"),),
    ),
    Mutant(
        name="a culprit has the id that the client chose",
        file=_NAMING,
        old="    return str(request_id) if counted else OTHER\n",
        new="    return str(request_id)\n",
        invariant="no byte of a refused candidate is in any file: not in a call's id",
        tests=(at(_TEST_NAMING, "test_only_a_count_is_the_name_of_a_call"),),
    ),
    Mutant(
        name="an error that names no request goes on as it came",
        file=_RELAY,
        old="await self._answers.shown_unasked(message) if side is Side.SERVER else message\n",
        new="message\n",
        invariant="what a server says in a message of any kind is filtered",
        tests=(
            at(_TEST_UNANSWERED, "test_an_error_that_names_no_request_passes_the_filter"),
            at(
                _TEST_UNANSWERED,
                "test_an_error_that_names_no_request_and_cannot_be_sifted_reaches_nobody",
            ),
        ),
        quick=True,
    ),
    Mutant(
        name="an answer that cannot be relayed settles nothing",
        file="proxy/mcp/unanswered.py",
        old=".forwarding.settle(pending.admitted, Forwarded.UNKNOWN)\n",
        new=".forwarding.settle((), Forwarded.UNKNOWN)\n",
        invariant="what was sent and has no answer is unknown, and is looked up",
        tests=(
            at(
                _TEST_UNANSWERED,
                "test_a_write_whose_answer_cannot_be_relayed_is_unknown_and_is_looked_up",
            ),
        ),
    ),
    Mutant(
        name="an unreadable answer ends what was not sent",
        file="proxy/mcp/unanswered.py",
        old="        if pending.stage is Stage.SENT:\n",
        new="        if pending.stage:\n",
        invariant="an answer answers what was sent",
        tests=(
            at(
                _TEST_UNANSWERED,
                "test_an_unreadable_answer_to_what_was_not_sent_ends_nothing",
            ),
        ),
    ),
    Mutant(
        name="a tool that no map names is called",
        file=_CALLS,
        old="        if call.kind is None:\n",
        new="        if call.kind is None and not call.tool:\n",
        invariant="what nobody declared to be harmless counts as a write",
        tests=(at(_TEST_CALLS, "test_a_tool_that_no_map_names_is_a_write_and_is_refused"),),
    ),
    Mutant(
        name="a batch goes on whole",
        file=_CALLS,
        old="    if not refused:\n        return message\n",
        new="    if refused or not refused:\n        return message\n",
        invariant="nothing is sent that was not admitted",
        tests=(
            at(
                _TEST_CALLS,
                "test_of_a_batch_the_good_items_go_on_and_the_answer_says_which_did_not",
            ),
        ),
    ),
    Mutant(
        name="later messages overtake a verdict",
        file=_RELAY,
        old="                await self._ask(arrival, arrival.pending)\n",
        new="                self._spawn(self._ask(arrival, arrival.pending))\n",
        invariant="messages of one side keep their order",
        tests=(at(_TEST_CALLS, "test_later_messages_wait_for_a_verdict_and_keep_their_order"),),
    ),
    Mutant(
        name="a call that was taken back is sent",
        file=_CALLS,
        old="        if pending.cancelled.is_set() or self._connection.gone.is_set():\n",
        new="        if self._connection.gone.is_set():\n",
        invariant="what its client took back before it was sent is never sent",
        tests=(at(_TEST_CALLS, "test_a_call_taken_back_before_its_verdict_is_never_sent"),),
    ),
    Mutant(
        name="an id in use is taken again",
        file="proxy/mcp/pending.py",
        old="if pending.request_id in self._pending or len(self._pending) >= PENDING_MAX:\n",
        new="if len(self._pending) >= PENDING_MAX:\n",
        invariant="a request has one answer, and an answer one request",
        tests=(at(_TEST_RELAY, "test_an_id_in_use_is_refused_without_an_answer_under_it"),),
    ),
    Mutant(
        name="a late answer is delivered",
        file=_RELAY,
        old="        if pending.cancelled.is_set():\n            self.counts.late += 1\n"
        "            return\n",
        new="        if pending.cancelled.is_set():\n            self.counts.late += 1\n",
        invariant="what comes for a call that was taken back reaches nobody",
        tests=(at(_TEST_RELAY, "test_a_late_answer_goes_nowhere"),),
    ),
    Mutant(
        name="a carriage return goes on as it came",
        file="proxy/dialects/mcp/message.py",
        old='        if b"\\n" in self.raw or b"\\r" in self.raw:\n',
        new='        if b"\\n" in self.raw:\n',
        invariant="a message is one line to every server",
        tests=(at(_TEST_RELAY, "test_a_message_does_not_hide_in_the_white_space_of_another"),),
    ),
    Mutant(
        name="a call without an id goes on",
        file=_RELAY,
        old="        if message.method == CALL:\n",
        new="        if message.method == CALL and message.request_id is not None:\n",
        invariant="a call is judged whether or not its client waits for an answer",
        tests=(at(_TEST_CALLS, "test_a_call_without_an_id_is_no_way_around"),),
    ),
    Mutant(
        name="changed tools are called",
        file="proxy/mcp/catalogue.py",
        old="        if state.approved:\n",
        new="        if state.approved or state.changed:\n",
        invariant="a server's tools are those that were approved",
        tests=(
            at(
                _TEST_CALLS,
                "test_tools_that_changed_are_neither_shown_nor_called_until_they_are_approved",
            ),
        ),
    ),
    Mutant(
        name="a refusal by the server counts as stored",
        file="proxy/mcp/backend.py",
        old='    if message.kind is not Kind.RESULT or result.get("isError") is True:\n',
        new="    if message.kind is not Kind.RESULT:\n",
        invariant="what the server refused is not kept as if it had it",
        tests=(at(_TEST_CALLS, "test_a_server_that_says_no_has_stored_nothing"),),
    ),
    Mutant(
        name="a read that cannot be sifted is shown",
        file="proxy/mcp/answers.py",
        old="            return self._withheld(pending)\n",
        new="            return message\n",
        invariant="a check that cannot run is a check that failed",
        tests=(
            at(_TEST_CALLS, "test_a_gate_that_cannot_answer_refuses_writes_and_withholds_reads"),
        ),
    ),
    Mutant(
        name="an answer that was shown once is shown unasked",
        file="proxy/mcp/answers.py",
        old="and same and not any(await self._sift(last.asked)):\n",
        new="and same:\n",
        invariant="whether an answer may be shown is asked each time that it comes",
        tests=(
            at(_SAME, "test_the_same_answer_is_taken_apart_once_and_asked_for_each_time"),
            at(_SAME, "test_what_is_shown_again_is_what_a_new_relay_would_show"),
            at(_SAME, "test_a_gate_that_cannot_say_withholds_an_answer_that_was_shown_before"),
        ),
    ),
    Mutant(
        name="an answer is taken for the one before",
        file="proxy/mcp/answers.py",
        old=" and last.value == found\n",
        new="\n",
        invariant="all of an answer is asked for, and what is withheld is taken out",
        tests=(at(_SAME, "test_another_answer_is_not_taken_for_the_one_before"),),
    ),
    Mutant(
        name="a lost verdict is asked for again",
        file="proxy/guard/election.py",
        old="        await self._election.ready()\n"
        "        return await self._guard.judge(principal, call)\n",
        new="        return await self._twice(lambda: self._guard.judge(principal, call))\n",
        invariant="one call is judged once",
        tests=(
            at(
                "tests/unit/proxy/guard/test_election.py",
                "test_a_verdict_that_was_lost_is_not_asked_for_again",
            ),
        ),
    ),
    Mutant(
        name="a long line is kept",
        file="proxy/mcp/lines.py",
        old="if self._finder is None and len(self._held) + len(piece) <= self._bytes_max:\n",
        new="if self._finder is None:\n",
        invariant="no line takes more memory than the longest that is read",
        tests=(
            at(
                "tests/unit/proxy/fronts/test_mcp_stdio.py",
                "test_a_line_of_100_megabytes_is_refused_in_constant_memory",
            ),
        ),
    ),
)
