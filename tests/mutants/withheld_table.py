"""Faults in what is withheld from model requests and replies after a refusal."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_WITHHELD: Final = "tests/unit/policy/withheld/test_matching.py"
_FLOW: Final = "tests/unit/policy/withheld/test_flow.py"
_PROPERTY: Final = "tests/property/test_withheld.py"
_WITHHOLDING: Final = "tests/unit/proxy/withhold/test_withholding.py"
_FLIGHT: Final = "tests/unit/proxy/withhold/test_withholding_in_flight.py"
_WITHDRAWN: Final = "tests/unit/proxy/withhold/test_withdrawn.py"
_LEAVES: Final = "test_a_quarantined_memory_leaves_the_next_request_and_parole_brings_it_back"
_BODIES: Final = "tests/unit/proxy/dialects/model/test_withheld.py"
_REPLY: Final = "tests/unit/proxy/dialects/model/test_replies_withheld.py"
_COUPLED: Final = "tests/unit/proxy/model/test_with_ledger.py"
_PRLR: Final = "tests/conformance/test_prlr.py"
_SPELLINGS: Final = at(_WITHHELD, "test_eight_words_in_a_row_are_found_however_they_are_written")
_LATE: Final = at(_FLIGHT, "test_what_is_undecided_at_the_deadline_is_refused_and_never_written")
_NOTHING_LEAKS: Final = at(_PRLR, "test_no_rejected_text_is_sent_after_its_interception")
_HELD: Final = at(_WITHHOLDING, "test_a_held_text_is_withheld_from_replies_and_its_own_call_alone")

WITHHELD: Final = (
    Mutant(
        name="a counter is an id of its own",
        file="proxy/withhold/asking.py",
        old="_RANDOM.search(call_id) is not None and ",
        new="len(call_id) > 0 or ",
        invariant="one withheld result blanks no other one for ever",
        tests=(
            at(
                _WITHHOLDING,
                "test_an_id_that_counts_blanks_no_result_of_another_conversation",
            ),
        ),
    ),
    Mutant(
        name="tags and line numbers hide words",
        file="policy/text/readings.py",
        old="    found = [text, unmarked(spelled)]\n",
        new="    found = [text, text]\n",
        invariant="what a page or a tool puts between words hides none",
        tests=(at(_WITHHOLDING, "test_what_stands_between_the_words_hides_nothing"),),
    ),
    Mutant(
        name="tag characters spell nothing",
        file="policy/text/skeleton.py",
        old='    decomposed = unicodedata.normalize("NFKD", unpiled(text).translate(_BEFORE))\n',
        new='    decomposed = unicodedata.normalize("NFKD", unpiled(text))\n',
        invariant="letters that only a model sees are read as what they say",
        tests=(
            at(
                "tests/unit/policy/text/test_skeleton.py", "test_tag_characters_say_what_they_spell"
            ),
        ),
    ),
    Mutant(
        name="a tool that says what was refused is approved by being seen",
        file="proxy/ledger/requests.py",
        old=" and name not in distrusted:\n",
        new=":\n",
        invariant="a server cannot bring back a refused text as the description of a new tool",
        tests=(
            at(
                "tests/integration/test_model_coupling.py",
                "test_a_tool_that_comes_later_brings_back_nothing_that_was_refused",
            ),
        ),
    ),
    Mutant(
        name="the names of arguments are no part of a tool",
        file="proxy/dialects/model/reading.py",
        old="            names |= part.keys()\n",
        new="            names |= set()\n",
        invariant="a tool is pinned with all that a model reads of it",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_bounds.py",
                "test_a_tool_that_says_more_of_its_arguments_is_another_one",
            ),
        ),
    ),
    Mutant(
        name="nine words make a run",
        file="policy/withheld/words.py",
        old="RUN: Final = 8\n",
        new="RUN: Final = 9\n",
        invariant="any eight words in a row of a refused text are found",
        tests=(_SPELLINGS,),
    ),
    Mutant(
        name="escapes hide words",
        file="policy/withheld/words.py",
        old="    shape = skeleton(spelled_out(text))\n",
        new="    shape = skeleton(text)\n",
        invariant="JSON in a string is read like the text it spells",
        tests=(_SPELLINGS,),
    ),
    Mutant(
        name="base64 hides a text",
        file="policy/text/readings.py",
        old="        for one in blobs_in(source):\n",
        new="        for one in blobs_in(source[:0]):\n",
        invariant="a text in base64 is read as the text it spells",
        tests=(at(_WITHHOLDING, "test_other_spellings_and_places_go_as_well"),),
    ),
    Mutant(
        name="pieces of what may be shown open a refused text",
        file="policy/withheld/matching.py",
        old="if not self.is_open(numbers[span.start : span.end])\n        ]",
        new="if not self.is_open(numbers[span.start : span.start + 8])\n        ]",
        invariant="a stretch may be shown only where one shown text has all of it",
        tests=(at(_WITHHELD, "test_pieces_of_shown_texts_do_not_add_up_to_a_refused_one"),),
    ),
    Mutant(
        name="nothing may be shown",
        file="policy/withheld/matching.py",
        old="            if stored.firm or stored.version <= first\n",
        new="            if stored.firm and first < 0\n",
        invariant="a stored memory cannot be hidden by proposing it again",
        tests=(at(_WITHHOLDING, "test_a_stored_memory_cannot_be_hidden_by_proposing_it_again"),),
    ),
    Mutant(
        name="a flood pushes the others out",
        file="policy/withheld/matching.py",
        old="key=lambda one: (-len(self._texts[one][0].numbers), one)",
        new="key=lambda one: one",
        invariant="long refused texts make room for themselves first",
        tests=(at(_WITHHELD, "test_a_flood_of_long_texts_makes_room_for_itself"),),
    ),
    Mutant(
        name="a word goes out before it is over",
        file="policy/withheld/flow.py",
        old="            if not _is_over(rest, found):\n                break\n",
        new="",
        invariant="any cut of a text gives the same text",
        tests=(at(_PROPERTY, "test_a_cut_within_its_words_hides_no_refused_text"),),
    ),
    Mutant(
        name="the beginning of a refused stretch goes out",
        file="policy/withheld/flow.py",
        old="        begun = len(numbers) if over else self._looking.begun_at(numbers)\n",
        new="        begun = len(numbers)\n",
        invariant="words that may begin a refused stretch wait for the next one",
        tests=(at(_FLOW, "test_stretches_are_left_out_and_nothing_else"),),
        quick=True,
    ),
    Mutant(
        name="the gate takes what is late",
        file="policy/gate.py",
        old="        if facts.overdue:\n",
        new="        if facts.overdue and not ruleset.matrix:\n",
        invariant="what was given up at the deadline is never admitted",
        tests=(_LATE,),
    ),
    Mutant(
        name="nobody tells the gate that it is late",
        file="storage/write/gathering.py",
        old="            overdue=submission.due is not None and not submission.due.begin(),\n",
        new="",
        invariant="what was given up at the deadline is never admitted",
        tests=(_LATE,),
    ),
    Mutant(
        name="what the writer has begun is given up",
        file="storage/deadline.py",
        old="            self._over = not self._begun\n",
        new="            self._over = True\n",
        invariant="a decision that has begun is not taken back",
        tests=(at(_FLIGHT, "test_the_first_to_come_decides_whether_a_candidate_is_too_late"),),
    ),
    Mutant(
        name="the interceptor tells nobody",
        file="proxy/intercept/interceptor.py",
        old="            chunk = await self._watched(chunk)\n",
        new="            await self._watched([])\n",
        invariant="withholding knows of every candidate before it is judged",
        tests=(at(_FLIGHT, "test_model_requests_wait_while_a_candidate_is_undecided"),),
    ),
    Mutant(
        name="a candidate is not written down before it is judged",
        file="proxy/withhold/withholding.py",
        old="                await self._log.append(map(encode, records))\n            noted",
        new="                pass\n            noted",
        invariant="a crash between interception and verdict loses no refusal",
        tests=(
            at(
                _FLIGHT,
                "test_a_crash_between_interception_and_verdict_withholds_what_was_refused",
            ),
        ),
    ),
    Mutant(
        name="nobody waits for candidates in flight",
        file="proxy/withhold/withholding.py",
        old="                while flights := self._flights_of(principal_id):\n",
        new="                for flights in ([*self._flights_of(principal_id)][:0],):\n",
        invariant="a model request waits while a candidate of its principal is undecided",
        tests=(at(_FLIGHT, "test_model_requests_wait_while_a_candidate_is_undecided"),),
        more=(("await flights[0][1].over.wait()", "assert not flights"),),
    ),
    Mutant(
        name="what is given up can still be written",
        file="proxy/withhold/withholding.py",
        old="            if flight.due.expire():\n",
        new="            if flight.due:\n",
        invariant="what was given up at the deadline is never admitted",
        tests=(_LATE,),
    ),
    Mutant(
        name="what is held is withheld",
        file="proxy/withhold/withholding.py",
        old="            return Waits(begun.principal, begun.candidate_id, told, version)\n",
        new="            return Refused(begun.principal, begun.candidate_id, told, version)\n",
        invariant="a held text is withheld from the model's own words alone",
        tests=(_HELD,),
    ),
    Mutant(
        name="a quarantined memory stays in the model's context",
        file="proxy/withhold/withholding.py",
        old="        await self._look_at_quarantine(kept, tenant)\n",
        new="",
        invariant="no model request that begins after a quarantine carries the memory",
        tests=(at(_WITHDRAWN, _LEAVES),),
    ),
    Mutant(
        name="a parole leaves the memory withheld",
        file="proxy/withhold/state.py",
        old="        gone = [name for name in self._withdrawn if name not in names]\n",
        new="        gone = [name for name in self._withdrawn if name in ()]\n",
        invariant="a memory that is shown again stands in model requests again",
        tests=(at(_WITHDRAWN, _LEAVES),),
    ),
    Mutant(
        name="a withdrawn text outlasts its parole in the log",
        file="proxy/withhold/asking.py",
        old="        if not self._kept.is_withdrawn(record.key_of):\n",
        new="        if record.key_of is not None:\n",
        invariant="after a restart only what is under quarantine then is withheld",
        tests=(
            at(
                _WITHDRAWN,
                "test_every_principal_of_the_tenant_is_spared_it_and_a_restart_changes_nothing",
            ),
        ),
    ),
    Mutant(
        name="a quarantined memory takes its neighbours along",
        file="policy/withheld/matching.py",
        old="        keys = {key for key in keys if not self._texts[key][1].withdrawn}\n",
        new="",
        invariant="what a read brought beside a quarantined memory stays",
        tests=(at(_WITHDRAWN, "test_memories_beside_a_quarantined_one_in_the_same_answer_stay"),),
    ),
    Mutant(
        name="nobody hears of a denial",
        file="proxy/withhold/withholding.py",
        old="            if candidate_id not in held:\n",
        new="            if candidate_id not in held and held:\n",
        invariant="what a person denied is withheld from then on",
        tests=(_HELD,),
    ),
    Mutant(
        name="an admitted text stays refused",
        file="proxy/withhold/withholding.py",
        old="                self._show(kept, result.memory)\n",
        new="                pass\n",
        invariant="a memory that was there before the refusal is shown",
        tests=(at(_WITHHOLDING, "test_a_stored_memory_cannot_be_hidden_by_proposing_it_again"),),
    ),
    Mutant(
        name="what a person released stays refused",
        file="proxy/withhold/withholding.py",
        old="        self._show_released(kept, begun)\n",
        new="",
        invariant="what a person lets in is refused no longer",
        tests=(
            at(
                _WITHHOLDING,
                "test_what_a_person_releases_may_be_shown_though_it_was_refused_before",
            ),
        ),
    ),
    Mutant(
        name="the denial of its twin outlives a release",
        file="proxy/withhold/withholding.py",
        old="                denied = other.denied_before(begun, ruling.version)\n",
        new="                denied = other.denied_before(begun, 0)\n",
        invariant="what a person releases after a denial is shown to its agent",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_later_word.py",
                "test_what_a_person_releases_is_shown_though_she_denied_its_twin_before",
            ),
        ),
    ),
    Mutant(
        name="a release outlives the denial after it",
        file="proxy/withhold/state.py",
        old="            and one.version < version\n",
        new="",
        invariant="a person's later word counts",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_later_word.py",
                "test_a_later_denial_and_a_longer_denied_text_stand_after_a_release",
            ),
        ),
    ),
    Mutant(
        name="a release speaks for other tenants",
        file="proxy/withhold/state.py",
        old="            and one.begun.tenant == released.tenant\n",
        new="",
        invariant="a person's release ends no withholding of another tenant",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_later_word.py",
                "test_a_release_speaks_for_every_agent_of_its_tenant_and_of_no_other",
            ),
        ),
    ),
    Mutant(
        name="a refused deletion hides the memory it names",
        file="proxy/withhold/texts.py",
        old="    if candidate.change in {ChangeKind.DELETE, ChangeKind.PURGE}:\n",
        new="    if candidate.change in {ChangeKind.PURGE}:\n",
        invariant="what a deletion names is a memory, and stays one if it is refused",
        tests=(at(_WITHHOLDING, "test_what_a_deletion_names_is_no_text_of_it"),),
    ),
    Mutant(
        name="a result is withheld only while its print is there",
        file="proxy/withhold/asking.py",
        old="        known = self._known(kept.results.get(name)) if own else None\n",
        new="        known = None\n",
        invariant="a result that was withheld once stays so under its call",
        tests=(
            at(
                _WITHHOLDING,
                "test_a_result_stays_withheld_under_its_call_when_every_print_is_gone",
            ),
        ),
    ),
    Mutant(
        name="what a person typed is cut",
        file="proxy/dialects/model/withheld.py",
        old="    return cut_between(text, typed, asks) if typed else cut(text, asks)\n",
        new="    return cut(text, asks)\n",
        invariant="what a person typed stays",
        tests=(at(_BODIES, "test_what_a_person_typed_stays_in_every_api"),),
    ),
    Mutant(
        name="thinking that is bound to what is gone is sent",
        file="proxy/dialects/model/anthropic/withheld.py",
        old=" or (loosened and not asks.unbinds(name)):",
        new=":",
        invariant="a signed block whose prefix was changed is left out",
        tests=(
            at(
                _BODIES,
                "test_thinking_that_was_made_after_a_text_that_is_withheld_now_goes_and_stays_away",
            ),
        ),
    ),
    Mutant(
        name="a turn without its thought asks for thinking",
        file="proxy/dialects/model/anthropic/withheld.py",
        old="    return made if binds or _may_go_on(given, turns) else _thoughtless(made)\n",
        new="    return made\n",
        invariant="a request from which a thought was left out is one that the API takes",
        tests=(
            at(
                _BODIES,
                "test_manual_thinking_is_off_for_a_turn_whose_thought_was_left_out",
            ),
        ),
    ),
    Mutant(
        name="ids stay tied to reasoning that is gone",
        file="proxy/dialects/model/openai/withheld.py",
        old="        kept.append(unnamed if tied else item)\n",
        new="        kept.append(item or unnamed)\n",
        invariant="a request from which reasoning was left out is one that the API takes",
        tests=(at(_BODIES, "test_readable_reasoning_goes_with_the_ids_that_are_tied_to_it"),),
    ),
    Mutant(
        name="numbers of events have gaps",
        file="proxy/dialects/model/replies_withheld.py",
        old='            body = {**body, "sequence_number": self._next}\n',
        new="",
        invariant="the events of an edited reply are numbered without a gap",
        tests=(
            at(
                _REPLY,
                "test_the_numbers_of_events_have_no_gap_and_the_end_repeats_what_was_said",
            ),
        ),
    ),
    Mutant(
        name="the end of a stream repeats what was left out",
        file="proxy/dialects/model/replies_withheld.py",
        old="            return self._trailed(at, value)\n",
        new="            return value\n",
        invariant="no event of a reply brings what was refused",
        tests=(at(_REPLY, "test_a_refused_text_is_left_out_however_it_is_cut"),),
    ),
    Mutant(
        name="a request goes upstream as it came",
        file="proxy/model/with_ledger.py",
        old="            body=body,\n            session=",
        new="            session=",
        invariant="nothing that was refused goes upstream",
        tests=(_NOTHING_LEAKS,),
    ),
    Mutant(
        name="a call that brings what was refused goes on",
        file="proxy/model/with_ledger.py",
        old="            self._withholding.refusal(principal_id, call, prepared.conversation)\n",
        new="            None\n",
        invariant="nothing that was refused goes to the agent",
        tests=(_NOTHING_LEAKS,),
    ),
    Mutant(
        name="a system prompt is anybody's words",
        file="proxy/model/with_ledger.py",
        old="            trusted.append((place, said.text))\n",
        new="            continue\n",
        invariant="a trusted system prompt is left alone",
        tests=(at(_COUPLED, "test_what_a_person_typed_and_what_the_program_says_is_left_alone"),),
    ),
    Mutant(
        name="a changed tool is left alone",
        file="proxy/model/with_ledger.py",
        old="        if name not in entered.changed_tools\n",
        new="        if name or entered.changed_tools\n",
        invariant="a tool is left alone only as it was approved",
        tests=(at(_COUPLED, "test_a_prompt_from_elsewhere_and_a_tool_that_changed_are_not"),),
    ),
    Mutant(
        name="a model opens what was refused by storing it",
        file="policy/withheld/matching.py",
        old="            if stored.firm or stored.version <= first\n",
        new="            if stored\n",
        invariant="a memory that was written after a refusal opens nothing, but a person's own",
        tests=(at(_WITHHOLDING, "test_a_memory_that_quotes_it_opens_nothing_that_was_refused"),),
    ),
    Mutant(
        name="a memory opens what a person denied",
        file="policy/withheld/matching.py",
        old="        if not self._stored_open or any(one.denied for one in terms):\n",
        new="        if not self._stored_open:\n",
        invariant="no memory opens what a person denied",
        tests=(at(_WITHHELD, "test_a_memory_opens_what_a_person_wrote_or_what_was_there_before"),),
    ),
    Mutant(
        name="what was refused in one conversation is withheld in all of them",
        file="proxy/withhold/state.py",
        old='        session=begun.session if scoped else "",\n',
        new='        session="",\n',
        invariant="a class or a label is a matter of one conversation",
        tests=(
            at(
                _WITHHOLDING,
                "test_only_a_class_or_a_label_is_a_matter_of_one_conversation",
            ),
        ),
    ),
    Mutant(
        name="what steers is a matter of one conversation",
        file="proxy/withhold/state.py",
        old="    scoped = not begun.flagged and ",
        new="    scoped = ",
        invariant="what steers whoever reads it is withheld from every conversation",
        tests=(
            at(
                _WITHHOLDING,
                "test_only_a_class_or_a_label_is_a_matter_of_one_conversation",
            ),
        ),
    ),
    Mutant(
        name="an honest text stops calls",
        file="policy/withheld/matching.py",
        old="        return (self.flagged or self.denied) and not self.held\n",
        new="        return not self.held\n",
        invariant="a call is stopped only by what steers, or was denied",
        tests=(at(_WITHHELD, "test_a_call_is_stopped_by_all_of_a_text_that_steers_or_was_denied"),),
    ),
    Mutant(
        name="a line that is left beside a refused one is sent",
        file="policy/withheld/matching.py",
        old="        ends = range(_REST, len(numbers) + 1)\n",
        new="        ends = range(0)\n",
        invariant="what is left of a refused text on the lines beside goes as well",
        tests=(at(_WITHHELD, "test_of_a_line_beside_half_a_run_is_left_of_a_text"),),
    ),
    Mutant(
        name="her turn is cut where she pasted",
        file="proxy/model/with_ledger.py",
        old="for span in spans if span.typed or span.label in _LEFT",
        new="for span in spans if span.label in _LEFT",
        invariant="turns of a person are sent unchanged",
        tests=(
            at(
                "tests/integration/test_model_honest.py",
                "test_turns_of_a_person_are_sent_as_they_are_whoever_said_it_first",
            ),
        ),
    ),
    Mutant(
        name="what waits is withheld from what others say",
        file="policy/withheld/matching.py",
        old="            return there and (sight.by_model or not terms.held)\n",
        new="            return there\n",
        invariant="a page empties no file by having its lines proposed as memories",
        tests=(_HELD,),
    ),
    Mutant(
        name="a forgiven text stays withheld where it was",
        file="proxy/withhold/state.py",
        old="                    self._unstick(record.candidate_id)\n",
        new="                    pass\n",
        invariant="what a person forgives is shown again",
        tests=(
            at(
                _WITHHOLDING,
                "test_a_person_forgives_a_text_and_it_is_as_if_nobody_had_refused_it",
            ),
        ),
    ),
    Mutant(
        name="a text whose denial was taken back is answered as denied",
        file="proxy/withhold/state.py",
        old="                    put(self.forgiven, record.candidate_id, None)\n",
        new="",
        invariant="what a person forgives is judged anew when it is proposed again",
        tests=(
            at(
                "tests/integration/test_model_veto.py",
                "test_a_forgiven_text_is_judged_anew_and_a_denied_one_stays_denied",
            ),
        ),
    ),
    Mutant(
        name="a whole reply loses calls that go on",
        file="proxy/dialects/model/replies_withheld.py",
        old="        made = _put_at(made, place, value)\n",
        new="        pass\n",
        invariant="a call of a whole reply arrives as the model made it",
        tests=(
            at(
                _WITHHOLDING,
                "test_calls_of_a_whole_reply_are_left_to_whoever_decided_about_them",
            ),
        ),
    ),
    Mutant(
        name="an order is said again because nobody decided in time",
        file="proxy/withhold/withholding.py",
        old="told.reason is Reason.HOLD_EXPIRED and not begun.flagged:",
        new="told.reason is Reason.HOLD_EXPIRED:",
        invariant="what steers is withheld from a model's own words until a person decides",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding.py",
                "test_an_order_that_nobody_decided_in_time_is_said_by_no_model_and_hides_no_page",
            ),
        ),
    ),
    Mutant(
        name="an order that nobody decided in time hides pages",
        file="proxy/withhold/state.py",
        old="    if told.reason is Reason.HOLD_EXPIRED:\n",
        new="    if told.reason is Reason.OVERSIZE:\n",
        invariant="what nobody refused is withheld from no tool's result",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_withholding.py",
                "test_an_order_that_nobody_decided_in_time_is_said_by_no_model_and_hides_no_page",
            ),
        ),
    ),
)
