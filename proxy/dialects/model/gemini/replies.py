"""Edits replies of the Gemini API, whole ones and streams.

Each chunk of a stream has the form of a whole reply, and a call comes whole in one chunk. So a
chunk with calls waits for their verdicts, and any other chunk is forwarded at once. A refused call
becomes a text. If all calls are refused, the model is asked again, with its parts as they came:
a part's signature is the provider's own.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.model.gemini.contents import CALL, RESULT, identified, read_reply
from proxy.dialects.model.reading import call_of, index_in, list_of, object_of, text_of
from proxy.dialects.model.stream import (
    CallDecision,
    CompleteCall,
    UnreadableEvent,
    added,
    event_of,
    payload,
    summed,
)
from proxy.dialects.model.transcript import ModelReply
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json

_END: Final = "finishReason"
_USAGE: Final = "usageMetadata"
_ID: Final = "responseId"
# Members of a call whose arguments come in pieces.
_IN_PIECES: Final = frozenset({"partialArgs", "willContinue"})


class _Edited:
    """What the model has said in reply to the latest request, and the decisions on its calls."""

    def __init__(self) -> None:
        # The latest body, and the key of its first call.
        self._body: dict[str, Json] = {}
        self._first_key = 0
        # All candidates so far, each with all of its parts.
        self._said: dict[int, dict[str, Json]] = {}
        self._calls: list[dict[str, Json]] = []
        self._refused: dict[int, str] = {}
        self._undecided: set[int] = set()
        self._spent: dict[str, int] = {}
        self._id: Json = None
        self._askings = 0
        # The parts of a whole reply's earlier askings, which the agent gets as well.
        self._before: list[Json] = []

    def refused_all(self) -> bool:
        """Whether the only candidate has calls and all were refused: the model is asked again."""
        return len(self._said) == 1 and bool(self._calls) and len(self._refused) == len(self._calls)

    def said(self) -> ModelReply:
        """The model's words and calls in reply to the latest request, refused calls included."""
        return read_reply({_ID: self._id, "candidates": [*self._said.values()]})

    def again(self) -> list[Json]:
        """Prepare for a second request; return the contents to append to its conversation."""
        (only,) = self._said.values()
        # Some servers refuse a part without content, with which others end a reply.
        parts: list[Json] = [part for part in _parts(only) if part != {"text": ""}]
        results: list[Json] = []
        for key, call in enumerate(self._calls):
            answer: dict[str, Json] = {name: call[name] for name in call if name in {"id", "name"}}
            results.append({RESULT: {**answer, "response": {"error": self._refused[key]}}})
        self._spent = added(self._spent, object_of(self._body.get(_USAGE)))
        if _USAGE in self._body:
            self._body = {**self._body, _USAGE: dict.fromkeys(self._spent, 0)}
        self._said, self._calls, self._refused = {}, [], {}
        self._askings += 1
        return [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]

    def _take(self, body: dict[str, Json]) -> tuple[CompleteCall, ...]:
        self._body, self._first_key = body, len(self._calls)
        self._id = self._id or body.get(_ID)
        waiting: list[CompleteCall] = []
        for candidate in map(object_of, list_of(body.get("candidates"))):
            at = index_in(candidate)
            known = self._said.get(at, {})
            before, new = _parts(known), _parts(candidate)
            content: dict[str, Json] = {"role": "model", "parts": [*before, *new]}
            self._said[at] = {**known, **candidate, "content": content}
            (named,) = map(object_of, identified([content]))
            for part, with_id in zip(new, _parts({"content": named})[len(before) :], strict=True):
                if CALL not in part and "function_call" not in part:
                    continue
                call, own = object_of(part.get(CALL)), object_of(with_id.get(CALL))
                if not call or not _IN_PIECES.isdisjoint(call):
                    raise UnreadableEvent
                read = call_of(own.get("id"), own.get("name"), own.get("args") or {})
                waiting.append(CompleteCall(key=len(self._calls), call=read))
                self._calls.append(call)
        self._undecided = {one.key for one in waiting}
        return tuple(waiting)

    def decide(self, decided: CallDecision) -> bytes:
        """Take the decision on a waiting call; return the bytes to forward now, if any."""
        self._undecided.discard(decided.key)
        if decided.refusal is not None:
            self._refused[decided.key] = decided.refusal
        return b""

    def _shown(self) -> list[dict[str, Json]]:
        """The candidates of the latest body, with texts in place of refused calls."""
        key = self._first_key
        shown: list[dict[str, Json]] = []
        for candidate in map(object_of, list_of(self._body.get("candidates"))):
            parts: list[Json] = [*self._before]
            refused = bool(parts)
            for part in _parts(candidate):
                called = CALL in part
                text = self._refused.get(key) if called else None
                key += called
                refused |= text is not None
                parts.append(part if text is None else {"text": text})
            shown.append(_with_parts(candidate, parts) if refused else candidate)
        return shown

    def _with(self, candidates: list[dict[str, Json]]) -> dict[str, Json]:
        """The latest body with these candidates, the first reply's id and the tokens of all.

        The same object if nothing of it changed.
        """
        given = list_of(self._body.get("candidates"))
        if not self._askings and all(a is b for a, b in zip(candidates, given, strict=True)):
            return self._body
        body: dict[str, Json] = {**self._body, "candidates": [*candidates]}
        if self._askings and _ID in body:
            body[_ID] = self._id
        if self._spent and _USAGE in body:
            body[_USAGE] = summed(object_of(body[_USAGE]), self._spent)
        return body


