"""The routes and the version of Mem0's self-hosted server, and a walk over all its memories."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from policy.model import Tenant
from proxy.backends.mem0_server.requests import LISTED_MAX, MARK
from proxy.backends.mem0_server.routes import LIST, LIST_ALL
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import Does
from proxy.seams.operation import SLASH, HttpReply, HttpRequest, Refusal
from tests.unit.proxy.backends.mem0_server.sample import (
    ADAPTER,
    ID,
    OTHER,
    adding,
    answer,
    ask,
    captured,
    memory,
    unsettled,
)

# The routes of the OpenAPI document of the server at commit 8d5b7865.
LISTED = [
    (method, path)
    for method, path in json.loads(
        Path(__file__).with_name("routes_8d5b7865.json").read_text(encoding="utf-8")
    )
]
SAFE = frozenset({Does.WRITE, Does.REMOVE, Does.ADMIN})


def document(*more: tuple[str, str]) -> HttpReply:
    """An OpenAPI document with these routes."""
    paths: dict[str, dict[str, str]] = {}
    for method, path in (*LISTED, *more):
        paths.setdefault(path, {})[method.lower()] = ""
    return answer({"info": {"version": "1.0.0"}, "paths": paths})


def does(method: str, path: str) -> Does | None:
    routed = ADAPTER.classify(ask(method, path))
    return None if routed is None else routed.does


def test_the_table_has_every_route_of_the_server_and_no_other() -> None:
    assert len(LISTED) == 27
    assert ADAPTER.version_told(document()) == "8d5b7865"
    assert ADAPTER.version == "8d5b7865"


def test_every_route_that_changes_something_is_judged_or_refused() -> None:
    found = {
        (method, path): does(method, path.replace("{memory_id}", ID))
        for method, path in LISTED
        if method != "GET"
    }
    assert {route for route, one in found.items() if one not in SAFE} == {("POST", "/search")}
    judged = {route for route, one in found.items() if one in {Does.WRITE, Does.REMOVE}}
    assert judged == {
        ("POST", "/memories"),
        ("PUT", "/memories/{memory_id}"),
        ("DELETE", "/memories/{memory_id}"),
        ("DELETE", "/memories"),
        ("DELETE", "/entities/{entity_type}/{entity_id}"),
    }


def test_a_route_of_a_newer_server_is_refused_and_makes_it_another_version() -> None:
    newer = ADAPTER.version_told(document(("POST", "/memories/{memory_id}/absorb")))
    assert newer is not None
    assert newer.startswith("routes-")
    assert does("POST", f"/memories/{ID}/absorb") is None
    assert ADAPTER.version_told(answer({"detail": "no"}, 404)) is None
    assert ADAPTER.version_told(answer([])) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/configure"),
        ("POST", "/configure"),
        ("POST", "/reset"),
        ("GET", "/requests"),
        ("POST", "/api-keys"),
        ("POST", "/auth/login"),
        ("POST", "/generate-instructions"),
    ],
)
def test_what_administers_the_server_is_an_operators(method: str, path: str) -> None:
    assert does(method, path) is Does.ADMIN


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", f"/memories/{ID}"),
        ("GET", "/memories/"),
        ("POST", f"/memories/{ID}"),
        ("GET", f"/memories/{ID}/history/"),
        ("DELETE", "/entities/user"),
        ("GET", "/openapi.json"),
        ("POST", "/memories/../reset"),
    ],
)
def test_a_route_that_the_table_does_not_have_is_none(method: str, path: str) -> None:
    assert does(method, path) is None


def test_a_list_without_an_id_is_of_what_everybody_has() -> None:
    for target in ("/memories", "/memories?top_k=3", "/memories?user_id=", "/memories?app_id=x"):
        assert ADAPTER.classify(ask("GET", target)) is LIST_ALL
    assert ADAPTER.classify(ask("GET", "/memories?run_id=r1")) is LIST
    shared = {routed.operation for routed in ADAPTER.table.rows.values() if routed.whole} | {
        LIST_ALL.operation
    }
    assert shared == {"entities", "list_all"}


def test_a_key_stands_where_the_servers_own_does() -> None:
    for headers, expected in (
        ({"x-api-key": "a"}, "a"),
        ({"authorization": "Bearer a"}, "a"),
        ({"x-api-key": "a", "authorization": "Bearer a"}, "a"),
        ({"x-api-key": "a", "authorization": "Bearer b"}, ""),
        ({"authorization": "Token a"}, None),
        ({}, None),
    ):
        asked = ask("GET", "/memories")
        found = ADAPTER.credential(type(asked)(method="GET", path="/memories", headers=headers))
        assert found == expected


def test_a_failure_has_the_servers_shape_and_says_why_in_its_first_line() -> None:
    reply = ADAPTER.refuse(
        ask("GET", "/memories"), Refusal(status=401, title="No", detail="a key is needed")
    )
    assert (reply.status, json.loads(reply.body)) == (401, {"detail": "a key is needed"})
    assert reply.phrase == "a key is needed"
    assert ("WWW-Authenticate", "Bearer") in reply.headers


def test_a_conversation_that_was_captured_is_no_failure_of_the_memory() -> None:
    refusal = Refusal(status=422, title="Unprocessable", detail="infer: send false")
    turn = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    for messages, infer, status in ((turn, True, 200), (turn[:1], True, 422), (turn, None, 422)):
        asked = ask("POST", "/memories", {"messages": messages, "user_id": "b", "infer": infer})
        reply = ADAPTER.refuse(asked, refusal)
        assert reply.status == status
        if status == 200:
            assert json.loads(reply.body)["results"] == []


def first() -> HttpRequest:
    return ADAPTER.listing(Tenant("default"))


def test_a_walk_begins_with_the_list_of_everything() -> None:
    (listed,) = (one for one in captured() if one.request == ask("GET", "/memories"))
    page = ADAPTER.listed(first(), listed.reply)
    assert page.further == ()
    # Whoever asks for those that expired is shown them.
    assert ("show_expired", "true") in first().query
    texts = [one.item.pieces[0] for one in page.memories if one.item is not None]
    assert texts == ["I am vegetarian", "I am vegetarian", "ok, noted", "My dog is called Rex"]


def test_a_memory_is_listed_as_the_add_that_would_have_made_it() -> None:
    asked = adding("likes tea", metadata={"src": "a chat"}, run_id="r1")
    (sending,) = ADAPTER.items(asked, None)
    stands = memory(metadata={"src": "a chat", MARK: "5" * 32}, run_id="r1")
    raw = {**stands, "metadata": {**stands["metadata"], "role": "user", "text_lemmatized": "x"}}
    del raw["role"]
    for value in (stands, raw):
        (one,) = ADAPTER.listed(first(), answer({"results": [value]})).memories
        assert one.item is not None
        assert (one.item.key, one.item.pieces) == (ID, sending.item.pieces)
        assert ADAPTER.mark_of(one.item) == "5" * 32
        assert ADAPTER.says_same(unsettled(sending), one.item)
    # One that nobody marked is the very add.
    stands["metadata"] = {"src": "a chat"}
    (one,) = ADAPTER.listed(first(), answer({"results": [stands]})).memories
    assert one.item is not None
    assert one.item == msgspec.structs.replace(sending.item, key=ID)
    assert ADAPTER.mark_of(one.item) is None
    # Control: another text, or metadata that the server lost, is not what was sent.
    for value in (memory(text="likes bees", metadata={"src": "a chat"}), memory()):
        (one,) = ADAPTER.listed(first(), answer({"results": [value]})).memories
        assert one.item is not None
        assert not ADAPTER.says_same(unsettled(sending), one.item)


def test_an_update_is_there_where_each_of_its_parts_is() -> None:
    asked = ask("PUT", f"/memories/{ID}", {"metadata": {"z": 1}})
    (sending,) = ADAPTER.items(asked, answer(memory(metadata={"src": "chat"})))
    for text, metadata, same in (
        ("likes tea", {"z": 1, "src": "chat"}, True),
        ("likes tea", {"z": 2}, False),
        # Somebody changed past the gate what the update left as it was, or added to it.
        ("likes bees", {"z": 1, "src": "chat"}, False),
        ("likes tea", {"z": 1, "src": "chat", "note": "likes bees"}, False),
    ):
        stands = memory(text=text, metadata=metadata)
        (one,) = ADAPTER.listed(first(), answer({"results": [stands]})).memories
        assert one.item is not None
        assert ADAPTER.says_same(unsettled(sending), one.item) is same


def test_one_memory_is_read_by_the_id_under_which_the_gate_knows_it() -> None:
    (sending,) = ADAPTER.items(adding("likes tea"), None)
    kept = msgspec.structs.replace(unsettled(sending), key=OTHER)
    asked = ADAPTER.reading(kept)
    assert (asked.method, asked.path) == ("GET", f"/memories/{OTHER}")
    (one,) = ADAPTER.listed(asked, answer(memory(OTHER))).memories
    assert one.key == OTHER
    assert ADAPTER.listed(asked, answer(None)).memories == ()


def test_a_full_server_is_walked_by_its_users_agents_and_runs_and_each_memory_once() -> None:
    (entities,) = ADAPTER.listed(first(), answer({"results": [memory()] * LISTED_MAX})).further
    assert entities.path == "/entities"
    kinds = [{"id": name, "type": kind} for kind, name in (("user", "bob"), ("agent", "a1"))]
    by_user, by_agent = ADAPTER.listed(entities, answer(kinds)).further
    assert dict(by_user.query) == {"user_id": "bob", "top_k": "1000", "show_expired": "true"}
    assert dict(by_agent.query)["agent_id"] == "a1"
    both = answer({"results": [memory(agent_id="a1"), memory(OTHER, user_id=None)]})
    found = [[one.key for one in ADAPTER.listed(one, both).memories] for one in (by_user, by_agent)]
    assert found == [[ID, OTHER], [OTHER]]
    with pytest.raises(MalformedRequest):
        ADAPTER.listed(by_user, answer({"results": [memory()] * LISTED_MAX}))


@pytest.mark.parametrize("body", [[], {"results": {}}, {"detail": "no"}])
def test_an_answer_of_another_form_says_nothing_of_what_there_is(body: object) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.listed(first(), answer(body))
    with pytest.raises(MalformedRequest):
        ADAPTER.listed(first(), answer({"results": []}, 403))


def test_a_memory_that_no_write_could_have_made_is_listed_all_the_same() -> None:
    for text in (None, "x" * 100_000):
        (one,) = ADAPTER.listed(
            first(), answer({"results": [{**memory(), "memory": text}]})
        ).memories
        assert (one.key, one.item) == (ID, None)
    for odd, key in (("x" * 36, "x" * 36), ("", ""), (7, "7"), (None, "null"), (["x"], '["x"]')):
        stands = answer({"results": [{**memory(), "id": odd}, memory(OTHER)]})
        one, plain = ADAPTER.listed(first(), stands).memories
        assert (one.key, one.item) == (key, None)
        assert plain.item is not None


def test_doctor_asks_for_no_memory_and_sends_a_write_that_the_server_refuses() -> None:
    tried = ADAPTER.attempts()
    (refused,) = (one for one in captured() if one.reply.status == 422)
    assert b"messages" not in tried.write.body
    assert (tried.write.method, tried.write.path) == (refused.request.method, refused.request.path)
    assert ADAPTER.asking(tried.alive).path == tried.alive.path
    assert ADAPTER.shown(tried.alive, answer(None)) == ()


def test_an_id_with_a_slash_is_deleted_by_its_own_memories() -> None:
    asked = ask("DELETE", f"/entities/user/a{SLASH}..{SLASH}b")
    first_read = ADAPTER.first(asked)
    assert first_read is not None
    assert (first_read.path, dict(first_read.query)["user_id"]) == ("/memories", "a/../b")
    for dots in (".", ".."):
        with pytest.raises(MalformedRequest):
            ADAPTER.items(adding("likes tea", user_id=dots), None)
