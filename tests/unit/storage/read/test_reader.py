"""Reads: filtered, scoped, joined against the store, of now or of a version of the past."""

from __future__ import annotations

import numpy as np
import pytest

from policy import query
from policy.model import ChangeKind, Entity, MemoryClass, MemoryId, Scope, Tenant
from policy.query import EVERYTHING, AllOf, AnyOf, Compare, Field, Filter, Not
from storage.derived import catalogue
from storage.derived.catalogue import Catalogue
from storage.derived.vectors.faiss_index import BadVector
from storage.embedded import EmbeddedStore
from storage.features.recalls import NEAREST_MAX
from storage.tables.rows import expiry_ms
from storage.values import Outcome
from tests.unit.storage.opening import (
    DIMENSION,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)

DAY_MS = 86_400_000


def _user(*names: str) -> query.Test:
    compare = Compare.EQ if len(names) == 1 else Compare.IN
    return query.Test(field=Field.USER_ID, compare=compare, values=names)


def _run(name: str) -> query.Test:
    return query.Test(field=Field.RUN_ID, compare=Compare.EQ, values=(name,))


def _under(root: str) -> query.Test:
    return query.Test(field=Field.APP_ID, compare=Compare.UNDER, values=(root,))


@pytest.fixture(params=["lists", "marks"])
def filled(
    store: EmbeddedStore, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> EmbeddedStore:
    if request.param == "marks":
        monkeypatch.setattr(catalogue, "MARKED_OVER", 0)
    for number in range(12):
        user = ("ada", "bob", "cid")[number % 3]
        place = ("a", "a.b", "a.b.c", "ab")[number % 4]
        scope = Scope(user_id=user, run_id=f"run-{number % 2}", app_id=place)
        metadata = f'{{"n":{number}}}'
        candidate = candidate_of(f"fact {number}", scope=scope, metadata_json=metadata)
        write(store, submission_of(candidate))
    return store


WANTED: list[tuple[Filter, set[int]]] = [
    (EVERYTHING, set(range(12))),
    (_user("ada"), {0, 3, 6, 9}),
    (_user("ada", "bob"), {0, 1, 3, 4, 6, 7, 9, 10}),
    (_user("nobody"), set()),
    (AllOf(parts=(_user("ada"), _run("run-1"))), {3, 9}),
    (AnyOf(parts=(_user("ada"), _run("run-1"))), {0, 1, 3, 5, 6, 7, 9, 11}),
    (Not(part=_user("ada")), {1, 2, 4, 5, 7, 8, 10, 11}),
    (_under("a"), {0, 1, 2, 4, 5, 6, 8, 9, 10}),
    (_under("a.b"), {1, 2, 5, 6, 9, 10}),
    (AllOf(parts=(_under("a.b"), _user("ada"))), {6, 9}),
    (AnyOf(parts=(_under("a.b.c"), _under("ab"))), {2, 3, 6, 7, 10, 11}),
    (_under("b"), set()),
    (AnyOf(parts=()), set()),
    (AllOf(parts=(AnyOf(parts=(_user("bob"),)), Not(part=_run("run-0")))), {1, 7}),
    (
        query.Test(field=Field.METADATA, compare=Compare.GTE, values=(10,), key="n"),
        {10, 11},
    ),
    (query.Test(field=Field.TEXT, compare=Compare.CONTAINS, values=("fact 1",)), {1, 10, 11}),
]


@pytest.mark.parametrize(("where", "wanted"), WANTED)
def test_pages_and_searches_show_exactly_what_matches(
    filled: EmbeddedStore, where: Filter, wanted: set[int]
) -> None:
    texts = {f"fact {number}" for number in wanted}
    page = filled.reader.page(TENANT, where, 0, 100)
    assert page.total == len(wanted)
    assert {memory.text for memory in page.memories} == texts
    for limit in (1, 2, 100):
        hits = filled.reader.search(TENANT, vector_of("fact 1"), where, limit, -1.0)
        assert len(hits) == min(limit, len(wanted))
        assert {hit.memory.text for hit in hits} <= texts
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("where", [EVERYTHING, Not(part=_user("nobody"))])
def test_pages_are_newest_first_and_do_not_overlap(filled: EmbeddedStore, where: Filter) -> None:
    pages = [filled.reader.page(TENANT, where, offset, 5) for offset in (0, 5, 10, 15)]
    assert [page.total for page in pages] == [12] * 4
    shown = [memory.text for page in pages for memory in page.memories]
    assert shown == [f"fact {number}" for number in reversed(range(12))]


def test_other_tenants_see_nothing(filled: EmbeddedStore) -> None:
    other = Tenant("other")
    assert filled.reader.page(other, EVERYTHING, 0, 10).total == 0
    assert filled.reader.entities(other).entities == ()
    assert filled.reader.search(other, vector_of("fact 1"), EVERYTHING, 10, -1.0) == ()


def test_entities_count_live_memories_only(filled: EmbeddedStore) -> None:
    for memory in filled.reader.page(TENANT, _user("cid"), 0, 10).memories:
        candidate = candidate_of(
            None, OPERATOR, change=ChangeKind.DELETE, memory_id=memory.memory_id, scope=Scope()
        )
        write(filled, submission_of(candidate, OPERATOR))
    at = 1_750_000_000_000
    assert filled.reader.entities(TENANT).entities == (
        Entity(kind="app", name="a", count=2, first_at_ms=at, last_at_ms=at),
        Entity(kind="app", name="a.b", count=2, first_at_ms=at, last_at_ms=at),
        Entity(kind="app", name="a.b.c", count=2, first_at_ms=at, last_at_ms=at),
        Entity(kind="app", name="ab", count=2, first_at_ms=at, last_at_ms=at),
        Entity(kind="run", name="run-0", count=4, first_at_ms=at, last_at_ms=at),
        Entity(kind="run", name="run-1", count=4, first_at_ms=at, last_at_ms=at),
        Entity(kind="user", name="ada", count=4, first_at_ms=at, last_at_ms=at),
        Entity(kind="user", name="bob", count=4, first_at_ms=at, last_at_ms=at),
    )


@pytest.mark.parametrize("reopened", [False, True])
def test_expired_memories_are_shown_by_no_read(bench: Bench, *, reopened: bool) -> None:
    store = bench.open()
    say(store, "stays")
    outcome = say(store, "goes", expires_at="2025-06-20T00:00:00Z")
    assert outcome.memory is not None
    assert store.reader.page(TENANT, EVERYTHING, 0, 9).total == 2
    bench.clock.now_ms += 10 * DAY_MS
    if reopened:
        store.close()
        store = bench.open()
    reader = store.reader
    assert reader.get(TENANT, outcome.memory.memory_id) is None
    assert reader.page(TENANT, EVERYTHING, 0, 9).total == 1
    assert reader.page(TENANT, Not(part=_user("nobody")), 0, 9).total == 1
    hits = reader.search(TENANT, vector_of("goes"), EVERYTHING, 5, -1.0)
    assert [hit.memory.text for hit in hits] == ["stays"]
    assert [entity.count for entity in reader.entities(TENANT).entities] == [1]
    store.close()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2025-01-01", "2025-01-02T00:00:00+00:00"),  # a date lasts until its end
        ("2025-01-01T10:00:00Z", "2025-01-01T10:00:00+00:00"),
        ("2025-01-01T10:00:00+02:00", "2025-01-01T08:00:00+00:00"),
        ("2025-01-01T10:00:00", "2025-01-01T10:00:00+00:00"),
    ],
)
def test_expiry_is_read_as_rfc_3339(text: str, at: str) -> None:
    assert expiry_ms(text) == int(np.datetime64(at[:19], "ms").astype(int))


