"""What is ours leaves a conversation byte for byte, and what only looks like it stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.model.confirm.block import (
    ANSWERED,
    APART,
    HEADING,
    Outcomes,
    TextAsked,
    answers_in,
    block_of,
)
from proxy.dialects.model.confirm.history import taken_out

Json = dict[str, Any]
CODE = "7F3K9QWX"
BLOCK = block_of([TextAsked("The user likes tea.", "preference", CODE)], ())
SAID = "It opens at nine."
APIS = ("anthropic", "chat", "responses")
KEYS = {"anthropic": "messages", "chat": "messages", "responses": "input"}


class Given:
    """One question that was given out."""

    def block(self, text: str) -> bytes | None:
        return b"block" if text == BLOCK else None

    def answers(self, block: bytes | None, turn: str) -> bool:
        return block in {None, b"block"} and [one.code for one in answers_in(turn)] == [CODE]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def model(api: str, *texts: str) -> list[Json]:
    """A reply of the model with these texts, as a client sends it back."""
    if api == "chat":
        return [{"role": "assistant", "content": "".join(texts)}]
    if api == "anthropic":
        parts = [{"type": "text", "text": one} for one in texts]
        return [{"role": "assistant", "content": parts}]
    return [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": one, "annotations": []}],
        }
        for one in texts
    ]


def sent(api: str, *turns: Json | list[Json]) -> Json:
    flat = [one for turn in turns for one in (turn if isinstance(turn, list) else [turn])]
    return {"model": "m", KEYS[api]: flat}


@pytest.mark.parametrize("api", APIS)
def test_question_answer_and_its_outcome_go_byte_for_byte(api: str) -> None:
    body = sent(
        api,
        user("When?"),
        model(api, SAID, APART + BLOCK),
        user(f"yes {CODE}"),
        model(api, "Good.", APART + Outcomes.STORED),
        user("Thanks"),
    )
    found = taken_out(api, body, Given())
    plain = sent(
        api, user("When?"), model(api, SAID), user(ANSWERED), model(api, "Good."), user("Thanks")
    )
    assert json.dumps(found.body) == json.dumps(plain)
    assert found.answer is None


@pytest.mark.parametrize("api", APIS)
def test_what_was_told_of_a_mistyped_answer_goes_and_the_turn_stays(api: str) -> None:
    typed = user(f"yes {CODE[1:]}")
    before = (user("When?"), model(api, SAID, APART + BLOCK), typed)
    told = model(api, "Good.", APART + Outcomes.NO_ANSWER)
    found = taken_out(api, sent(api, *before, told, user("Thanks")), Given())
    plain = (user("When?"), model(api, SAID), typed, model(api, "Good."), user("Thanks"))
    assert json.dumps(found.body) == json.dumps(sent(api, *plain))
    there = taken_out(api, sent(api, *before), Given()).answer
    assert there is not None
    assert (there.last, there.taken) == (True, False)
    other = sent(api, user("When?"), model(api, SAID), typed, told, user("Thanks"))
    assert taken_out(api, other, Given()).body is other, "behind no question of ours it stays"


@pytest.mark.parametrize("api", APIS)
def test_a_client_that_joins_texts_gets_the_same(api: str) -> None:
    body = sent(api, user("When?"), model(api, SAID + APART + BLOCK), user(f"yes {CODE}"))
    found = taken_out(api, body, Given())
    assert found.body == sent(api, user("When?"), model(api, SAID), user(ANSWERED))
    assert found.answer is not None
    assert (found.answer.last, found.answer.taken) == (True, True)


def test_a_mark_of_the_cache_goes_to_the_part_that_it_would_have_been_on() -> None:
    (turn,) = model("anthropic", SAID, APART + BLOCK)
    turn["content"][1]["cache_control"] = {"type": "ephemeral"}
    left = taken_out("anthropic", sent("anthropic", turn), Given()).body["messages"]
    marked = {"type": "text", "text": SAID, "cache_control": {"type": "ephemeral"}}
    assert left == [{"role": "assistant", "content": [marked]}]


RESULT = {
    "anthropic": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": BLOCK}],
    },
    "chat": {"role": "tool", "tool_call_id": "t", "content": BLOCK},
    "responses": {"type": "function_call_output", "call_id": "t", "output": BLOCK},
}


@pytest.mark.parametrize("api", APIS)
def test_what_only_looks_like_it_stays(api: str) -> None:
    other = BLOCK.replace(CODE, "2GHJ4MNP")
    for turns in (
        (user(BLOCK),),
        (RESULT[api],),
        (user("When?"), model(api, SAID, APART + other)),
        (user("When?"), model(api, BLOCK + "\nAnd so on.")),
        (user("When?"), model(api, SAID, APART + BLOCK), model(api, "And so on.")),
        (user("When?"), model(api, SAID), user(f"yes {CODE}")),
        (user("When?"), model(api, SAID), user("x"), model(api, SAID + APART + Outcomes.BEFORE)),
        ({"role": "system", "content": BLOCK},),
    ):
        body = sent(api, *turns)
        found = taken_out(api, body, Given())
        assert found.body is body
        assert found.answer is None or not found.answer.taken


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "turn",
    [
        f"yes {CODE} please",
        f"yes {CODE[:4]}",
        f"yes {CODE} yes {CODE}",
        "yes \uff17\uff26\uff13\uff2b\uff19\uff31\uff37\uff38",
        "Yes, and what about Sunday?",
    ],
)
def test_a_turn_that_is_no_answer_stays_behind_the_question(api: str, turn: str) -> None:
    body = sent(api, user("When?"), model(api, SAID, APART + BLOCK), user(turn))
    found = taken_out(api, body, Given())
    assert found.body == sent(api, user("When?"), model(api, SAID), user(turn))
    assert found.answer is None or not found.answer.taken


@pytest.mark.parametrize("api", APIS)
def test_an_answer_counts_only_directly_behind_the_question_and_alone(api: str) -> None:
    asked = model(api, SAID, APART + BLOCK)
    answer = user(f"yes {CODE}")
    between: tuple[Json, ...] = (user("And on Sunday?"), {"role": "system", "content": "x"})
    for one in between:
        found = taken_out(api, sent(api, user("When?"), asked, one, answer), Given())
        assert found.answer is None
    said = {"role": "user", "content": [{"type": "text", "text": f"yes {CODE}"}] * 2}
    assert taken_out(api, sent(api, user("When?"), asked, said), Given()).answer is None
    named = {**answer, "name": "bob"}
    assert taken_out(api, sent(api, user("When?"), asked, named), Given()).answer is None
    found = taken_out(api, sent(api, user("When?"), asked, answer, user("Go on")), Given())
    assert found.answer is None, "control of `last`: something stands behind it"


@pytest.mark.parametrize("api", APIS)
def test_a_conversation_that_the_host_cut_carries_neither(api: str) -> None:
    cut_before = sent(api, model(api, SAID, APART + BLOCK), user(f"no {CODE}"))
    assert CODE not in json.dumps(taken_out(api, cut_before, Given()).body)
    cut_between = sent(api, user(f"yes {CODE}"), model(api, "Good."), user("Thanks"))
    found = taken_out(api, cut_between, Given())
    assert found.body == sent(api, user(ANSWERED), model(api, "Good."), user("Thanks"))
    assert found.answer is None
    assert HEADING in json.dumps(cut_before), "control"
