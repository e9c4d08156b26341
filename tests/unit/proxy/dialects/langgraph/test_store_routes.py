"""LangGraph's store API: requests to operations, results to the answers its client expects."""

from __future__ import annotations

import msgspec
import pytest

from policy.model import ChangeKind, Entity, Hit, Memory, MemoryClass, Scope
from policy.query import matches
from policy.verdict import Reason
from proxy.dialects.langgraph import LangGraphStore
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import (
    EntitiesResult,
    GetMemory,
    GetResult,
    ListEntities,
    ListMemories,
    ListResult,
    Proposal,
    Refusal,
    Search,
    SearchResult,
    Write,
    WriteResult,
    WrittenItem,
)
from tests.unit.proxy.dialects.mem0.sample import ANSWERING, memory, request

LANGGRAPH = LangGraphStore()
KEY = {"x-api-key": "agent-key"}
ITEMS = "/store/items"
CANARY = "Quixotia9e41"
FILED = {"namespace": ["memories", "alice"], "key": "k1"}
VALUE = {"text": "likes tea", "n": 1, "more": {"where": ["Porto", "Faro"], "flag": True}}


def put(**body: object) -> Proposal:
    decoded = LANGGRAPH.decode(request("PUT", ITEMS, {**FILED, "value": VALUE, **body}, KEY))
    assert isinstance(decoded, Write)
    [proposal] = decoded.proposals
    return proposal


def test_a_put_is_filed_by_namespace_and_key_and_every_string_of_it_is_judged() -> None:
    proposal = put()
    assert proposal.change is ChangeKind.CREATE
    assert proposal.text == "likes tea\nPorto\nFaro"
    assert msgspec.json.decode(proposal.metadata_json or "") == {**FILED, "value": VALUE}
    assert proposal.scope == Scope(app_id="langgraph.memories.alice")
    assert (proposal.memory_class, proposal.class_named) == (MemoryClass.L3, False)
    assert (proposal.memory_id, proposal.ttl_ms) == (None, None)
    keys = {
        put().own_key,
        put(key="k2").own_key,
        put(namespace=["memories"]).own_key,
        # Labels and key are kept apart: these two differ in nothing but where one ends.
        put(namespace=["memories"], key="alice.k1").own_key,
        put(namespace=["memories", "alice", "k1"], key="k1").own_key,
    }
    assert len(keys) == 5
    assert put(value={"n": 1}).own_key == put().own_key


@pytest.mark.parametrize(
    ("value", "text"), [({"n": 1}, '{"n":1}'), ({}, "{}"), ({"a": "", "b": "x"}, "x")]
)
def test_a_value_without_strings_has_its_json_as_text(value: object, text: str) -> None:
    assert put(value=value).text == text


@pytest.mark.parametrize(("minutes", "ms"), [(60, 3_600_000), (0.5, 30_000), (1e-6, 1)])
def test_a_ttl_is_in_minutes(minutes: float, ms: int) -> None:
    assert put(ttl=minutes).ttl_ms == ms


def test_an_index_is_accepted() -> None:
    assert put(index=False) == put(index=["text", "more.where[*]"]) == put(index=None) == put()


@pytest.mark.parametrize(
    "body",
    [
        {"namespace": []},
        {"namespace": ["a.b"]},
        {"namespace": ["a", ""]},
        {"namespace": ["langgraph"]},
        {"namespace": ["a" * 300]},
        {"namespace": "a"},
        {"namespace": [1]},
        {"key": ""},
        {"key": "k" * 1_025},
        {"key": None},
        {"value": None},
        {"value": "a text"},
        {"value": {"t": "x" * 40_000}},
        {"key": "\u202e"},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": "60"},
        {"index": True},
        {"class": "L1"},
    ],
)
def test_what_no_item_can_be_is_refused_without_repeating_it(body: dict[str, object]) -> None:
    with pytest.raises(MalformedRequest) as refused:
        put(**body)
    assert "aaa" not in refused.value.detail


