"""What a request is left, by the labels of the ledger; and that nobody goes on too early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from policy.model import SourceKind
from proxy.dialects.model.api import ANTHROPIC, APIS, CHAT, RESPONSES
from proxy.ledger.requests import Entered
from proxy.ledger.turn_values import LabelledSpan, TurnRead
from proxy.model.with_ledger import left_alone

if TYPE_CHECKING:
    from proxy.dialects.model.api import ModelApi
    from proxy.dialects.model.transcript import ModelRequest

USER, OWN, TOOL = SourceKind.USER_INPUT, SourceKind.AGENT_SELF_EDIT, SourceKind.TOOL_RESULT
TYPED = "Compare chairs."
TEXT = f"{TYPED}\n\n<recall>Chairs are firm.</recall>"


def body(api: ModelApi, *, tool: str = "fetch") -> Any:  # noqa: ANN401 - any JSON
    turn = {"type": "message", "role": "user", "content": TEXT}
    prompt = "You are a shopping agent."
    if api is ANTHROPIC:
        tools: list[Any] = [{"name": tool, "description": "Fetches."}]
        return {"system": prompt, "messages": [turn], "tools": tools}
    if api is CHAT:
        tools = [{"type": "function", "function": {"name": tool, "description": "Fetches."}}]
        return {"messages": [{"role": "system", "content": prompt}, turn], "tools": tools}
    tools = [{"type": "function", "name": tool, "description": "Fetches."}]
    return {"instructions": prompt, "input": [turn], "tools": tools}


def entered(
    request: ModelRequest, *, system: SourceKind = OWN, changed: frozenset[str] = frozenset()
) -> Entered:
    """The labels that the ledger would give: the first line is a person's, the rest a tool's."""

    def spans(text: str) -> tuple[LabelledSpan, ...]:
        if text != TEXT:
            return (LabelledSpan(0, len(text), system),)
        return (LabelledSpan(0, len(TYPED), USER), LabelledSpan(len(TYPED), len(text), TOOL))

    return Entered(
        session="s",
        taint=TOOL,
        system=TurnRead(system, tuple(spans(said.text) for said in request.system)),
        turns=tuple(
            TurnRead(TOOL, tuple(spans(said.text) for said in turn.said)) for turn in request.turns
        ),
        changed_tools=changed,
    )


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_what_a_person_typed_and_what_the_program_says_is_left_alone(api: ModelApi) -> None:
    request = api.read_request(body(api))
    leave = left_alone(request, entered(request))
    at = 1 if api is CHAT else 0
    key = "input" if api is RESPONSES else "messages"
    assert leave.typed == {(key, at, "content"): ((0, len(TYPED)),)}
    prompt = {
        "anthropic": ("system",),
        "chat": ("messages", 0, "content"),
        "responses": ("instructions",),
    }[api.name]
    assert prompt in leave.trusted
    assert "You are a shopping agent." in leave.stands
    assert "Fetches." in leave.stands


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_prompt_from_elsewhere_and_a_tool_that_changed_are_not(api: ModelApi) -> None:
    request = api.read_request(body(api))
    leave = left_alone(
        request, entered(request, system=SourceKind.UNKNOWN, changed=frozenset({"fetch"}))
    )
    assert leave.trusted == frozenset()
    assert leave.stands == ()
