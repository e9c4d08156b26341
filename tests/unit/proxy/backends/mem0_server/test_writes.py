"""Writes to Mem0's self-hosted server: what is judged, what goes on, what became of it."""

from __future__ import annotations

import json

import pytest

from policy.model import ChangeKind, ForwardStatus
from proxy.backends.mem0_server.requests import LISTED_MAX, MARK
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import SendOutcome
from proxy.seams.operation import HttpReply, HttpRequest
from tests.unit.proxy.backends.mem0_server.sample import (
    ADAPTER,
    CANDIDATE,
    ID,
    OTHER,
    adding,
    answer,
    ask,
    body_of,
    captured,
    judged,
    memory,
    unsettled,
)

NONE_THERE = answer(None)
DELETE = ask("DELETE", f"/memories/{ID}")
FORGET = ask("DELETE", "/memories?user_id=bob")


def put(**body: object) -> HttpRequest:
    return ask("PUT", f"/memories/{ID}", body)


def added(*ids: str) -> HttpReply:
    return answer({"results": [{"id": one, "memory": "x", "event": "ADD"} for one in ids]})


# ---- what is judged ------------------------------------------------------------------------------


def test_each_message_is_one_memory_with_all_that_it_brings() -> None:
    asked = adding("likes tea", "likes bees", metadata={"src": "a chat"}, agent_id="obey me:all")
    assert ADAPTER.first(asked) is None
    with pytest.raises(MalformedRequest):
        ADAPTER.items(asked, None)  # an id has no space in it
    asked = adding("likes tea", "likes bees", metadata={"src": "a chat"})
    items = [one.item for one in ADAPTER.items(asked, None)]
    assert [one.pieces for one in items] == [("likes tea", "a chat"), ("likes bees", "a chat")]
    assert {one.change for one in items} == {ChangeKind.CREATE}
    assert {one.key for one in items} == {""}


def test_the_captured_add_is_read_as_the_server_stores_it() -> None:
    one = captured()[0]
    items = [sending.item for sending in ADAPTER.items(one.request, None)]
    stored = [told["memory"] for told in json.loads(one.reply.body)["results"]]
    assert [item.pieces[0] for item in items] == stored
    # The second one had the server's model write something.
    with pytest.raises(MalformedRequest, match="infer"):
        ADAPTER.items(captured()[1].request, None)


def test_a_message_that_the_server_does_not_store_is_no_memory() -> None:
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "tea"}]
    asked = adding(messages=messages)
    (one,) = ADAPTER.items(asked, None)
    assert one.item.pieces == ("tea",)
    went = body_of(ADAPTER.forward(asked, (one,), {0: CANDIDATE}))
    assert went["messages"] == [{"role": "user", "content": "tea"}]


def test_an_update_is_judged_by_the_memory_that_it_leads_to() -> None:
    stands = answer(memory(metadata={MARK: "5" * 32, "src": "a chat", "z": "old z"}))
    (one,) = ADAPTER.items(put(metadata={"z": "new z"}), stands)
    assert one.item.change is ChangeKind.UPDATE
    assert one.item.key == ID
    # The text stays, and so does the metadata that the update does not name; the mark is no text.
    # All of it stands in the order of a read too: an order may begin in what stays.
    assert one.item.pieces == ("new z", "likes tea", "new z", "a chat")
    (one,) = ADAPTER.items(put(text="likes bees"), stands)
    assert set(one.item.pieces) == {"likes bees", "a chat", "old z"}
    (one,) = ADAPTER.items(put(expiration_date=None), stands)
    assert "likes tea" in one.item.pieces


def test_metadata_is_judged_in_the_order_of_a_read() -> None:
    # PostgreSQL gives names back by their length, then by their bytes.
    metadata = {"zz": "second", "b": {"yy": "fourth", "x": "third"}, "a": ["first"]}
    (one,) = ADAPTER.items(adding("tea", metadata=metadata), None)
    assert one.item.pieces == ("tea", "first", "third", "fourth", "second")
    again = ADAPTER.released(unsettled(one, sent=False), b"")
    assert ADAPTER.items(again, None) == (one,)


def test_an_update_or_a_deletion_of_what_is_not_there_concerns_nothing() -> None:
    for asked, tail in ((put(text="x"), ". Please provide a valid 'memory_id'"), (DELETE, "")):
        assert ADAPTER.items(asked, NONE_THERE) == ()
        reply = ADAPTER.answer(asked, (), ())
        assert reply.status == 404
        assert json.loads(reply.body) == {"detail": f"Memory with id {ID} not found{tail}"}


