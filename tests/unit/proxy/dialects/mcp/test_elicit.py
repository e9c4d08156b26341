from __future__ import annotations

import pytest

from policy.model import MemoryClass
from proxy.dialects.mcp.elicit import (
    ConfirmQuestion,
    Reaction,
    RetriedCall,
    answer_of,
    complete,
    input_required,
    request,
    retried,
    takes_urls,
    takes_urls_now,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

QUESTION = ConfirmQuestion(
    elicitation_id="e1", url="http://127.0.0.1:7078/confirm/00ff", memory_class=MemoryClass.L2
)


def test_only_a_client_that_says_so_is_sent_to_an_address() -> None:
    assert takes_urls({"elicitation": {"form": {}, "url": {}}})
    others: tuple[JsonValue, ...] = ({}, {"elicitation": {}}, {"elicitation": {"form": {}}}, "url")
    for capabilities in others:
        assert not takes_urls(capabilities)
    meta: JsonValue = {
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
    }
    assert takes_urls_now(meta)
    assert not takes_urls_now({"_meta": {}})


def test_the_question_is_an_address_and_never_a_form() -> None:
    asked = request("mnemogate:1", QUESTION)
    params = asked["params"]
    assert isinstance(params, dict)
    assert (asked["method"], params["mode"], params["url"]) == (
        "elicitation/create",
        "url",
        QUESTION.url,
    )
    assert "requestedSchema" not in params
    assert complete("e1")["params"] == {"elicitationId": "e1"}


def test_a_stateless_client_comes_back_with_its_answer() -> None:
    result = input_required(QUESTION, "s1")
    assert result["resultType"] == "input_required"
    requests = result["inputRequests"]
    assert isinstance(requests, dict)
    params: dict[str, JsonValue] = {
        "name": "remember",
        "arguments": {"text": "tea"},
        "requestState": result["requestState"],
        "inputResponses": {name: {"action": "accept"} for name in requests},
    }
    assert retried(params) == RetriedCall(state="s1", answer=Reaction.ACCEPT)


def test_calls_that_answer_somebody_else_are_left_alone() -> None:
    assert retried({"name": "remember"}) is None
    assert retried({"requestState": "server-7", "inputResponses": {"x": {}}}) is None


@pytest.mark.parametrize(
    "responses", [None, {}, {"other": {}}, {"mnemogate": {}, "other": {}}, "accept"]
)
def test_our_state_without_our_question_is_refused(responses: JsonValue) -> None:
    with pytest.raises(MalformedRequest):
        retried({"requestState": "mnemogate:s1", "inputResponses": responses})


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"result": {"action": "accept"}}, Reaction.ACCEPT),
        ({"result": {"action": "accept", "content": {"approve": True}}}, Reaction.ACCEPT),
        ({"result": {"action": "decline"}}, Reaction.DECLINE),
        ({"result": {"action": "cancel"}}, Reaction.CANCEL),
        ({"result": {"action": "ACCEPT"}}, Reaction.CANCEL),
        ({"error": {"code": -32601}}, Reaction.CANCEL),
        (None, Reaction.CANCEL),
    ],
)
def test_anything_but_an_answer_is_a_cancellation(message: JsonValue, answer: Reaction) -> None:
    assert answer_of(message) is answer
