from __future__ import annotations

import msgspec
import pytest

from policy.model import ChangeKind, MemoryId, Principal, PrincipalId, Tenant
from policy.verdict import InvariantBroken, Reason
from proxy.dialects.mem0.answers import PHRASE_LEN_MAX, phrase
from proxy.dialects.mem0.references import EVENT_IDS_MAX, event_id, read_event_id
from proxy.dialects.mem0.shapes import offset, utc
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    HttpReply,
    IdentityResult,
    Refusal,
    SearchResult,
    WriteResult,
    WrittenItem,
)
from tests.unit.proxy.dialects.mem0.sample import (
    ANSWERING,
    API_KEY,
    FIRST_ID,
    OSS,
    PLATFORM,
    SECOND_ID,
    admitted,
    memory,
    not_admitted,
    object_of,
    request,
)

CANARY = "canary-7f3a"


def answer_to_add(*items: WrittenItem) -> HttpReply:
    messages = [{"role": "user", "content": f"{CANARY} {n}"} for n in range(len(items))]
    asked = request("POST", "/v3/memories/add/", {"messages": messages, "user_id": "alice"})
    return PLATFORM.encode(asked, PLATFORM.decode(asked), WriteResult(items=items), ANSWERING)


def results_of(reply: HttpReply) -> list[dict[str, object]]:
    return msgspec.convert(object_of(reply)["results"], type=list[dict[str, object]])


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_reaches_body_and_phrase_and_no_content_does(reason: Reason) -> None:
    reply = answer_to_add(not_admitted("reject", reason))
    assert reply.status == 422
    body = object_of(reply)
    assert body["reason"] == reason.value
    assert reason.value in str(body["detail"])
    assert reply.phrase is not None
    assert reason.value in reply.phrase
    assert "rejected" in reply.phrase
    assert len(reply.phrase) <= PHRASE_LEN_MAX
    assert CANARY not in reply.body.decode() + reply.phrase


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("count", [1, 2])
def test_an_add_that_waits_for_a_person_is_no_exception_and_nothing_stored(
    count: int, reason: Reason
) -> None:
    reply = answer_to_add(*[not_admitted("hold", reason)] * count)
    body = object_of(reply)
    assert (reply.status, body["status"]) == (200, "PENDING")
    assert f"held for review: {reason.value}" in str(body["message"])
    assert [(one["event"], one["decision"], one["reason"]) for one in results_of(reply)] == [
        ("NONE", "hold", reason.value)
    ] * count
    assert CANARY not in reply.body.decode()
    asked = request("GET", f"/v1/event/{body['event_id']}/")
    operation = PLATFORM.decode(asked)
    asking = Principal(principal_id=PrincipalId("p"), tenant=Tenant("t"))
    known = IdentityResult(principal=asking, incarnation="life-1")
    found = object_of(PLATFORM.encode(asked, operation, known, ANSWERING))
    assert (found["status"], found["results"]) == ("PENDING", [])


@pytest.mark.parametrize("path", ["/v1/memories/", "/v3/memories/add/"])
def test_both_kinds_of_add_wait_alike_and_neither_change_does(path: str) -> None:
    asked = request(
        "POST", path, {"messages": [{"role": "user", "content": CANARY}], "user_id": "alice"}
    )
    held = WriteResult(items=(HELD,))
    assert PLATFORM.encode(asked, PLATFORM.decode(asked), held, ANSWERING).status == 200
    for method, body in (("PUT", {"text": CANARY}), ("DELETE", None)):
        asked = request(method, f"/v1/memories/{SECOND_ID}/", body)
        assert PLATFORM.encode(asked, PLATFORM.decode(asked), held, ANSWERING).status == 422


def test_one_that_landed_makes_it_a_200_that_names_the_others() -> None:
    landed = admitted(memory(text="kept"))
    reply = answer_to_add(not_admitted(), landed, not_admitted("hold", Reason.CLASS_FLOOR))
    assert reply.status == 200
    results = results_of(reply)
    assert [one["event"] for one in results] == ["NONE", "ADD", "NONE"]
    assert [one.get("decision") for one in results] == ["reject", None, "hold"]
    assert CANARY not in reply.body.decode()