def test_a_deletion_by_an_id_of_a_user_is_resolved_to_memories_first() -> None:
    for asked, query in (
        (FORGET, (("user_id", "bob"),)),
        (ask("DELETE", "/entities/agent/a1"), (("agent_id", "a1"),)),
    ):
        first = ADAPTER.first(asked)
        assert first is not None
        assert (first.method, first.path) == ("GET", "/memories")
        assert first.query == (*query, ("top_k", "1000"), ("show_expired", "true"))
        found = ADAPTER.items(asked, answer({"results": [memory(), memory(OTHER)]}))
        assert [one.item.key for one in found] == [ID, OTHER]
        odd = answer({"results": [memory("1"), memory()]})
        assert [one.item.key for one in ADAPTER.items(asked, odd)] == [ID]
        went = [ADAPTER.forward(asked, found, {at: CANDIDATE}) for at in range(2)]
        assert [(one.method, one.path, one.query) for one in went if one] == [
            ("DELETE", f"/memories/{ID}", ()),
            ("DELETE", f"/memories/{OTHER}", ()),
        ]


def test_a_deletion_names_one_memory_by_itself_and_none_by_a_users_id() -> None:
    (one,) = ADAPTER.named(DELETE)
    assert (one,) == ADAPTER.items(DELETE, answer(memory()))
    for asked in (FORGET, put(text="x"), adding("tea")):
        assert ADAPTER.named(asked) == ()


def test_a_deletion_of_more_than_can_be_listed_is_refused_whole() -> None:
    many = answer({"results": [memory()] * LISTED_MAX})
    with pytest.raises(MalformedRequest) as refused:
        ADAPTER.items(FORGET, many)
    assert refused.value.status == 413


def test_another_memory_than_was_asked_for_is_not_changed() -> None:
    for asked in (DELETE, put(text="x")):
        with pytest.raises(MalformedRequest):
            ADAPTER.items(asked, answer(memory(OTHER)))


@pytest.mark.parametrize(
    "members",
    [
        {"infer": True},
        {"infer": None},
        {"infer": "false"},
        {"infer": 0},
        # The server's model writes a procedural memory, whatever `infer` says.
        {"memory_type": "procedural_memory", "agent_id": "a1"},
        {"prompt": "Extract orders"},
        {"metadata": {MARK: "0" * 32}},
        # Every list with such a memory in it would fail.
        {"metadata": {"created_at": 5}},
        {"metadata": {"created_at": "yesterday"}},
        {"metadata": ["x"]},
        {"user_id": None},
        {"user_id": "a b"},
        {"user_id": ""},
        {"user_id": 7},
        {"messages": [{"role": "user: obey", "content": "x"}]},
        {"messages": [{"role": "user", "content": " "}]},
        {"messages": [{"role": "user", "content": ["x"]}]},
        {"messages": [{"role": "user"}]},
        {"messages": "likes tea"},
        {"messages": [{"role": "user", "content": "x"}] * 257},
    ],
)
def test_an_add_that_is_read_in_two_ways_is_refused(members: dict[str, object]) -> None:
    with pytest.raises(MalformedRequest) as refused:
        ADAPTER.items(adding("likes tea", **members), None)
    assert 400 <= refused.value.status < 500


def test_dates_of_the_client_go_on() -> None:
    at = {"created_at": "2025-01-01T00:00:00+00:00"}
    assert ADAPTER.items(adding("likes tea", metadata=at), None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": None, "metadata": None},
        {"text": ""},
        {"text": 7},
        {"metadata": {MARK: "0" * 32}},
        {"metadata": {"created_at": 5}},
    ],
)
def test_an_update_that_is_none_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.items(put(**body), answer(memory()))


@pytest.mark.parametrize(
    "target",
    ["/memories", "/memories?user_id=", "/memories?user_id=bob&app_id=x", "/entities/team/x"],
)
def test_a_deletion_that_could_mean_more_is_refused(target: str) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.first(ask("DELETE", target))


# ---- what goes on --------------------------------------------------------------------------------


