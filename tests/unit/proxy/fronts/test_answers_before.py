"""What was found in an answer is kept while it holds, and within bounds."""

from __future__ import annotations

from msgspec.structs import replace

from policy.model import Principal, PrincipalId, Reads, Tenant
from proxy.fronts.backend_reads import KEPT_BYTES_MAX, SiftedAnswer, SiftedAnswers, asked
from proxy.seams.operation import HttpReply, HttpRequest

ADA = Principal(principal_id=PrincipalId("agent"), tenant=Tenant("ada"))
REQUEST = HttpRequest(method="POST", path="/search", body=b"{}")


def found(body: bytes = b"[]", *texts: str) -> SiftedAnswer:
    return SiftedAnswer(reply=HttpReply(status=200, body=body), texts=texts)


def test_a_finding_is_of_this_reader_question_count_and_answer() -> None:
    before, reply = SiftedAnswers(), HttpReply(status=200, body=b"[1]")
    key, kept = asked(ADA, REQUEST, 5, reply), found(b"[1]", "tea")
    assert before.find(1, key) is None
    before.keep(1, key, kept)
    assert before.find(1, key) is kept
    others = (
        asked(replace(ADA, tenant=Tenant("bob")), REQUEST, 5, reply),
        asked(replace(ADA, reads=Reads.USER_INPUT), REQUEST, 5, reply),
        asked(ADA, HttpRequest(method="POST", path="/search", body=b"[]"), 5, reply),
        asked(ADA, HttpRequest(method="GET", path="/search", body=b"{}"), 5, reply),
        asked(ADA, REQUEST, 6, reply),
        asked(ADA, REQUEST, 5, HttpReply(status=200, body=b"[2]")),
        asked(ADA, REQUEST, 5, HttpReply(status=200, body=b"[1]", content_type="text/plain")),
    )
    assert [before.find(1, one) for one in others] == [None] * len(others)


def test_nothing_is_found_or_left_once_things_stand_otherwise() -> None:
    before, reply = SiftedAnswers(), HttpReply(status=200, body=b"[1]")
    key = asked(ADA, REQUEST, 5, reply)
    before.find(1, key)
    before.keep(1, key, found())
    assert before.find(2, key) is None
    # A finding that was made while things still stood as before is not kept.
    before.keep(1, key, found())
    assert before.find(2, key) is None
    assert before.find(1, key) is None


def test_what_is_kept_is_bounded_and_the_least_asked_for_goes_first() -> None:
    before = SiftedAnswers()
    size = KEPT_BYTES_MAX // 8
    keys = [asked(ADA, REQUEST, n, HttpReply(status=200, body=bytes(size))) for n in range(9)]
    for key in keys[:3]:
        before.find(1, key)
        before.keep(1, key, found(bytes(size)))
    assert before.find(1, keys[0]) is not None
    for key in keys[3:5]:
        before.find(1, key)
        before.keep(1, key, found(bytes(size)))
    assert [before.find(1, key) is None for key in keys[:5]] == [False, True, True, False, False]
    huge = asked(ADA, REQUEST, 99, HttpReply(status=200, body=bytes(KEPT_BYTES_MAX)))
    before.find(1, huge)
    before.keep(1, huge, found())
    assert before.find(1, huge) is None
    assert before.find(1, keys[0]) is not None


def test_answers_that_say_nothing_take_no_more_memory_than_others() -> None:
    before, reply = SiftedAnswers(), HttpReply(status=200, body=b"null")
    most = KEPT_BYTES_MAX // 4_096
    keys = [
        asked(ADA, HttpRequest(method="GET", path="/item", query=(("key", name),)), None, reply)
        for name in (f"{number:04096}" for number in range(most + 1))
    ]
    for key in keys:
        before.find(1, key)
        before.keep(1, key, found(b"null"))
    # Nobody can fill the memory with questions about what is not there.
    assert before.find(1, keys[0]) is None
    assert before.find(1, keys[-1]) is not None
    # Nor with short ones.
    short = [
        asked(ADA, HttpRequest(method="GET", path=f"/{number}"), None, reply)
        for number in range(KEPT_BYTES_MAX // 1_024)
    ]
    for key in short:
        before.find(1, key)
        before.keep(1, key, found(b"null"))
    assert before.find(1, short[0]) is None
    assert before.find(1, short[-1]) is not None
