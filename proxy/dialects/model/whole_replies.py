"""Editors of replies that come whole: as in a streamed reply, a refused call becomes a text.

One interface serves three APIs, which put the parts of a reply at different places.
"""

from __future__ import annotations

import msgspec

from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.openai import chat, responses
from proxy.dialects.model.openai.responses_stream import CALLS, call_item, note_item, refusal_item
from proxy.dialects.model.reading import kind_of, list_of, object_of, text_of
from proxy.dialects.model.stream import CallDecision, CompleteCall, added, summed
from proxy.dialects.model.transcript import ModelReply
from proxy.dialects.strict_json.tolerant import Json

_TOOL_USE = "tool_use"


class _Edited:
    """The code that the editors of whole replies share for the three APIs."""

    def __init__(self) -> None:
        self._body: dict[str, Json] = {}
        self._parts: list[dict[str, Json]] = []
        # The parts of the model's earlier replies, which the agent gets as well, if the model was
        # asked again.
        self._before: list[Json] = []
        self._refused: dict[int, str] = {}
        self._calls: set[int] = set()
        self._spent: dict[str, int] = {}
        self._first_id: Json = None
        self._ended = False  # whether `again` was called and no reply has come since

    def decide(self, decided: CallDecision) -> None:
        """Apply the decision on one call; the caller decides each call before `edited`."""
        if decided.refusal is not None:
            self._refused[decided.key] = decided.refusal

    def refused_all(self) -> bool:
        """Whether the reply has calls and all were refused, so that the model is asked again."""
        return bool(self._calls) and self._calls <= self._refused.keys()

    def _fed(self, body: dict[str, Json], parts: list[Json], waiting: list[CompleteCall]) -> None:
        self._body = body
        self._parts = [object_of(part) for part in parts]
        self._calls = {one.key for one in waiting}
        self._refused = {}
        self._ended = False
        if self._first_id is None:
            self._first_id = body.get("id")

    def _end(self, shown: list[Json], parts: list[dict[str, Json]]) -> None:
        """Close this reply before the model is asked again.

        If no further reply comes, the agent gets the parts `shown` of this one.
        """
        self._spent = added(self._spent, object_of(self._body.get("usage")))
        self._before, self._parts = shown, parts
        self._calls, self._refused = set(), {}
        self._ended = True

    def _with(self, more: dict[str, Json]) -> dict[str, Json]:
        """The agent's reply: the fields `more`, the first reply's id, the tokens of all replies."""
        if not self._before and not self._refused:
            return self._body
        body = {**self._body, **more}
        if self._before and self._first_id is not None:
            body["id"] = self._first_id
        if self._spent and not self._ended and "usage" in body:
            body["usage"] = summed(object_of(body["usage"]), self._spent)
        return body


class AnthropicReply(_Edited):
    """Edits a whole reply of the Messages API."""

    def feed(self, body: dict[str, Json]) -> tuple[CompleteCall, ...]:
        """Take a whole reply; return the calls that must be judged."""
        parts = list_of(body.get("content"))
        waiting = [
            CompleteCall(key=key, call=anthropic.read_reply({"content": [part]}).calls[0])
            for key, part in enumerate(map(object_of, parts))
            if part.get("type") == _TOOL_USE
        ]
        self._fed(body, parts, waiting)
        return tuple(waiting)

    def again(self) -> list[Json]:
        """Prepare for a second request; return the messages to append to its conversation."""
        results: list[Json] = [
            {
                "type": "tool_result",
                "tool_use_id": self._parts[key].get("id"),
                "content": self._refused[key],
                "is_error": True,
            }
            for key in sorted(self._calls)
        ]
        said = list_of(self._body.get("content"))
        self._end(self._shown(), [])
        return [{"role": "assistant", "content": said}, {"role": "user", "content": results}]

    def edited(self) -> dict[str, Json]:
        """The reply as the agent gets it, after all decisions."""
        ended = self._ended or self.refused_all()
        reason = "end_turn" if ended else self._body.get("stop_reason")
        return self._with({"content": self._shown(), "stop_reason": reason})

    def said(self) -> ModelReply:
        """The model's words and calls in reply to the latest request, refused calls included."""
        return anthropic.read_reply(self._body)

    def _shown(self) -> list[Json]:
        parts: list[Json] = [*self._before]
        for key, part in enumerate(self._parts):
            text = self._refused.get(key)
            note: dict[str, Json] = {"type": "text", "text": text}
            parts.append(part if text is None else note)
        return parts


