"""Requests for cards as a driver reads them, and the server's answers."""

from __future__ import annotations

import json

import pytest

from policy.model import CandidateId, ChangeKind, ForwardStatus
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import UnsettledItem
from proxy.seams.http_backend import Does, SentMemory
from proxy.seams.operation import HttpReply, HttpRequest
from tests.integration.sample_backend.cards import Cards

CARDS = Cards()
TEA = {"name": "tea", "text": "likes tea", "tags": ["at four"]}
GONE = HttpReply(status=404)
LIST = HttpRequest(method="GET", path="/cards")


def ask(method: str, path: str = "/cards/tea", body: object = None) -> HttpRequest:
    raw = b"" if body is None else json.dumps(body).encode()
    return HttpRequest(method=method, path=path, body=raw)


def answer(body: object) -> HttpReply:
    return HttpReply(status=200, body=json.dumps(body).encode())


def kept(sending: SentMemory) -> UnsettledItem:
    item = sending.item
    return UnsettledItem(
        candidate_id=CandidateId("0" * 32),
        tool="put",
        change=item.change,
        arguments=item.arguments,
        pieces=item.pieces,
        key=item.key,
        sent=True,
    )


def test_a_server_is_known_by_its_routes_and_each_has_its_row() -> None:
    paths: dict[str, dict[str, object]] = {
        "/cards": {"get": {}, "delete": {}},
        "/cards/{name}": {"get": {}, "put": {}},
    }
    assert CARDS.version_told(answer({"paths": paths})) != "1"
    paths["/cards/{name}"]["delete"] = {}
    assert CARDS.version_told(answer({"paths": paths})) == "1"
    rows = [("PUT", "/cards/tea"), ("DELETE", "/cards/tea"), ("DELETE", "/cards")]
    found = [CARDS.classify(ask(*row)) for row in rows]
    assert [one and one.does for one in found] == [Does.WRITE, Does.REMOVE, Does.ADMIN]
    assert CARDS.classify(ask("POST", "/cards/tea")) is None


def test_a_write_is_an_item_of_its_texts_and_is_forwarded_as_it_was_judged() -> None:
    write = ask("PUT", body={"text": "likes tea", "tags": ["at four"]})
    (new,) = CARDS.items(write, GONE)
    assert (new.item.change, new.item.key) == (ChangeKind.CREATE, "tea")
    assert new.item.pieces == ("likes tea", "at four")
    (change,) = CARDS.items(write, answer(TEA))
    assert change.item.change is ChangeKind.UPDATE
    sent = CARDS.forward(write, (new,), {0: CandidateId("0" * 32)})
    assert sent is not None
    assert (sent.method, sent.path, json.loads(sent.body)) == (
        "PUT",
        "/cards/tea",
        {"text": "likes tea", "tags": ["at four"]},
    )
    assert CARDS.forward(write, (new,), {}) is None
    assert json.loads(CARDS.released(kept(new), b"").body) == json.loads(sent.body)


def test_the_outcome_of_a_lost_write_is_told_by_its_card() -> None:
    (put,) = CARDS.items(ask("PUT", body={"text": "likes tea", "tags": ["at four"]}), GONE)
    (gone,) = CARDS.items(ask("DELETE"), answer(TEA))
    for sending, reply, state in (
        (put, answer(TEA), ForwardStatus.DONE),
        (put, GONE, ForwardStatus.FAILED),
        (gone, answer(TEA), ForwardStatus.FAILED),
        (gone, GONE, ForwardStatus.DONE),
    ):
        told = CARDS.told(kept(sending), reply)
        assert told is not None
        assert told.state is state
    assert CARDS.told(kept(put), answer({**TEA, "text": "likes rum"})) is None


def test_a_card_that_must_not_be_shown_is_left_out() -> None:
    both = answer({"cards": [TEA, {"name": "rum", "text": "likes rum"}]})
    assert [one.key for one in CARDS.shown(LIST, both)] == ["tea", "rum"]
    left = CARDS.without(LIST, both, frozenset({0}))
    assert [one["name"] for one in json.loads(left.body)["cards"]] == ["rum"]
    assert CARDS.without(ask("GET"), answer(TEA), frozenset({0})).status == 404
    assert CARDS.without(ask("GET"), answer(TEA), frozenset()) == answer(TEA)
    with pytest.raises(MalformedRequest):
        CARDS.shown(ask("GET"), answer({**TEA, "colour": "red"}))
