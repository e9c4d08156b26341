"""A walk over all items of LangGraph's store, and whether an item is the one that was sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy.model import CandidateId, Tenant
from proxy.backends.langgraph.langgraph import PAGE_LEN
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import UnsettledItem
from proxy.seams.operation import HttpReply, HttpRequest
from tests.unit.proxy.backends.langgraph.test_langgraph import ADAPTER, KEY, NULL, put

ALICE = ["memories", "alice"]
Json = dict[str, Any]


def first() -> HttpRequest:
    return ADAPTER.listing(Tenant("default"))


def item(value: Json, key: str = "k1", namespace: object = ALICE) -> Json:
    return {"namespace": namespace, "key": key, "value": value, "created_at": "now"}


def page(*items: object) -> HttpReply:
    return HttpReply(status=200, body=msgspec.json.encode({"items": items}))


def kept(value: Json) -> UnsettledItem:
    """A put as it is kept, with what the server does not show of one."""
    (sending,) = ADAPTER.items(put(value, index=["text"], ttl=5), NULL)
    one = sending.item
    return UnsettledItem(
        candidate_id=CandidateId("0" * 32),
        tool="put",
        change=one.change,
        arguments=one.arguments,
        pieces=one.pieces,
        key=one.key,
        sent=True,
    )


def test_every_tenant_has_the_same_walk_and_a_full_page_has_another_one_behind_it() -> None:
    assert first() == ADAPTER.listing(Tenant("other"))
    full = page(*(item({"text": "tea"}, f"k{number}") for number in range(PAGE_LEN)))
    found = ADAPTER.listed(first(), full)
    assert found.part is not None
    assert (found.part.names, found.part.is_full) == (
        tuple(one.key for one in found.memories),
        True,
    )
    following = found.part.begin(PAGE_LEN - 1)
    said = msgspec.json.decode(following.body)
    assert (said["offset"], said["limit"], said["refresh_ttl"]) == (PAGE_LEN - 1, PAGE_LEN, False)
    last = ADAPTER.listed(following, page()).part
    assert last is not None
    assert not last.is_full


def test_an_exact_read_finds_the_item_or_nothing_and_does_not_let_it_live_longer() -> None:
    asked = ADAPTER.reading(kept({"text": "tea"}))
    assert dict(asked.query) == {
        "key": "k1",
        "namespace": "memories.alice",
        "refresh_ttl": "false",
    }
    assert ADAPTER.listed(asked, NULL).memories == ()
    reply = HttpReply(status=200, body=msgspec.json.encode(item({"text": "tea"})))
    (found,) = ADAPTER.listed(asked, reply).memories
    assert found.key == KEY
    # Only the place counts, so texts may be left out.
    one = kept({"text": "tea"})
    blank = msgspec.structs.replace(one, pieces=("",) * len(one.pieces))
    assert ADAPTER.reading(blank) == asked


@pytest.mark.parametrize(
    "reply",
    [
        HttpReply(status=500, body=b'{"items":[]}'),
        HttpReply(status=200, body=b"[]"),
        HttpReply(status=200, body=b"null"),
        HttpReply(status=200, body=b"not json"),
    ],
)
def test_an_answer_of_another_form_is_no_empty_server(reply: HttpReply) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.listed(first(), reply)


def test_what_no_put_through_the_gate_could_have_made_is_listed_all_the_same() -> None:
    strange: tuple[Any, ...] = (
        item({"text": "tea"}, namespace=["a.b"]),
        item({"text": "much " * 20_000}),
        item({"text": "tea"}, key="k" * 2_000),
        {"key": 7},
        [],
    )
    for one in strange:
        (found,) = ADAPTER.listed(first(), page(one)).memories
        assert found.item is None


def test_an_item_is_the_same_where_its_whole_value_is() -> None:
    sent = kept({"text": "tea", "n": 3})
    for value, same in (
        ({"n": 3, "text": "tea"}, True),
        ({"text": "tea", "n": 4}, False),
        ({"text": "coffee", "n": 3}, False),
        ({"text": "tea", "n": 3, "more": True}, False),
    ):
        (found,) = ADAPTER.listed(first(), page(item(value))).memories
        assert found.item is not None
        assert ADAPTER.says_same(sent, found.item) is same


def test_a_number_that_the_server_rounded_is_the_one_that_was_sent() -> None:
    for number, told, same in (
        (2**64 - 1, 18446744073709552000, True),  # as a server in JavaScript writes the double
        (10**18 + 1, 10**18, True),
        (10**18 + 1, 10**18 + 1_000, False),
    ):
        (found,) = ADAPTER.listed(first(), page(item({"at": told}))).memories
        assert found.item is not None, "it could be neither checked nor adopted"
        assert ADAPTER.says_same(kept({"at": number}), found.item) is same


def test_the_attempts_of_doctor_are_a_read_and_a_write_that_changes_nothing() -> None:
    _, read, write = ADAPTER.attempts()
    assert (read.method, write.method) == ("POST", "PUT")
    assert msgspec.json.decode(write.body) == {}
