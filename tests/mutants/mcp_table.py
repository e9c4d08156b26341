"""Faults in front of MCP servers, in what a person confirms, and in store mode."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at, dropped, one_test, replaced, returned

_CALLS: Final = "tests/unit/proxy/mcp/test_calls.py"
_CONFIRM_PAGE: Final = "tests/integration/test_console_review.py"
_LEFTOVERS: Final = "tests/unit/proxy/settle/test_leftovers.py"
_LOCAL: Final = "tests/unit/proxy/guard/test_local.py"
_STORE_ENTITIES: Final = "tests/unit/proxy/mcp/test_store_entities.py"

MCP: Final = (
    Mutant(
        row="mcp-unknown",
        name="a tool that no map names is called",
        invariant="what nobody declared to be harmless counts as a write",
        where="proxy.dialects.mcp.calls:ToolCall.closed",
        fault=replaced("self.kind is None", "self.kind is None and (not self.tool)"),
        tests=one_test(_CALLS, "test_a_tool_that_no_map_names_is_a_write_and_is_refused"),
    ),
    Mutant(
        row="mcp-unknown",
        name="a mutating route that nobody knows is just not found",
        invariant="an unknown mutating route counts as a write and is refused",
        where="proxy.fronts.memory:_nobody",
        fault=replaced("UnknownWrite(f'; {hint}')", "NotFound(hint)"),
        tests=one_test(
            "tests/integration/test_http_front.py",
            "test_mutating_route_that_nobody_knows_counts_as_a_write",
        ),
    ),
    Mutant(
        row="mcp-fields",
        name="a string that the map does not name is not judged",
        invariant="every string of a write is a piece",
        where="proxy.dialects.mcp.pieces:PieceTaker._string",
        fault=replaced("self._is_plain(text, at)", "at not in self._named"),
        tests=one_test(
            "tests/unit/proxy/dialects/mcp/test_calls.py",
            "test_a_string_where_the_map_names_none_is_a_piece_too",
        ),
    ),
    Mutant(
        row="mcp-items",
        name="a batch goes on whole",
        invariant="nothing is sent that was not admitted",
        where="proxy.mcp.calls:_reduced",
        fault=replaced("not refused", "refused or not refused"),
        tests=one_test(
            _CALLS, "test_of_a_batch_the_good_items_go_on_and_the_answer_says_which_did_not"
        ),
    ),
    Mutant(
        row="mcp-second",
        name="a read that cannot be sifted is shown",
        invariant="a check that cannot run is a check that failed",
        where="proxy.mcp.answers:Answers.shown",
        fault=replaced("self._withheld(pending)", "message"),
        tests=one_test(_CALLS, "test_a_gate_that_cannot_answer_refuses_writes_and_withholds_reads"),
    ),
    Mutant(
        row="mcp-hiding",
        name="the name of a method brings what is withheld",
        invariant="a quarantined text is in no byte of a server's message",
        where="proxy.mcp.answers:Answers.shown_unasked",
        fault=replaced("await self._names_what_is_withheld(message)", "False"),
        tests=one_test(
            "tests/unit/proxy/mcp/test_listings.py",
            "test_a_method_or_an_id_that_holds_what_is_withheld_brings_nothing",
        ),
    ),
    Mutant(
        row="mcp-lost",
        name="what the server's answer does not name counts as done",
        invariant="only what the server did is live",
        where="proxy.mcp.backend:_effect",
        fault=replaced("ForwardStatus.NO_EFFECT", "ForwardStatus.DONE"),
        tests=one_test(
            "tests/unit/proxy/mcp/test_done.py",
            "test_an_item_is_done_where_the_answer_names_it",
        ),
    ),
    Mutant(
        row="mcp-lost",
        name="an intent is shown",
        invariant="what another server does not have for sure is in no read",
        where="storage.write.commit:_Landing._status",
        fault=replaced("self.keyed and (not self.judged.is_there)", "False"),
        tests=one_test(_LOCAL, "test_an_admitted_item_is_an_intent_that_no_read_shows"),
    ),
    Mutant(
        row="mcp-lost",
        name="what was sent and lost is sent again",
        invariant="an item is sent once, and then only ever looked up",
        where="proxy.settle.leftovers:Leftovers.round",
        fault=replaced("one.sent", "one.sent and (not one.key)"),
        tests=(
            at(
                _LEFTOVERS,
                "test_a_lost_answer_is_unknown_found_by_reading_and_nothing_is_sent_again",
            ),
            at(_LEFTOVERS, "test_what_another_process_sent_is_looked_up"),
        ),
    ),
    Mutant(
        row="mcp-process",
        name="anybody settles",
        invariant="only relays of its own server and tenant settle an item",
        where="storage.features.upstream.intents:_record",
        fault=replaced(
            "(record.tenant, record.target) != (behind.tenant, behind.target)", "not record.tenant"
        ),
        tests=one_test(_LOCAL, "test_another_tenant_neither_settles_nor_learns"),
    ),
    Mutant(
        row="mcp-pinned",
        name="changed tools are called",
        invariant="a server's tools are those that were approved",
        where="proxy.mcp.catalogue:ToolCatalogue._pin",
        fault=replaced("state.approved", "state.approved or state.changed"),
        tests=one_test(
            _CALLS, "test_tools_that_changed_are_neither_shown_nor_called_until_they_are_approved"
        ),
    ),
    Mutant(
        row="mcp-folding",
        name="a name that differs in case alone passes",
        invariant="no reader takes a member for another one than was judged",
        where="proxy.dialects.mcp.known_members:check_twins",
        fault=replaced("folded in taken", "name in taken"),
        tests=(
            at(
                "tests/unit/proxy/dialects/mcp/test_message.py",
                "test_two_names_that_differ_in_case_alone_refuse_the_message",
            ),
            at(
                "tests/integration/test_mcp_folding.py",
                "test_behind_the_wrapper_none_of_them_reaches_it",
            ),
        ),
        quick=True,
    ),
    Mutant(
        row="mcp-instructions",
        name="the words of tools are not sifted",
        invariant="what a server says of itself is a read",
        where="proxy.mcp.answers:Answers._read_and_noted",
        fault=replaced("await self._plan(filtering_tools(found))", "found"),
        tests=one_test(
            "tests/unit/proxy/mcp/test_listings.py",
            "test_a_tool_whose_words_hold_what_is_withheld_is_not_listed",
        ),
    ),
    Mutant(
        row="mcp-names",
        name="a culprit has the name that the model called",
        invariant="no byte of a refused candidate is in any file: not in its culprit's name",
        where="proxy.mcp.answers:tool_of",
        fault=replaced("pending.tool if known else OTHER", "pending.tool"),
        tests=one_test(
            "tests/unit/proxy/mcp/test_relay.py",
            "test_a_tool_is_named_where_its_server_lists_it_for_this_tenant",
        ),
    ),
    Mutant(
        row="shown-hidden",
        name="nothing is shown of what nothing is drawn for",
        invariant="a person sees all that she confirms",
        where="proxy.cli.terminal:inert",
        fault=replaced("is_hidden(character)", "category in {'Cc', 'Cf', 'Cs', 'Zl', 'Zp'}"),
        tests=one_test(
            "tests/unit/proxy/cli/test_terminal.py", "test_nothing_a_terminal_acts_on_survives"
        ),
    ),
    Mutant(
        row="shown-rows",
        name="the second row of a quoted text has no margin",
        invariant="a quoted text cannot pass for a command's own question",
        where="proxy.cli.terminal:_rows",
        fault=replaced("cells > room", "False"),
        tests=one_test(
            "tests/unit/proxy/cli/test_terminal.py",
            "test_no_row_of_a_block_begins_without_its_margin",
        ),
    ),
    Mutant(
        row="shown-names",
        name="the name of a tool is printed as it is",
        invariant="no name adds a row to the lines of verdicts",
        where="proxy.cli.verdict_line:_short",
        fault=replaced("inert", "str"),
        tests=one_test(
            "tests/unit/proxy/cli/test_verdict_line.py",
            "test_a_hostile_name_is_escaped_visibly_in_one_line",
        ),
    ),
    Mutant(
        row="adopt-tenants",
        name="two tenants adopt under one nonce",
        invariant="what one tenant took in keeps no other from it",
        where="proxy.guard.local_guard:LocalGuard.adopt",
        fault=replaced(
            "f'{tenant}\\x00{server}\\x00{proposal.text}\\x00{proposal.metadata_json}'",
            "f'{server}\\x00{proposal.text}\\x00{proposal.metadata_json}'",
        ),
        tests=one_test(
            "tests/unit/proxy/admin/test_adopting.py",
            "test_each_tenant_takes_in_what_a_shared_server_keeps",
        ),
    ),
    Mutant(
        row="page-escape",
        name="a candidate is shown as markup",
        invariant="nothing of a candidate acts on the page where a person reads it",
        where="proxy.console.drawing:_escaped",
        fault=replaced("Markup('{}').format(''.join(chars))", "Markup(''.join(chars))"),
        tests=one_test(_CONFIRM_PAGE, "test_the_candidate_is_shown_as_text_and_nothing_in_it_acts"),
    ),
    Mutant(
        row="page-foreign",
        name="a link is for any candidate",
        invariant="a link decides the candidate that it was made for",
        where="proxy.admin.review_decider:ConfirmLinks.check",
        fault=replaced(
            "(confirmation.subject, confirmation.memory_class) != (subject, memory_class)",
            "not subject",
        ),
        tests=one_test(_CONFIRM_PAGE, "test_a_link_is_for_one_candidate_and_for_a_time"),
    ),
    Mutant(
        row="page-foreign",
        name="a key decides without the code of a form",
        invariant="what a foreign page makes a browser send decides nothing",
        where="proxy.console.visitors:Visitors.check_code",
        fault=replaced("visitor.code != code or not code", "not path"),
        tests=one_test(_CONFIRM_PAGE, "test_a_key_alone_decides_nothing"),
    ),
    Mutant(
        row="page-agent",
        name="an agent's key opens the page",
        invariant="what the agent's key opens, the agent could open",
        where="proxy.console.visitors:Visitors.holder",
        fault=replaced(
            "operator_of(self._authenticator.require(key, visit, OperatorScope.VIEW))",
            "self._authenticator.require(key, visit, OperatorScope.VIEW)",
        ),
        tests=one_test(_CONFIRM_PAGE, "test_a_key_that_is_no_operators_is_asked_for_again"),
    ),
    Mutant(
        row="mcp-before",
        name="the unseen is changed by anybody",
        invariant="what nobody saw being written is changed by a person only",
        where="policy.checks:_unseen",
        fault=replaced("StepObjection(Reason.PERSON_REQUIRED, holds=True)", "None"),
        tests=one_test(_LOCAL, "test_what_nobody_saw_being_written_is_changed_by_a_person_only"),
    ),
    Mutant(
        row="store-entities",
        name="an entity goes whatever hangs on it",
        invariant="an entity stays while something that hangs on it has to stay",
        where="proxy.dialects.mcp.store.plans:_entities_taken_away",
        fault=replaced("is_gone(written[name])", "True"),
        tests=(_STORE_ENTITIES,),
    ),
    Mutant(
        row="store-cost",
        name="reads of a graph cost its principal nothing",
        invariant="what a read of a graph shows counts in the window",
        where="proxy.intercept.operations:Operations.graph",
        fault=dropped("self._window.spend(principal.principal_id, count // SHOWN_PER_UNIT)"),
        tests=one_test(_STORE_ENTITIES, "test_a_read_takes_of_the_window_what_it_shows"),
    ),
    Mutant(
        row="memory-files",
        name="a path has one reading",
        invariant="a name that only folds to a step leads no path out of a folder of memory",
        where="policy.text.paths:readings_of_path",
        fault=replaced(
            "{*map(folded_path, spelled), *map(_stepped, spelled | spelled_for_windows)}",
            "map(folded_path, spelled)",
        ),
        tests=one_test("tests/unit/policy/test_places.py", "test_every_spelling_of_a_place_is_one"),
    ),
    Mutant(
        row="relay-fields",
        name="a relay names the person who approved",
        invariant="nobody but an operator's own request says that a person approved",
        where="proxy.guard.store_requests:",
        fault=replaced(
            "{'change', 'memory_id', 'text', 'metadata_json', 'target', 'memory_class'}",
            "{'change', 'memory_id', 'text', 'metadata_json', 'target', "
            "'memory_class', 'approved_by'}",
        ),
        tests=one_test(
            "tests/integration/test_guard_socket.py",
            "test_an_operation_on_our_own_store_runs_as_the_peer",
        ),
    ),
    Mutant(
        row="handover",
        name="an id is enough to take an admission over",
        invariant="only the very call that was judged goes on unjudged",
        where="proxy.guard.ahead:Ahead.find",
        fault=replaced("one.content == content", "True"),
        tests=one_test(
            "tests/unit/proxy/guard/test_ahead.py",
            "test_what_a_hook_rewrites_in_between_is_judged_anew_and_held",
        ),
    ),
    Mutant(
        row="http-resume",
        name="any event may be resumed from",
        invariant="a session's events are its own principal's",
        where="proxy.mcp.http.url_server:UrlLine.sent_event",
        fault=replaced("_print(event_id) in self._events_seen", "bool(event_id)"),
        tests=one_test(
            "tests/integration/test_mcp_http_resuming.py",
            "test_the_events_of_another_session_are_not_replayed",
        ),
    ),
    Mutant(
        row="http-batch",
        name="an id in use is taken again",
        invariant="a request has one answer, and an answer one request",
        where="proxy.mcp.pending_requests:RequestTable.add",
        fault=replaced("pending.request_id in self._pending", "False"),
        tests=one_test(
            "tests/unit/proxy/mcp/test_relay.py",
            "test_an_id_in_use_is_refused_without_an_answer_under_it",
        ),
    ),
    Mutant(
        row="http-session",
        name="a session outlives the key that opened it",
        invariant="the processes behind a key end with it",
        where="proxy.mcp.http.hub:Hub._run",
        fault=dropped("access.tell(line.close)"),
        tests=one_test(
            "tests/integration/test_mcp_http_command.py",
            "test_the_processes_behind_a_key_end_with_it",
        ),
    ),
    Mutant(
        row="mcp-hiding",
        name="a piece of a convicted memory hides an older one",
        invariant="a memory that was there before a lie is shown on",
        where="proxy.guard.sieve:_OfServer.hides",
        fault=replaced("self._live.first(piece) >= self._hidden.first(piece)", "True"),
        tests=one_test(
            "tests/unit/proxy/guard/test_sieve.py",
            "test_a_piece_is_shown_by_what_is_proven_or_was_there_before",
        ),
    ),
    Mutant(
        row="mcp-second",
        name="a convicted piece is shown",
        invariant="a piece of a hidden memory is in no answer",
        where="proxy.guard.sieve:_OfServer.hides",
        fault=replaced("self._hidden.has(piece)", "self._live.has(piece)"),
        tests=one_test(
            "tests/unit/proxy/guard/test_sieve.py",
            "test_a_piece_is_found_as_a_whole_string_line_or_sentence",
        ),
    ),
    Mutant(
        row="page-foreign",
        name="a call passes with one line that no one let in",
        invariant="an act lets in the lines that it showed",
        where="storage.write.line_decisions:LineDecisions._let_in",
        fault=replaced("len(records) == len(found)", "records"),
        tests=one_test(
            "tests/unit/storage/features/test_vouching.py", "test_one_line_more_is_not_let_in"
        ),
    ),
    Mutant(
        row="page-foreign",
        name="what was let in passes again and again",
        invariant="what a person let in passes once",
        where="storage.write.line_decisions:LineDecisions.carried_out",
        fault=returned("None"),
        tests=(
            at(
                "tests/unit/storage/features/test_vouching.py",
                "test_what_a_relay_took_no_call_has_again",
            ),
            at(
                "tests/unit/storage/features/test_vouching.py",
                "test_a_call_whose_lines_were_all_let_in_passes_once_after_a_restart",
            ),
        ),
    ),
    Mutant(
        row="held-flood",
        name="a denied line is held again",
        invariant="a denial stands until it is forgiven",
        where="storage.write.line_decisions:LineDecisions.said",
        fault=replaced(
            "any((change.draft.has(LINES, one) for one in self._keys(candidate, _DENIED)))", "False"
        ),
        tests=one_test(
            "tests/unit/storage/features/test_vouching.py",
            "test_a_denied_line_is_refused_until_it_is_forgiven",
        ),
    ),
)
