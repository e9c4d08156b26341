"""Faults in the adapter of a Chroma server."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_WRITES: Final = "proxy/backends/chroma/writes.py"
_READS: Final = "proxy/backends/chroma/reads.py"
_RECORDS: Final = "proxy/backends/chroma/records.py"
_ROUTES: Final = "proxy/backends/chroma/routes.py"
_VERSION: Final = "proxy/backends/openapi_version.py"
_TESTS: Final = "tests/unit/proxy/backends/chroma"
_WRITE_TESTS: Final = f"{_TESTS}/test_writes.py"
_READ_TESTS: Final = f"{_TESTS}/test_reads.py"
_ROUTE_TESTS: Final = f"{_TESTS}/test_routes.py"
_FRONT: Final = "proxy/fronts/backend.py"
_FRONT_READS: Final = "proxy/fronts/backend_reads.py"
_FRONT_WRITES: Final = "proxy/fronts/backend_writes.py"
_PLACE_TESTS: Final = "tests/integration/test_backend_chroma_places.py"
_FILLED: Final = (
    at(
        _PLACE_TESTS,
        "test_hidden_records_are_not_counted_and_a_search_is_filled_up_behind_them",
    ),
)

CHROMA: Final = (
    Mutant(
        name="a record is judged without what it is merged with",
        file=_WRITES,
        old="        pieces = (*own, *(stays if in_order else shown)) or (key,)",
        new="        pieces = tuple(own) or (key,)",
        invariant="what stays of an old record is judged with the new parts",
        tests=(
            at(_WRITE_TESTS, "test_an_upsert_is_judged_by_the_record_that_it_leads_to"),
            at(_WRITE_TESTS, "test_an_update_keeps_the_parts_that_it_does_not_name"),
        ),
    ),
    Mutant(
        name="a write over a record counts as a new one",
        file=_WRITES,
        old="        change=ChangeKind.CREATE if there is None else ChangeKind.UPDATE,",
        new="        change=ChangeKind.CREATE,",
        invariant="a change of a record is judged against the one that stands there",
        tests=(at(_WRITE_TESTS, "test_an_upsert_is_judged_by_the_record_that_it_leads_to"),),
    ),
    Mutant(
        name="a new record may be merged into one that came meanwhile",
        file=_WRITES,
        old="    if all(sendings[at].item.change is ChangeKind.CREATE for at in admitted):",
        new="    if not admitted:",
        invariant="what was judged as new is never merged into another text",
        tests=(
            at(
                _WRITE_TESTS,
                "test_new_records_are_added_and_never_merged_into_one_that_came_meanwhile",
            ),
        ),
    ),
    Mutant(
        name="a vector may have numbers that are not finite",
        file=_RECORDS,
        old="    if not math.isfinite(sum(",
        new="    if math.isnan(0 * len(",
        invariant="a vector is checked, and never believed",
        tests=(at(_WRITE_TESTS, "test_a_write_that_the_server_could_read_otherwise_is_refused"),),
    ),
    Mutant(
        name="columns may differ in length",
        file=_RECORDS,
        old='        raise invalid(f"{name}: not as many as ids")',
        new="        return (*values, *(None,) * count)[:count]",
        invariant="what stands at one place of all columns is one record",
        tests=(at(_WRITE_TESTS, "test_a_write_that_the_server_could_read_otherwise_is_refused"),),
    ),
    Mutant(
        name="a released record takes any vector",
        file=_WRITES,
        old="    if has_vector and (_digest(blob),) != kept.embeddings:",
        new="    if has_vector and not blob:",
        invariant="a released record is sent as it was judged",
        tests=(
            at(
                _WRITE_TESTS,
                "test_a_released_record_is_sent_as_it_was_judged_with_its_own_vector",
            ),
        ),
    ),
    Mutant(
        name="one column keeps what was left out",
        file=_READS,
        old="        if groups is None:\n            return value\n",
        new='        if groups is None or name == "metadatas":\n            return value\n',
        invariant="a record is left out of every column",
        tests=(
            at(
                _READ_TESTS,
                "test_a_record_is_left_out_of_every_column_and_the_rest_stays_as_it_was",
            ),
        ),
    ),
    Mutant(
        name="an answer whose columns differ in length is shown",
        file=_READS,
        old="        if any([len(group) for group in one] != self._sizes for one in",
        new="        if any(not one for one in",
        invariant="an answer that cannot be looked through is not shown",
        tests=(at(_READ_TESTS, "test_an_answer_that_cannot_be_looked_through_is_not_shown"),),
    ),
    Mutant(
        name="a count has hidden records",
        file=_READS,
        old="msgspec.json.encode(len(table.records()) - len(places))",
        new="msgspec.json.encode(len(table.records()))",
        invariant="hidden records do not count",
        tests=(
            at(
                _READ_TESTS,
                "test_a_count_is_made_of_the_ids_so_that_hidden_records_do_not_count",
            ),
        ),
    ),
    Mutant(
        name="a collection has several spellings",
        file=_ROUTES,
        old="or not _UUID.fullmatch(segments[_COLLECTION_AT])",
        new="or not segments[_COLLECTION_AT]",
        invariant="a collection has one name, under which all its records are known",
        tests=(at(_ROUTE_TESTS, "test_a_collection_has_one_spelling"),),
    ),
    Mutant(
        name="a server with more routes passes as a known one",
        file=_VERSION,
        old="        if listed == set(table):",
        new="        if listed >= set(table):",
        invariant="a server whose routes nobody knows is another version",
        tests=(
            at(
                _ROUTE_TESTS,
                "test_a_server_is_known_by_its_routes_and_one_more_makes_it_another",
            ),
        ),
    ),
    Mutant(
        name="a collection opens through any path",
        file=_FRONT,
        old="        if reply.status not in _ANSWERED:\n"
        "            return self.behind.shown(request, reply)\n",
        new="",
        invariant="a collection opens through the path under which the server knows it",
        tests=(
            at(
                _PLACE_TESTS,
                "test_the_server_is_asked_once_whether_it_knows_a_collection_under_its_path",
            ),
        ),
    ),
    Mutant(
        name="a tenant's key opens every tenant's path",
        file=_FRONT,
        old="        if not adapter.is_open_to(request, principal.tenant):",
        new="        if not adapter.segments:",
        invariant="a path of the server belongs to one tenant",
        tests=(
            at(
                _PLACE_TESTS,
                "test_a_tenants_key_opens_no_other_tenants_path_and_nothing_is_asked",
            ),
        ),
    ),
    Mutant(
        name="two writes to one place are judged at the same time",
        file=_FRONT_WRITES,
        old="self._turns.setdefault(place, asyncio.Lock()) if place else nullcontext()",
        new="nullcontext()",
        invariant="what the server merges is judged together",
        tests=(
            at(
                _PLACE_TESTS,
                "test_two_writes_to_one_collection_are_judged_one_after_the_other",
            ),
        ),
    ),
    Mutant(
        name="a count is answered with the list that it is made of",
        file=_FRONT_READS,
        old="        if dropped or routed.remade:",
        new="        if dropped:",
        invariant="a read that goes on as another one is answered as it was asked",
        tests=_FILLED,
    ),
    Mutant(
        name="a search is not filled up behind many hidden records",
        file=_FRONT_READS,
        old="left[group] >= (page.end or 0) or number < count for group",
        new="number for group",
        invariant="a search is as full as the server can make it",
        tests=_FILLED,
    ),
    Mutant(
        name="what stays of a record is judged behind what a read shows after it",
        file="proxy/backends/chroma/writes.py",
        old="(stays if in_order else shown)",
        new="stays",
        invariant="a merged record is judged in the order in which a read shows it",
        tests=(
            at(
                "tests/unit/proxy/backends/chroma/test_writes.py",
                "test_an_order_that_begins_in_what_stays_is_read_in_the_order_of_a_read",
            ),
        ),
    ),
    Mutant(
        name="a change that never arrived closes its key",
        file="proxy/backends/chroma/writes.py",
        old='        body["stood"] = [_print_of(there)]\n',
        new='        body["stood"] = [_print_of(record)]\n',
        invariant="a record that is what it was tells that a change did not arrive",
        tests=(
            at(
                "tests/unit/proxy/backends/chroma/test_writes.py",
                "test_a_change_has_failed_where_the_record_is_what_it_was_before_it",
            ),
        ),
    ),
)
