"""Faults in the log, in what is taken back, and in what is read of the store."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at, dropped, one_test, replaced, returned

_EDITS: Final = "tests/fault/test_edits.py"
_PAROLING: Final = "tests/unit/proxy/aftermath/test_paroling.py"
_VERIFICATION: Final = "tests/unit/proxy/cli/test_verification.py"
_TILES: Final = "tests/unit/storage/upkeep/test_tiles.py"
_RANKING: Final = "tests/unit/storage/read/test_ranking.py"
_WRITES: Final = "tests/unit/storage/write/test_writes.py"

STORE: Final = (
    Mutant(
        row="undo",
        name="an undo shows what somebody else hides",
        invariant="an undo brings back exactly what its incident hid and nobody else hides",
        where="storage.features.incidents.incident_orders:ShowBatch.carry_out",
        fault=replaced("before - {incident.incident_id}", "frozenset[str]()"),
        tests=one_test(
            "tests/unit/storage/features/incidents/test_isolation.py",
            "test_undo_shows_nothing_that_somebody_else_hides",
        ),
    ),
    Mutant(
        row="feedback",
        name="an agent's word is a signal for a ranking",
        invariant="only people's marks have a part in the trial of a ranking",
        where="storage.features.views.rank_trial:_rated",
        fault=replaced("one.kind in {SignalKind.PERSON, SignalKind.OPERATOR}", "True"),
        tests=one_test(
            "tests/unit/storage/features/views/test_rank_trial.py",
            "test_a_thousand_signals_of_agents_change_no_byte",
        ),
    ),
    Mutant(
        row="feedback",
        name="one key has as many signals as it likes",
        invariant="one key has at most a fifth of all signals",
        where="storage.features.views.rank_trial:_approved",
        fault=replaced("sum((min(most, count) for count in counts))", "sum(counts)"),
        tests=one_test(
            "tests/unit/storage/features/views/test_rank_trial.py",
            "test_one_key_has_at_most_a_fifth_of_all_signals",
        ),
    ),
    Mutant(
        row="export",
        name="bytes that open no commitment pass",
        invariant="the bytes of an export are those that were judged",
        where="proxy.cli.proven_memories:ProofChecker._step",
        fault=replaced(
            "commitment(bytes.fromhex(step.salt), digest_of(canonical)) != seen.commitment",
            "commitment(bytes.fromhex(step.salt), digest_of(canonical)) == b''",
        ),
        tests=one_test(
            "tests/unit/proxy/cli/test_proven_memories.py", "test_whatever_is_altered_is_named"
        ),
    ),
    Mutant(
        row="wrong-answer",
        name="nothing follows the root of a lie",
        invariant="what was derived from a lie goes with it, to the end",
        where="policy.after.closure:closure_of",
        fault=dropped("waiting.append(child)"),
        tests=(
            at(
                "tests/unit/policy/after/test_attribution.py",
                "test_all_that_was_derived_goes_with_the_root_and_each_once",
            ),
            at(
                "tests/unit/storage/features/cases/test_wrong_answers.py",
                "test_a_conviction_hides_the_whole_chain_in_one_transaction",
            ),
        ),
    ),
    Mutant(
        row="wrong-answer",
        name="a memory keeps its class over a parole",
        invariant="what comes back has less power than before",
        where="storage.features.parole:GrantParole.carry_out",
        fault=replaced(
            "lowered(memory.memory_class)", "lowered(memory.memory_class) and memory.memory_class"
        ),
        tests=(
            at(_PAROLING, "test_what_was_true_once_comes_back_one_class_lower_and_a_lie_does_not"),
            at(_PAROLING, "test_the_lowest_class_stays_and_each_other_is_lowered"),
        ),
    ),
    Mutant(
        row="leaf",
        name="an intercepted candidate leaves no leaf",
        invariant="both leaves of every decision are in the log",
        where="storage.write.judge:Judge.judge",
        fault=replaced("self._log_intercepted(change, docket)", "0"),
        tests=(
            _WRITES,
            "tests/unit/storage/read/test_check.py",
        ),
    ),
    Mutant(
        row="split-view",
        name="any line with a witness's key id is its cosignature",
        invariant="only what a witness's key signed over this head counts",
        where="storage.audit.checkpoint:cosignature_of",
        fault=dropped(
            "_check(witness, signed[_STAMPED_LEN:], f'cosignature/v1\\ntime {at_s}\\n{text}')"
        ),
        tests=one_test(
            "tests/unit/storage/audit/test_checkpoint.py", "test_no_other_answer_has_a_cosignature"
        ),
    ),
    Mutant(
        row="split-view",
        name="the proof for a witness leaves out where the old log ended",
        invariant="a witness can verify every head of a log that only grows",
        where="storage.audit.merkle:consistency_proof",
        fault=replaced("old <= middle", "old < middle"),
        tests=one_test(
            "tests/unit/storage/audit/test_merkle.py",
            "test_every_consistency_proof_verifies_and_none_does_for_another_tree",
        ),
    ),
    Mutant(
        row="split-view",
        name="tiles are continued by another log",
        invariant="a published log is continued by itself alone",
        where="storage.upkeep.offline:EmbeddedFiles.export_tiles",
        fault=dropped("published.compare(view, view.header())"),
        tests=one_test(_TILES, "test_a_forked_log_is_not_published_where_the_other_was"),
    ),
    Mutant(
        row="split-view",
        name="a head is published without its tiles",
        invariant="a reader finds every tile of the published head, also after a crash",
        where="storage.upkeep.offline:_put",
        fault=dropped("write_durably(path, data, mode)"),
        tests=one_test(_TILES, "test_an_independent_reader_finds_every_leaf_under_the_signed_head"),
    ),
    Mutant(
        row="split-view",
        name="old cosignatures count as young ones",
        invariant="a head is witnessed for an hour after the time in its cosignatures",
        where="proxy.reporting.witnesses:Witnesses.shown",
        fault=replaced("self._surroundings.now_ms() - self._witnessed_ms > YOUNG_MS", "False"),
        tests=one_test(
            "tests/unit/proxy/reporting/test_witnesses.py",
            "test_as_many_witnesses_as_are_required_must_have_cosigned_within_the_hour",
        ),
    ),
    Mutant(
        row="edited-log",
        name="a row may follow another step than its leaf says",
        invariant="the rows of a memory follow each other as the log says",
        where="storage.audit.verification:Verifier._follows",
        fault=replaced("leaf.previous_index == before", "leaf.previous_index >= before"),
        tests=one_test(
            _VERIFICATION, "test_a_row_that_is_taken_out_of_its_memorys_history_is_found"
        ),
    ),
    Mutant(
        row="edited-log",
        name="a row may have what no row before it has",
        invariant="what an update inherits is what the row before it has",
        where="storage.audit.row_states:_follows",
        fault=replaced("inherited == inherit(candidate, before)", "inherited is not None"),
        tests=one_test(
            "tests/unit/proxy/cli/test_inherited_fields.py", "test_an_edited_field_is_found"
        ),
    ),
    Mutant(
        row="edited-store",
        name="digests have no key",
        invariant="whoever has no store.key makes no value that is served",
        where="storage.tables.codec:_KeyedHashes.__missing__",
        fault=replaced("key=self._secret", "key=b''"),
        tests=one_test(_EDITS, "test_an_edited_value_is_left_out_counted_and_named"),
    ),
    Mutant(
        row="edited-store",
        name="values may be taken out",
        invariant="the header counts the values of each table",
        where="storage.tables.change:recount",
        fault=replaced("there != counted", "there < 0"),
        tests=one_test(
            _EDITS, "test_a_store_of_which_values_were_taken_out_or_put_in_does_not_start"
        ),
    ),
    Mutant(
        row="edited-store",
        name="an earlier value counts as the last",
        invariant="the header has the total of all values",
        where="storage.tables.lmdb_store:View.problems",
        fault=replaced("(self.digests.total(header.total) - there) % TOTALS", "False"),
        tests=one_test(_EDITS, "test_an_old_value_of_any_table_is_found_by_check_and_audit_verify"),
    ),
    Mutant(
        row="edited-store",
        name="any vector is that of its text",
        invariant="check embeds each text again",
        where="storage.read.check:_embeddings",
        fault=replaced("SAME_MIN", "-1.0"),
        tests=one_test(_EDITS, "test_an_edited_vector_moves_no_memory_to_the_first_place"),
    ),
    Mutant(
        row="edited-store",
        name="a client's vector may be any",
        invariant="the candidate contains the digest of its client's own vector",
        where="storage.audit.verification:Verifier._vector",
        fault=replaced("sha256(self._view.vector(ordinal)).hexdigest() == expected", "expected"),
        tests=one_test(_EDITS, "test_a_clients_own_vector_is_in_its_leaf"),
    ),
    Mutant(
        row="old-nonces",
        name="a nonce of another life counts",
        invariant="a nonce is bound to the store's incarnation",
        where="storage.write.fact_gatherer:FactGatherer.nonce_state",
        fault=replaced("incarnation != change.header.incarnation_name", "not incarnation"),
        tests=one_test(_WRITES, "test_a_nonce_of_another_incarnation_is_refused"),
    ),
    Mutant(
        row="older-store",
        name="a start that is refused leaves a store behind",
        invariant="beside another store's checkpoint nothing is begun",
        where="storage.embedded:open_embedded",
        fault=dropped("check_new_store(checkpoint)"),
        tests=one_test(
            "tests/unit/storage/write/test_writer.py",
            "test_a_new_store_beside_anothers_checkpoint_is_refused_before_it_is_made",
        ),
    ),
    Mutant(
        row="backup",
        name="an unsound log is a backup",
        invariant="a backup is one only after an auditor found nothing in its log",
        where="storage.upkeep.restore:verified",
        fault=replaced("bad is not None", "False"),
        tests=one_test(
            _VERIFICATION,
            "test_a_backup_of_an_altered_store_is_refused_although_its_files_are_signed",
        ),
    ),
    Mutant(
        row="damage",
        name="a digest is not verified on read",
        invariant="a flipped bit is never read as a value",
        where="storage.tables.codec:Digests.unframe",
        fault=replaced("value[1:_PAYLOAD_AT] == digest[:DIGEST_LEN]", "digest"),
        tests=(
            "tests/unit/storage/tables/test_lmdb_store.py",
            at(
                "tests/unit/storage/tables/test_lmdb_store.py",
                "test_a_flipped_bit_on_disk_is_never_read_as_a_value",
            ),
        ),
    ),
    Mutant(
        row="purged",
        name="a purge keeps the rows",
        invariant="a purge erases every row of a memory",
        where="storage.write.commit:_Landing._erase",
        fault=dropped("draft.put(ROWS, ordinal_key(ordinal), left)"),
        tests=one_test(_WRITES, "test_purged_memory_has_no_text_in_its_history"),
    ),
    Mutant(
        row="purged",
        name="anybody purges",
        invariant="only an operator purges",
        where="policy.checks:source_class",
        fault=replaced(
            "provenance.source is not SourceKind.OPERATOR",
            "provenance.source is SourceKind.UNKNOWN",
        ),
        tests=one_test("tests/unit/policy/test_checks.py", "test_only_an_operator_purges"),
    ),
    Mutant(
        row="withdrawn",
        name="a quarantined memory stays in the index",
        invariant="what is under quarantine is in no search and in no count",
        where="storage.features.quarantine.hiding:place",
        fault=dropped("change.index.superseded.append((known.ordinal, row))"),
        tests=one_test(
            "tests/unit/storage/features/quarantine/test_quarantine.py",
            "test_quarantine_hides_a_memory_from_every_read_and_parole_shows_it_again",
        ),
        quick=True,
    ),
    Mutant(
        row="withdrawn",
        name="a deleted memory is live",
        invariant="a deleted memory is gone from every read",
        where="storage.write.commit:_Landing._status",
        fault=replaced("kind in {ChangeKind.DELETE, ChangeKind.PURGE}", "kind is ChangeKind.PURGE"),
        tests=one_test(_WRITES, "test_deleted_memory_is_gone_from_every_read_but_its_history"),
    ),
    Mutant(
        row="below-floor",
        name="a floor for reads shows all",
        invariant="what is below the floor for reads is absent, and no status or count tells of it",
        where="policy.model:Reads.shows",
        fault=returned("True"),
        tests=one_test(
            "tests/integration/test_reads_floor.py",
            "test_no_status_count_or_text_tells_what_is_below_the_floor",
        ),
    ),
    Mutant(
        row="tenants",
        name="words are weighed by the rows of all tenants",
        invariant="what another tenant writes changes no byte of a search",
        where="storage.derived.lexical.scoring:AskedWords.__init__",
        fault=replaced(
            "marks_of(live, part.ordinals)", "np.ones(len(part.ordinals), dtype=np.bool_)"
        ),
        tests=one_test(_RANKING, "test_what_another_tenant_writes_changes_no_byte"),
    ),
    Mutant(
        row="stuffed",
        name="hidden rows count where words are weighed",
        invariant="the mask of the live rows is taken before anything is ranked",
        where="storage.derived.lexical.scoring:AskedWords.__init__",
        fault=replaced("marks[found.rows]", "np.ones(len(found.rows), dtype=np.bool_)"),
        tests=one_test(_RANKING, "test_hidden_copies_change_no_byte"),
    ),
    Mutant(
        row="stuffed",
        name="likeness is stretched between the least and the best hit",
        invariant="a memory that is left out moves no other",
        where="storage.derived.lexical.scoring:score",
        fault=replaced(
            "np.maximum(0.0, cosines)", "(cosines - cosines.min()) / (np.ptp(cosines) or 1.0)"
        ),
        tests=one_test(_RANKING, "test_a_memory_left_out_moves_no_other"),
    ),
    Mutant(
        row="stuffed",
        name="words of an unproven text count without a bound",
        invariant="stuffing a question's words gains an unproven text little",
        where="storage.derived.lexical.scoring:score",
        fault=replaced("np.minimum(words, words_max)", "words"),
        tests=one_test(
            "tests/unit/storage/derived/lexical/test_scoring.py",
            "test_stuffed_words_gain_an_unproven_text_half_of_what_they_gain_a_person",
        ),
    ),
)
