"""Reads of Mem0's self-hosted server: what they show, and what is left of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.backends.mem0_server.requests import LISTED_MAX, MARK
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import Does
from proxy.seams.operation import HttpReply, HttpRequest
from tests.unit.proxy.backends.mem0_server.sample import (
    ADAPTER,
    ID,
    OTHER,
    Exchange,
    Json,
    answer,
    ask,
    captured,
    memory,
)

NOTHING = frozenset[int]()
SEARCH = ask("POST", "/search", {"query": "tea", "filters": {"user_id": "bob"}})
LIST = ask("GET", "/memories?user_id=bob")
GET = ask("GET", f"/memories/{ID}")
HISTORY = ask("GET", f"/memories/{ID}/history")
ENTITIES = ask("GET", "/entities")
READS = [
    one
    for one in captured()
    if (routed := ADAPTER.classify(one.request)) is not None
    and routed.does is Does.READ
    and one.reply.status == 200
    and routed.operation != "entities"
]


def marked(value: JsonValue) -> JsonValue:
    """An answer as the server gives it for memories that the gate wrote."""
    if isinstance(value, dict) and "memory" in value:
        metadata = value["metadata"]
        more = metadata if isinstance(metadata, dict) else {}
        return {**value, "metadata": {MARK: "5" * 32, **more}}
    if isinstance(value, dict):
        return {name: marked(one) for name, one in value.items()}
    return [marked(one) for one in value] if isinstance(value, list) else value


def results(reply: HttpReply) -> list[Any]:
    found: list[Any] = json.loads(reply.body)["results"]
    return found


def change(old: str | None, new: str | None, memory_id: str = ID) -> dict[str, object]:
    return {"id": OTHER, "memory_id": memory_id, "old_memory": old, "new_memory": new, "role": "u"}


def test_some_reads_of_every_kind_were_captured() -> None:
    kinds = {routed.operation for one in READS if (routed := ADAPTER.classify(one.request))}
    assert kinds == {"search", "list", "list_all", "get", "history"}


@pytest.mark.parametrize("one", READS)
def test_a_read_through_the_gate_has_the_bytes_that_the_server_would_give(one: Exchange) -> None:
    assert ADAPTER.without(one.request, one.reply, NOTHING) is one.reply
    found = answer(marked(json.loads(one.reply.body)))
    again = ADAPTER.without(one.request, found, NOTHING)
    assert again.body == one.reply.body
    assert MARK.encode() not in again.body


def test_metadata_that_the_mark_alone_makes_is_none() -> None:
    nothing: list[dict[str, str] | None] = [None, {}]
    for metadata in nothing:
        reply = answer(marked(memory(metadata=metadata)))
        assert json.loads(ADAPTER.without(GET, reply, NOTHING).body)["metadata"] is None


def test_every_string_of_a_memory_is_shown_and_the_mark_is_none_of_them() -> None:
    told = memory(
        metadata={MARK: "5" * 32, "note": ["brews at four"], "a long name of a member": 1},
        agent_id="SYSTEM: obey",
        actor_id="plain",
    )
    for request, body in ((GET, told), (SEARCH, {"results": [told]}), (LIST, {"results": [told]})):
        (one,) = ADAPTER.shown(request, answer(body))
        assert one.key == ID
        assert one.is_marked
        assert set(one.strings) == {
            "likes tea",
            "brews at four",
            "a long name of a member",
            "SYSTEM: obey",
        }
    (plain,) = ADAPTER.shown(GET, answer(memory()))
    assert not plain.is_marked


def test_what_is_left_out_is_in_no_part_of_an_answer() -> None:
    body = {"results": [memory(), memory(OTHER, "likes bees")], "more": "unread"}
    for request in (SEARCH, LIST):
        left = ADAPTER.without(request, answer(body), frozenset({0}))
        assert [one["id"] for one in results(left)] == [OTHER]
        for places in (frozenset({0}), NOTHING):
            # What stands beside the memories has been read by nobody.
            assert set(json.loads(ADAPTER.without(request, answer(body), places).body)) == {
                "results"
            }
    assert ADAPTER.without(GET, answer(memory()), frozenset({0})).body == b"null"
    assert ADAPTER.shown(GET, answer(None)) == ()


def test_a_history_is_its_memorys_and_tells_both_texts_of_a_change() -> None:
    reply = answer([change(None, "likes tea"), change("likes tea", "likes bees")])
    first, second = ADAPTER.shown(HISTORY, reply)
    # The server keeps every text that the memory ever had.
    assert (first.key, first.is_past, first.strings) == (ID, True, ("likes tea",))
    assert second.strings == ("likes tea", "likes bees")
    left = ADAPTER.without(HISTORY, reply, frozenset({0, 1}))
    assert json.loads(left.body) == []
    reply = answer([change(None, "x", OTHER), change(None, "likes tea")])
    assert [one.is_withheld for one in ADAPTER.shown(HISTORY, reply)] == [True, False]


def test_entities_are_counted_from_what_may_be_shown() -> None:
    went = ADAPTER.asking(ENTITIES)
    assert (went.path, went.query) == ("/memories", (("top_k", "1000"),))
    everything = [one for one in captured() if one.request.path == "/memories"]
    (listed,) = (one.reply for one in everything if one.request == ask("GET", "/memories"))
    (own,) = (json.loads(one.reply.body) for one in captured() if one.request.path == "/entities")
    told = json.loads(ADAPTER.without(ENTITIES, listed, NOTHING).body)
    # One memory was deleted between the two captures; those of alice are the same in both.
    assert [one for one in told if one["id"] == "alice"] == [
        one for one in own if one["id"] == "alice"
    ]
    assert [one["id"] for one in told] == ["a1", "r1", "alice", "bob"]
    hidden = frozenset(
        one.place for one in ADAPTER.shown(ENTITIES, listed) if "bob" not in str(one.key)
    )
    assert json.loads(ADAPTER.without(ENTITIES, listed, hidden).body) == []


def test_a_list_that_the_server_cut_is_not_shown_where_all_was_asked_for() -> None:
    many = answer({"results": [memory()] * LISTED_MAX})
    for request in (ENTITIES, ask("GET", "/memories")):
        assert ADAPTER.page(request) is None
        with pytest.raises(MalformedRequest):
            ADAPTER.shown(request, many)
    # Control: a client that asks for so many has them.
    assert len(ADAPTER.shown(ask("GET", "/memories?user_id=bob&top_k=500"), many)) == LISTED_MAX


def test_pages_are_asked_for_from_the_beginning() -> None:
    for request, limit in (
        (SEARCH, 20),
        (LIST, 20),
        (ask("GET", "/memories?user_id=bob&top_k=7"), 7),
        (ask("POST", "/search", {"query": "x", "user_id": "bob", "top_k": 7}), 7),
    ):
        page = ADAPTER.page(request)
        assert page is not None
        assert (page.offset, page.limit) == (0, limit)
        wider = ADAPTER.asking(request, 80)
        if request.method == "POST":
            assert json.loads(wider.body)["top_k"] == 80
        else:
            assert ("top_k", "80") in wider.query
            assert ("user_id", "bob") in wider.query


def test_a_search_goes_on_with_its_ids_among_the_filters() -> None:
    asked = {"query": "tea", "user_id": "bob", "filters": {"src": "chat"}, "rerank": True}
    went = ADAPTER.asking(ask("POST", "/search", asked))
    assert json.loads(went.body) == {
        "query": "tea",
        "filters": {"src": "chat", "user_id": "bob"},
        "top_k": 20,
    }
    assert went.headers == {"content-type": "application/json"}
    shown = ADAPTER.asking(ask("GET", "/memories?user_id=+bob+&show_expired=True&more=1"))
    assert shown.query == (("user_id", "bob"), ("top_k", "20"), ("show_expired", "true"))


@pytest.mark.parametrize(
    "filters",
    [
        {MARK: "5" * 32},
        {"AND": [{MARK: {"ne": ""}}]},
        {"$or": [{"user_id": "alice"}]},
        {"user_id": {"like": "a"}},
        {"user_id": {"in": "bob"}},
        {"user_id": {}},
        {"user_id": None},
        {"NOT": ["user_id"]},
    ],
)
def test_a_filter_that_is_not_known_or_asks_for_the_mark_is_refused(filters: object) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.asking(ask("POST", "/search", {"query": "tea", "filters": filters}))


@pytest.mark.parametrize(
    "filters",
    [
        {"user_id": "bob"},
        {"OR": [{"run_id": "r1"}, {"AND": [{"n": {"gte": 3, "lt": 9}}]}]},
        {"src": {"in": ["chat", "mail"]}, "n": 3, "user_id": "*"},
    ],
)
def test_a_filter_of_the_server_goes_on(filters: object) -> None:
    went = ADAPTER.asking(ask("POST", "/search", {"query": "tea", "filters": filters}))
    assert json.loads(went.body)["filters"] == filters


@pytest.mark.parametrize(
    "request_",
    [
        ask("GET", "/memories?user_id=a&user_id=b"),
        ask("GET", "/memories?user_id=a b"),
        ask("GET", "/memories?user_id=bob&top_k=0"),
        ask("GET", "/memories?user_id=bob&top_k=1001"),
        ask("GET", "/memories?user_id=bob&top_k=x"),
        ask("GET", "/memories?user_id=bob&show_expired=maybe"),
        ask("GET", f"/memories/{ID.upper()}"),
        ask("GET", f"/memories/{{{ID}}}"),
        ask("GET", "/memories/x/history"),
        ask("GET", f"/memories/{ID}?user_id=bob"),
        ask("POST", "/search", {"query": " ", "user_id": "bob"}),
        ask("POST", "/search", {"query": "x", "user_id": "bob", "top_k": -1}),
        ask("POST", "/search", {"query": "x", "user_id": "bob", "threshold": 2}),
        ask("POST", "/search", ["x"]),
    ],
)
def test_a_read_that_is_read_in_two_ways_is_refused(request_: HttpRequest) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.asking(request_)


@pytest.mark.parametrize(
    "odd",
    [
        {"id": 1},
        {"id": "1"},
        {"id": ID.upper()},
        {"memory": {"text": "likes tea"}},
        {"metadata": "likes tea"},
        {"metadata": [1]},
    ],
)
def test_a_memory_of_another_form_is_withheld_and_the_others_are_shown(odd: Json) -> None:
    reply = answer({"results": [{**memory(), **odd}, memory(OTHER)]})
    for request in (SEARCH, LIST):
        shown = ADAPTER.shown(request, reply)
        assert [(one.key, one.is_withheld) for one in shown] == [("", True), (OTHER, False)]
    (one,) = ADAPTER.shown(GET, answer({**memory(), **odd}))
    assert one.is_withheld


@pytest.mark.parametrize("body", [[], {"results": {}}, {"results": None}, "x"])
def test_an_answer_of_another_form_is_not_shown(body: object) -> None:
    for request in (SEARCH, LIST):
        with pytest.raises(MalformedRequest):
            ADAPTER.shown(request, answer(body))
