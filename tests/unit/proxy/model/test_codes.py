"""A code decides once, in its conversation, in its time, and where nobody else said it."""

from __future__ import annotations

import base64

import pytest

from policy.model import CandidateId, PrincipalId
from proxy.model.codes import EVERY_TURNS, OPEN_MS, WRONG_MAX, Codes, OpenCode

ADA, BOB = PrincipalId("ada"), PrincipalId("bob")
CODE, OTHER = "7F3K9QWX", "2GHJ4MNP"
BLOCK = "the text of the question"


def opened(code: str = CODE, session: str = "s", until_ms: int = OPEN_MS) -> OpenCode:
    return OpenCode(code, CandidateId(f"of {code[:4]}"), b"", session, until_ms)


def given(*codes: OpenCode) -> Codes:
    found = Codes(b"k" * 32)
    assert found.give_out(ADA, "s", BLOCK, codes or (opened(),))
    return found


def test_a_code_is_good_for_one_decision() -> None:
    codes = given()
    (claimed,) = codes.claim(ADA, [CODE], "s", 0)
    assert claimed.candidate_id == f"of {CODE[:4]}"
    assert codes.claim(ADA, [CODE], "s", 0) == ()


@pytest.mark.parametrize(
    ("principal", "code", "session", "now_ms"),
    [(BOB, CODE, "s", 0), (ADA, OTHER, "s", 0), (ADA, CODE, "t", 0), (ADA, CODE, "s", OPEN_MS)],
    ids=["another principal", "another code", "another session", "too late"],
)
def test_a_code_is_bound_to_principal_session_and_time(
    principal: PrincipalId, code: str, session: str, now_ms: int
) -> None:
    codes = given()
    assert codes.claim(principal, [code], session, now_ms) == ()
    assert codes.claim(ADA, [CODE], "s", OPEN_MS - 1), "control: it is still good in its place"


def test_of_a_code_that_decided_nothing_the_candidates_are_looked_at() -> None:
    codes = given()
    block = codes.block_of(ADA, BLOCK)
    assert block is not None
    assert codes.claim(ADA, [CODE], "s", OPEN_MS) == (), "too late"
    assert codes.may_wait(ADA, block, [CODE]) == (f"of {CODE[:4]}",)
    codes.claim(ADA, [CODE], "s", 0)
    assert codes.may_wait(ADA, block, [CODE]) == (), "it was decided by this very code"
    assert codes.may_wait(BOB, block, [CODE]) == ()


def test_of_several_codes_all_are_good_or_none() -> None:
    codes = given(opened(), opened(OTHER))
    assert codes.claim(ADA, [CODE, "3333333X"], "s", 0) == ()
    assert len(codes.claim(ADA, [CODE, OTHER], "s", 0)) == 2


def test_three_wrong_answers_end_a_question() -> None:
    codes = given(opened(), opened(OTHER))
    block = codes.block_of(ADA, BLOCK)
    assert block is not None
    for _ in range(WRONG_MAX - 1):
        codes.wrong(ADA, block)
    assert codes.waits(ADA, 0), "control: two do not"
    codes.wrong(ADA, block)
    assert not codes.waits(ADA, 0)


@pytest.mark.parametrize(
    "text",
    [
        f"the code is {CODE}",
        CODE.lower(),
        "-".join(CODE),
        f"x{CODE}x",
        base64.b64encode(f"the code of the day is {CODE}".encode()).decode(),
        "".join(f"&#{ord(one)};" for one in CODE),
        "".join(f"%{ord(one):02X}" for one in CODE),
        f"{CODE[:4]}\u200b{CODE[4:]}",
    ],
)
def test_a_code_that_somebody_else_says_ends(text: str) -> None:
    codes = given(opened(), opened(OTHER))
    codes.void_if_in(BOB, [text], "elsewhere")
    codes.void_if_in(ADA, [text], "elsewhere", "another session")
    codes.void_if_in(ADA, ["The museum opens at nine."], "elsewhere")
    assert codes.waits(ADA, 0), "control"
    codes.void_if_in(ADA, [text], "elsewhere")
    assert not codes.waits(ADA, 0), "and with it the other codes of its question"


def test_after_a_restart_no_code_decides_and_what_is_ours_is_known() -> None:
    codes = given()
    block = codes.block_of(ADA, BLOCK)
    assert block is not None
    codes.take(ADA, codes.print_of(ADA, block, f"yes {CODE}"))
    codes.offered("s", listed=True, first=True)
    codes.offered("t", listed=False, first=True)
    records = [*codes.snapshot()]
    assert not any(CODE.encode() in one or BLOCK.encode() in one for one in records)
    later = Codes(b"k" * 32)
    for record in records:
        later.restore(record)
    assert later.claim(ADA, [CODE], "s", 0) == ()
    known = later.known(ADA)
    assert known is not None
    assert known.block(BLOCK) == block
    assert known.answers(block, f"yes {CODE}")
    assert known.answers(None, f"no {CODE.lower()}")
    assert not known.answers(block, f"yes {OTHER}")
    assert later.was_asked(f"of {CODE[:4]}")
    assert later.only_listed("s")
    assert not later.only_listed("t")
    assert later.known(BOB) is None
    assert [*later.snapshot()] == records


def test_a_question_is_asked_once_in_ten_turns() -> None:
    codes = Codes(b"k" * 32)
    assert codes.may_ask("s")
    codes.give_out(ADA, "s", BLOCK, [opened()])
    assert [codes.may_ask("s") for _ in range(EVERY_TURNS)] == [False] * (EVERY_TURNS - 1) + [True]
    assert codes.may_ask("t"), "control: of each conversation"


def test_a_conversation_that_offered_another_tool_stays_one_that_did() -> None:
    codes = Codes(b"k" * 32)
    assert codes.offered("s", listed=True, first=True)
    assert codes.offered("s", listed=True, first=False) == []
    assert codes.only_listed("s")
    assert codes.offered("s", listed=False, first=False)
    codes.offered("s", listed=True, first=True)
    assert not codes.only_listed("s")
    codes.offered("t", listed=True, first=False)
    assert not codes.only_listed("t"), "nobody saw how it began"
