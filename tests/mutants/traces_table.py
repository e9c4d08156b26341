"""Faults by which a refused text leaves a trace, or is told to somebody."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at, dropped, one_test, replaced

_LMDB_STORE: Final = "tests/unit/storage/tables/test_lmdb_store.py"
_STAGING: Final = "tests/unit/storage/staging/test_staging.py"

TRACES: Final = (
    Mutant(
        row="database",
        name="the map is writable",
        invariant="an aborted write leaves no byte in the file",
        where="storage.tables.lmdb_store:LmdbStore._agreeing_environment",
        fault=replaced("False", "True"),
        tests=(
            at(_LMDB_STORE, "test_settings_that_keep_aborted_writes_out_of_the_file"),
            at(_LMDB_STORE, "test_an_aborted_draft_leaves_no_byte_in_the_file"),
        ),
    ),
    Mutant(
        row="denied",
        name="a key file is unlinked as it is",
        invariant="a destroyed key's bytes are overwritten",
        where="storage.ground.state_directory:destroy_file",
        fault=dropped("os.write(handle, bytes(length))"),
        tests=one_test(_STAGING, "test_a_destroyed_key_file_is_overwritten_before_it_is_removed"),
    ),
    Mutant(
        row="staging",
        name="a hold keeps the key that it was staged under",
        invariant="a key that opened undecided candidates is never a file",
        where="storage.staging.staging:Staging.seal",
        fault=replaced("random_bytes(KEY_LEN)", "self._undecided._keys[candidate_id]"),
        tests=(
            at(_STAGING, "test_a_held_candidate_is_under_another_key_than_it_was_staged_under"),
            at(_STAGING, "test_no_destroyed_key_opens_anything_in_any_file"),
        ),
    ),
    Mutant(
        row="log",
        name="the commitment is not salted",
        invariant="a log cannot be searched for guessed content",
        where="storage.audit.leaves:commitment",
        fault=replaced("salt + digest", "digest"),
        tests=("tests/unit/storage/audit/test_leaves.py",),
    ),
    Mutant(
        row="telemetry",
        name="an internal failure tells its text",
        invariant="an error message echoes no content",
        where="proxy.transport.responses:refusal_for",
        fault=replaced(
            "_REFUSALS[kind]",
            "refuse(503, f'cannot_decide: {error}')",
        ),
        tests=("tests/unit/proxy/transport/test_responses.py",),
    ),
    Mutant(
        row="trace-ids",
        name="a caller's trace id is taken over",
        invariant="no byte of a caller's ids is kept or exported",
        where="telemetry.propagation:Traces.accept",
        fault=replaced("self._is_ours(trace_id)", "trace_id"),
        tests=(
            at(
                "tests/unit/telemetry/test_tracing.py",
                "test_nothing_of_a_callers_ids_is_taken_over",
            ),
            "tests/conformance/test_trace_ids.py",
        ),
    ),
    Mutant(
        row="webhook-address",
        name="a connection looks its name up by itself",
        invariant="a connection goes to the address that was judged",
        where="proxy.reporting.webhook:HttpPoster._connector",
        fault=replaced("cast('AbstractResolver', self._resolver)", "None"),
        tests=one_test(
            "tests/unit/proxy/reporting/test_webhook.py",
            "test_a_name_is_looked_up_once_and_connected_to_is_what_was_judged",
        ),
    ),
    Mutant(
        row="webhook-content",
        name="a notice leads to a page that decides",
        invariant="no notice has a link that decides",
        where="proxy.compose.outboxes:_of_review",
        fault=replaced("surroundings.page.of", "lambda one: f'{surroundings.page.of(one)}?code=x'"),
        tests=one_test(
            "tests/integration/test_review_webhook.py",
            "test_a_hold_is_told_signed_with_both_secrets_and_without_a_word_of_it",
        ),
    ),
)
