"""The route table of Mem0's self-hosted server, and its version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.backends.mem0_server.routes import LIST, LIST_ALL
from proxy.seams.http_backend import Does
from proxy.seams.operation import HttpReply, Refusal
from tests.unit.proxy.backends.mem0_server.sample import ADAPTER, ID, answer, ask

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
