from __future__ import annotations

import pytest

from policy.query import FILTER_DEPTH_MAX, AllOf, AnyOf, Compare, Field, Filter, Not, Scalar
from policy.query import Test as Condition
from proxy.dialects.mem0.calls import note_of
from proxy.dialects.mem0.filters import NOTHING, read_filter
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    GetHistory,
    GetMemory,
    HttpRequest,
    Identify,
    ListEntities,
    ListMemories,
    Operation,
    Search,
)
from tests.unit.proxy.dialects.mem0.sample import API_KEY, FIRST_ID, OSS, PLATFORM, request

ALICE = {"user_id": "alice"}
DAY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def when(field: Field, compare: Compare, *values: Scalar, key: str | None = None) -> Condition:
    return Condition(field=field, compare=compare, values=values, key=key)


IS_ALICE = when(Field.USER_ID, Compare.EQ, "alice")


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (ALICE, IS_ALICE),
        ({}, AllOf(parts=())),
        ({"AND": [ALICE]}, AllOf(parts=(IS_ALICE,))),
        (
            {"OR": [ALICE, {"run_id": "r"}]},
            AnyOf(parts=(IS_ALICE, when(Field.RUN_ID, Compare.EQ, "r"))),
        ),
        ({"NOT": [ALICE]}, Not(part=AnyOf(parts=(IS_ALICE,)))),
        ({"NOT": ALICE}, Not(part=AnyOf(parts=(IS_ALICE,)))),
        ({"agent_id": "*"}, when(Field.AGENT_ID, Compare.PRESENT)),
        ({"user_id": {"in": ["a", "b"]}}, when(Field.USER_ID, Compare.IN, "a", "b")),
        ({"user_id": ["a", "b"]}, when(Field.USER_ID, Compare.IN, "a", "b")),
        ({"user_id": {"nin": ["a"]}}, Not(part=when(Field.USER_ID, Compare.IN, "a"))),
        ({"user_id": {"ne": "a"}}, when(Field.USER_ID, Compare.NE, "a")),
        ({"memory_ids": ["m"]}, when(Field.MEMORY_ID, Compare.IN, "m")),
        ({"memory_ids": []}, NOTHING),
        (
            {"created_at": {"gte": "2026-01-01", "lt": "2026-01-01T00:00:01.5Z"}},
            AllOf(
                parts=(
                    when(Field.CREATED_AT_MS, Compare.GTE, DAY_MS),
                    when(Field.CREATED_AT_MS, Compare.LT, DAY_MS + 1_500),
                )
            ),
        ),
        (
            {"metadata": {"k": {"gte": 2}}},
            AllOf(parts=(when(Field.METADATA, Compare.GTE, 2, key="k"),)),
        ),
        (
            {"metadata": {"k": "v", "n": 1}},
            AllOf(
                parts=(
                    when(Field.METADATA, Compare.EQ, "v", key="k"),
                    when(Field.METADATA, Compare.EQ, 1, key="n"),
                )
            ),
        ),
        ({"keywords": {"icontains": "tea"}}, when(Field.TEXT, Compare.ICONTAINS, "tea")),
        # Memories here have no category: a filter for one finds none, one against it all.
        ({"categories": {"in": ["food"]}}, NOTHING),
        ({"categories": {"contains": "food"}}, NOTHING),
        ({"categories": "*"}, NOTHING),
        ({"categories": {"ne": "food"}}, AllOf(parts=())),
    ],
)
def test_a_filter_means_what_mem0_says_it_means(written: JsonValue, means: Filter) -> None:
    assert read_filter(written) == means


def nested(depth: int) -> JsonValue:
    value: JsonValue = {"user_id": "alice"}
    for _ in range(depth):
        value = {"AND": [value]}
    return value