@pytest.mark.parametrize("text", ["", "soon", "2025-13-01", "9999-12-31T25:00:00Z"])
def test_what_is_no_time_has_expired(text: str) -> None:
    assert expiry_ms(text) == 0


def test_the_last_day_there_is_does_not_overflow() -> None:
    assert expiry_ms("9999-12-31") > 0


def test_a_query_that_is_no_unit_vector_is_refused(filled: EmbeddedStore) -> None:
    with pytest.raises(BadVector):
        filled.reader.search(TENANT, bytes(32), EVERYTHING, 5, -1.0)


def test_catalogue_lists_stay_exact_while_most_of_them_dies(store: EmbeddedStore) -> None:
    outcomes = write(store, *(submission_of(candidate_of(f"fact {n}")) for n in range(60)))
    ids = [outcome.memory.memory_id for outcome in outcomes if outcome.memory is not None]
    for memory_id in ids[:50]:
        candidate = candidate_of(
            None, OPERATOR, change=ChangeKind.DELETE, memory_id=memory_id, scope=Scope()
        )
        write(store, submission_of(candidate, OPERATOR))
    page = store.reader.page(TENANT, _user("ada"), 0, 100)
    assert page.total == 10
    assert {memory.memory_id for memory in page.memories} == set(ids[50:])


