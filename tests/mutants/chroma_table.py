"""Faults in the adapter of a Chroma server."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_WRITES: Final = "proxy/backends/chroma/writes.py"
_READS: Final = "proxy/backends/chroma/reads.py"
_RECORDS: Final = "proxy/backends/chroma/records.py"
_ROUTES: Final = "proxy/backends/chroma/routes.py"
_TESTS: Final = "tests/unit/proxy/backends/chroma"
_WRITE_TESTS: Final = f"{_TESTS}/test_writes.py"
_READ_TESTS: Final = f"{_TESTS}/test_reads.py"
_ROUTE_TESTS: Final = f"{_TESTS}/test_routes.py"

CHROMA: Final = (
    Mutant(
        name="a record is judged without what it is merged with",
        file=_WRITES,
        old="        pieces = (*own, *stays) or (key,)",
        new="        pieces = tuple(own) or (key,)",
        invariant="what stays of an old record is judged with the new parts",
        tests=(
            at(_WRITE_TESTS, "test_an_upsert_is_judged_by_the_record_that_it_leads_to"),
            at(_WRITE_TESTS, "test_an_update_keeps_the_parts_that_it_does_not_name"),
        ),
        quick=True,
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
        quick=True,
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
        file=_ROUTES,
        old="        if listed == table.keys():",
        new="        if listed >= table.keys():",
        invariant="a server whose routes nobody knows is another version",
        tests=(
            at(
                _ROUTE_TESTS,
                "test_a_server_is_known_by_its_routes_and_one_more_makes_it_another",
            ),
        ),
    ),
)