def test_each_memory_goes_on_by_itself_with_its_own_mark() -> None:
    asked = adding(
        "tea", "bees", metadata={"src": "chat"}, run_id="r1", expiration_date="2027-01-01"
    )
    items = ADAPTER.items(asked, None)
    went = ADAPTER.forward(asked, items, {1: CANDIDATE})
    assert body_of(went) == {
        "messages": [{"role": "user", "content": "bees"}],
        "user_id": "bob",
        "run_id": "r1",
        "infer": False,
        "metadata": {"src": "chat", MARK: CANDIDATE},
        "expiration_date": "2027-01-01",
    }
    assert went is not None
    assert went.headers == {"content-type": "application/json"}
    assert ADAPTER.forward(asked, items, {}) is None
    routed = ADAPTER.classify(asked)
    assert routed is not None
    assert routed.singly


def test_an_update_goes_on_with_its_mark() -> None:
    stands = answer(memory())
    for asked, expected in (
        (put(text="bees"), {"text": "bees", "metadata": {MARK: CANDIDATE}}),
        (put(metadata={"z": 1}, text=None), {"metadata": {"z": 1, MARK: CANDIDATE}}),
        (put(expiration_date=None), {"expiration_date": None, "metadata": {MARK: CANDIDATE}}),
    ):
        items = ADAPTER.items(asked, stands)
        went = ADAPTER.forward(asked, items, {0: CANDIDATE})
        assert body_of(went) == expected


def test_a_released_item_is_the_request_that_was_judged() -> None:
    asked = adding("tea", metadata={"src": "chat"}, run_id="r1", expiration_date="2027-01-01")
    stands = answer(memory())
    for request, known in ((asked, None), (put(text="bees", metadata={"z": 1}), stands)):
        items = ADAPTER.items(request, known)
        again = ADAPTER.released(unsettled(items[0], sent=False), b"")
        assert ADAPTER.items(again, known) == items
        marked = ADAPTER.forward(again, items, {0: CANDIDATE})
        assert marked == ADAPTER.forward(request, items, {0: CANDIDATE})
    (gone,) = ADAPTER.items(DELETE, stands)
    again = ADAPTER.released(unsettled(gone, sent=False), b"")
    assert (again.method, again.path, again.body) == ("DELETE", f"/memories/{ID}", b"")


# ---- what became of it ---------------------------------------------------------------------------


def test_a_new_memory_has_the_id_that_the_server_gave_it() -> None:
    asked = adding("tea")
    items = ADAPTER.items(asked, None)
    done = SendOutcome(state=ForwardStatus.DONE, key=ID)
    assert ADAPTER.outcome(asked, items, added(ID)) == (done,)
    for reply in (added(), added(ID, OTHER), added("1")):
        with pytest.raises(MalformedRequest):
            ADAPTER.outcome(asked, items, reply)
    for status, state in ((400, ForwardStatus.FAILED), (502, ForwardStatus.UNKNOWN)):
        reply = answer({"detail": "x"}, status)
        assert ADAPTER.outcome(asked, items, reply) == (SendOutcome(state=state),)


def test_a_deletion_of_what_is_gone_is_done() -> None:
    items = ADAPTER.items(DELETE, answer(memory()))
    for status, state in (
        (200, ForwardStatus.DONE),
        (404, ForwardStatus.DONE),
        (502, ForwardStatus.UNKNOWN),
    ):
        found = ADAPTER.outcome(DELETE, items, answer({}, status))
        assert found == (SendOutcome(state=state),)


def test_a_lost_new_memory_is_found_by_its_mark_and_by_nothing_else() -> None:
    item = unsettled(ADAPTER.items(adding("likes tea", run_id="r1"), None)[0])
    asked = ADAPTER.question(item)
    assert asked is not None
    assert body_of(asked) == {
        "query": "likes tea",
        "filters": {"user_id": "bob", "run_id": "r1", MARK: CANDIDATE},
        "top_k": 60,
        "threshold": 0,
        "show_expired": True,
    }
    marked = memory(metadata={MARK: CANDIDATE})
    other = memory(OTHER, metadata={MARK: "6" * 32})
    done = SendOutcome(state=ForwardStatus.DONE, key=ID)
    assert ADAPTER.told(item, answer({"results": [other, marked]})) == done
    odd = memory("1", metadata={MARK: CANDIDATE})
    assert ADAPTER.told(item, answer({"results": [odd]})) is None
    for found in ([], [other], [memory()]):
        told = ADAPTER.told(item, answer({"results": found}))
        assert told == SendOutcome(state=ForwardStatus.FAILED)
    assert ADAPTER.told(item, answer({"results": []}, 502)) is None


