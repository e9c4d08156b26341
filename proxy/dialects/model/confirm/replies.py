"""Which replies end a person's turn, and how the sidecar's text is appended to such a reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.dialects.model.confirm.block import APART
from proxy.dialects.model.openai.responses_stream import note_item
from proxy.dialects.model.reading import kind_of, list_of, object_of, text_of
from proxy.dialects.model.stream import event_of, payload
from proxy.dialects.model.transcript import Voice
from proxy.dialects.sse import Event

if TYPE_CHECKING:
    from proxy.dialects.model.transcript import ModelReply, ModelRequest
    from proxy.dialects.strict_json.tolerant import Json

_STOP: Final = "stop"
_END_TURN: Final = "end_turn"
_COMPLETED: Final = "completed"


def answers_a_person(request: ModelRequest) -> bool:
    """Whether a reply answers a person: between them stand only calls and their results."""
    for behind, turn in enumerate(reversed(request.turns)):
        voices = {said.voice for said in turn.said}
        if voices == {Voice.USER}:
            return not turn.speaker
        # If the request ends with a model's turn, the reply continues that turn, and answers no
        # person.
        if voices - {Voice.TOOL, Voice.MODEL} or (not behind and Voice.TOOL not in voices):
            return False
    return False


def own_words(reply: ModelReply) -> str | None:
    """The model's text in a reply; None if the reply calls a tool or has no text."""
    text = "".join(reply.said)
    return text if text.strip() and not reply.calls else None


def ends_turn(api: str, body: dict[str, Json]) -> bool:
    """Whether a whole reply ended by itself, without a call, and with exactly one text."""
    match api:
        case "anthropic":
            last = object_of((list_of(body.get("content")) or [None])[-1])
            return body.get("stop_reason") == _END_TURN and kind_of(last) == "text"
        case "chat":
            choices = [object_of(one) for one in list_of(body.get("choices"))]
            said = [object_of(one.get("message")).get("content") for one in choices]
            return (
                len(choices) == 1
                and choices[0].get("finish_reason") == _STOP
                and isinstance(said[0], str)
            )
        case "responses":
            last = object_of((list_of(body.get("output")) or [None])[-1])
            return body.get("status") == _COMPLETED and kind_of(last) == "message"
        case _:
            return False


def event_ends_turn(api: str, event: Event) -> bool:
    """Whether an event of a stream ends the model's turn, as `ends_turn` tells of a whole reply.

    Raises:
        Unread: The event looks like JSON and cannot be parsed.
    """
    if event.data is None or (_STOP not in event.data and _COMPLETED not in event.data):
        return False
    body = payload(event) or {}
    match api:
        case "anthropic":
            ended = object_of(body.get("delta")).get("stop_reason")
            return body.get("type") == "message_delta" and ended == _END_TURN
        case "chat":
            choices = [object_of(one) for one in list_of(body.get("choices"))]
            return (
                len(choices) == 1
                and choices[0].get("finish_reason") == _STOP
                # An event that ends the reply may have the model's last words too; they would come
                # after the sidecar's text.
                and not object_of(choices[0].get("delta")).get("content")
            )
        case "responses":
            response = object_of(body.get("response"))
            ends = body.get("type") == "response.completed"
            return ends and response.get("status") == _COMPLETED
        case _:
            return False


def words_before_end(api: str, event: Event) -> tuple[Event, ...]:
    """The event, split in two if it has the model's last words as well as the end.

    Raises:
        Unread: The event looks like JSON and cannot be parsed.
    """
    if api != "chat" or event.data is None or _STOP not in event.data:
        return (event,)
    body = payload(event) or {}
    choices = [object_of(one) for one in list_of(body.get("choices"))]
    delta = object_of(choices[0].get("delta")) if len(choices) == 1 else {}
    if not delta.get("content") or choices[0].get("finish_reason") != _STOP:
        return (event,)
    said: dict[str, Json] = {**body, "choices": [{**choices[0], "finish_reason": None}]}
    ended: dict[str, Json] = {**body, "choices": [{**choices[0], "delta": {}}]}
    said.pop("usage", None)
    return _event(event.name, said), _event(event.name, ended)


def _event(name: str, body: dict[str, Json]) -> Event:
    raw = event_of(name, body)
    data = raw.partition(b"data: ")[2].strip().decode("utf-8", "surrogatepass")
    return Event(raw=raw, name=name, data=data)


def with_last(api: str, body: dict[str, Json], text: str) -> dict[str, Json]:
    """A reply for which `ends_turn` holds, with the sidecar's text appended."""
    match api:
        case "anthropic":
            part: Json = {"type": "text", "text": APART + text}
            return {**body, "content": [*list_of(body.get("content")), part]}
        case "chat":
            (choice,) = map(object_of, list_of(body.get("choices")))
            message = object_of(choice.get("message"))
            said = (text_of(message.get("content")) or "") + APART + text
            longer: Json = {**choice, "message": {**message, "content": said}}
            return {**body, "choices": [longer]}
        case _:
            output = list_of(body.get("output"))
            return {**body, "output": [*output, note_item(len(output), APART + text)]}