@pytest.mark.parametrize(
    ("decisions", "status"),
    [
        (["reject", "hold"], 422),
        (["hold", "hold"], 200),
        (["hold", "error"], 422),
        (["missing", "missing"], 404),
        (["missing", "reject"], 422),
        (["error", "error"], 503),
        (["error", "reject"], 422),
        (["admit", "error"], 200),
    ],
)
def test_the_status_tells_what_became_of_a_batch(decisions: list[str], status: int) -> None:
    items = tuple(
        admitted(memory()) if one == "admit" else not_admitted(one, Reason.GATE_UNAVAILABLE)
        for one in decisions
    )
    assert answer_to_add(*items).status == status


SPOKEN = ({"role": "user", "content": CANARY}, {"role": "assistant", "content": CANARY})
HELD = not_admitted("hold", Reason.CLASS_FLOOR)
REJECTED = not_admitted("reject", Reason.OVERSIZE)


def answer_to_hermes(
    *items: WrittenItem, infer: object = True, messages: object = SPOKEN
) -> HttpReply:
    body = {"messages": messages, "user_id": "alice", "infer": infer}
    asked = request("POST", "/memories", body, API_KEY)
    return OSS.encode(asked, OSS.decode(asked), WriteResult(items=items), ANSWERING)


@pytest.mark.parametrize("items", [(HELD, HELD), (REJECTED, HELD), (REJECTED, REJECTED)])
def test_a_refused_conversation_is_answered_with_nothing_taken_from_it(
    items: tuple[WrittenItem, ...],
) -> None:
    reply = answer_to_hermes(*items)
    body = object_of(reply)
    assert (reply.status, body["results"]) == (200, [])
    assert body["message"] == "Stored 0 of 2 messages, see refused"
    refused = msgspec.convert(body["refused"], type=list[dict[str, object]])
    assert [one["decision"] for one in refused] == [item.decision for item in items]
    assert CANARY not in reply.body.decode()


def test_of_a_conversation_only_what_landed_counts_as_a_result() -> None:
    reply = answer_to_hermes(admitted(memory(text="kept")), HELD)
    assert reply.status == 200
    assert [one["memory"] for one in results_of(reply)] == ["kept"]
    assert object_of(reply)["message"] == "Stored 1 of 2 messages, see refused"
    assert "refused" not in object_of(answer_to_hermes(admitted(memory()), admitted(memory())))


@pytest.mark.parametrize("infer", [False, None])
def test_a_write_that_names_its_text_is_never_quiet(infer: object) -> None:
    assert answer_to_hermes(HELD, HELD, infer=infer).status == 422
    assert answer_to_hermes(HELD, infer=True, messages=SPOKEN[:1]).status == 422
    assert answer_to_hermes(HELD, infer=True, messages=CANARY).status == 422


def refused_before_it_was_judged(status: int, **fields: object) -> HttpReply:
    said = f"{CANARY} \x1b[31m"
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": said}]
    body = {"messages": messages, "user_id": "alice", "infer": True, **fields}
    asked = request("POST", "/memories", body, API_KEY)
    told = Refusal(status=status, title="no", detail="messages.1: illegal code point")
    return OSS.refuse(asked, told, ANSWERING)


@pytest.mark.parametrize("status", [413, 422])
def test_a_conversation_that_cannot_be_taken_is_answered_with_nothing_taken_from_it(
    status: int,
) -> None:
    """What a page makes an assistant say must not make its agent think that memory is down."""
    reply = refused_before_it_was_judged(status)
    assert (reply.status, object_of(reply)["results"]) == (200, [])
    assert CANARY not in reply.body.decode()


def test_other_refusals_of_a_conversation_and_of_other_writes_are_told() -> None:
    assert refused_before_it_was_judged(503).status == 503
    assert refused_before_it_was_judged(429).status == 429
    assert refused_before_it_was_judged(401).status == 401
    assert refused_before_it_was_judged(422, infer=False).status == 422
    assert refused_before_it_was_judged(422, messages=SPOKEN[:1]).status == 422
    assert refused_before_it_was_judged(422, messages="text").status == 422


