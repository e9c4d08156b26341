"""A walk over all memories of Mem0's server, and whether a memory is the one that was sent."""

from __future__ import annotations

import msgspec
import pytest

from policy.model import Tenant
from proxy.backends.mem0_server.requests import LISTED_MAX, MARK
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest
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