@pytest.mark.parametrize(
    ("method", "target", "raises"),
    [
        ("POST", ITEMS, UnknownWrite),
        ("PATCH", ITEMS, UnknownWrite),
        ("DELETE", "/store/namespaces", UnknownWrite),
        ("PUT", "/store/other", UnknownWrite),
        ("GET", "/store", MalformedRequest),
        ("GET", "/store/items/search", MalformedRequest),
    ],
)
def test_an_unknown_route_that_may_write_is_one_and_a_read_is_not_found(
    method: str, target: str, raises: type[Exception]
) -> None:
    asked = request(method, target, FILED, KEY)
    assert LANGGRAPH.claims(asked)
    with pytest.raises(raises):
        LANGGRAPH.decode(asked)


def test_a_read_and_a_deletion_name_the_item_that_was_put() -> None:
    got = LANGGRAPH.decode(request("GET", f"{ITEMS}?key=k1&namespace=memories.alice", None, KEY))
    assert got == GetMemory(own_key=put().own_key)
    gone = LANGGRAPH.decode(request("DELETE", ITEMS, FILED, KEY))
    assert isinstance(gone, Write)
    [proposal] = gone.proposals
    assert (proposal.change, proposal.own_key) == (ChangeKind.DELETE, put().own_key)


@pytest.mark.parametrize(
    "target",
    [
        f"{ITEMS}?key=k1",
        f"{ITEMS}?namespace=a",
        f"{ITEMS}?key=k1&namespace=",
        f"{ITEMS}?key=k1&namespace=a..b",
        f"{ITEMS}?key=k1&namespace=a&refresh_ttl=true",
        f"{ITEMS}?key=k1&namespace=a&namespace=b",
        f"{ITEMS}?key=k1&namespace=a&other=1",
    ],
)
def test_a_read_that_does_not_say_which_item_is_refused(target: str) -> None:
    with pytest.raises(MalformedRequest):
        LANGGRAPH.decode(request("GET", target, None, KEY))


def search(**body: object) -> Search | ListMemories:
    decoded = LANGGRAPH.decode(request("POST", f"{ITEMS}/search", body, KEY))
    assert isinstance(decoded, Search | ListMemories)
    return decoded


def kept(value: object, namespace: list[str], *, target: str = "store/items") -> Memory:
    filed = {"key": "k1", "namespace": namespace, "value": value}
    scope = Scope(app_id=".".join(("langgraph", *namespace)))
    text = msgspec.json.encode(filed).decode()
    return msgspec.structs.replace(memory(scope=scope, metadata_json=text), target=target)


def test_a_search_asks_below_a_prefix_and_whole_labels_count() -> None:
    where = search(namespace_prefix=["memories", "al"]).where
    found = [
        matches(where, kept(VALUE, namespace))
        for namespace in (["memories", "al"], ["memories", "al", "x"], ["memories", "alice"], ["x"])
    ]
    assert found == [True, True, False, False]
    assert matches(search(namespace_prefix=[]).where, kept(VALUE, ["x"]))
    # What another API filed under the same id is no item.
    assert not matches(search().where, kept(VALUE, ["x"], target="memories"))


FILTERS = [
    ({"n": 1}, True),
    ({"n": 1.0}, True),
    ({"n": 2}, False),
    ({"n": "1"}, False),
    ({"text": "likes tea", "n": 1}, True),
    ({"text": "likes tea", "n": 3}, False),
    ({"missing": None}, True),
    ({"missing": 1}, False),
    ({"more": {"flag": True}}, True),
    ({"more": {"flag": False}}, False),
    ({"more": {"deep": {"er": 1}}}, False),
    ({"text": {"er": 1}}, False),
    ({"n": {"$eq": 1}}, True),
    ({"n": {"$ne": 1}}, False),
    ({"missing": {"$ne": 1}}, True),
    ({"n": {"$gt": 0, "$lt": 2}}, True),
    ({"n": {"$gt": 0, "$lt": 1}}, False),
    ({"n": {"$gte": 1, "$lte": 1}}, True),
    ({"text": {"$gt": "a"}}, True),
    ({"text": {"$gt": 1}}, False),
    ({"more": {"flag": {"$ne": False}}}, True),
]