class GeminiEditor(_Edited):
    """Edits one streamed reply of the Gemini API (`Editor`)."""

    def __init__(self) -> None:
        super().__init__()
        self._event = Event(raw=b"", name="", data=None)
        # Whether the editor has been fed the end of the reply.
        self.over = False

    @property
    def holds(self) -> bool:
        """Whether any event waits for a decision."""
        return bool(self._undecided)

    def feed(self, event: Event) -> tuple[bytes, tuple[CompleteCall, ...]]:
        """Take an event; return the bytes to forward now, and the calls that wait."""
        body = payload(event)
        if body is None:
            return event.raw, ()
        self._event = event
        waiting = self._take(body)
        self.over = all(one.get(_END) is not None for one in self._said.values())
        return (b"" if waiting else self._forwarded()), waiting

    def decide(self, decided: CallDecision) -> bytes:
        """Take the decision on a waiting call; return the bytes to forward now.

        The chunk waits until the last of its calls is decided.
        """
        super().decide(decided)
        return b"" if self._undecided else self._forwarded()

    def close(self) -> bytes:
        """The bytes that end a reply whose calls were all refused, without a second request."""
        self.over = True
        end: dict[str, Json] = {"content": {"role": "model", "parts": [{"text": ""}]}, _END: "STOP"}
        return event_of("", self._with([end]))

    def _forwarded(self) -> bytes:
        shown = self._shown()
        if self.refused_all():
            # The reply is not over for the agent, so its end is not forwarded before the second
            # reply of the model.
            shown = [{key: one[key] for key in one if key != _END} for one in shown]
            if not any(text_of(part.get("text")) for one in shown for part in _parts(one)):
                return b""
        body = self._with(shown)
        return self._event.raw if body is self._body else event_of(self._event.name, body)


class GeminiReply(_Edited):
    """Edits a whole reply of the Gemini API."""

    def feed(self, body: dict[str, Json]) -> tuple[CompleteCall, ...]:
        """Take a whole reply; return the calls that must be judged."""
        return self._take(body)

    def again(self) -> list[Json]:
        """Prepare for a second request; return the contents to append to its conversation."""
        (shown,) = self._shown()
        self._before = [*_parts(shown)]
        # If no further reply comes, the agent gets the parts of this one.
        more = super().again()
        self._body = {**self._body, "candidates": [_with_parts(shown, [])]}
        return more

    def edited(self) -> dict[str, Json]:
        """The reply as the agent gets it, after all decisions."""
        return self._with(self._shown())


def _parts(candidate: dict[str, Json]) -> list[dict[str, Json]]:
    return [*map(object_of, list_of(object_of(candidate.get("content")).get("parts")))]


def _with_parts(candidate: dict[str, Json], parts: list[Json]) -> dict[str, Json]:
    return {**candidate, "content": {**object_of(candidate.get("content")), "parts": parts}}