@pytest.mark.parametrize(
    "written",
    [
        "alice",
        ["user_id"],
        {"AND": ["alice"]},
        {"userid": "alice"},
        {"user_id": {"like": "a"}},
        {"user_id": {"gt": "a"}},
        {"user_id": 5},
        {"user_id": "alice", "app_id": None},
        {"OR": [{"user_id": "alice"}, {"agent_id": None}]},
        {"metadata": {"k": None}},
        {"categories": None},
        {"user_id": {"in": "a"}},
        {"user_id": {"in": [1]}},
        {"user_id": {"in": ["a"] * 1001}},
        {"user_id": "a" * 1025},
        {"created_at": "yesterday"},
        {"created_at": 5},
        {"created_at": {"contains": "2026"}},
        {"metadata": "x"},
        {"metadata": {"k": {"gt": None}}},
        {"metadata": {"k": {"gt": True}}},
        {"metadata": {"": 1}},
        {"metadata": {"k": [None, ["x"]]}},
        {"keywords": {"icontains": 5}},
        {"keywords": {"eq": "a"}},
        {"categories": {"like": "a"}},
        nested(FILTER_DEPTH_MAX),
        {"OR": [{"user_id": "a"}] * 64},
    ],
)
def test_a_filter_that_cannot_be_understood_is_refused(written: JsonValue) -> None:
    with pytest.raises(MalformedRequest):
        read_filter(written)


def test_a_filter_of_the_greatest_depth_is_read() -> None:
    assert read_filter(nested(FILTER_DEPTH_MAX - 1)) != AllOf(parts=())


def test_only_the_self_hosted_server_filters_metadata_by_bare_keys() -> None:
    assert read_filter({"topic": "x"}, free_keys=True) == when(
        Field.METADATA, Compare.EQ, "x", key="topic"
    )
    with pytest.raises(MalformedRequest, match="not a key"):
        read_filter({"topic": "x"})


def decoded(method: str, target: str, body: object = None) -> Operation:
    return PLATFORM.decode(request(method, target, body))


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_search_of_every_version_is_one_search(version: str) -> None:
    body = {"query": "tea", "filters": ALICE, "top_k": 3, "threshold": 0.25, "rerank": True}
    operation = decoded("POST", f"/{version}/memories/search/", body)
    assert isinstance(operation, Search)
    assert (operation.query, operation.limit, operation.threshold) == ("tea", 3, 0.25)
    assert operation.where == IS_ALICE


def test_search_takes_ids_metadata_and_categories_beside_the_filters() -> None:
    body = {"query": "tea", "user_id": "alice", "metadata": {"k": 1}, "categories": ["food"]}
    operation = decoded("POST", "/v1/memories/search/", body)
    assert isinstance(operation, Search)
    by_key = AllOf(parts=(when(Field.METADATA, Compare.EQ, 1, key="k"),))
    assert operation.where == AllOf(parts=(IS_ALICE, by_key, NOTHING))


@pytest.mark.parametrize("threshold", [0, 0.0, -1])
def test_a_threshold_that_excludes_no_served_score_excludes_nothing(threshold: float) -> None:
    body = {"query": "tea", "filters": ALICE, "threshold": threshold}
    operation = decoded("POST", "/v3/memories/search/", body)
    assert isinstance(operation, Search)
    assert operation.threshold == -1.0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": "tea"}, 400),
        ({"query": "tea", "filters": {}}, 400),
        ({"query": "tea", "filters": {"created_at": {"gt": "2026-01-01"}}}, 400),
        ({"filters": ALICE}, 422),
        ({"query": " ", "filters": ALICE}, 422),
        ({"query": "tea", "filters": ALICE, "top_k": 0}, 422),
        ({"query": "tea", "filters": ALICE, "top_k": 1001}, 422),
        ({"query": "tea", "filters": ALICE, "top_k": 1.5}, 422),
        ({"query": "tea", "filters": ALICE, "surprise": 1}, 422),
        (["tea"], 422),
    ],
)
def test_a_search_that_names_nobody_or_makes_no_sense_is_refused(body: object, status: int) -> None:
    with pytest.raises(MalformedRequest) as caught:
        decoded("POST", "/v3/memories/search/", body)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "asked",
    [
        request("POST", "/v3/memories/?page=3&page_size=20", {"filters": ALICE}),
        request("POST", "/v2/memories/", {"filters": ALICE, "page": 3, "page_size": 20}),
        request("GET", "/v1/memories/?user_id=alice&page=3&page_size=20&org_id=o"),
    ],
)
def test_a_list_of_every_version_is_one_page(asked: HttpRequest) -> None:
    operation = PLATFORM.decode(asked)
    assert isinstance(operation, ListMemories)
    assert operation.where == AllOf(parts=(IS_ALICE,))
    assert (operation.offset, operation.limit) == (40, 20)