class ResponsesReply(_Edited):
    """Edits a whole reply of the Responses API."""

    def feed(self, body: dict[str, Json]) -> tuple[CompleteCall, ...]:
        """Take a whole reply; return the calls that must be judged."""
        parts = list_of(body.get("output"))
        found = [
            CompleteCall(key=key, call=call_item(part))
            for key, part in enumerate(map(object_of, parts))
            if kind_of(part) in CALLS
        ]
        self._fed(body, parts, found)
        return tuple(found)

    def again(self) -> list[Json]:
        """Prepare for a second request; return the items to append to its input."""
        outputs = [
            refusal_item(
                text_of(self._parts[key].get("call_id")) or "",
                text_of(self._parts[key].get("type")) or "",
                self._refused[key],
            )
            for key in sorted(self._calls)
        ]
        said = self._parts
        self._end(self._shown(), [])
        return [*said, *outputs]

    def edited(self) -> dict[str, Json]:
        """The reply as the agent gets it, after all decisions."""
        return self._with({"output": self._shown()})

    def said(self) -> ModelReply:
        """The model's words and calls in reply to the latest request, refused calls included."""
        return responses.read_reply(self._body)

    def _shown(self) -> list[Json]:
        items: list[Json] = [*self._before]
        for key, item in enumerate(self._parts):
            text = self._refused.get(key)
            items.append(item if text is None else note_item(len(items), text))
        return items


class _Place(msgspec.Struct, frozen=True):
    """The choice and index of a call in a chat reply; `at` is None for one in `function_call`."""

    choice: int
    at: int | None


class ChatReply(_Edited):
    """Edits a whole reply of the Chat Completions API.

    The model is asked again only if the reply has exactly one choice.
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: list[_Place] = []

    def feed(self, body: dict[str, Json]) -> tuple[CompleteCall, ...]:
        """Take a whole reply; return the calls that must be judged."""
        choices = list_of(body.get("choices"))
        self._places = []
        waiting: list[CompleteCall] = []
        for index, choice in enumerate(map(object_of, choices)):
            message = object_of(choice.get("message"))
            turn = chat.read_turn(message)
            count = len(list_of(message.get("tool_calls")))
            for at, call in enumerate(turn.calls):
                waiting.append(CompleteCall(key=len(self._places), call=call))
                self._places.append(_Place(index, at if at < count else None))
        self._fed(body, choices, waiting)
        return tuple(waiting)

    def refused_all(self) -> bool:
        """Whether the only choice has calls and all were refused: then the model is asked again."""
        return len(self._parts) == 1 and super().refused_all()

    def again(self) -> list[Json]:
        """Prepare for a second request; return the messages to append to its conversation."""
        message = object_of(self._parts[0].get("message"))
        calls = list_of(message.get("tool_calls"))
        results: list[Json] = []
        for key in sorted(self._calls):
            at, text = self._places[key].at, self._refused[key]
            if at is None:
                name = object_of(message.get("function_call")).get("name")
                results.append({"role": "function", "name": name, "content": text})
            else:
                call_id = object_of(calls[at]).get("id")
                results.append({"role": "tool", "tool_call_id": call_id, "content": text})
        left: dict[str, Json] = {"role": "assistant", "content": None}
        text = self._text_of(0)
        self._places = []
        self._end([text], [{**self._parts[0], "message": left, "finish_reason": "stop"}])
        return [message, *results]

    def edited(self) -> dict[str, Json]:
        """The reply as the agent gets it, after all decisions."""
        choices: list[Json] = [
            self._choice(index, choice) for index, choice in enumerate(self._parts)
        ]
        return self._with({"choices": choices})

    def said(self) -> ModelReply:
        """The model's words and calls in reply to the latest request, refused calls included."""
        return chat.read_reply(self._body)

    def _refusals(self, index: int) -> dict[int | None, str]:
        places = {key: place for key, place in enumerate(self._places) if place.choice == index}
        return {
            place.at: self._refused[key] for key, place in places.items() if key in self._refused
        }

    def _text_of(self, index: int) -> str:
        """The agent's text of a choice: texts of earlier replies, the model's own, the refusals."""
        refused = self._refusals(index)
        content = object_of(self._parts[index].get("message")).get("content")
        own = content if isinstance(content, str) else ""
        notes = refused.values()
        earlier = [text for text in self._before if isinstance(text, str)]
        return "\n".join(text for text in (*earlier, own, *notes) if text)

    def _choice(self, index: int, choice: dict[str, Json]) -> Json:
        refused = self._refusals(index)
        if not refused and not self._before:
            return choice
        message = dict(object_of(choice.get("message")))
        calls = list_of(message.get("tool_calls"))
        going_on = [call for at, call in enumerate(calls) if at not in refused]
        message.pop("tool_calls", None)
        if going_on:
            message["tool_calls"] = going_on
        if None in refused:
            message.pop("function_call", None)
        message["content"] = self._text_of(index) or None
        called = bool(going_on) or "function_call" in message
        reason = choice.get("finish_reason")
        if reason in ("tool_calls", "function_call") and not called:
            reason = "stop"
        return {**choice, "message": message, "finish_reason": reason}
