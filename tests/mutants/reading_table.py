"""Faults in the one reading of MCP messages: what another reader would understand differently."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_MESSAGE: Final = "proxy/dialects/mcp/message.py"
_MEMBERS: Final = "tests/unit/proxy/dialects/mcp/test_known_members.py"
_HANDLES: Final = "tests/unit/proxy/mcp/test_handles.py"
_CALLS: Final = "tests/unit/proxy/mcp/test_calls.py"

READING: Final = (
    Mutant(
        name="a name that differs in case alone passes",
        file="proxy/dialects/mcp/known_members.py",
        old="        if folded in taken:\n",
        new="        if name in taken:\n",
        invariant="no reader takes a member for another one than was judged",
        tests=(
            at(_MEMBERS, "test_two_names_that_differ_in_case_alone_refuse_the_message"),
            at(
                "tests/integration/test_mcp_folding.py",
                "test_behind_the_wrapper_none_of_them_reaches_it",
            ),
        ),
        quick=True,
    ),
    Mutant(
        name="names are folded as ASCII",
        file="proxy/dialects/mcp/known_members.py",
        old='    return name.upper().casefold().replace("\\u0307", "")\n',
        new="    return name.lower()\n",
        invariant="names are folded as the most generous reader folds them",
        tests=(at(_MEMBERS, "test_two_names_that_differ_in_case_alone_refuse_the_message"),),
    ),
    Mutant(
        name="the envelope keeps what nobody knows",
        file=_MESSAGE,
        old="    body = _only(came, _OF_KIND[_kind(came)], dropped)\n",
        new="    body = came\n",
        invariant="what stands beside a result is not passed on",
        tests=(
            at(_MEMBERS, "test_unknown_members_of_the_envelope_and_of_a_call_are_left_out"),
            at(
                "tests/integration/test_mcp_answers.py",
                "test_no_part_of_a_message_passes_unread",
            ),
        ),
    ),
    Mutant(
        name="an escaped name goes on as it came",
        file=_MESSAGE,
        old="    if anew or body is not came or _escapes_a_name(raw):\n",
        new="    if anew or body is not came:\n",
        invariant="the bytes that go on say plainly what was read",
        tests=(at(_MEMBERS, "test_bytes_go_on_where_they_say_plainly_what_was_read"),),
    ),
    Mutant(
        name="a call goes on as the bytes that came",
        file=_MESSAGE,
        old="    anew = method == CALL or method in ANEW\n",
        new="    anew = method in ANEW\n",
        invariant="what goes on is the encoding of what was judged",
        tests=(at(_CALLS, "test_an_admitted_write_goes_on_as_what_was_judged_and_is_settled"),),
    ),
    Mutant(
        name="a listing keeps what nobody knows",
        file=_MESSAGE,
        old="        if strict or method in ANEW:\n",
        new="        if strict:\n",
        invariant="of tools, and of what a server is, known members go on alone",
        tests=(at(_MEMBERS, "test_a_result_is_closed_by_the_method_that_it_answers"),),
    ),
    Mutant(
        name="an argument has a twin",
        file="proxy/dialects/mcp/calls.py",
        old="        _check_names(tool_map, rule, arguments)\n",
        new="        pass\n",
        invariant="a server that folds case has no argument that was not judged as such",
        tests=(at(_MEMBERS, "test_only_known_names_have_twins_where_data_stands"),),
    ),
    Mutant(
        name="tools are shown that are not pinned",
        file="proxy/mcp/answers.py",
        old="            if refusal is not None:\n",
        new="            if refusal is None and self._connection.gone.is_set():\n",
        invariant="what a client sees of tools is what was approved",
        tests=(
            at(
                _CALLS,
                "test_tools_that_changed_are_neither_shown_nor_called_until_they_are_approved",
            ),
        ),
    ),
    Mutant(
        name="a page of tools needs not be pinned",
        file="proxy/mcp/server.py",
        old="        return set(tools) <= set(self._approved.get(tenant, ()))\n",
        new="        return tools is not None\n",
        invariant="each page of tools is among the approved ones",
        tests=(at(_HANDLES, "test_pages_pass_when_all_of_them_are_pinned"),),
    ),
    Mutant(
        name="a cursor is shown as it came",
        file="proxy/mcp/answers.py",
        old="        found = self._with_handles(pending.method, message.body.get(part))\n",
        new="        found = message.body.get(part)\n",
        invariant="what a client brings back is a handle of ours",
        tests=(at(_HANDLES, "test_a_cursor_comes_back_as_the_servers_own_and_is_never_shown"),),
    ),
    Mutant(
        name="our own requests have ids of their own kind",
        file="proxy/mcp/own_requests.py",
        old="        if self._counted:\n",
        new="        if not self._counted:\n",
        invariant="a server cannot tell our requests from its client's",
        tests=(at(_HANDLES, "test_our_own_requests_have_ids_as_the_clients"),),
    ),
    Mutant(
        name="an unknown version is open",
        file="proxy/mcp/relay.py",
        old="            strict = asked.strict or self._unknown_version\n",
        new="            strict = asked.strict\n",
        invariant="of a version that nobody knows, only what is known goes on",
        tests=(at(_HANDLES, "test_an_unknown_version_has_nothing_that_is_not_known"),),
    ),
    Mutant(
        name="marks between words make another text",
        file="policy/withheld/prints.py",
        old='    return " ".join(words_of(text)) or _spelled(text)\n',
        new="    return _spelled(text)\n",
        invariant="a comma less does not show what is withheld",
        tests=("tests/unit/proxy/guard/test_sieve.py",),
    ),
    Mutant(
        name="the name of a message is not sifted",
        file="proxy/mcp/answers.py",
        old="                if await self._names_what_is_withheld(message):\n",
        new="                if message.raw == message.method:\n",
        invariant="no part of a message passes unread",
        tests=(
            at(
                "tests/integration/test_mcp_answers.py",
                "test_no_part_of_a_message_passes_unread",
            ),
        ),
    ),
)
