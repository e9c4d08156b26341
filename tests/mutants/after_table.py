"""Faults in what follows a write: who is to blame, and what denies an anchor."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_PLAN: Final = "policy/after/attribution.py"
_PLANS: Final = "tests/unit/policy/after/test_attribution.py"
_ANCHORS: Final = "tests/unit/policy/test_anchors.py"
_WORDS: Final = "policy/text/whole_words.py"
_WORD_TESTS: Final = "tests/unit/policy/text/test_whole_words.py"
_RULE: Final = "policy/after/rule_judge.py"
_RULES: Final = "tests/unit/policy/after/test_rule_judge.py"
_FEEDBACK: Final = "tests/unit/proxy/aftermath/test_feedback.py"
_JUDGES: Final = "tests/unit/proxy/aftermath/test_judges.py"
_CANARIES: Final = "tests/integration/test_registered_words.py"
_SCREENED: Final = "tests/unit/proxy/aftermath/test_screening.py"
_WATCHED: Final = "tests/unit/proxy/aftermath/test_rule_watch.py"
_SIGNALS: Final = "tests/unit/policy/after/test_signals.py"

_LEDGER: Final = "storage/recall_log/ledger.py"
_SEGMENTS: Final = "storage/recall_log/sealed_segments.py"
_RECALLS: Final = "tests/unit/storage/recall_log/test_ledger.py"
_LIVE: Final = "tests/unit/proxy/guard/test_live_texts.py"
_FULL: Final = "test_a_full_disk_leaves_no_files_and_is_tried_again_after_a_minute"
_AS_OF: Final = "tests/unit/storage/read/test_as_of.py"

RECALLS: Final = (
    Mutant(
        name="an id of a recall shows its number",
        file="storage/recall_log/ids.py",
        old="            left, right = right, self._mixed(turn, left, right)\n",
        new="            left, right = right, left\n",
        invariant="nobody reads in an id how much others read",
        tests=(
            at(
                "tests/unit/storage/recall_log/test_ids.py",
                "test_an_id_does_not_show_how_many_reads_there_were",
            ),
        ),
    ),
    Mutant(
        name="every read is listed for a memory",
        file="proxy/cli/recall.py",
        old="            memory_id=asked.memory,\n",
        new="",
        invariant="the reads that are listed for a memory are those that showed it",
        tests=(
            at(
                "tests/integration/test_cli_recall.py",
                "test_a_person_sees_what_reads_showed_and_what_stood_before_a_reply",
            ),
        ),
    ),
    Mutant(
        name="the newest of equal scores stands first",
        file="storage/derived/vectors/scanning.py",
        old="        order = np.lexsort((names, -exact))[: self._limit]\n",
        new="        order = np.lexsort((-names, -exact))[: self._limit]\n",
        invariant="a lie that was told later does not stand before the truth by being new",
        tests=(at(_AS_OF, "test_of_two_equal_scores_the_older_memory_stands_first"),),
    ),
    Mutant(
        name="the past is searched among today's rows alone",
        file="storage/read/as_of.py",
        old="            marks[before] = True\n",
        new="            pass\n",
        invariant="a replay sees the state that its reader was shown",
        tests=(at(_AS_OF, "test_each_version_of_the_past_is_what_readers_were_shown_then"),),
    ),
    Mutant(
        name="a replay shows what is under quarantine",
        file="storage/read/as_of.py",
        old="    shown = (MemoryStatus.LIVE, MemoryStatus.DELETED)\n",
        new="    shown = tuple(MemoryStatus)\n",
        invariant="no read shows what was quarantined, not even one of the past",
        tests=(at(_AS_OF, "test_what_is_quarantined_or_purged_today_is_in_no_past"),),
    ),
    Mutant(
        name="a question is sealed without the salts of its rows",
        file=_SEGMENTS,
        old='        joined = b"".join(salts)\n',
        new='        joined = b""\n',
        invariant="a purge takes the question of every recall that showed the memory",
        tests=(at(_RECALLS, "test_a_question_opens_under_the_salts_of_its_rows_alone"),),
    ),
    Mutant(
        name="the words of a question are always kept",
        file=_LEDGER,
        old="            query = record.query if self._options.keep_queries else None\n",
        new="            query = record.query\n",
        invariant="the words of a question are kept only where an operator asked for them",
        tests=(at(_RECALLS, "test_what_was_served_is_found_again_after_a_restart"),),
    ),
    Mutant(
        name="a full queue grows",
        file=_LEDGER,
        old="        if len(self._queue) >= QUEUE_MAX or no_room or self._stopping:\n",
        new="        if no_room or self._stopping:\n",
        invariant="a disk that is too slow costs recalls, and no memory of the process",
        tests=(at(_RECALLS, "test_a_full_queue_drops_counts_and_never_waits"),),
    ),
    Mutant(
        name="a read waits until a batch is due",
        file=_LEDGER,
        old="            if self._written < due:\n                self._hurry.set()\n",
        new="",
        invariant="a read knows what was noted before it",
        tests=(
            at(_RECALLS, "test_neither_a_read_nor_the_end_of_the_store_waits_for_further_records"),
        ),
    ),
    Mutant(
        name="answers that wait to be searched have no end",
        file=_LEDGER,
        old="        if len(self._queue) >= QUEUE_MAX or no_room or self._stopping:\n",
        new="        if len(self._queue) >= QUEUE_MAX or self._stopping:\n",
        invariant="a server's long answers cost recalls, and no memory of the process",
        tests=(at(_RECALLS, "test_texts_that_wait_to_be_searched_are_bounded"),),
    ),
    Mutant(
        name="what a server behind showed leaves no record",
        file="proxy/guard/sifting.py",
        old="            self._showing.showed(principal, target, live, texts)\n",
        new="            return\n",
        invariant="who is to blame is found behind a server, too",
        tests=(
            at(
                "tests/unit/proxy/guard/test_local.py",
                "test_what_an_answer_shows_of_live_memories_is_in_the_recall_ledger",
            ),
        ),
    ),
    Mutant(
        name="a kind that stands in an answer shows all of that kind",
        file="proxy/guard/live_texts.py",
        old="                if not one.whole or all(part in seen for part in prints):\n",
        new="                if prints:\n",
        invariant="nobody is suspected for a word that names a kind",
        tests=(at(_LIVE, "test_names_alone_are_found_where_all_of_them_stand"),),
    ),
    Mutant(
        name="a memory that is gone is still found",
        file="proxy/guard/live_texts.py",
        old="                names.pop(name, None)\n",
        new="",
        invariant="nobody is suspected who was not shown",
        tests=(at(_LIVE, "test_what_is_gone_is_found_no_more_and_its_twin_is"),),
    ),
    Mutant(
        name="a segment that the disk refused stays",
        file=_SEGMENTS,
        old="            if not whole:\n                self._abandon()\n        return SegmentKey",
        new="            if not whole:\n                self.close()\n        return SegmentKey",
        invariant="a full disk is not filled with empty files",
        tests=(at(_RECALLS, _FULL),),
    ),
    Mutant(
        name="a segment without records stays",
        file=_SEGMENTS,
        old="        if self._count:\n            return\n",
        new="        if self._number:\n            return\n",
        invariant="a full disk is not filled with empty files",
        tests=(at(_RECALLS, _FULL),),
    ),
    Mutant(
        name="a full disk is tried with each batch",
        file=_LEDGER,
        old="        if since is not None and 0 <= now_ms - since < REFUSED_MS:\n",
        new="        if since is not None and REFUSED_MS < 0:\n",
        invariant="a full disk is tried once a minute",
        tests=(at(_RECALLS, _FULL),),
    ),
    Mutant(
        name="a refusal takes records that were kept",
        file=_SEGMENTS,
        old="        if self._count:\n            return\n",
        new="",
        invariant="a full disk takes no record that it held",
        tests=(at(_RECALLS, "test_a_disk_that_fills_up_keeps_the_records_that_it_took"),),
    ),
    Mutant(
        name="the key of what is forgotten stays",
        file=_SEGMENTS,
        old="        key.unlink(missing_ok=True)\n",
        new="        del key\n",
        invariant="what is older than keep_days opens no more",
        tests=(
            at(_RECALLS, "test_what_is_older_than_keep_days_is_not_shown_and_its_key_is_shredded"),
        ),
    ),
    Mutant(
        name="the records of another store are believed",
        file=_SEGMENTS,
        old="            if head != _MAGIC + self._owner:\n",
        new="            if head[: len(_MAGIC)] != _MAGIC:\n",
        invariant="ordinals of another life of a store name no rows of this one",
        tests=(
            at(_RECALLS, "test_a_changed_byte_or_the_records_of_another_store_are_not_believed"),
        ),
    ),
)

AFTER: Final = (
    *RECALLS,
    Mutant(
        name="the places of what is left out stay empty",
        file="storage/read/reader.py",
        old="                near = [one for one in found if one[1] >= threshold]\n",
        new="                near = [one for one in found[:limit] if one[1] >= threshold]\n",
        invariant="a lie that is left out takes no place from what is true",
        tests=(at(_SCREENED, "test_the_places_of_what_is_left_out_are_filled_by_the_next_ones"),),
    ),
    Mutant(
        name="the search for a cause sees no truth beside what was left out",
        file="proxy/intercept/recall_notes.py",
        old="            beside = found + memories_of(answered.shown)\n",
        new="            beside = found\n",
        invariant="what was true once expires, and counts as no lie",
        tests=(
            at(
                "tests/integration/test_heal_recall.py",
                "test_what_was_true_once_expires_and_is_no_lie",
            ),
        ),
    ),
    Mutant(
        name="reads leave out what is trusted as much as the anchor",
        file=_RULE,
        old="                if rule.label.trust > memory.label.trust:\n",
        new="                if rule.label.trust >= memory.label.trust:\n",
        invariant="an anchor hides nothing that is trusted as much as itself",
        tests=(at(_SCREENED, "test_what_is_as_trusted_as_the_anchor_is_shown"),),
    ),
    Mutant(
        name="a search shows what it may not",
        file="storage/read/reader.py",
        old="            if matches(asked.where, memory) and asked.shows(memory):\n",
        new="            if matches(asked.where, memory):\n",
        invariant="what contradicts an anchor is in no search",
        tests=(at(_SCREENED, "test_the_places_of_what_is_left_out_are_filled_by_the_next_ones"),),
    ),
    Mutant(
        name="a verdict outlives the label that it was made for",
        file="proxy/aftermath/screening.py",
        old="        row = (memory.ordinal, memory.source)\n",
        new="        row = (memory.ordinal, SourceKind.UNKNOWN)\n",
        invariant="a memory that a person vouched for is judged anew",
        tests=(at(_SCREENED, "test_a_raised_label_and_another_anchor_are_seen_at_once"),),
    ),
    Mutant(
        name="the graph shows what a search may not",
        file="proxy/intercept/graphs.py",
        old="    while screen is not None:\n",
        new="    while False:\n",
        invariant="what contradicts an anchor is in no answer of store mode",
        tests=(
            at(
                "tests/unit/proxy/mcp/test_store_entities.py",
                "test_what_contradicts_an_anchor_is_not_shown_and_does_not_stay_behind",
            ),
        ),
    ),
    Mutant(
        name="a server shows what a search may not",
        file="proxy/guard/sifting.py",
        old="        self._sieve.follow_rules(tenant)\n",
        new="",
        invariant="what contradicts an anchor is in no answer of a server behind the gate",
        tests=(
            at(
                "tests/unit/proxy/guard/test_sift_screened.py",
                "test_a_server_shows_no_memory_that_contradicts_an_anchor",
            ),
        ),
    ),
    Mutant(
        name="a rule opens cases without an end",
        file="proxy/aftermath/rule_signals.py",
        old="        full = [len(day) >= most for day, most in days]\n",
        new="        full = [len(day) > 10 * most for day, most in days]\n",
        invariant="one rule sets off so many searches in a day, and no more",
        tests=(at(_WATCHED, "test_a_rule_opens_so_many_cases_a_day_and_no_more"),),
    ),
    Mutant(
        name="a statement of two words speaks up by itself",
        file="proxy/aftermath/rule_signals.py",
        old="            if content_words(skeleton(one.statement)) >= _CONTENT_WORDS_MIN\n",
        new="            if content_words(skeleton(one.statement)) >= 0\n",
        invariant="no honest text is blamed because it shares a word with an anchor",
        tests=(at(_WATCHED, "test_honest_texts_and_what_is_as_trusted_open_nothing"),),
    ),
    Mutant(
        name="a fault in one rule ends the watch",
        file="proxy/aftermath/rule_watch.py",
        old="    except InvariantBroken:\n",
        new="    except Exception:\n",
        invariant="no stored text stops the gate",
        tests=(at(_WATCHED, "test_a_full_queue_leaves_reads_out_and_a_fault_ends_nothing"),),
    ),
    Mutant(
        name="each look at a canary opens a case",
        file="proxy/aftermath/canaries.py",
        old="self._watched.get(key) == now:",
        new="self._watched.get(key) == canary:",
        invariant="what a person has to decide on opens one case",
        tests=(at(_WATCHED, "test_a_canary_that_a_person_has_to_decide_on_opens_one_case"),),
    ),
    Mutant(
        name="a reply forgets the memories of a tool's result",
        file="proxy/ledger/reading.py",
        old="        _brings(known, ground.book, found, 0, len(said.text))\n",
        new="",
        invariant="a reply names every served memory that stood in its request",
        tests=(
            at(
                "tests/integration/test_recalls_of_replies.py",
                "test_a_reply_names_the_memories_of_its_request_and_the_reads_that_brought_them",
            ),
        ),
    ),
    Mutant(
        name="the second control is left out",
        file=_PLAN,
        old="        if fails:\n            fails = yield from self._control(Control.NOTHING",
        new="        if False:\n            fails = yield from self._control(Control.NOTHING",
        invariant="nobody is blamed for what happens without any suspect",
        tests=(
            at(
                _PLANS,
                "test_a_question_that_fails_without_any_memory_is_not_the_memories_fault",
            ),
            at(_PLANS, "test_a_trusted_memory_that_is_wrong_is_for_a_person"),
        ),
    ),
    Mutant(
        name="the first control is believed unasked",
        file=_PLAN,
        old="        if not fails:\n            self._ending = Ending.NOT_REPRODUCED\n",
        new="        if False:\n            self._ending = Ending.NOT_REPRODUCED\n",
        invariant="what does not come back convicts nobody",
        tests=(at(_PLANS, "test_a_failure_that_does_not_come_back_convicts_nobody"),),
    ),
    Mutant(
        name="a judge's silence counts as no failure",
        file=_PLAN,
        old="        if fails is None:\n            self.stop(Open.UNKNOWN)\n            return\n",
        new="        fails = bool(fails)\n",
        invariant="a question without an answer decides nothing",
        tests=(at(_PLANS, "test_a_judge_that_says_nothing_convicts_nobody_more"),),
    ),
    Mutant(
        name="one answer of a noisy judge is enough",
        file=_PLAN,
        old="    lead: int = 4\n",
        new="    lead: int = 1\n",
        invariant="a judge that errs convicts no innocent",
        tests=(at(_PLANS, "test_a_noisy_judge_is_asked_until_one_answer_leads_by_four"),),
    ),
    Mutant(
        name="the most similar is believed first",
        file=_PLAN,
        old="each.at_ms, each.score, each.memory_id",
        new="each.at_ms, -each.score, each.memory_id",
        invariant="in doubt the memory that was made for the question is to blame",
        tests=(at(_PLANS, "test_who_is_believed_first_is_blamed_last"),),
    ),
    Mutant(
        name="every statement needs two shared words",
        file="policy/anchors.py",
        old="max(1, min(_SHARED_WORDS_MIN, len(anchor.content) - 1))",
        new="_SHARED_WORDS_MIN",
        invariant="a short statement is denied by a short text",
        tests=(at(_ANCHORS, "test_a_statement_of_two_words_needs_one_of_them"),),
    ),
    Mutant(
        name="a repeat may stand inside a repeat",
        file=_WORDS,
        old="        if part.repeats:\n",
        new="        if False:\n",
        invariant="the time of a pattern grows with the text's length and with nothing else",
        tests=(
            at(
                _WORD_TESTS,
                "test_what_could_take_long_or_says_nothing_is_refused_with_its_position",
            ),
        ),
    ),
    Mutant(
        name="the steps of a pattern are not counted",
        file=_WORDS,
        old="        if steps > _STEPS_MAX:\n",
        new="        if False:\n",
        invariant="what a pattern may do at one place of a text is bounded",
        tests=(
            at(
                _WORD_TESTS,
                "test_what_could_take_long_or_says_nothing_is_refused_with_its_position",
            ),
        ),
    ),
    Mutant(
        name="a step in a group counts as any other",
        file=_WORDS,
        old="        cost.steps *= _GROUP_STEP\n",
        new="",
        invariant="no pattern takes seconds for one text",
        tests=(
            at(
                _WORD_TESTS,
                "test_what_could_take_long_or_says_nothing_is_refused_with_its_position",
            ),
        ),
    ),
    Mutant(
        name="a match ends where a piece does",
        file=_WORDS,
        old="            seen = begun + piece + self._len_max + _BEHIND_LEN\n",
        new="            seen = begun + piece\n",
        invariant="the search in pieces finds what the search of the whole text finds",
        tests=(at(_WORD_TESTS, "test_a_text_in_pieces_has_the_matches_of_the_whole"),),
    ),
    Mutant(
        name="an entry is found inside a word",
        file=_WORDS,
        old='re.compile(f"{_BEGINS}(?:{body}){_ENDS}")',
        new='re.compile(f"(?:{body})")',
        invariant="a matcher finds whole words",
        tests=(at(_WORD_TESTS, "test_an_entry_is_not_found_inside_a_word_or_a_number"),),
    ),
    Mutant(
        name="the label of an anchor is not compared",
        file=_RULE,
        old="                if rule.label.trust > memory.label.trust:\n",
        new="                if rule.label.trust > 0:\n",
        invariant="a rule convicts only what is less trusted than itself",
        tests=(at(_RULES, "test_only_memories_of_a_lower_label_fail_a_rule"),),
    ),
    Mutant(
        name="a long text denies every anchor",
        file="policy/anchors.py",
        old="        return self._denied(dict.fromkeys(_parts(skeleton)), _COMPARED_MAX)\n",
        new="        return self.contradicted_by(skeleton)\n",
        invariant="no honest memory is convicted for its length",
        tests=(at(_RULES, "test_a_long_honest_text_fails_no_rule_and_a_lie_at_its_end_does"),),
    ),
    Mutant(
        name="an agent's word opens a case",
        file="policy/after/signals.py",
        old="frozenset(SignalKind) - {SignalKind.AGENT}",
        new="frozenset(SignalKind)",
        invariant="a steered agent convicts no honest memory",
        tests=(at(_SIGNALS, "test_an_agents_word_opens_nothing_and_only_wrong_opens"),),
    ),
    Mutant(
        name="an agent's feedback opens a case",
        file="proxy/aftermath/feedback.py",
        old="        if opens_case(kind, said.grade):\n",
        new="        if said.grade is Grade.WRONG:\n",
        more=(
            (
                "from policy.after.signals import kind_of, opens_case\n",
                "from policy.after.signals import Grade, kind_of\n",
            ),
        ),
        invariant="a steered agent convicts no honest memory",
        tests=(at(_FEEDBACK, "test_an_agents_word_is_kept_as_a_claim_and_opens_nothing"),),
    ),
    Mutant(
        name="feedback is taken without an end",
        file="storage/write/failure_records.py",
        old="self._of_day(failure) >= of_principal_max",
        new="False",
        invariant="one key says so much of answers in a day, and no more",
        tests=(at(_FEEDBACK, "test_a_start_of_the_process_forgets_no_feedback_of_the_day"),),
    ),
    Mutant(
        name="feedback of another tenant counts",
        file="storage/write/failure_records.py",
        old="(one.tenant, one.by) == said_by",
        new="one.by == failure.by",
        invariant="nobody uses up the day of a principal of the same name in another tenant",
        tests=(at(_FEEDBACK, "test_a_start_of_the_process_forgets_no_feedback_of_the_day"),),
    ),
    Mutant(
        name="what is not found is not counted",
        file="proxy/aftermath/feedback.py",
        old="        if limit is not None and not self._counted(by, now_ms, limit):\n",
        new="        if limit is not None and not self._counted:\n",
        invariant="made-up ids cost one principal's day, and no search of the ledger after it",
        tests=(at(_FEEDBACK, "test_what_is_not_found_is_counted_before_it_is_looked_up"),),
    ),
    Mutant(
        name="every segment is read for each reply",
        file=_SEGMENTS,
        old='        data = self._read(number, -1, "idx")\n',
        new='        data = b""\n',
        invariant="a made-up id of a reply reads no records",
        tests=(at(_RECALLS, "test_a_look_up_reads_no_log_but_the_record_that_is_looked_for"),),
    ),
    Mutant(
        name="an index is believed that the disk cut off",
        file=_SEGMENTS,
        old="        if end == size:\n            return rows\n",
        new="        if len(rows):\n            return rows\n",
        invariant="a record is found whose row in the index was lost",
        tests=(
            at(
                _RECALLS,
                "test_an_index_that_is_torn_wrong_or_ahead_of_its_log_hides_and_forges_nothing",
            ),
        ),
    ),
    Mutant(
        name="feedback names a memory of another tenant",
        file="proxy/aftermath/feedback.py",
        old="            await asyncio.to_thread(self._require, by.tenant, said)\n",
        new="            pass\n",
        invariant="nobody files a failure about what his tenant does not have",
        tests=(at(_FEEDBACK, "test_what_is_not_there_is_not_found_and_nothing_is_kept"),),
    ),
    Mutant(
        name="a judge's silence is no failure",
        file="proxy/aftermath/judges.py",
        old="return Opinion(fails=None, problem=TIMEOUT)",
        new="return Opinion(fails=False)",
        invariant="a judge that does not answer in time has said nothing",
        tests=(at(_JUDGES, "test_a_judge_that_hangs_is_ended_with_its_children"),),
    ),
    Mutant(
        name="a judge's children outlive it",
        file="proxy/aftermath/judges.py",
        old="            os.killpg(process.pid, signal.SIGKILL)\n",
        new="            process.kill()\n",
        invariant="nothing that a judge starts runs on",
        tests=(at(_JUDGES, "test_a_judge_that_hangs_is_ended_with_its_children"),),
    ),
    Mutant(
        name="a judge sees the gate's environment",
        file="proxy/aftermath/judges.py",
        old="        env={},\n",
        new="",
        invariant="a judge gets no credential",
        tests=(at(_JUDGES, "test_a_program_is_asked_on_its_input_and_told_nothing_else"),),
    ),
    Mutant(
        name="a question goes to any address",
        file="proxy/aftermath/judges.py",
        old="        if is_address(host):\n",
        new="        if False:\n",
        invariant="texts of memories go to no address that nobody listed",
        tests=(at(_JUDGES, "test_a_server_is_asked_by_post_and_only_where_it_may_stand"),),
    ),
    Mutant(
        name="a canary is content with finding nothing",
        file="proxy/aftermath/canaries.py",
        old="            if outcome.failing or outcome.lacking:\n",
        new="            if outcome.failing:\n",
        more=(
            ("            lacking = lacking or bool(", "            lacking = lacking and bool("),
        ),
        invariant="a truth that nobody finds any more is noticed",
        tests=(at(_CANARIES, "test_a_canary_names_the_memories_that_say_what_it_forbids"),),
    ),
)
