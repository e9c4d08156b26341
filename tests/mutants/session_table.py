"""Faults in the session ledger: what entered a context, whose it is, and what is lost."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_SESSIONS: Final = "tests/unit/proxy/ledger/test_sessions.py"
_SPLICES: Final = "tests/unit/proxy/ledger/test_splices.py"
_NAMES: Final = at(
    "tests/unit/proxy/ledger/test_joining.py",
    "test_no_name_makes_a_nested_agent_s_task_a_person_s_words",
)
_BOUNDS: Final = "tests/unit/proxy/ledger/test_bounds.py"
_LOG: Final = "tests/unit/storage/session_log/test_log.py"
_TRICKS: Final = at(
    _SPLICES, "test_no_trick_with_a_closing_tag_makes_a_person_of_what_stands_inside"
)

SESSIONS: Final = (
    Mutant(
        name="a nested agent of another name is a person's",
        file="proxy/ledger/joining.py",
        old="if not call.open or key in",
        new="if call.session != session.session or not call.open or key in",
        invariant="a name does not tell one conversation from another",
        tests=(_NAMES,),
    ),
    Mutant(
        name="the taint of a session rises again",
        file="proxy/ledger/state.py",
        old="low = label if self.taint is None else meet(self.taint, label)",
        new="low = label",
        invariant="the taint of a session only ever falls",
        tests=(at(_SESSIONS, "test_a_name_that_comes_back_brings_its_taint_along"),),
    ),
    Mutant(
        name="a name alone says which session it is",
        file="proxy/ledger/joining.py",
        old="        session = book.keys.get(history.chain[at])\n",
        new="        session = None\n",
        invariant="a new session id does not separate what the history joins",
        tests=(at(_SESSIONS, "test_a_name_does_not_separate_what_the_history_joins"),),
    ),
    Mutant(
        name="an id is believed whatever its call says",
        file="proxy/ledger/evidence.py",
        old="if calls and len(calls) == len(ids) and all(_says(call, asked) for call in calls):",
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
        old="            if source is not None and source.trust < label.trust:\n"
        '                label, why = source, "said_before"\n'
        "        own =",
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
        old="elif pins is None or digest not in pins:",
        new="elif pins is None:",
        invariant="a tool's description that changed is unknown",
        tests=(at(_BOUNDS, "test_tools_beyond_the_pins_are_not_approved_by_being_seen"),),
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
