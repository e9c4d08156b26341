"""Faults of the watch for drift: names that add up, and what of one origin a read shows."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_CELLS: Final = "storage/write/cells.py"
_EXPOSED: Final = "tests/unit/storage/read/test_exposure.py"
_EXPOSURE: Final = "storage/read/exposure.py"
_COUNTED: Final = "tests/unit/storage/write/test_cells.py"
_SPOKEN: Final = "tests/integration/test_names_that_persons_say.py"

DRIFT: Final = (
    Mutant(
        name="anybody's lower case frees a name",
        file="storage/write/cells.py",
        old="        standing = bool(change.alarms or self.alarmed(tenant))\n        if",
        new="        spelt = self._mentions(tenant, text, every=True).lower or frozenset()\n"
        "        self._say(change, tenant, spelt)\n"
        "        standing = bool(change.alarms or self.alarmed(tenant))\n        if",
        invariant="how a text of low trust spells a word frees no name from its cell",
        tests=(at(_COUNTED, "test_no_text_of_low_trust_frees_a_name_by_how_it_spells_it"),),
    ),
    Mutant(
        name="a word that stands in lower case as well is no name",
        file="policy/text/names.py",
        old="    first -= inner\n",
        new="    inner -= lower\n    first -= inner | lower\n",
        invariant="how a text of low trust spells a word frees no name from its cell",
        tests=(at(_COUNTED, "test_no_text_of_low_trust_frees_a_name_by_how_it_spells_it"),),
    ),
    Mutant(
        name="a name is read in its plain spelling alone",
        file="policy/text/names.py",
        old="    for reading in readings_of(text):\n",
        new="    for reading in (text,):\n",
        invariant="escapes, tags and marks inside a name hide it from no cell",
        tests=(at(_COUNTED, "test_marks_blanks_and_letters_that_look_alike_hide_no_name"),),
    ),
    Mutant(
        name="emphasis breaks a name",
        file="policy/text/names.py",
        old="        yield unbroken(seen)\n",
        new="",
        invariant="escapes, tags and marks inside a name hide it from no cell",
        tests=(at(_COUNTED, "test_marks_blanks_and_letters_that_look_alike_hide_no_name"),),
    ),
    Mutant(
        name="a look-alike letter makes another name",
        file="policy/text/names.py",
        old="word.lower() if word.isascii() else skeleton(word)",
        new="word.lower()",
        invariant="letters that look alike make one name",
        tests=(at(_COUNTED, "test_marks_blanks_and_letters_that_look_alike_hide_no_name"),),
    ),
    Mutant(
        name="what a person said in a turn is not heard",
        file="proxy/model/with_ledger.py",
        old="        await self._drift.said(principal.tenant, _by_person(request, entered))\n",
        new="",
        invariant="a name that a person says in a conversation is under no alarm",
        tests=(at(_SPOKEN, "test_a_name_that_a_person_says_in_a_turn_is_under_no_alarm"),),
    ),
    Mutant(
        name="what a person pastes of a tool's result is her word",
        file="proxy/model/with_ledger.py",
        old="                if span.label is SourceKind.USER_INPUT:\n",
        new="                if span.label:\n",
        invariant="only a person's own turn exempts a name",
        tests=(at(_SPOKEN, "test_a_name_that_a_person_says_in_a_turn_is_under_no_alarm"),),
    ),
    Mutant(
        name="what a program hands over frees a name",
        file="proxy/ledger/reading.py",
        old="            by_person = bool(whole) and ground.user_turns is UserTurns.PERSON\n",
        new="            by_person = True\n",
        invariant="only a turn that could endorse a memory exempts names",
        tests=(
            at(_SPOKEN, "test_a_mail_that_a_program_hands_over_frees_no_name"),
            at(_SPOKEN, "test_a_name_that_a_person_says_in_a_turn_is_under_no_alarm"),
        ),
    ),
    Mutant(
        name="a verb's ending hides a name",
        file="policy/text/common_words.py",
        old="(?:s|m|ve|ll|d|re|t)",
        new="(?:s|t)",
        invariant="no ending hides a name",
        tests=(at(_COUNTED, "test_marks_blanks_and_letters_that_look_alike_hide_no_name"),),
    ),
    Mutant(
        name="one German word twice hides a name",
        file="policy/text/names.py",
        old="len(GERMAN.intersection(words))",
        new="sum(map(GERMAN.__contains__, words))",
        invariant="a sentence is German by two words that only German has",
        tests=(at(_COUNTED, "test_english_words_that_german_has_too_hide_no_name"),),
    ),
    Mutant(
        name="a known name is not seen in German",
        file="policy/text/names.py",
        old="            if lower is not None:\n",
        new="            if lower is not None and small == word:\n",
        invariant="a name under alarm counts in a German sentence",
        tests=(at(_COUNTED, "test_english_words_that_german_has_too_hide_no_name"),),
    ),
    Mutant(
        name="what was heard is forgotten at the stop",
        file="storage/write/engine.py",
        old=" or self.parts.judge.cells.has_heard\n",
        new="\n",
        invariant="what a person said is kept",
        tests=(at(_COUNTED, "test_a_name_that_a_person_said_in_a_turn_alone_is_under_no_alarm"),),
    ),
    Mutant(
        name="what was heard goes with a write that failed",
        file=_CELLS,
        old="        for tenant, words in change.heard.items():\n            self._say(",
        new="        self._heard.clear()\n"
        "        for tenant, words in change.heard.items():\n            self._say(",
        invariant="what a person said is kept",
        tests=(at(_COUNTED, "test_what_a_person_said_is_not_lost_with_a_write_that_failed"),),
    ),
    Mutant(
        name="a flood weighs on new names for good",
        file=_CELLS,
        old="return self.floor if now_ms < self.floor_at_ms + FLOOR_MS else 0",
        new="return self.floor if now_ms else 0",
        invariant="a week after a flood new names begin at nothing",
        tests=(at(_COUNTED, "test_a_flood_weighs_on_new_names_for_a_week_and_no_longer"),),
    ),
    Mutant(
        name="what a flood left behind weighs on new names",
        file=_CELLS,
        old="        if not recent or count <",
        new="        if count <",
        invariant="a week after a flood new names begin at nothing",
        tests=(at(_COUNTED, "test_a_flood_weighs_on_new_names_for_a_week_and_no_longer"),),
    ),
    Mutant(
        name="a text that was not counted counts a name down",
        file=_CELLS,
        old="        if len(words) > NEW_NAMES_MAX:\n",
        new="        if len(words) < 0:\n",
        invariant="a list of names takes no other text's mention away",
        tests=(at(_COUNTED, "test_one_text_brings_in_a_few_hundred_names_and_takes_none_away"),),
    ),
    Mutant(
        name="a long text is read on the event loop",
        file="storage/write/writer.py",
        old="            words = await asyncio.to_thread(mentions, submission)\n",
        new="            words = mentions(submission)\n",
        invariant="a long text is read for its names beside the loop",
        tests=(at(_COUNTED, "test_a_long_text_is_read_beside_the_loop"),),
    ),
    Mutant(
        name="the count reads a text again",
        file="storage/write/judging.py",
        old="        alarms = self.cells.settle(change, docket.candidate, submission.words)\n",
        new="        alarms = self.cells.settle(change)\n",
        invariant="no transaction reads a text that was read before it",
        tests=(at(_COUNTED, "test_a_long_text_that_lands_is_read_once"),),
    ),
    Mutant(
        name="explain knows no alarm",
        file="proxy/admin/dry_run.py",
        old="drift_alarms=self.alarms(principal.tenant, asked.text)",
        new="drift_alarms=()",
        invariant="policy explain says what the gate would",
        tests=(
            at(
                "tests/integration/test_cli_drift.py",
                "test_held_where_the_ruleset_says_so_until_the_name_is_accepted",
            ),
        ),
    ),
    Mutant(
        name="an acceptance cannot be taken back",
        file="storage/read/alarms.py",
        old="        return await self._rule(tenant, name, by, accepted=False)\n",
        new="        return await self._rule(tenant, name, by, accepted=True)\n",
        invariant="a name whose acceptance was taken back waits again",
        tests=(
            at(_COUNTED, "test_an_accepted_name_is_held_no_longer_and_its_leaf_does_not_name_it"),
        ),
    ),
    Mutant(
        name="a name that nobody mentioned is accepted",
        file=_CELLS,
        old="        if cell is None or cell.accepted is accepted:\n            return None\n",
        new="        cell = cell or self._new(change, tenant, hashed)\n",
        invariant="an unknown name is accepted by nobody's mistake",
        tests=(
            at(_COUNTED, "test_an_accepted_name_is_held_no_longer_and_its_leaf_does_not_name_it"),
        ),
    ),
    Mutant(
        name="a name's count never falls",
        file=_CELLS,
        old="count=max(0, cell.count - 1)",
        new="count=max(0, cell.count)",
        invariant="quarantine, deletion, purge, update and a person's word count a name down",
        tests=(at(_COUNTED, "test_what_ends_counts_down"),),
    ),
    Mutant(
        name="a memory's own end counts no name down",
        file=_CELLS,
        old="sum(end_ms <= now_ms for end_ms in self.ends_ms)",
        new="sum(end_ms <= 0 for end_ms in self.ends_ms)",
        invariant="a memory that ended by itself is counted no longer",
        tests=(at(_COUNTED, "test_what_ends_counts_down"),),
    ),
    Mutant(
        name="a confirmed text says its names",
        file=_CELLS,
        old="    return not is_low(row) and row.basis is not Basis.CONFIRMATION\n",
        new="    return not is_low(row)\n",
        invariant="only a person's own word exempts a name",
        tests=(at(_COUNTED, "test_only_a_persons_own_word_exempts_a_name"),),
    ),
    Mutant(
        name="anybody's word exempts a name",
        file=_CELLS,
        old="    return not is_low(row) and row.basis is not Basis.CONFIRMATION\n",
        new="    return row.basis is not Basis.CONFIRMATION\n",
        invariant="only a person's own word exempts a name",
        tests=(at(_COUNTED, "test_the_third_mention_raises_the_alarm_and_the_fourth_waits"),),
    ),
    Mutant(
        name="an evicted name begins at nothing",
        file=_CELLS,
        old="floor=count, floor_at_ms=now_ms",
        new="floor=0, floor_at_ms=now_ms",
        invariant="a flood of made-up names hides none",
        tests=(at(_COUNTED, "test_a_flood_of_made_up_names_hides_none"),),
    ),
    Mutant(
        name="a word that made room is still known",
        file=_CELLS,
        old="            known.discard(key[-_WORD_LEN:])\n",
        new="",
        invariant="what is remembered of words of persons is in the table",
        tests=(
            at(
                _COUNTED,
                "test_of_words_of_persons_no_more_are_remembered_than_the_table_has",
            ),
        ),
    ),
    Mutant(
        name="sixteen words make room for any number",
        file=_CELLS,
        old='names.said(b""), came, max(0, full))',
        new='names.said(b""), came, min(16, max(0, full)))',
        invariant="no more words of persons are kept than there is room for",
        tests=(at(_COUNTED, "test_one_long_text_of_a_person_takes_no_more_room_than_there_is"),),
    ),
    Mutant(
        name="a word is known before it is durable",
        file=_CELLS,
        old="        seen |= unknown\n",
        new="        self._said_known.setdefault(tenant, set()).update(unknown)\n",
        invariant="what is remembered of words of persons is in the table",
        tests=(
            at(
                _COUNTED,
                "test_of_words_of_persons_no_more_are_remembered_than_the_table_has",
            ),
        ),
    ),
    Mutant(
        name="rows of before count names down",
        file=_CELLS,
        old="            if ordinal >= since:\n                self._lower(",
        new="            if ordinal >= 0:\n                self._lower(",
        invariant="what was never counted is not taken off",
        tests=(at(_COUNTED, "test_rows_of_before_there_were_cells_count_neither_up_nor_down"),),
    ),
    Mutant(
        name="a batch is counted at its end",
        file="storage/write/judging.py",
        old="        alarms = self.cells.settle(change, docket.candidate, submission.words)\n",
        new="        alarms: tuple[str, ...] = ()\n",
        invariant="each candidate is judged by the counts of those before it in its batch",
        tests=(at(_COUNTED, "test_one_batch_is_counted_candidate_by_candidate"),),
    ),
    Mutant(
        name="one origin may fill a search",
        file=_EXPOSURE,
        old="    return of_ten * -(-limit // 10)\n",
        new="    return limit + of_ten\n",
        invariant="of five lies of one origin ten results show three",
        tests=(
            at(_EXPOSED, "test_of_five_lies_of_one_origin_ten_results_show_three_and_stay_ten"),
        ),
    ),
    Mutant(
        name="what is over the cap is hidden",
        file="storage/read/reader.py",
        old="                self._fill(placed, asked, left)\n",
        new="",
        invariant="the cap reorders, and hides nothing",
        tests=(at(_EXPOSED, "test_the_cap_reorders_and_hides_nothing"),),
    ),
    Mutant(
        name="near copies of two origins are two",
        file=_EXPOSURE,
        old="            for vector, copied in self._copies:\n",
        new="            for vector, copied in self._copies[:0]:\n",
        invariant="near copies count as one origin, whoever brought them",
        tests=(at(_EXPOSED, "test_near_copies_count_as_one_origin_whoever_brought_them"),),
    ),
    Mutant(
        name="accepting a name lifts its cap",
        file="storage/read/origins.py",
        old="cells.hashed(tenant, text) & alarmed.keys()",
        new="cells.hashed(tenant, text) & {one for one, known in alarmed.items() if not known}",
        invariant="accepting a name exempts it from holds, and from nothing else",
        tests=(
            at(
                _EXPOSED,
                "test_a_name_under_alarm_is_capped_whoever_brings_it_and_accepting_lifts_nothing",
            ),
        ),
    ),
    Mutant(
        name="a name under alarm is capped for good",
        file="storage/read/reader.py",
        old="            names_are_hard=rules.names is Watch.HOLD,\n",
        new="            names_are_hard=True,\n",
        invariant="as shipped a search fills every place that it can",
        tests=(
            at(
                _EXPOSED,
                "test_ten_results_stay_ten_as_shipped_and_are_fewer_where_names_are_held",
            ),
        ),
    ),
    Mutant(
        name="a raised label is capped like before",
        file="storage/write/engine.py",
        old="        self.labels_raised += change.relabelled\n",
        new="",
        invariant="a label that a person raised is capped no longer",
        tests=(at(_EXPOSED, "test_a_label_that_a_person_raised_is_capped_no_longer"),),
    ),
    Mutant(
        name="a latched origin fills a search",
        file="storage/read/origins.py",
        old="            return trust is not None and trust.latched\n",
        new="            return False\n",
        invariant="of a latched origin each ten results show one",
        tests=(at(_EXPOSED, "test_a_latched_principal_or_tool_shows_one_and_no_more"),),
    ),
    Mutant(
        name="everybody waits where names are held",
        file="policy/checks.py",
        old="    held = facts.drift_alarms and ruleset.drift.names is Watch.HOLD\n",
        new="    held = ruleset.drift.names is Watch.HOLD\n",
        invariant="only a text that mentions a name under alarm waits for a drift alarm",
        tests=(
            at(
                "tests/unit/policy/test_gate_steps.py",
                "test_a_name_under_alarm_is_held_by_step_10_only_where_the_ruleset_holds",
            ),
        ),
    ),
)