def test_names_below_another_are_looked_up_in_the_catalogue() -> None:
    kept = Catalogue()
    places = ("a", "a.b", "a.b.c", "ab")
    kept.begin(
        [
            (tenant, Scope(app_id=place), np.array([len(places) * row + number], dtype=np.int64))
            for row, tenant in enumerate((TENANT, Tenant("other")))
            for number, place in enumerate(places)
        ],
        {},
        np.zeros(2 * len(places), dtype=np.int8),
    )
    found, exact = kept.candidates(TENANT, _under("a.b"), 0)
    assert (found.tolist(), exact) == ([1, 2], True)
    # Control: what is not looked up leaves every row of the tenant to be read.
    target = query.Test(field=Field.TARGET, compare=Compare.UNDER, values=("a.b",))
    found, exact = kept.candidates(TENANT, target, 0)
    assert (found.tolist(), exact) == ([0, 1, 2, 3], False)


def test_an_empty_catalogue_knows_nobody() -> None:
    found, exact = Catalogue().candidates(TENANT, _user("ada"), 0)
    assert (len(found), exact) == (0, True)


def test_each_read_says_class_and_source(store: EmbeddedStore) -> None:
    outcome = say(store, "a rule", OPERATOR, memory_class=MemoryClass.L1)
    assert outcome.memory is not None
    shown = store.reader.get(TENANT, outcome.memory.memory_id)
    assert shown == outcome.memory
    assert shown is not None
    assert (shown.memory_class, shown.source.value) == (MemoryClass.L1, "operator")


def id_of(outcome: Outcome) -> MemoryId:
    assert outcome.memory is not None
    return outcome.memory.memory_id


def test_the_places_of_memories_left_out_are_filled_by_others(store: EmbeddedStore) -> None:
    said = [say(store, f"fact {number}") for number in range(8)]
    vector = vector_of("fact 3")

    def found(*left_out: MemoryId) -> list[MemoryId]:
        hits = store.reader.searched(
            TENANT,
            vector,
            EVERYTHING,
            3,
            -1.0,
            shows=lambda memory: memory.memory_id not in left_out,
        ).hits
        return [one.memory.memory_id for one in hits]

    nearest = found()
    assert nearest[0] == id_of(said[3])
    left = found(nearest[0])
    assert len(left) == 3
    assert left[:2] == nearest[1:]
    assert found(*nearest)[0] == left[2]


def test_a_search_names_the_nearest_rows_behind_the_shown_ones(store: EmbeddedStore) -> None:
    for number in range(NEAREST_MAX + 10):
        say(store, f"fact {number}")
    vector = vector_of("fact 3")
    found = store.reader.searched(TENANT, vector, EVERYTHING, 2, -1.0)
    right = store.reader.search(TENANT, vector, EVERYTHING, 100, -1.0, exact=True)
    by_score = sorted(
        right,
        key=lambda one: (-one.score, -one.ranking.cosine if one.ranking else 0, one.memory.ordinal),
    )
    assert found.nearest == tuple(one.memory.ordinal for one in by_score[:NEAREST_MAX])
    assert len(found.hits) == 2
    assert found.version == store.reader.status().version


def test_of_two_equal_scores_the_older_memory_stands_first(store: EmbeddedStore) -> None:
    """A lie of the same words, told later, must not stand before the truth."""
    unit = np.zeros(DIMENSION, dtype="<f4")
    unit[0] = 1.0
    truth, lie = "The office opens at nine.", "The office opens at noon."
    for text in (truth, lie):
        write(store, submission_of(candidate_of(text), vector=unit.tobytes()))
    hits = store.reader.search(TENANT, unit.tobytes(), EVERYTHING, 2, -1.0)
    assert [one.memory.text for one in hits] == [truth, lie]
    assert hits[0].score == hits[1].score
    (first,) = store.reader.search(TENANT, unit.tobytes(), EVERYTHING, 1, -1.0)
    assert first.memory.text == truth
