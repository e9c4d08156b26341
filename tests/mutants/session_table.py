"""Faults in the session ledger: what entered a context, whose it is, and what is lost."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_SESSIONS: Final = "tests/unit/proxy/ledger/test_sessions.py"
_CONVERSATIONS: Final = "tests/unit/proxy/ledger/test_conversations.py"
_PROMPTS: Final = "tests/unit/proxy/ledger/test_system_text.py"
_SPLICES: Final = "tests/unit/proxy/ledger/test_splices.py"
_NAMES: Final = at(
    "tests/unit/proxy/ledger/test_joining.py",
    "test_no_name_makes_a_nested_agent_s_task_a_person_s_words",
)
_RESUMED: Final = at(
    "tests/unit/proxy/ledger/test_joining.py",
    "test_what_a_process_under_a_call_says_in_an_older_conversation_is_no_person_s",
)
_ENDED: Final = at(
    "tests/unit/proxy/ledger/test_joining.py",
    "test_a_process_under_a_call_does_not_end_the_call",
)
_REPEATED: Final = at(
    "tests/unit/proxy/ledger/test_joining.py",
    "test_where_call_ids_repeat_no_other_call_hides_one_that_is_under_way",
)
_BOUNDS: Final = "tests/unit/proxy/ledger/test_bounds.py"
_LOG: Final = "tests/unit/storage/session_log/test_log.py"
_TRICKS: Final = at(
    _SPLICES, "test_no_trick_with_a_closing_tag_makes_a_person_of_what_stands_inside"
)

_BESIDE_TOOLS: Final = at(
    _SPLICES, "test_what_stands_beside_tools_that_were_searched_for_is_not_explained"
)

SESSIONS: Final = (
    Mutant(
        name="what came under a call is a person's after a restart",
        file="proxy/ledger/requests.py",
        old="            ground = ground._replace(most=meet(ground.most, before[0]))\n",
        new="            pass\n",
        invariant="a turn keeps the label that it first came with",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_joining.py",
                "test_what_came_under_a_call_is_no_person_s_after_a_restart",
            ),
        ),
    ),
    Mutant(
        name="a nested agent of another name is a person's",
        file="proxy/ledger/joining.py",
        old="if not call.open or call in",
        new="if book.sessions or not call.open or call in",
        invariant="a name does not tell one conversation from another",
        tests=(_NAMES,),
    ),
    Mutant(
        name="a process under a call types as a person in an older conversation",
        file="proxy/ledger/requests.py",
        old="            under = most_under_calls(ground.book, over, ground.now_ms)\n",
        new="            under = ground.most\n",
        invariant="what first comes under another's open call is no person's",
        tests=(_RESUMED,),
    ),
    Mutant(
        name="a call of the same id hides one that is under way",
        file="proxy/ledger/state.py",
        old="            book.repeat(book.calls.pop(row.key))\n",
        new="            del book.calls[row.key]\n",
        invariant="a call is under way whatever other calls have its id",
        tests=(_REPEATED,),
    ),
    Mutant(
        name="a call whose id is known to repeat is never under way",
        file="proxy/ledger/state.py",
        old="        book.repeat(made)\n",
        new="",
        invariant="a call is under way whatever other calls have its id",
        tests=(_REPEATED,),
    ),
    Mutant(
        name="the result of one call ends another of the same id",
        file="proxy/ledger/state.py",
        old="    return key ^ arguments\n",
        new="    return key\n",
        invariant="an id that repeats ends no other call",
        tests=(_REPEATED,),
    ),
    Mutant(
        name="a conversation whose call ids repeat is not found again",
        file="proxy/ledger/joining.py",
        old="for call in turn.calls] if book.repeated else []",
        new="for call in turn.calls if not call]",
        invariant="honest conversations whose call ids repeat stay a person's",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_joining.py",
                "test_conversations_in_turn_whose_call_ids_repeat_stay_a_person_s",
            ),
        ),
    ),
    Mutant(
        name="whoever writes the words of a call ends it",
        file="proxy/ledger/state.py",
        old="            if wrote.joined == Joined.CALL.value:\n",
        new="            if wrote:\n",
        invariant="a process under a call does not end the call",
        tests=(_ENDED,),
    ),
    Mutant(
        name="a call that makes room is forgotten while it is under way",
        file="proxy/ledger/state.py",
        old="            if gone.open:\n                self._lose(session, gone.at_ms)\n",
        new="",
        invariant="a process under a call does not end the call",
        tests=(_ENDED,),
    ),
    Mutant(
        name="the taint of a session rises again",
        file="proxy/ledger/state.py",
        old="low = label if self.taint is None else meet(self.taint, label)",
        new="low = label",
        invariant="the taint of a session only ever falls",
        tests=(
            at(
                _CONVERSATIONS,
                "test_a_conversation_whose_beginning_was_left_out_keeps_what_it_read",
            ),
        ),
    ),
    Mutant(
        name="a history that branches is another session",
        file="proxy/ledger/joining.py",
        old="        session = book.keys.get(history.chain[at])\n",
        new="        session = None\n",
        invariant="what the history joins is one session",
        tests=(at(_CONVERSATIONS, "test_a_conversation_is_found_again_behind_many_others"),),
    ),
    Mutant(
        name="a chat is the first one that began in its words",
        file="proxy/ledger/joining.py",
        old="                session = session if newest is None else newest.session\n",
        new="",
        invariant="a page that one chat read lowers no other that began alike",
        tests=(at(_CONVERSATIONS, "test_chats_that_begin_alike_are_two"),),
    ),
    Mutant(
        name="a prompt of another time makes another conversation",
        file="proxy/ledger/joining.py",
        old="            if not numbered.by_host:\n",
        new="            if True:\n",
        invariant="what an agent's program says in between is no part of a history",
        tests=(
            at(
                _CONVERSATIONS,
                "test_it_is_found_there_by_a_program_that_writes_its_prompt_anew",
            ),
        ),
    ),
    Mutant(
        name="a conversation that was cut is nobody's",
        file="proxy/ledger/joining.py",
        old="            digest in session.labels\n            or (at in history.models and",
        new="            False and (at in history.models and",
        invariant="a conversation whose beginning was left out is the same one",
        tests=(
            at(
                _CONVERSATIONS,
                "test_a_conversation_whose_beginning_was_left_out_keeps_what_it_read",
            ),
        ),
    ),
    Mutant(
        name="a conversation is known by the end of it",
        file="proxy/ledger/joining.py",
        old="        if all(\n            digest in",
        new="        if any(\n            digest in",
        invariant="a beginning that nobody saw is unknown",
        tests=(
            at(
                _CONVERSATIONS,
                "test_a_beginning_that_nobody_saw_is_unknown_though_its_end_was_seen",
            ),
        ),
    ),
    Mutant(
        name="a summary is of whoever read least",
        file="proxy/ledger/requests.py",
        old="            return reduce(meet, map(taint_now, earlier))",
        new="            return taint_now(earlier[0])",
        invariant="a compacted conversation is as trusted as what it sums up",
        tests=(at(_CONVERSATIONS, "test_a_summary_is_as_low_as_the_lowest_of_those_that_said_it"),),
    ),
    Mutant(
        name="a summary is of any conversation of the day",
        file="proxy/ledger/joining.py",
        old="        if said_by and 2 * said_by[0][0] > len(parts):",
        new="        if False:",
        invariant="a summary is of those that said it",
        tests=(
            at(
                _CONVERSATIONS,
                "test_a_summary_is_of_those_that_said_it_and_of_no_other_conversation",
            ),
        ),
    ),
    Mutant(
        name="a sub-agent washes what it read",
        file="proxy/ledger/reading.py",
        old="        if below is not None and below.trust < label.trust:",
        new="        if False:",
        invariant="what a sub-agent brings back is no better than what it read",
        tests=(
            at(_CONVERSATIONS, "test_what_a_sub_agent_brings_back_is_no_better_than_what_it_read"),
        ),
    ),
    Mutant(
        name="a call that a person stopped is under way for an hour",
        file="proxy/ledger/requests.py",
        old="            ground = ground._replace(given_up=tuple(call.key for call in over))\n",
        new="",
        invariant="a call that its conversation went on without is no longer under way",
        tests=(
            at(
                _CONVERSATIONS,
                "test_a_call_that_its_conversation_went_on_without_is_no_longer_under_way",
            ),
        ),
    ),
    Mutant(
        name="an id is believed whatever its call says",
        file="proxy/ledger/evidence.py",
        old="if calls and len(calls) == len(ids) and said:",
        new="if calls:",
        invariant="an id is a claim: it counts where that call says what is written",
        tests=(at(_SESSIONS, "test_an_id_counts_only_where_that_call_says_what_is_written"),),
    ),
    Mutant(
        name="what nobody can place is the newest session's",
        file="proxy/ledger/joining.py",
        old="lowest = taint if lowest is None else meet(lowest, taint)",
        new="lowest = taint",
        invariant="an unplaced write has the lowest taint of the live sessions",
        tests=(
            at(
                _SESSIONS,
                "test_what_nobody_can_place_has_the_lowest_taint_of_the_live_sessions",
            ),
        ),
    ),
    Mutant(
        name="role user is the user",
        file="proxy/ledger/reading.py",
        old="        label, why = _said_before(here, ground.book, label, why)\n        own =",
        new="        own =",
        invariant="what was said before by others is not typed by a person",
        tests=(at(_SESSIONS, "test_what_was_said_before_by_a_tool_is_not_typed_by_a_person"),),
    ),
    Mutant(
        name="text beside tool results is typed",
        file="proxy/ledger/reading.py",
        old="if beside and not (whole and piece.beside_results):",
        new="if False:",
        invariant="text beside tool results that no rule explains is unknown",
        tests=(
            at(_SESSIONS, "test_text_beside_tool_results_is_unknown_unless_a_rule_explains_it"),
        ),
    ),
    Mutant(
        name="what is beside tools that were found is explained by how it begins",
        file="proxy/ledger/splices.py",
        old="            not preface.whole or begun.rstrip() == preface.begins\n",
        new="            True\n",
        invariant="text beside tool results that no rule explains is unknown",
        tests=(_BESIDE_TOOLS,),
    ),
    Mutant(
        name="a result with a name of a tool in it is the catalogue",
        file="proxy/dialects/model/anthropic/messages.py",
        old="    return bool(blocks) and all(\n",
        new="    return bool(blocks) and any(\n",
        invariant="a result is the catalogue only where it holds nothing but names of tools",
        tests=(_BESIDE_TOOLS,),
    ),
    Mutant(
        name="tools that an agent searched for are a tool's words",
        file="proxy/dialects/model/anthropic/messages.py",
        old="    if _refers_to_tools(content):\n",
        new="    if False:\n",
        invariant="a result that holds only names of tools is catalogue",
        tests=(at(_SPLICES, "test_tools_that_an_agent_searched_for_lower_nothing"),),
    ),
    Mutant(
        name="a text that came to a ring that is gone is in the new one",
        file="proxy/ledger/core.py",
        old="            self._came.clear()\n",
        new="",
        invariant="what cannot be searched any more is told again",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_ring.py",
                "test_what_came_before_a_principal_made_room_is_told_again",
            ),
        ),
    ),
    Mutant(
        name="the place that is shown is the first fall, wherever it went",
        file="proxy/ledger/views.py",
        old="    segment = _segment(session.falls[-1][1])",
        new="    segment = _segment(session.falls[0][1])",
        invariant="the first place where a session became unknown is shown",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_unknown.py",
                "test_the_first_place_is_shown_with_the_rule_that_it_needs",
            ),
        ),
    ),
    Mutant(
        name="a name that kept her words from being hers is not told",
        file="proxy/ledger/evidence.py",
        old="        unsaid_name=turn is None\n",
        new="        unsaid_name=turn is not None\n",
        invariant="what kept a person's words from being hers is shown",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_unknown.py",
                "test_a_name_that_kept_her_words_from_being_hers_is_told",
            ),
        ),
    ),
    Mutant(
        name="nobody says under which call a conversation began",
        file="proxy/ledger/views.py",
        old="    under = any(one.row.why",
        new="    under = False and any(one.row.why",
        invariant="the call under which a conversation began is shown",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_unknown.py",
                "test_a_conversation_that_began_under_an_open_call_says_which",
            ),
        ),
    ),
    Mutant(
        name="a span ends where its text says so",
        file="proxy/ledger/splices.py",
        old="closing = text.rfind(rule.closes)",
        new="closing = text.find(rule.closes)",
        invariant="a reminder ends where its agent ended it, not where a page in it says",
        tests=(_TRICKS,),
    ),
    Mutant(
        name="a recalled memory is the agent's own words",
        file="proxy/ledger/reading.py",
        old='label, memory_id = recalled or (SourceKind.UNKNOWN, "")',
        new='label, memory_id = recalled or (SourceKind.USER_INPUT, "")',
        invariant="what stands in a recall and was not recalled is unknown",
        tests=(
            at(
                _SPLICES,
                "test_a_recalled_memory_keeps_its_label_and_what_was_not_recalled_has_none",
            ),
        ),
    ),
    Mutant(
        name="a sub-agent is a new person",
        file="proxy/ledger/joining.py",
        old="            most = meet(most, meet(SourceKind.MODEL_INFERENCE, taint))",
        new="            pass",
        invariant="a conversation under an open call is the model's words",
        tests=(at(_SESSIONS, "test_a_conversation_under_an_open_call_is_the_models_words"),),
    ),
    Mutant(
        name="a summary is nobody's",
        file="proxy/ledger/reading.py",
        old='most, why = meet(SourceKind.MODEL_INFERENCE, ground.inherited), "summary"',
        new='most, why = SourceKind.MODEL_INFERENCE, "summary"',
        invariant="compaction inherits the taint",
        tests=(at(_SPLICES, "test_a_summary_inherits_the_taint_of_what_it_sums_up"),),
    ),
    Mutant(
        name="a history that was not seen is the model's",
        file="proxy/ledger/reading.py",
        old='            label, why = SourceKind.UNKNOWN, "unseen"\n',
        new='            label, why = SourceKind.MODEL_INFERENCE, "unseen"\n',
        invariant="what the model was not seen to say is unknown",
        tests=(at(_SESSIONS, "test_a_history_that_was_not_seen_is_unknown"),),
    ),
    Mutant(
        name="a changed tool is approved by being sent",
        file="proxy/ledger/requests.py",
        old="            elif pins is None or (digest not in pins and",
        new="            elif pins is None or (False and",
        invariant="a tool's description that changed is unknown",
        tests=(at(_BOUNDS, "test_tools_beyond_the_pins_are_not_approved_by_being_seen"),),
    ),
    Mutant(
        name="what a program adds to its prompt is its own",
        file="proxy/ledger/reading.py",
        old="        if ground.settled and said.voice is Voice.SYSTEM:",
        new="        if False:",
        invariant="what nobody said before is unknown in a later prompt",
        tests=(
            at(_PROMPTS, "test_what_is_added_to_a_prompt_is_nobodys_unless_the_program_is_trusted"),
        ),
    ),
    Mutant(
        name="a setting that trusts a program is not heard",
        file="proxy/ledger/requests.py",
        old=" and moment.system_text is SystemText.KNOWN,",
        new=",",
        invariant="an operator may trust a program with its prompt",
        tests=(
            at(_PROMPTS, "test_what_is_added_to_a_prompt_is_nobodys_unless_the_program_is_trusted"),
        ),
    ),
    Mutant(
        name="another date makes another prompt",
        file="proxy/ledger/reading.py",
        old="is None and source(stands) is not _HOSTS:",
        new="is None:",
        invariant="lines that differ only in numbers and dates count as unchanged",
        tests=(at(_PROMPTS, "test_a_prompt_that_says_what_it_said_before_is_the_programs"),),
    ),
    Mutant(
        name="any name in a tool is its model's",
        file="proxy/ledger/texts.py",
        old="    parts = words[:_NAME_PARTS_MAX]",
        new='    parts = ["Opus", "Zebra", *words]',
        invariant="only the model's own name counts as unchanged",
        tests=(at(_PROMPTS, "test_a_tool_that_says_another_name_than_its_models_is_another_one"),),
    ),
    Mutant(
        name="a page is heard everywhere but in the description of a tool",
        file="proxy/ledger/reading.py",
        old="            here = *prints, *self.led_in(text, ground.book)",
        new="            here = ()",
        invariant="what a tool said first is a tool's, wherever it stands",
        tests=(at(_PROMPTS, "test_a_page_in_the_description_of_a_tool_lowers_to_the_page"),),
    ),
    Mutant(
        name="what is forgotten was never said",
        file="proxy/ledger/sentences.py",
        old="                self._hearsay.forget(self._principal, oldest)",
        new="                pass",
        invariant="a sentence that makes room is not anybody's from then on",
        tests=(at(_BOUNDS, "test_sentences_that_make_room_are_not_forgotten"),),
    ),
    Mutant(
        name="after a loss everything is believed",
        file="proxy/ledger/core.py",
        old="return now_ms < max(self.state.distrusted_until_ms, book.distrusted_until_ms)",
        new="return False",
        invariant="for an hour after a loss nothing is endorsed and what enters is unknown",
        tests=(at(_SESSIONS, "test_after_a_loss_nothing_is_believed_for_an_hour"),),
    ),
    Mutant(
        name="after a restart every text can be searched",
        file="proxy/ledger/sessions.py",
        old="            session.unread = unread_of(session)\n",
        new="            pass\n",
        invariant="what cannot be searched any more counts as found",
        tests=(at(_SESSIONS, "test_a_restart_washes_nothing"),),
    ),
    Mutant(
        name="the log promises nothing",
        file="storage/session_log/frames.py",
        old="whole = at == len(data) and number >= promised",
        new="whole = at == len(data)",
        invariant="a log that was cut off between two frames is not whole",
        tests=(at(_LOG, "test_every_cut_and_every_flipped_byte_is_noticed"),),
    ),
    Mutant(
        name="a missing log is a new one",
        file="storage/session_log/log.py",
        old="whole = contents is None and is_new",
        new="whole = contents is None",
        invariant="a store in use without its log lost its history",
        tests=(at(_LOG, "test_a_new_store_has_no_history_and_one_in_use_without_a_file_lost_it"),),
    ),
    Mutant(
        name="a frame fits into any place",
        file="storage/session_log/frames.py",
        old="sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], _BOUND.pack(file_id, number)",
        new="sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], _BOUND.pack(file_id, 0)",
        invariant="no frame of a log can be moved, repeated or left out unnoticed",
        tests=(_LOG,),
    ),
)
