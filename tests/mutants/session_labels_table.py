"""Faults in what a session's context makes of a label: taint, containment, endorsement."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_LABELS: Final = "policy/labels/derive.py"
_ENDORSEMENT: Final = "policy/labels/endorsement.py"
_CONTAINMENT: Final = "policy/labels/containment.py"
_LABEL_TESTS: Final = "tests/unit/policy/labels/test_derive_session.py"
_SENTENCE_TESTS: Final = "tests/unit/policy/text/test_sentences.py"
_HEARSAY_TESTS: Final = "tests/unit/proxy/ledger/test_hearsay.py"
_LED_IN_TESTS: Final = "tests/unit/proxy/ledger/test_led_in.py"
_DOOR_TESTS: Final = "tests/unit/proxy/ledger/test_one_door.py"
_CONTAINMENT_TESTS: Final = "tests/unit/policy/labels/test_containment.py"
_SIDE_BY_SIDE: Final = at(
    _DOOR_TESTS, "test_it_is_no_person_s_where_it_stood_in_two_blocks_side_by_side"
)
_RULE: Final = at(_LABEL_TESTS, "test_the_rule_is_that_of_the_class_it_is_judged_as")

SESSION_LABELS: Final = (
    Mutant(
        name="a conversation that made room was a person's",
        file="proxy/ledger/joining.py",
        old="session.conversations.get(root, SourceKind.UNKNOWN))",
        new="session.conversations.get(root, most))",
        invariant="forgetting lowers labels only",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_bounds.py",
                "test_a_conversation_that_makes_room_is_not_a_persons_when_it_goes_on",
            ),
        ),
    ),
    Mutant(
        name="a file that is named by its id enters without a label",
        file="proxy/dialects/model/reading.py",
        old=" or sealed_in(where, Voice.UNPLACED)\n",
        new="\n",
        invariant="what nobody can place is unknown",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_sessions.py",
                "test_a_file_that_is_named_by_its_id_was_written_by_nobody_known",
            ),
        ),
    ),
    Mutant(
        name="blocks of a result are heard one by one",
        file="proxy/ledger/reading.py",
        old="            said = across([one.text for one in texts])\n",
        new="            said = across([texts[0].text])\n",
        invariant="what stands in blocks side by side is heard as one text",
        tests=(_SIDE_BY_SIDE,),
    ),
    Mutant(
        name="what ends a block ends its sentence",
        file="proxy/ledger/texts.py",
        old="    return tuple(dict.fromkeys(joined))\n",
        new="    return joined[1:2]\n",
        invariant="what stands in blocks side by side is heard as one text",
        tests=(at(_DOOR_TESTS, "test_it_is_no_person_s_whatever_stood_where_one_block_ended"),),
    ),
    Mutant(
        name="blocks that are known are not heard side by side",
        file="proxy/ledger/core.py",
        old="        if not texts or self._stands(whole, ring, now_ms):\n",
        new="        known = {name[-1] for name in self._came}\n"
        "        if known >= {self.reader.print(one) for one in texts}:\n",
        invariant="what stands in blocks side by side is heard as one text",
        tests=(at(_DOOR_TESTS, "test_blocks_that_were_shown_before_are_heard_side_by_side"),),
    ),
    Mutant(
        name="strings of an answer are heard one by one",
        file="proxy/ledger/core.py",
        old="(*new, *across(segment.texts))",
        new="(*new,)",
        invariant="what stands in blocks side by side is heard as one text",
        tests=(_SIDE_BY_SIDE,),
    ),
    Mutant(
        name="parts of a description are read one by one",
        file="proxy/ledger/reading.py",
        old="        for at, text in enumerate((*texts, *across(texts))):",
        new="        for at, text in enumerate(texts):",
        invariant="what stands in blocks side by side is heard as one text",
        tests=(
            at(
                _DOOR_TESTS,
                "test_a_description_is_a_page_s_where_its_parts_together_say_what_the_page_says",
            ),
        ),
    ),
    Mutant(
        name="a description that changed is not heard",
        file="proxy/ledger/requests.py",
        old="found.heard(reader.elsewhere(*texts, *across(texts)), label)",
        new="str(texts)",
        invariant="what any door brings is no person's when she types it",
        tests=(_SIDE_BY_SIDE,),
    ),
    Mutant(
        name="what one agent heard is told to no other",
        file="proxy/ledger/hearsay.py",
        old="    return (own, *((trust, _salt(",
        new="    return (own,) or (own, *((trust, _salt(",
        invariant="what one agent was shown is no person's of another key",
        tests=(at(_HEARSAY_TESTS, "test_what_one_agent_was_shown_is_no_person_s_of_another_key"),),
    ),
    Mutant(
        name="what a person typed is told to others",
        file="proxy/ledger/sentences.py",
        old="            others = (one for one in ones if hers(one) != USER_FIRST)\n",
        new="            others = (one for one in ones if hers(one) != -1)\n",
        invariant="what a person typed is told to nobody else",
        tests=(
            at(_HEARSAY_TESTS, "test_what_a_person_typed_and_what_is_short_is_told_to_nobody_else"),
        ),
    ),
    Mutant(
        name="a full part of a filter is wrong as often as a large one",
        file="proxy/ledger/hearsay.py",
        old="BITS: Final = (48, 48, 32, 24)\n",
        new="BITS: Final = (24, 24, 24, 24)\n",
        invariant="what others said takes hardly a turn from who typed it",
        tests=(
            at(
                _HEARSAY_TESTS,
                "test_parts_that_are_full_tell_no_more_falsely_than_the_last_one",
            ),
        ),
    ),
    Mutant(
        name="a flood makes others forget",
        file="proxy/ledger/hearsay.py",
        old="self._shared if count <= DAILY_MAX else self._flood(principal)",
        new="self._shared",
        invariant="who says more than there is room for pushes out nobody else's words",
        tests=(
            at(
                _HEARSAY_TESTS,
                "test_who_says_more_than_a_day_has_room_for_gets_a_filter_of_its_own",
            ),
        ),
    ),
    Mutant(
        name="a text is indexed as it is spelled",
        file="proxy/ledger/ring.py",
        old="for at, reading in enumerate(self._readings(looked_at))\n",
        new="for at, reading in enumerate((looked_at,))\n",
        invariant="what is made of a text is found, however the text was spelled",
        tests=(at(_DOOR_TESTS, "test_what_is_made_of_it_is_labelled_by_it"),),
    ),
    Mutant(
        name="a sentence is heard as it is spelled",
        file="proxy/ledger/printing.py",
        old="dict.fromkeys((*self.once.readings(text), *apart(_repeated, text))):",
        new="dict.fromkeys((text, *apart(_repeated, text))):",
        invariant="what was heard is known again, however it was spelled",
        tests=(
            at(
                "tests/property/test_one_door.py",
                "test_typed_at_the_same_key_it_is_no_better_than_its_door",
            ),
        ),
    ),
    Mutant(
        name="a sentence is heard whole",
        file="policy/text/sentences.py",
        old="islice(_CUT.finditer(sentence), _CUTS_MAX):",
        new="islice(_CUT.finditer(sentence), 0):",
        invariant="what may be said alone is heard alone",
        tests=(
            at(
                "tests/unit/policy/text/test_readings.py",
                "test_a_decoded_text_keeps_the_marks_behind_which_something_may_be_said_alone",
            ),
        ),
    ),
    Mutant(
        name="a prompt of a server is not heard",
        file="proxy/ledger/core.py",
        old="        if segment.tool not in _DECLARING:\n",
        new="        if segment.tool in _DECLARING:\n",
        invariant="what a relay shows is heard like what a tool answers",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_hearsay.py",
                "test_what_one_agent_was_shown_is_no_person_s_of_another_key",
            ),
        ),
    ),
    Mutant(
        name="a picture is searched",
        file="proxy/ledger/core.py",
        old="            if one.sealed:\n                session.hide(digest, one.origin.kind)\n",
        new="            if one.sealed:\n",
        invariant="a session with something in it that nobody can read cannot be searched",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_sealed.py",
                "test_a_session_with_something_nobody_here_can_read_cannot_be_searched",
            ),
        ),
    ),
    Mutant(
        name="what the provider's tools found is noted with the next request",
        file="proxy/ledger/core.py",
        old="        if reply.heard:\n",
        new="        if not reply.heard and reply.heard:\n",
        invariant="what the provider's tools found counts for the calls of the same reply",
        tests=(
            at(
                "tests/integration/test_model_provided.py",
                "test_messages_a_page_and_a_write_in_one_reply_land_nowhere_above_the_page",
            ),
        ),
    ),
    Mutant(
        name="a memory with a heading in it is the agent's own",
        file="proxy/ledger/reading.py",
        old="            if its_own and all(source(one) in _OWN for one in parts):\n",
        new="            if its_own:\n",
        invariant="a recalled memory keeps its label, whatever its lines begin with",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_splices.py",
                "test_a_memory_with_lines_like_those_of_the_agent_keeps_its_label",
            ),
        ),
    ),
    Mutant(
        name="what the model said first hides a tool's copy of it",
        file="proxy/ledger/core.py",
        old="(name, self.reader.print(one.text), one.by_model), one.origin.kind.trust",
        new="(name, self.reader.print(one.text), False), 0",
        invariant="whatever else enters a context never raises a label",
        tests=(
            at(
                "tests/property/test_session_labels.py",
                "test_whatever_else_enters_a_context_never_raises_a_label",
            ),
        ),
    ),
    Mutant(
        name="a line number makes a page's words somebody else's",
        file="proxy/ledger/printing.py",
        old="in dict.fromkeys((*self.once.readings(text), *apart(_repeated, text))):\n",
        new="in dict.fromkeys(self.once.readings(text)):\n",
        invariant="what a tool said first is not a person's, whatever the tool put around it",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_pasted.py",
                "test_what_a_tool_said_first_is_not_hers",
            ),
        ),
    ),
    Mutant(
        name="between the turns the program vouches for what others wrote",
        file="proxy/ledger/requests.py",
        old="                    begun=at > begins,\n",
        new="                    begun=False,\n",
        invariant="the rules of reminders hold wherever an agent's program speaks",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_splices.py",
                "test_what_others_wrote_is_theirs_when_the_program_says_it_between_the_turns",
            ),
        ),
    ),
    Mutant(
        name="an empty context is the user's",
        file="proxy/ledger/core.py",
        old="return SourceKind.UNKNOWN if session.taint is None else session.taint",
        new="return SourceKind.USER_INPUT if session.taint is None else session.taint",
        invariant="the meet of an empty session is unknown",
        tests=(at("tests/unit/proxy/ledger/test_bounds.py", "test_an_empty_context_is_unknown"),),
    ),
    Mutant(
        name="the context does not lower what a model writes",
        file=_LABELS,
        old="    return written, tainted, Basis.TAINT\n",
        new="    return written, written, Basis.TAINT\n",
        invariant="a write of a model is labelled no better than all that is in its context",
        tests=(at(_LABEL_TESTS, "test_a_label_is_what_was_seen_of_the_session"),),
        quick=True,
    ),
    Mutant(
        name="a write that is joined to no session is the model's own",
        file=_LABELS,
        old="        return tainted, tainted, Basis.UNJOINED\n",
        new="        return written, written, Basis.UNJOINED\n",
        invariant="what cannot be joined takes the lowest taint of the live sessions",
        tests=(at(_LABEL_TESTS, "test_a_label_is_what_was_seen_of_the_session"),),
    ),
    Mutant(
        name="not to be found counts where history was lost",
        file=_LABELS,
        old="if rule is LabelRule.CONTAINMENT and seen.whole:",
        new="if rule is LabelRule.CONTAINMENT:",
        invariant="loss of state never raises a label",
        tests=(
            at(_LABEL_TESTS, "test_with_a_lost_history_not_to_be_found_proves_nothing"),
            at(_LABEL_TESTS, "test_what_was_lost_never_raises_a_label"),
        ),
    ),
    Mutant(
        name="endorsement by another session",
        file=_LABELS,
        old="seen.endorsed and seen.joined is not Joined.NONE:",
        new="seen.endorsed:",
        invariant="only a person of the very session that wrote endorses it",
        tests=(at(_LABEL_TESTS, "test_a_label_is_what_was_seen_of_the_session"),),
    ),
    Mutant(
        name="the rule is that of the class the client named",
        file=_LABELS,
        old="    return rules.get(judged_class(candidate, reading, stored), LabelRule.TAINT)\n",
        new="    return rules.get(candidate.memory_class, LabelRule.TAINT)\n",
        invariant="the rule of a label is that of the judged class, floor included",
        tests=(_RULE,),
    ),
    Mutant(
        name="a class without a rule is looked for by its text",
        file=_LABELS,
        old="stored), LabelRule.TAINT)\n",
        new="stored), LabelRule.CONTAINMENT)\n",
        invariant="a class that the ruleset leaves out has the rule taint",
        tests=(_RULE,),
    ),
    Mutant(
        name="a removal is looked for by its text",
        file=_LABELS,
        old="if candidate.text is None or candidate.change in {ChangeKind.DELETE, ",
        new="if candidate.text is None or candidate.change in {",
        invariant="whatever steers a removal is not in its text",
        tests=(_RULE,),
    ),
    Mutant(
        name="copies make a word common",
        file=_CONTAINMENT,
        old="math.log(texts) - _NOTHING, _UNSEEN[rank] - _LIVE)",
        new="math.log(texts) - _NOTHING)",
        invariant="whoever reads a page often does not hide what is copied from it",
        tests=(at(_CONTAINMENT_TESTS, "test_a_page_that_was_read_a_hundred_times_is_found"),),
    ),
    Mutant(
        name="the words of a text are a set",
        file=_CONTAINMENT,
        old="for word in dict.fromkeys(words)}",
        new="for word in set(words)}",
        invariant="the same texts are as alike in every process",
        tests=(at(_CONTAINMENT_TESTS, "test_the_same_texts_are_as_alike_in_every_process"),),
    ),
    Mutant(
        name="a server's text that came once is never kept again",
        file="proxy/ledger/ring.py",
        old="        return here and self.next - key <= SEGMENTS_MAX // 2",
        new="        return here or self.next > 0",
        invariant="a text that a server shows again and again is found as if it were new",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_ring.py",
                "test_a_text_that_comes_again_is_kept_once_and_found_as_if_it_were_new",
            ),
        ),
    ),
    Mutant(
        name="a memory in a line of a prompt is the program's own words",
        file="proxy/ledger/reading.py",
        old="        here = *parts, *self.led_in(said.text, ground.book)\n",
        new="        here = parts\n",
        invariant="a recall lowers a session in whatever line of a prompt it stands",
        tests=(at(_LED_IN_TESTS, "test_a_recall_within_a_line_lowers_a_session"),),
    ),
    Mutant(
        name="a memory in a line of prose is looked for behind marks alone",
        file="proxy/ledger/printing.py",
        old="        yield from self.served_in(self.once.sentences(text), book)\n",
        new="",
        invariant="a recall lowers a session in whatever line of a prompt it stands",
        tests=(at(_LED_IN_TESTS, "test_a_recall_within_a_line_lowers_a_session"),),
    ),
    Mutant(
        name="a memory in a line of a result is the tool's",
        file="proxy/ledger/reading.py",
        old="known = [*told.short, *told.long, *inside]",
        new="known = [*told.short, *told.long]",
        invariant="a recall lowers a session in whatever line of a result it stands",
        tests=(
            at(
                _LED_IN_TESTS,
                "test_a_recall_within_a_line_of_a_result_lowers_to_its_ceiling",
            ),
        ),
    ),
    Mutant(
        name="behind too many beginnings nobody looks, and nothing is found",
        file="proxy/ledger/printing.py",
        old="                    yield begins\n",
        new="",
        invariant="a text too long to be looked through counts as the memory that it begins like",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_large.py",
                "test_a_turn_of_600_kb_that_begins_like_a_memory_everywhere_is_read_in_time",
            ),
        ),
    ),
    Mutant(
        name="a history is no recall",
        file="proxy/seams/operation.py",
        old="        for one in result.entries\n",
        new="        for one in result.entries[:0]\n",
        invariant="what a memory said before carries the label that it had",
        tests=(
            at(
                _LED_IN_TESTS,
                "test_what_a_history_shows_is_a_recall_with_the_label_of_each_step",
            ),
        ),
    ),
    Mutant(
        name="what is served beside a text was never heard",
        file="proxy/ledger/core.py",
        old="(memory.text, *_beside(memory)) if one]",
        new="(memory.text,) if one]",
        invariant="whatever a recall gives back is nobody's own words",
        tests=(at(_LED_IN_TESTS, "test_what_is_served_beside_a_text_is_nobodys_word"),),
    ),
    Mutant(
        name="the middle of a page's sentence is hers",
        file="proxy/ledger/ring.py",
        old="            if words <= kept.prints.words.keys() and runs",
        new="            if not words and runs",
        invariant="what a page says in a row is not a person's own, however she came by it",
        tests=(at(_LED_IN_TESTS, "test_what_stood_in_the_middle_of_a_sentence_is_not_hers"),),
    ),
)