@pytest.mark.parametrize(("asked", "found"), FILTERS)
def test_a_filter_compares_fields_of_the_value(asked: dict[str, object], *, found: bool) -> None:
    assert matches(search(filter=asked).where, kept(VALUE, ["x"])) is found


@pytest.mark.parametrize(
    "asked",
    [
        {"n": {"$in": [1]}},
        {"n": {"$regex": "x"}},
        {"n": [1]},
        {"n": {}},
        {"n": {"$eq": {"a": 1}}},
        {"n": {"$gt": None}},
        {"n": {"$gt": True}},
        {"n": {"$gt": 1, "field": 1}},
        {f"n{i}": 1 for i in range(100)},
        {"n": "x" * 5_000},
        [],
    ],
)
def test_a_filter_that_cannot_be_carried_out_is_refused_and_not_passed_over(asked: object) -> None:
    with pytest.raises(MalformedRequest):
        search(filter=asked)


def test_a_search_without_a_query_lists_and_one_with_a_query_skips_to_its_page() -> None:
    listed = search(offset=4, limit=3)
    assert isinstance(listed, ListMemories)
    assert (listed.offset, listed.limit) == (4, 3)
    ranked = search(query="tea", offset=1, limit=2)
    assert isinstance(ranked, Search)
    assert (ranked.query, ranked.limit) == ("tea", 3)
    hits = [Hit(memory=kept({"n": i}, ["x"]), score=0.5) for i in range(3)]
    reply = LANGGRAPH.encode(
        request("POST", ITEMS), ranked, SearchResult(hits=tuple(hits)), ANSWERING
    )
    assert [one["value"]["n"] for one in msgspec.json.decode(reply.body)["items"]] == [1, 2]
    for wrong in ({"limit": 0}, {"limit": 1_001}, {"offset": -1}, {"refresh_ttl": True}):
        with pytest.raises(MalformedRequest):
            search(**wrong)
    with pytest.raises(MalformedRequest):
        search(query="tea", offset=999, limit=2)


def test_an_item_is_answered_as_it_was_put() -> None:
    asked = request("GET", f"{ITEMS}?key=k1&namespace=memories.alice", None, KEY)
    operation = LANGGRAPH.decode(asked)
    one = kept(VALUE, ["memories", "alice"])
    reply = LANGGRAPH.encode(asked, operation, GetResult(memory=one), ANSWERING)
    assert msgspec.json.decode(reply.body) == {
        **FILED,
        "value": VALUE,
        "created_at": "2023-11-14T22:13:20.123000+00:00",
        "updated_at": "2023-11-14T22:14:20.456000+00:00",
        "source_kind": one.source.value,
    }
    named = msgspec.structs.replace(one, origin="web fetch")
    reply = LANGGRAPH.encode(asked, operation, GetResult(memory=named), ANSWERING)
    assert msgspec.json.decode(reply.body)["source_origin"] == "web fetch"
    missing = LANGGRAPH.encode(asked, operation, GetResult(memory=None), ANSWERING)
    assert (missing.status, missing.body) == (200, b"null")


def test_what_is_no_item_of_this_api_is_not_shown_as_one() -> None:
    listing = ListMemories()
    shown = ListResult(
        total=3,
        memories=(
            kept(VALUE, ["x"], target="memories"),
            msgspec.structs.replace(memory(metadata_json='{"a":1}'), target="store/items"),
            msgspec.structs.replace(memory(metadata_json=None), target="store/items"),
        ),
    )
    reply = LANGGRAPH.encode(request("POST", ITEMS), listing, shown, ANSWERING)
    assert msgspec.json.decode(reply.body) == {"items": []}