def test_a_conversation_that_could_not_be_decided_is_a_failure() -> None:
    undecided = not_admitted("error", Reason.GATE_UNAVAILABLE)
    assert answer_to_hermes(undecided, undecided).status == 503
    assert answer_to_hermes(undecided, HELD).status == 422


def test_the_platform_answers_a_refused_conversation_with_the_reason() -> None:
    body = {"messages": SPOKEN, "user_id": "alice", "infer": True}
    asked = request("POST", "/v3/memories/add/", body)
    items = WriteResult(items=(HELD, REJECTED))
    assert PLATFORM.encode(asked, PLATFORM.decode(asked), items, ANSWERING).status == 422


def test_a_mixed_refusal_is_told_as_rejected_and_not_as_held() -> None:
    hold = not_admitted("hold", Reason.CLASS_FLOOR)
    reply = answer_to_add(hold, not_admitted("reject", Reason.OVERSIZE))
    assert object_of(reply)["error"] == "memory_write_rejected"
    assert object_of(reply)["reason"] == "oversize"


def test_a_phrase_is_one_printable_line_of_bounded_length() -> None:
    told = phrase("a\r\nSet-Cookie: x\x00\u20ac\u202e" + "b" * 500)
    assert told.isascii()
    assert told.isprintable()
    assert len(told) <= PHRASE_LEN_MAX


def test_skipped_messages_are_named_in_the_answer() -> None:
    body = {"messages": [{"role": "assistant"}, "tea"], "user_id": "alice"}
    asked = request("POST", "/memories", body, API_KEY)
    reply = OSS.encode(
        asked, OSS.decode(asked), WriteResult(items=(admitted(memory()),)), ANSWERING
    )
    assert object_of(reply)["skipped_messages"] == [0]


def test_times_have_microseconds_and_the_servers_own_suffix() -> None:
    assert utc(1_700_000_000_007) == "2023-11-14T22:13:20.007000Z"
    assert offset(1_700_000_000_007) == "2023-11-14T22:13:20.007000+00:00"


def test_an_event_id_holds_the_memories_and_a_long_one_the_first_of_them() -> None:
    event = read_event_id(event_id("ADD", [FIRST_ID, MemoryId("not-a-uuid"), SECOND_ID]))
    assert event.memory_ids == (FIRST_ID, SECOND_ID)
    assert len(read_event_id(event_id("ADD", [FIRST_ID] * 99)).memory_ids) == EVENT_IDS_MAX


@pytest.mark.parametrize("text", ["", "AA", "AQ", "AQk", "AQAR", "\u20ac", "A" * 20_000])
def test_an_event_id_of_someone_else_is_not_found(text: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        read_event_id(text)
    assert caught.value.status == 404


def test_an_answer_of_another_operation_is_a_broken_invariant() -> None:
    asked = request("DELETE", f"/v1/memories/{FIRST_ID}/")
    with pytest.raises(InvariantBroken):
        PLATFORM.encode(asked, PLATFORM.decode(asked), SearchResult(hits=()), ANSWERING)


def test_bulk_deletes_list_only_what_stayed() -> None:
    gone = admitted(memory(), ChangeKind.DELETE)
    stays = not_admitted(change=ChangeKind.DELETE, memory_id=SECOND_ID)
    asked = request("DELETE", "/v1/memories/?user_id=alice")
    reply = PLATFORM.encode(
        asked, PLATFORM.decode(asked), WriteResult(items=(gone, stays)), ANSWERING
    )
    results = results_of(reply)
    assert [one["id"] for one in results] == [SECOND_ID]


def test_a_missing_credential_is_answered_with_the_scheme_that_is_wanted() -> None:
    refusal = Refusal(status=401, title="Unauthorized", detail="a valid credential is required")
    asked = request("GET", "/v1/ping/", None, {})
    told = {d.name: d.refuse(asked, refusal, ANSWERING).headers for d in (PLATFORM, OSS)}
    assert told == {
        "mem0": (("WWW-Authenticate", "Token"),),
        "mem0_oss": (("WWW-Authenticate", "Bearer"),),
    }
    busy = Refusal(status=503, title="Service Unavailable", detail="later", retry_after_s=7)
    assert PLATFORM.refuse(asked, busy, ANSWERING).headers == (("Retry-After", "7"),)