def test_a_lost_update_or_deletion_is_told_by_the_memory() -> None:
    stands = answer(memory())
    (changed,) = ADAPTER.items(put(text="bees"), stands)
    item = unsettled(changed)
    asked = ADAPTER.question(item)
    assert asked is not None
    assert (asked.method, asked.path) == ("GET", f"/memories/{ID}")
    arrived = answer(memory(metadata={MARK: CANDIDATE}))
    for reply, state in (
        (arrived, ForwardStatus.DONE),
        (stands, ForwardStatus.FAILED),
        (NONE_THERE, ForwardStatus.FAILED),
    ):
        assert ADAPTER.told(item, reply) == SendOutcome(state=state)
    (gone,) = ADAPTER.items(DELETE, stands)
    item = unsettled(gone)
    for reply, state in ((NONE_THERE, ForwardStatus.DONE), (stands, ForwardStatus.FAILED)):
        assert ADAPTER.told(item, reply) == SendOutcome(state=state)


# ---- answers -------------------------------------------------------------------------------------


def test_the_answer_to_one_write_has_the_bytes_of_the_servers_and_none_that_is_unread() -> None:
    told = {"id": ID, "memory": "tea", "event": "ADD", "actor_id": None, "role": "user"}
    own = {one.request.method: one.reply for one in captured() if one.reply.status == 200}
    for asked, reply in (
        (adding("tea"), answer({"results": [told]})),
        (put(text="x"), own["PUT"]),
        (DELETE, answer({"message": "Memory deleted successfully"})),
    ):
        more = answer({**json.loads(reply.body), "more": "unread"})
        for one in (reply, more):
            assert ADAPTER.answer(asked, (judged("admit"),), (one,)).body == reply.body
    more = answer({"results": [{**told, "memory": "unread", "more": "unread"}]})
    (result,) = json.loads(ADAPTER.answer(adding("tea"), (judged("admit"),), (more,)).body)[
        "results"
    ]
    assert result == told
    gone = answer({"detail": "gone"}, 404)
    assert ADAPTER.answer(DELETE, (judged("admit"),), (gone,)) is gone


def test_an_add_of_several_messages_has_one_answer() -> None:
    admitted = (judged("admit"), judged("admit"))
    reply = ADAPTER.answer(adding("tea", "bees"), admitted, (added(ID), added(OTHER)))
    assert reply.status == 200
    told = json.loads(reply.body)
    assert [one["id"] for one in told["results"]] == [ID, OTHER]
    assert set(told) == {"results"}
    mixed = (judged("admit"), judged("reject"))
    told = json.loads(ADAPTER.answer(adding("tea", "bees"), mixed, (added(ID),)).body)
    assert [one["id"] for one in told["results"]] == [ID]
    assert [one["reason"] for one in told["refused"]] == ["directive_language"]
    assert json.loads(ADAPTER.answer(adding(), (), ()).body) == {"results": []}


@pytest.mark.parametrize(("decision", "word"), [("reject", "rejected"), ("hold", "held")])
def test_a_refused_write_is_a_422_that_says_why_in_its_first_line(decision: str, word: str) -> None:
    reply = ADAPTER.answer(adding("tea"), (judged(decision),), ())
    assert reply.status == 422
    told = json.loads(reply.body)
    assert told["detail"].startswith(f"memory write {word}")
    assert told["error"] == f"memory_write_{word}"
    assert reply.phrase is not None
    assert word in reply.phrase
    assert "directive_language" in reply.phrase


def test_a_failure_of_the_server_is_the_answer() -> None:
    failed = answer({"detail": "upstream"}, 502)
    admitted = (judged("admit"), judged("admit"))
    assert ADAPTER.answer(adding("tea", "bees"), admitted, (added(ID), failed)) is failed


def test_many_deletions_have_the_servers_words() -> None:
    gone = answer({"message": "Memory deleted successfully"})
    for asked, words in (
        (FORGET, "All relevant memories deleted"),
        (ask("DELETE", "/entities/user/bob"), "Entity deleted"),
    ):
        for verdicts, replies in (
            ((), ()),
            ((judged("admit"),), (gone,)),
            ((judged("admit"),) * 2, (gone, answer({"detail": "gone"}, 404))),
        ):
            reply = ADAPTER.answer(asked, verdicts, replies)
            assert (reply.status, json.loads(reply.body)) == (200, {"message": words})
