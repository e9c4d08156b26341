"""Faults in what an operator does to stored memories."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_QUARANTINE: Final = "storage/write/quarantine.py"
_QUARANTINES: Final = "tests/unit/storage/write/test_quarantine.py"
_ISOLATION: Final = "tests/unit/storage/repair/test_isolation.py"
_REWIND: Final = "tests/unit/storage/repair/test_rewind.py"
_PROVEN: Final = "tests/unit/proxy/cli/test_proven_memories.py"
_CLOCK: Final = "tests/integration/test_clock_back.py"
_WITHHELD: Final = "tests/integration/test_withheld_changes.py"
_BOUNDED: Final = "tests/integration/test_reads_bounded.py"
_USAGE: Final = "tests/unit/storage/write/test_usage.py"
_OF_NOTHING: Final = "test_deletes_of_nothing_end_where_their_tenant_or_the_store_is_full"
_FIRST_HOUR: Final = "tests/integration/test_first_hour.py"
_QUEUE: Final = "proxy/admin/queue.py"
_QUEUES: Final = "tests/integration/test_review_queue.py"
_HIDDEN: Final = at(
    _QUARANTINES, "test_quarantine_hides_a_memory_from_every_read_and_parole_shows_it_again"
)

OPERATE: Final = (
    Mutant(
        name="a person who decides is not told which anchor a held candidate is against",
        file="storage/read/reader.py",
        old="for one in probes if one.contradicts or one.outranks),\n",
        new="for one in probes if False),\n",
        invariant="`review show` names the anchors that a held candidate contradicts",
        tests=(
            at("tests/integration/test_cli_life.py", "test_anchors_hold_what_contradicts_them"),
        ),
    ),
    Mutant(
        name="doctor tries the usual port where the sidecar got another one",
        file="proxy/cli/doctor.py",
        old="                if not known.port:\n",
        new="                if not known.host:\n",
        invariant="doctor aims at the sidecar that it is asked about, or at nobody",
        tests=(
            at(
                "tests/integration/test_cli_doctor.py",
                "test_a_port_that_the_system_chose_is_asked_for_and_not_guessed",
            ),
        ),
    ),
    Mutant(
        name="the lines for the agent's shell have the operator's key as well",
        file="proxy/cli/pointing.py",
        old='f"export MNEMOGATE_AGENT_KEY={key}"]',
        new='f"export MNEMOGATE_AGENT_KEY={key}", f"export MNEMOGATE_OPERATOR_KEY={key}"]',
        invariant="no place is told to hold the keys of the agent and of the operator",
        tests=(at(_FIRST_HOUR, "test_the_lines_that_the_first_start_prints_work_as_they_stand"),),
    ),
    Mutant(
        name="an export may say another text than its steps",
        file="proxy/cli/proven_memories.py",
        old="        if _texts(memory.steps) != memory.text:\n",
        new="        if False:\n",
        invariant="an export says of a memory what its proven steps say",
        tests=(at(_PROVEN, "test_whatever_is_altered_is_named"),),
    ),
    Mutant(
        name="a step in the middle of an export may be left out",
        file="proxy/cli/proven_memories.py",
        old="        elif previous != at:\n",
        new="        elif previous < at:\n",
        invariant="an export has every step of a memory up to its last one",
        tests=(
            at(_PROVEN, "test_a_step_in_the_middle_is_missed_and_one_at_the_end_is_not"),
            at(_PROVEN, "test_whatever_is_altered_is_named"),
        ),
    ),
    Mutant(
        name="what a rewind puts back is logged as following what it goes back to",
        file="storage/write/rewinding.py",
        old="old, known.ordinal, step_before(newest))",
        new="old, known.ordinal, step_before(old))",
        invariant="the leaf of each step names the step before it",
        tests=(at(_PROVEN, "test_every_live_memory_of_the_tenant_is_there_as_it_reads_and_holds"),),
    ),
    Mutant(
        name="a row may follow another step than its leaf says",
        file="proxy/cli/verification.py",
        old="        return leaf.previous_index == before\n",
        new="        return leaf.previous_index >= before\n",
        invariant="the rows of a memory follow each other as the log says",
        tests=(
            at(
                "tests/unit/proxy/cli/test_verification.py",
                "test_a_row_that_is_taken_out_of_its_memorys_history_is_found",
            ),
        ),
    ),
    Mutant(
        name="lineage ends at a purged parent",
        file="storage/repair/reaching.py",
        old="        waiting = [*own.values(), *purged]\n",
        new="        waiting = list(own.values())\n",
        invariant="what was derived from a purged memory is reached",
        tests=(at(_ISOLATION, "test_what_was_derived_from_a_purged_memory_is_reached"),),
    ),
    Mutant(
        name="a rewind that means nobody looks like success",
        file="proxy/cli/rewind.py",
        old="    return Exit.OK if done.reached else Exit.NOT_FOUND\n",
        new="    return Exit.OK\n",
        invariant="a rewind of nobody is no success",
        tests=(
            at(
                "tests/integration/test_cli_isolate.py",
                "test_a_rewind_says_how_it_is_taken_back_and_whom_it_did_not_find",
            ),
        ),
    ),
    Mutant(
        name="bytes that open no commitment pass",
        file="proxy/cli/proven_memories.py",
        old="digest_of(canonical)) != seen.commitment:\n            raise Wrong",
        new='digest_of(canonical)) == b"":\n            raise Wrong',
        invariant="the bytes of an export are those that were judged",
        tests=(at(_PROVEN, "test_whatever_is_altered_is_named"),),
    ),
    Mutant(
        name="a rewind shows what a person hid",
        file="storage/repair/past.py",
        old="    release = () if was_hidden else tuple(sorted(by & rewinds))\n",
        new="    release = () if was_hidden else tuple(sorted(by))\n",
        invariant="a rewind shows nothing that a person or an isolation hides",
        tests=(at(_REWIND, "test_what_a_person_or_an_isolation_hid_stays_hidden"),),
    ),
    Mutant(
        name="an undo leads to the version before it",
        file="storage/repair/batches.py",
        old="            point = point_at(view, incident.leaf_count)\n",
        new="            point = point_at(view, incident.point)\n",
        invariant="an undo leads to the state right before the rewind that it undoes",
        tests=(at(_REWIND, "test_an_undo_is_undone_as_well_though_the_version_never_moved"),),
    ),
    Mutant(
        name="a rewind touches anchors",
        file="storage/write/rewinding.py",
        old="            done = BatchRewound()\n",
        new=(
            "            done = BatchRewound()\n"
            '            for key in list(change.draft.keys(b"anchors")):\n'
            '                change.draft.delete(b"anchors", key)\n'
        ),
        invariant="trust, nonces, keys and anchors are never rewound",
        tests=(at(_REWIND, "test_trust_nonces_keys_anchors_and_what_is_held_go_on"),),
    ),
    Mutant(
        name="half a batch of a rewind",
        file="storage/repair/batches.py",
        old="            work = partial(self._rewinding.apply, incident, by, batch)\n",
        new="            work = partial(self._rewinding.apply, incident, by, batch[:1])\n",
        invariant="a rewind reaches every memory that it counted",
        tests=(
            at(
                _REWIND,
                "test_texts_and_deletions_are_as_they_were_and_so_is_a_rewind_of_it",
            ),
        ),
    ),
    Mutant(
        name="a rewind takes back what was written while it was cut short",
        file="storage/repair/past.py",
        old="        if until is not None and life.newest_leaf >= until:\n",
        new="        if False:\n",
        invariant="a rewind that is resumed leaves alone what came after it began",
        tests=(
            at(_REWIND, "test_a_rewind_that_a_crash_cut_short_anywhere_is_finished_under_its_id"),
        ),
    ),
    Mutant(
        name="what a rewind puts back is chained past what came between",
        file="storage/write/rewinding.py",
        old="            prev_ordinal=newest,\n",
        new="",
        invariant="a purge finds every row of a memory, also after a rewind",
        tests=(at(_REWIND, "test_what_is_purged_is_named_as_lost_and_nothing_of_it_comes_back"),),
    ),
    Mutant(
        name="an undo shows what somebody else hides",
        file=_QUARANTINE,
        old="                after = before - {incident.incident_id}\n",
        new="                after = frozenset[str]()\n",
        invariant="an undo brings back exactly what its incident hid and nobody else hides",
        tests=(at(_ISOLATION, "test_undo_shows_nothing_that_somebody_else_hides"),),
    ),
    Mutant(
        name="a hidden memory is not hidden once more by a person",
        file=_QUARANTINE,
        old="            after = before | {OPERATOR} if hide else frozenset[str]()\n",
        new="            after = before or {OPERATOR} if hide else frozenset[str]()\n",
        invariant="who hides what is hidden already is heard too",
        tests=(at(_ISOLATION, "test_undo_shows_nothing_that_somebody_else_hides"),),
    ),
    Mutant(
        name="half a batch of an isolation",
        file="storage/repair/batches.py",
        old="            more = await self._writer.run(partial(work, batch))\n",
        new="            more = await self._writer.run(partial(work, batch[:1]))\n",
        invariant="an isolation reaches every memory that it names",
        tests=(
            at(
                _ISOLATION,
                "test_what_a_principal_wrote_is_hidden_in_batches_and_comes_back_as_it_was",
            ),
        ),
    ),
    Mutant(
        name="descendants are followed for one step",
        file="storage/repair/reaching.py",
        old="                    waiting.append(child)\n",
        new="",
        invariant="what follows from a memory is followed to the end",
        tests=(
            at(_ISOLATION, "test_a_chain_of_five_descendants_is_reached_also_past_a_deleted_one"),
        ),
    ),
    Mutant(
        name="a purge leaves the lineage of its rows",
        file="storage/write/commit.py",
        old="                for parent in candidate_of(row).derived_from:\n",
        new="                for parent in ():\n",
        invariant="a purge leaves no entry of the row that it erased",
        tests=(at(_ISOLATION, "test_a_purge_leaves_neither_lineage_nor_who_hid_it"),),
    ),
    Mutant(
        name="what was changed under quarantine is in no index",
        file="storage/write/commit.py",
        old="        if status is not MemoryStatus.DELETED:\n            change",
        new="        if live or status is MemoryStatus.FORWARDING:\n            change",
        invariant="what is shown again is found by search as it is now",
        tests=(
            at(
                _ISOLATION,
                "test_what_was_changed_while_hidden_is_found_by_search_when_it_is_shown_again",
            ),
        ),
    ),
    Mutant(
        name="a quarantined memory stays in the index",
        file=_QUARANTINE,
        old="        change.superseded.append((known.ordinal, row))\n",
        new="",
        invariant="what is under quarantine is in no search and in no count",
        tests=(_HIDDEN,),
        quick=True,
    ),
    Mutant(
        name="a quarantine is forgotten at the next start",
        file=_QUARANTINE,
        old="    change.draft.put(IDS, name, encode(IdRecord(known.ordinal, status)))\n",
        new="",
        invariant="a quarantine is durable when it is answered",
        tests=(_HIDDEN,),
    ),
    Mutant(
        name="a quarantine leaves no leaf",
        file=_QUARANTINE,
        old="    return change.log(leaf)\n",
        new="    return change.leaf_count\n",
        invariant="what an operator does to a memory is in the log",
        tests=(
            at(
                _QUARANTINES,
                "test_a_second_command_of_the_same_changes_nothing_and_leaves_no_leaf",
            ),
        ),
    ),
    Mutant(
        name="a tenant has no share",
        file="storage/write/usage.py",
        old="        return msgspec.structs.replace(budget, tenant_full=True)",
        new="        return budget  # forgotten",
        invariant="one tenant cannot take the room of all",
        tests=(at(_USAGE, "test_one_tenant_fills_its_share_and_another_still_writes"),),
    ),
    Mutant(
        name="refusals of a full tenant go on for ever",
        file="storage/write/usage.py",
        old='        return QuotaReached("the tenant has used up its share of the store")',
        new="        return None",
        invariant="refusals end where their leaves would be the flood",
        tests=(at(_USAGE, "test_one_tenant_fills_its_share_and_another_still_writes"),),
    ),
    Mutant(
        name="a batch is let in whole where one of it has room",
        file="storage/write/engine.py",
        old="        taken = max(0, change.charges.total())\n",
        new="        taken = 0\n",
        invariant="what waits together takes no more than the quota, nor what deletions need",
        tests=(at(_USAGE, "test_a_batch_leaves_deletions_what_is_theirs"),),
    ),
    Mutant(
        name="a deletion of nothing leaves leaves for ever",
        file="storage/write/usage.py",
        old="        return room < 0 or self._is_beyond(self._bytes[candidate.tenant])\n",
        new="        return False\n",
        invariant="where it is full, a deletion that takes nothing away leaves nothing",
        tests=(at(_USAGE, _OF_NOTHING),),
    ),
    Mutant(
        name="a deletion of nothing takes back its whole batch",
        file="storage/write/engine.py",
        old="            if len(batch) > 1 and any(self._must_free(case) for case in cases):\n",
        new="            if False:\n",
        invariant="what takes nothing away ends nobody else's deletion",
        tests=(at(_USAGE, "test_one_that_frees_nothing_takes_no_other_of_its_batch_back"),),
    ),
    Mutant(
        name="purges end where deletes end",
        file="storage/write/usage.py",
        old="            overdraft += _PURGE_RESERVE\n",
        new="            pass\n",
        invariant="a full store can be emptied",
        tests=(at(_USAGE, "test_a_store_that_deletes_filled_is_emptied_by_purges"),),
    ),
    Mutant(
        name="a clock that is set back is believed",
        file="storage/clock.py",
        old="        return wall_ns if least_ns - wall_ns <= SLACK_NS else least_ns\n",
        new="        return wall_ns\n",
        invariant="what expired or was revoked stays so, whatever the clock says",
        tests=(at(_CLOCK, "test_what_ended_stays_ended_when_the_clock_is_set_back"),),
    ),
    Mutant(
        name="the time is not kept over a restart",
        file="proxy/compose/app.py",
        old="        clock.not_before(store.time_ms)\n",
        new="",
        invariant="what expired or was revoked stays so, whatever the clock says",
        tests=(at(_CLOCK, "test_what_ended_stays_ended_when_the_clock_is_set_back"),),
    ),
    Mutant(
        name="an expired memory can be changed",
        file="policy/checks.py",
        old="return not facts.stored.expired or provenance.source is SourceKind.OPERATOR",
        new="return True",
        invariant="what expired does not exist for the agent",
        tests=(at(_WITHHELD, "test_an_expired_memory_cannot_be_changed_back_into_view"),),
    ),
    Mutant(
        name="metadata is not asked about anchors",
        file="proxy/intercept/shadow.py",
        old="            said.append(skeleton(lines_of(shown.metadata_json)))\n",
        new="            pass\n",
        invariant="what a recall shows is what step 8 asks about",
        tests=(at(_WITHHELD, "test_a_contradiction_carried_in_metadata_is_held"),),
    ),
    Mutant(
        name="a token is not for the version that was shown",
        file="policy/tokens.py",
        old=" or token.from_version != context.from_version\n",
        new="\n",
        invariant="nobody puts what nobody saw under a token",
        tests=(at(_WITHHELD, "test_a_token_for_an_update_is_for_the_memory_as_it_was_shown"),),
    ),
    Mutant(
        name="any id is repeated",
        file="proxy/intercept/interceptor.py",
        old="        return memory_id if there else None\n",
        new="        return memory_id\n",
        invariant="a refusal repeats nothing of the client's",
        tests=(
            at(_WITHHELD, "test_an_id_that_no_memory_has_is_not_repeated"),
            at(
                "tests/unit/proxy/intercept/test_interceptor.py",
                "test_nothing_to_change_is_missing_and_never_staged",
            ),
        ),
    ),
    Mutant(
        name="a page has no end",
        file="storage/read/reader.py",
        old="            self.full = self._left < size and self._left != ANSWER_BYTES_MAX\n",
        new="",
        invariant="one answer is bounded, whatever is stored",
        tests=(at(_BOUNDED, "test_a_page_is_cut_where_it_is_full_and_the_next_goes_on_there"),),
    ),
    Mutant(
        name="one principal may leave all there is room for unread",
        file="proxy/transport/listener.py",
        old="size > free or self._crowd.unread_of(principal) + size > BURST * free",
        new="size > free",
        invariant="one principal leaves room for its neighbours' answers",
        tests=(
            at(
                "tests/integration/test_http_unread.py",
                "test_who_reads_no_answers_leaves_room_for_those_of_others",
            ),
        ),
    ),
    Mutant(
        name="unread answers are not counted",
        file="proxy/transport/listener.py",
        old="size > free or self._crowd.unread_of(principal) + size > BURST * free",
        new="False",
        invariant="answers that nobody reads do not fill the memory",
        tests=(at(_BOUNDED, "test_answers_that_nobody_reads_end_at_a_limit_and_writes_go_on"),),
    ),
    Mutant(
        name="a closed stream leaves its number to the next file",
        file="proxy/cli/entry.py",
        old="            os.open(os.devnull, os.O_RDWR)\n",
        new="            pass\n",
        invariant="nothing that is said on a stream is written into the store",
        tests=(
            at(
                "tests/integration/test_cli_streams.py",
                "test_who_has_read_enough_or_closed_a_stream_gets_no_complaint",
            ),
        ),
    ),
    Mutant(
        name="an offline explanation reads what no sidecar would",
        file="proxy/cli/policy.py",
        old=".explain(_received(request), rules, 0)",
        new=".explain(request, rules, 0)",
        invariant="what is explained offline is what a sidecar would judge",
        tests=(at("tests/integration/test_cli_streams.py", "test_odd_arguments_are_one_line"),),
    ),
    Mutant(
        name="nobody is trusted",
        file="proxy/admin/commands.py",
        old="if not recorded and not self.credentials.knows(principal_id):",
        new="if not recorded and not principal_id:",
        invariant="a name that nobody has is said to be unknown",
        tests=(at("tests/integration/test_http_admin.py", "test_nobody_has_a_standing"),),
    ),
    Mutant(
        name="a person is shown another class than her word makes",
        file="policy/labels/floor.py",
        old="    if not reading.directive or reading.injection or basis in FIRM_BASES:\n",
        new="    if not reading.directive or basis in FIRM_BASES:\n",
        invariant="the page says what a candidate becomes",
        tests=(
            at(
                "tests/unit/policy/labels/test_floor.py",
                "test_a_person_is_shown_the_class_that_her_word_will_make_of_it",
            ),
        ),
    ),
    Mutant(
        name="a choice is acted on as it is now, not as it was frozen",
        file=_QUEUE,
        old="for one in some if self._frozen(one.candidate_id) == one)",
        new="for one in some)",
        invariant="a person decides on what she was told of, and what moved since is left alone",
        tests=(at(_QUEUES, "test_a_choice_of_an_update_ends_with_what_it_would_change"),),
    ),
    Mutant(
        name="what one transaction had no time for is left waiting",
        file=_QUEUE,
        old="            unasked = set(as_they_were) - decided.keys()\n",
        new="            unasked = set[CandidateId]()\n",
        invariant="all of a selection are refused, in as many transactions as it takes",
        tests=(
            at(
                _QUEUES,
                "test_what_is_refused_together_is_a_few_transactions_with_a_leaf_for_each",
            ),
        ),
    ),
    Mutant(
        name="what says something like it is let in together",
        file=_QUEUE,
        old="        if selection.same is None:\n",
        new="        if False:\n",
        invariant="only exactly equal texts are let in together",
        tests=(
            at(
                _QUEUES,
                "test_only_what_says_exactly_the_same_is_let_in_together_and_no_order_ever",
            ),
        ),
    ),
    Mutant(
        name="orders are let in together",
        file=_QUEUE,
        old="return all(_is_plain(each) for each in selection.chosen) and _is_harmless(one)",
        new="return one is not None",
        invariant="L1, L2, changes and orders are let in one by one",
        tests=(
            at(
                _QUEUES,
                "test_only_what_says_exactly_the_same_is_let_in_together_and_no_order_ever",
            ),
        ),
    ),
    Mutant(
        name="a person's verdict is told to nobody",
        file="proxy/admin/persons_word.py",
        old="        if held is not None:\n",
        new="        if held is None:\n",
        invariant="every verdict, a person's included, has its span, its count and its line",
        tests=(
            at(
                _QUEUES,
                "test_a_persons_verdict_has_its_span_in_the_trace_of_the_write_and_its_count",
            ),
        ),
    ),
    Mutant(
        name="a uid that is bound to nobody goes unnoticed",
        file="proxy/fronts/guard_socket.py",
        old="            self._unbound.add(peer.uid)\n",
        new="            self._unbound.discard(peer.uid)\n",
        invariant="doctor names the uid of a relay whose calls no model front's verdict reaches",
        tests=(
            at(
                "tests/integration/test_model_relay.py",
                "test_a_relay_of_a_uid_that_is_bound_to_nobody_judges_again_and_doctor_is_told",
            ),
        ),
    ),
    Mutant(
        name="what a person decided waits on",
        file="storage/write/judging.py",
        old="        if not change.draft.delete(HELD, bytes.fromhex(candidate_id)):\n",
        new="        if not change.draft.has(HELD, bytes.fromhex(candidate_id)):\n",
        invariant="of many verdicts of persons on one candidate one counts",
        tests=(
            at(
                "tests/integration/test_http_races.py",
                "test_one_of_many_verdicts_of_persons_counts",
            ),
        ),
    ),
    Mutant(
        name="an id that is two is the first of them",
        file="proxy/cli/short_ids.py",
        old="    if found.total == 1:\n",
        new="    if found.total:\n",
        invariant="the beginning of an id stands for one alone, or for none",
        tests=(
            at(
                "tests/integration/test_cli_review.py",
                "test_an_id_that_is_two_is_none_and_the_one_that_was_typed_whole_is_one",
            ),
        ),
    ),
    Mutant(
        name="a token takes a whole id alone",
        file="proxy/cli/tokens.py",
        old="    return await whole_id(api, IdKind.MEMORY, asked.memory_id, tenant)\n",
        new="    return asked.memory_id\n",
        invariant="whatever has an id is named by the beginning of it",
        tests=(
            at(
                "tests/integration/test_cli_review.py",
                "test_a_token_and_a_proof_are_named_by_the_beginning_of_an_id",
            ),
        ),
    ),
    Mutant(
        name="a proof takes a whole id alone",
        file="proxy/cli/audit.py",
        old="            if judged.startswith(begins):\n",
        new="            if judged == begins:\n",
        invariant="whatever has an id is named by the beginning of it",
        tests=(
            at(
                "tests/integration/test_cli_review.py",
                "test_a_token_and_a_proof_are_named_by_the_beginning_of_an_id",
            ),
        ),
    ),
    Mutant(
        name="a wrapper that is the gate is taken for a sidecar",
        file="proxy/cli/failures.py",
        old='        if runs(pid, "mcp"):\n',
        new='        if runs(pid, "mcp-"):\n',
        invariant="who finds another gate in its place is told which, and what ends it",
        tests=(
            at(
                "tests/integration/test_mcp_command.py",
                "test_a_sidecar_that_finds_a_wrapper_in_its_place_says_which_it_is",
            ),
        ),
    ),
)
