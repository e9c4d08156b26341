"""Messages that ask a client to open the page of a held candidate (MCP elicitation, URL mode).

Such a message contains no text of the candidate, because the agent's own host reads the message.
Form elicitation is not used: its answer would come over the agent's own connection, where a host
may accept in the person's place.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from policy.model import MemoryClass
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

METHOD: Final = "elicitation/create"
COMPLETE: Final = "notifications/elicitation/complete"
REQUEST_NAME: Final = "mnemogate"
STATE_PREFIX: Final = "mnemogate:"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_STATE_LEN_MAX: Final = 256


class Reaction(enum.Enum):
    """How a person, or the host in the person's place, reacted to a question; it is no verdict."""

    ACCEPT = "accept"  # the host opened the address; the person decides on the page
    DECLINE = "decline"
    CANCEL = "cancel"


class ConfirmQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that asks a person to decide on the held candidates at one address.

    `elicitation_id` is random; only messages of the handshake era contain it.
    """

    elicitation_id: str
    url: str
    memory_class: MemoryClass
    number: int = 1  # how many held candidates are shown at that address


class RetriedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the client repeated with the answer to the sidecar's question."""

    state: str
    answer: Reaction


def takes_urls(capabilities: JsonValue) -> bool:
    """Whether a client can open an address for a person.

    An `elicitation` capability of `{}` means that the client only shows forms.
    """
    found = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(found, dict) and isinstance(found.get("url"), dict)


def takes_urls_now(params: JsonValue) -> bool:
    """Whether a request of the stateless era declares that its client can open addresses."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and takes_urls(meta.get(_CAPABILITIES))


def request(request_id: str, question: ConfirmQuestion) -> dict[str, JsonValue]:
    """The elicitation request for a client of the handshake era, whose call waits meanwhile."""
    params = {**_params(question), "elicitationId": question.elicitation_id}
    return {"jsonrpc": "2.0", "id": request_id, "method": METHOD, "params": params}


def complete(elicitation_id: str) -> dict[str, JsonValue]:
    """The notification to a client that the person has decided on the page."""
    return {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": elicitation_id}}


def input_required(question: ConfirmQuestion, state: str) -> dict[str, JsonValue]:
    """The result that asks a client of the stateless era to come back with an answer.

    `state` is random and for single use; it identifies the held candidate.
    """
    return {
        "resultType": "input_required",
        "inputRequests": {REQUEST_NAME: {"method": METHOD, "params": _params(question)}},
        "requestState": STATE_PREFIX + state,
    }


def answer_of(message: JsonValue) -> Reaction:
    """The reaction in a client's answer to `request`; an error or unknown action is `CANCEL`."""
    result = message.get("result") if isinstance(message, dict) else None
    return _answer(result)


def retried(params: JsonValue) -> RetriedCall | None:
    """The state and the answer in a call that the client repeats after the sidecar's question.

    None for an ordinary call, and for the answer to a question of the server's own.

    Raises:
        MalformedRequest: The state is the sidecar's, but too long, or the call does not contain
            exactly one answer, the one to the sidecar's question.
    """
    if not isinstance(params, dict):
        return None
    state, responses = params.get("requestState"), params.get("inputResponses")
    if not isinstance(state, str) or not state.startswith(STATE_PREFIX):
        return None
    if (
        len(state) > _STATE_LEN_MAX
        or not isinstance(responses, dict)
        or set(responses) != {REQUEST_NAME}
    ):
        raise MalformedRequest("params.inputResponses: not the answer to what was asked")
    return RetriedCall(
        state=state.removeprefix(STATE_PREFIX), answer=_answer(responses[REQUEST_NAME])
    )


def _answer(result: JsonValue) -> Reaction:
    action = result.get("action") if isinstance(result, dict) else None
    return next((answer for answer in Reaction if answer.value == action), Reaction.CANCEL)


def _params(question: ConfirmQuestion) -> dict[str, JsonValue]:
    many = "A memory" if question.number == 1 else f"{question.number} memories"
    waits = "waits" if question.number == 1 else "wait"
    return {
        "mode": "url",
        "url": question.url,
        "message": (
            f"{many} (class {question.memory_class.value}) {waits} for your decision. "
            "Open the page to see it in full and to admit or reject it."
        ),
    }