def test_dates_of_a_list_limit_when_memories_were_made() -> None:
    body = {"filters": ALICE, "start_date": "2026-01-01", "end_date": "2026-01-01"}
    operation = decoded("POST", "/v3/memories/", body)
    assert isinstance(operation, ListMemories)
    assert operation.where == AllOf(
        parts=(
            IS_ALICE,
            when(Field.CREATED_AT_MS, Compare.GTE, DAY_MS),
            when(Field.CREATED_AT_MS, Compare.LTE, DAY_MS),
        )
    )


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/v3/memories/", {}, 400),
        ("POST", "/v3/memories/?user_id=alice", {}, 422),
        ("POST", "/v3/memories/?page=0", {"filters": ALICE}, 422),
        ("POST", "/v3/memories/?page=-1", {"filters": ALICE}, 422),
        ("POST", "/v3/memories/?page=1e3", {"filters": ALICE}, 422),
        ("POST", "/v3/memories/?page_size=1001", {"filters": ALICE}, 422),
        ("GET", "/v1/memories/", None, 400),
        ("GET", "/v1/memories/?user_id=a&surprise=1", None, 422),
        ("GET", "/v1/nowhere/", None, 404),
        ("HEAD", "/v1/ping/", None, 404),
        ("GET", "/v1/event/xyz/", None, 404),
        ("GET", "/v1/event/AQkA/", None, 404),
    ],
)
def test_a_read_that_cannot_be_understood_is_refused(
    method: str, target: str, body: object, status: int
) -> None:
    with pytest.raises(MalformedRequest) as caught:
        decoded(method, target, body)
    assert caught.value.status == status


def test_single_reads_name_their_memory() -> None:
    assert isinstance(decoded("GET", "/v1/ping/"), Identify)
    assert isinstance(decoded("GET", "/v1/entities/"), ListEntities)
    found = decoded("GET", f"/v1/memories/{FIRST_ID}/")
    assert isinstance(found, GetMemory)
    assert found.memory_id == FIRST_ID
    told = decoded("GET", f"/v1/memories/{FIRST_ID}/history/")
    assert isinstance(told, GetHistory)
    assert told.memory_id == FIRST_ID


def test_an_exports_id_selects_what_its_conditions_select() -> None:
    conditions = {"filters": {"AND": [ALICE]}}
    made = decoded("POST", "/v1/exports/", {"schema": "{}", **conditions})
    assert isinstance(made, Identify)
    reference = note_of(made.note).reference
    by_id = decoded("POST", "/v1/exports/get/", {"memory_export_id": reference})
    again = decoded("POST", "/v1/exports/get/", conditions)
    assert isinstance(by_id, ListMemories)
    assert by_id == again
    with pytest.raises(MalformedRequest):
        decoded("POST", "/v1/exports/", {"schema": "{}"})


@pytest.mark.parametrize("reference", ["!", "bm90IGpzb24", "W10", "eyJzdXJwcmlzZSI6MX0", "e30"])
def test_a_forged_export_id_is_refused(reference: str) -> None:
    with pytest.raises(MalformedRequest):
        decoded("POST", "/v1/exports/get/", {"memory_export_id": reference})


def test_the_self_hosted_server_lists_and_searches_only_under_an_id() -> None:
    found = OSS.decode(request("GET", "/memories?user_id=alice", None, API_KEY))
    assert isinstance(found, ListMemories)
    for asked in (
        request("GET", "/memories", None, API_KEY),
        request("POST", "/search", {"query": "tea"}, API_KEY),
    ):
        with pytest.raises(MalformedRequest) as caught:
            OSS.decode(asked)
        assert caught.value.status == 400
    body = {"query": "tea", "filters": {"user_id": "alice", "topic": "x"}, "top_k": 10}
    hit = OSS.decode(request("POST", "/search", body, API_KEY))
    assert isinstance(hit, Search)
    assert hit.limit == 10