NAMED = (
    *("langgraph.docs.ann.v1", "langgraph.docs.bob.v1", "langgraph.docs.bob.v2"),
    *("langgraph.notes", "langgraph", "other.docs", "langgraphs.docs"),
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [["docs", "ann", "v1"], ["docs", "bob", "v1"], ["docs", "bob", "v2"], ["notes"]]),
        ({"prefix": ["docs", "bob"]}, [["docs", "bob", "v1"], ["docs", "bob", "v2"]]),
        ({"suffix": ["v1"]}, [["docs", "ann", "v1"], ["docs", "bob", "v1"]]),
        ({"suffix": ["bob", "*"], "prefix": ["*"]}, [["docs", "bob", "v1"], ["docs", "bob", "v2"]]),
        ({"max_depth": 1}, [["docs"], ["notes"]]),
        ({"max_depth": 2, "prefix": ["docs"]}, [["docs", "ann"], ["docs", "bob"]]),
        ({"limit": 1, "offset": 2}, [["docs", "bob", "v2"]]),
        ({"prefix": ["docs", "bob", "v1", "x"]}, []),
    ],
)
def test_namespaces_are_those_of_live_items(asked: object, found: list[list[str]]) -> None:
    sent = request("POST", "/store/namespaces", asked, KEY)
    operation = LANGGRAPH.decode(sent)
    assert isinstance(operation, ListEntities)
    entities = tuple(
        Entity(kind=kind, name=name, count=1, first_at_ms=0, last_at_ms=0)
        for name in NAMED
        for kind in ("app", "user")
    )
    reply = LANGGRAPH.encode(sent, operation, EntitiesResult(entities=entities), ANSWERING)
    assert msgspec.json.decode(reply.body) == {"namespaces": found}


def written(decision: str, reason: Reason | None) -> WrittenItem:
    return WrittenItem(
        decision=decision,
        change=ChangeKind.CREATE,
        memory_id=None,
        candidate_id=None,
        reason=reason,
        step=None,
        memory_class=MemoryClass.L3,
        source=None,
        observation="Not stored.",
    )


@pytest.mark.parametrize(
    ("decision", "reason", "status"),
    [
        ("admit", None, 204),
        ("missing", Reason.TARGET_MISSING, 204),
        ("hold", Reason.CLASS_FLOOR, 403),
        ("reject", Reason.SOURCE_CLASS_FORBIDDEN, 403),
        ("reject", Reason.GATE_UNAVAILABLE, 503),
        ("error", Reason.GATE_UNAVAILABLE, 503),
    ],
)
def test_a_change_is_answered_by_its_status_and_a_refused_one_with_the_observation(
    decision: str, reason: Reason | None, status: int
) -> None:
    asked = request("PUT", ITEMS, {**FILED, "value": {"t": CANARY}}, KEY)
    result = WriteResult(items=(written(decision, reason),))
    reply = LANGGRAPH.encode(asked, LANGGRAPH.decode(asked), result, ANSWERING)
    assert reply.status == status
    if status == 204:
        assert reply.body == b""
        return
    told = msgspec.json.decode(reply.body)
    assert (told["detail"], told["decision"]) == ("Not stored.", decision)
    assert told["reason"] == (None if reason is None else reason.value)
    assert CANARY not in reply.body.decode()


def test_a_failure_is_a_detail() -> None:
    refusal = Refusal(status=429, title="Too Many Requests", detail="slow down", retry_after_s=3)
    reply = LANGGRAPH.refuse(request("PUT", ITEMS), refusal, ANSWERING)
    assert (reply.status, msgspec.json.decode(reply.body)) == (429, {"detail": "slow down"})
    assert reply.headers == (("Retry-After", "3"),)
    unknown = Refusal(status=401, title="Unauthorized", detail="no")
    reply = LANGGRAPH.refuse(request("PUT", ITEMS), unknown, ANSWERING)
    assert reply.headers == (("WWW-Authenticate", "Bearer"),)


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"x-api-key": "a"}, "a"),
        ({"authorization": "Bearer a"}, "a"),
        ({"x-api-key": "a", "authorization": "bearer a"}, "a"),
        ({"x-api-key": "a", "authorization": "Bearer b"}, ""),
        ({"authorization": "Token a"}, None),
        ({}, None),
    ],
)
def test_the_key_is_in_one_of_two_headers_and_two_different_keys_are_nobodys(
    headers: dict[str, str], key: str | None
) -> None:
    assert LANGGRAPH.credential(request("GET", ITEMS, None, headers)) == key
