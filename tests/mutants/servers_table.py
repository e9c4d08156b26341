"""Faults in front of memory servers: Mem0's, Chroma's and LangGraph's."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at, dropped, one_test, replaced

_BACKEND_CHROMA_PLACES: Final = "tests/integration/test_backend_chroma_places.py"
_BACKEND_STORE: Final = "tests/integration/test_backend_store.py"
_BACKEND_TURNS: Final = "tests/integration/test_backend_turns.py"
_FLOOR: Final = "tests/integration/test_reads_floor_behind.py"
_KEYED: Final = "tests/unit/proxy/guard/test_keyed.py"
_WRITES: Final = "tests/unit/proxy/backends/chroma/test_writes.py"

SERVERS: Final = (
    Mutant(
        row="purge-backend",
        name="a closed key is shown to its own tenant",
        invariant="what was erased here and stands on its server is shown to nobody",
        where="proxy.guard.key_owners:_whose",
        fault=replaced("closed.mine", "closed.mine and by_rows is KeyOwner.OTHERS"),
        tests=one_test(
            "tests/integration/test_backend_purge.py",
            "test_a_purged_memory_is_shown_to_nobody_again",
        ),
    ),
    Mutant(
        row="mem0-open",
        name="the history of a deleted memory is shown to everybody",
        invariant="a history is shown where the gate knows its memory",
        where="proxy.backends.mem0_server.reads:_change",
        fault=replaced(
            "ShownMemory(key=key, strings=strings, place=place, is_past=True, "
            "is_withheld=not is_its_own)",
            "ShownMemory(key=key, strings=strings, place=place, is_withheld=not is_its_own)",
        ),
        tests=one_test(
            "tests/unit/proxy/backends/mem0_server/test_reads.py",
            "test_a_history_is_its_memorys_and_tells_both_texts_of_a_change",
        ),
    ),
    Mutant(
        row="past-backend",
        name="a header of the client reaches the memory server",
        invariant="nothing goes on but what the adapter made of a request",
        where="proxy.fronts.backend_server_front:BackendServerFront.ask",
        fault=replaced("name in _SENT", "name not in _SHOWN"),
        tests=one_test(
            "tests/unit/proxy/fronts/test_backend_behind.py", "test_no_other_header_goes_on"
        ),
    ),
    Mutant(
        row="past-backend",
        name="a memory server tells the sidecar's credential to the agent",
        invariant="the sidecar's credential is in no byte to the agent",
        where="proxy.fronts.backend_server_front:BackendServerFront.ask",
        fault=dropped("raise UpstreamError(_TELLS_CREDENTIAL)"),
        tests=one_test(
            "tests/integration/test_backend_credential.py",
            "test_the_credential_is_in_no_byte_to_the_agent_in_no_log_no_span_and_no_file",
        ),
    ),
    Mutant(
        row="state-backend",
        name="a tag counts for nothing where the store knows nothing",
        invariant="a tagged item is there for no agent, whatever the store knows",
        where="proxy.guard.key_owners:KeyOwners.hides",
        fault=replaced("one.is_tagged", "False"),
        tests=one_test(
            "tests/integration/test_backend_quarantine.py",
            "test_what_was_quarantined_stays_away_where_the_sidecars_state_is_lost",
        ),
    ),
    Mutant(
        row="lost-backend",
        name="a lost answer of a memory server counts as a failure",
        invariant="without an answer nobody knows what became of a write",
        where="proxy.fronts.backend_writes:BackendWrites._sent",
        fault=replaced(
            "ForwardStatus.UNKNOWN if error.sent else ForwardStatus.FAILED", "ForwardStatus.FAILED"
        ),
        tests=one_test(
            _BACKEND_STORE, "test_a_lost_answer_is_looked_up_and_the_write_is_never_sent_again"
        ),
    ),
    Mutant(
        row="tenants-backend",
        name="another tenant's memory is shown",
        invariant="no tenant reads what another one wrote",
        where="proxy.guard.key_owners:KeyOwners.hides",
        fault=replaced("whose in {KeyOwner.HIDDEN, KeyOwner.OTHERS}", "whose is KeyOwner.HIDDEN"),
        tests=one_test(
            _BACKEND_STORE,
            "test_another_tenants_memory_is_in_no_read_and_what_is_held_hides_nothing",
        ),
    ),
    Mutant(
        row="tenants-backend",
        name="another tenant's memory may be changed",
        invariant="no tenant changes what another one wrote",
        where="proxy.guard.key_owners:KeyOwners.belongs_to_others",
        fault=replaced("one is KeyOwner.OTHERS", "one is KeyOwner.OTHERS and (not shown)"),
        tests=one_test(
            _BACKEND_STORE,
            "test_another_tenants_memory_is_in_no_read_and_what_is_held_hides_nothing",
        ),
    ),
    Mutant(
        row="turn-backend",
        name="two writes to one item are judged at the same time",
        invariant="what a write is judged beside is what it is sent to",
        where="proxy.fronts.backend_writes:BackendPlaces.name",
        fault=replaced("question is not None", "question is not None and place"),
        tests=(
            at(_BACKEND_STORE, "test_two_writes_to_one_item_are_judged_one_after_the_other"),
            at(_BACKEND_TURNS, "test_a_put_beside_the_users_first_one_is_judged_as_a_change_of_it"),
            at(_BACKEND_TURNS, "test_a_put_beside_a_deletion_of_its_key_belongs_to_who_put_it"),
        ),
    ),
    Mutant(
        row="below-floor",
        name="a floor for reads counts for nothing on a server behind",
        invariant="what is below the floor does not exist",
        where="proxy.guard.sieve:_owned",
        fault=replaced("KeyOwner.MINE if shows else KeyOwner.HIDDEN", "KeyOwner.MINE"),
        tests=(
            at(_KEYED, "test_a_floor_shows_a_key_by_the_label_of_its_newest_live_memory"),
            at(_FLOOR, "test_the_stricter_floor_of_key_and_table_counts"),
        ),
    ),
    Mutant(
        row="below-floor",
        name="a create with a floor tells what is below it",
        invariant="no status or count tells what is below the floor",
        where="proxy.fronts.backend_writes:BackendWrites._in_turn",
        fault=dropped("raise MalformedRequest(_NO_CREATE, status=403)"),
        tests=one_test(
            _FLOOR, "test_no_status_count_or_text_tells_what_a_server_has_below_the_floor"
        ),
    ),
    Mutant(
        row="runs-backend",
        name="runs of a server that several tenants share are served",
        invariant="an answer of which no part can be left out is one tenant's",
        where="proxy.fronts.backend:BackendFront._serve",
        fault=replaced("behind.settings.shows_whole", "behind.settings.name"),
        tests=one_test(_BACKEND_STORE, "test_runs_and_threads_of_a_shared_server_are_refused"),
    ),
    Mutant(
        row="taken-backend",
        name="a verdict is given on a merge with hidden words",
        invariant="no verdict tells hidden words",
        where="proxy.fronts.backend_writes:BackendWrites._judged",
        fault=replaced("one.item.key in unjudged", "False"),
        tests=one_test(
            _BACKEND_CHROMA_PLACES,
            "test_the_answer_to_a_write_over_a_hidden_record_says_nothing_of_its_words",
        ),
    ),
    Mutant(
        row="merge-backend",
        name="a record is judged without what it is merged with",
        invariant="what stays of an old record is judged with the new parts",
        where="proxy.backends.kept_request:merged",
        fault=replaced("(*own, *(stays if in_order else shown))", "tuple(own)"),
        tests=(
            at(_WRITES, "test_an_upsert_is_judged_by_the_record_that_it_leads_to"),
            at(_WRITES, "test_an_update_keeps_the_parts_that_it_does_not_name"),
        ),
    ),
    Mutant(
        row="uuid-backend",
        name="a tenant's key opens every tenant's path",
        invariant="a path of the server belongs to one tenant",
        where="proxy.fronts.backend:BackendFront._serve",
        fault=replaced("adapter.is_open_to(request, principal.tenant)", "adapter.segments"),
        tests=one_test(
            _BACKEND_CHROMA_PLACES,
            "test_a_tenants_key_opens_no_other_tenants_path_and_nothing_is_asked",
        ),
    ),
    Mutant(
        row="mark-backend",
        name="a client sets the mark of the gate",
        invariant="the mark is the gate's own",
        where="proxy.backends.mem0_server.requests:_check_metadata",
        fault=replaced("MARK in found", "MARK in found and False"),
        tests=one_test(
            "tests/unit/proxy/backends/mem0_server/test_writes.py",
            "test_an_add_that_is_read_in_two_ways_is_refused",
        ),
    ),
    Mutant(
        row="count-backend",
        name="a count has hidden records",
        invariant="hidden records do not count",
        where="proxy.backends.chroma.reads:ChromaReads.without",
        fault=replaced("len(table.records()) - len(places)", "len(table.records())"),
        tests=one_test(
            "tests/unit/proxy/backends/chroma/test_writes.py",
            "test_a_count_is_made_of_the_ids_so_that_hidden_records_do_not_count",
        ),
    ),
)
