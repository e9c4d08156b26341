"""Edits streams of OpenAI's Responses API: items that are calls wait, all else is forwarded.

The final object repeats the whole output, and every event has a sequence number. So once an event
was left out of the stream, the final object and the numbers are rewritten.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.model.openai.responses import read_reply, read_turn
from proxy.dialects.model.reading import call_of, object_of, text_of
from proxy.dialects.model.stream import CallDecision, CompleteCall, added, event_of, payload, summed
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.sse import Event, event_bytes
from proxy.dialects.strict_json.tolerant import Json, write_body

CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_CALL_DELTAS: Final = ("response.function_call_arguments", "response.custom_tool_call_input")
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_BEGINS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_NAMED: Final = ("call_id", "name", "namespace")
_NOTE_ID: Final = "msg_mnemogate_"


class ResponsesEditor:
    """Edits one streamed reply of the Responses API (`Editor`)."""

    def __init__(self) -> None:
        self._held: dict[int, list[tuple[Event, dict[str, Json]]]] = {}
        self._items: dict[int, dict[str, Json]] = {}
        self._output: list[Json] = []  # the output items as the agent gets them, of all requests
        self._said: list[Json] = []  # the model's output items in reply to the latest request
        self._refusals: list[tuple[str, str, str]] = []
        self._going_on = 0
        self._next = 0  # the number that the next event gets
        self._shift = 0  # the number of items that the agent got from earlier requests
        self._edited = False
        # The response object of the first event, whose id the agent knows.
        self._response: dict[str, Json] = {}
        self._spent: dict[str, int] = {}
        # Whether the editor has been fed the end of the reply.
        self.over = False

    @property
    def holds(self) -> bool:
        """Whether any event waits for a decision."""
        return bool(self._held)

    @property
    def output(self) -> tuple[Json, ...]:
        """The output items of the reply as the agent gets them."""
        return tuple(self._output)

    def said(self) -> ModelReply:
        """The model's words and calls in reply to the latest request, refused calls included.

        An incomplete item is left out.
        """
        return read_reply({"id": self._response.get("id"), "output": [*self._said]})

    def feed(self, event: Event) -> tuple[bytes, tuple[CompleteCall, ...]]:
        """Take an event; return the bytes to forward now, and the complete calls that wait."""
        body = payload(event)
        kind = text_of(body.get("type")) if body is not None else None
        if body is None or kind is None:
            return event.raw, ()
        if kind in _BEGINS:
            if self._edited:
                return b"", ()
            self._response = object_of(body.get("response"))
        if kind in _ENDS:
            self.over = True
            return self._end(event, body), ()
        if self._brings_more(object_of(body.get("response"))):
            output: list[Json] = [*self._output]
            began: dict[str, Json] = {**object_of(body["response"]), "output": output}
            lean: dict[str, Json] = {**body, "response": began}
            body = lean
            event = Event(raw=event_of(event.name, lean), name=event.name, data=event.data)
        index = body.get("output_index")
        if isinstance(index, int):
            return self._item(event, body, kind, index)
        called = text_of(object_of(body.get("item")).get("type")) in CALLS
        if called or kind.startswith(_CALL_DELTAS):
            # A part of a call that belongs to no known item cannot be judged, so it is dropped.
            return b"", ()
        return self._numbered(event, body), ()

    def decide(self, decided: CallDecision) -> bytes:
        """Take the decision on a waiting call; return the bytes to forward in its place."""
        events = self._held.pop(decided.key)
        item = self._items[decided.key]
        kind = text_of(item.get("type")) or ""
        if decided.refusal is None:
            self._going_on += 1
            self._output.append(item)
            if not _tell(events, item):
                self._edited = True
                return self._as_judged(decided.key, item)
            return b"".join(self._numbered(*one) for one in events)
        call_id = text_of(item.get("call_id")) or text_of(item.get("id")) or ""
        self._refusals.append((call_id, kind, decided.refusal))
        self._edited = True
        return self._note(decided.key, decided.refusal)

    def refused_all(self) -> bool:
        """Whether the reply has calls and all were refused, so that the model is asked again."""
        return bool(self._refusals) and not self._going_on and not self._held

    def again(self) -> list[Json]:
        """Prepare for a second request; return the items to append to its input.

        They are the model's output items, and the refusals as outputs of the calls.
        """
        said = self._said
        outputs = [refusal_item(*one) for one in self._refusals]
        self._said, self._refusals, self._going_on = [], [], 0
        self._items.clear()
        self._shift = len(self._output)
        self.over = False
        return [*said, *outputs]

    def close(self) -> bytes:
        """The bytes that end a reply whose calls were all refused, without a second request."""
        self.over = True
        kind = "response.completed"
        response: dict[str, Json] = {**self._response, "status": "completed"}
        response["output"] = [*self._output]
        body: dict[str, Json] = {"type": kind, "response": response}
        return event_of(kind, {**body, "sequence_number": self._take()})

    def _item(
        self, event: Event, body: dict[str, Json], kind: str, index: int
    ) -> tuple[bytes, tuple[CompleteCall, ...]]:
        item = object_of(body.get("item"))
        if kind == "response.output_item.added" and text_of(item.get("type")) in CALLS:
            self._held[index] = []
        done = kind == "response.output_item.done"
        if kind.startswith(_CALL_DELTAS):
            if index in self._items:
                # The item of this event has ended and may be judged already, so nothing may be
                # added to the item.
                return b"", ()
            self._held.setdefault(index, [])
        if text_of(item.get("type")) in CALLS:
            # An item may become a call after its first event; its later events wait then.
            self._held.setdefault(index, [])
        held = self._held.get(index)
        if held is not None:
            held.append((event, body))
        if done:
            self._said.append(item)
            self._items[index] = item
            if held is None:
                self._output.append(item)
        if held is None:
            return self._numbered(event, body), ()
        return b"", (CompleteCall(key=index, call=call_item(item)),) if done else ()

    def _numbered(self, event: Event, body: dict[str, Json]) -> bytes:
        """The bytes of an event, unchanged or, after an edit, with its numbers rewritten."""
        given = body.get("sequence_number")
        if not self._edited:
            if isinstance(given, int):
                self._next = given + 1
            # After an edit, numbers continue from the last forwarded event, so they never decrease.
            return event.raw
        moved = dict(body)
        if isinstance(given, int):
            moved["sequence_number"] = self._take()
        index = body.get("output_index")
        if isinstance(index, int):
            moved["output_index"] = index + self._shift
        return event_of(event.name, moved)

    def _take(self) -> int:
        number, self._next = self._next, self._next + 1
        return number

    def _end(self, event: Event, body: dict[str, Json]) -> bytes:
        response = object_of(body.get("response"))
        if self.refused_all():
            # The reply is not over for the agent, so its end is not forwarded before the second
            # reply of the model.
            self._spent = added(self._spent, object_of(response.get("usage")))
            return b""
        if not self._edited and not self._brings_more(response):
            return event.raw
        output: list[Json] = [*self._output]
        response = dict(response)
        response["output"] = output
        if self._response.get("id") is not None:
            response["id"] = self._response["id"]
        if self._spent:
            response["usage"] = summed(object_of(response.get("usage")), self._spent)
        ended: dict[str, Json] = {**body, "sequence_number": self._take()}
        ended["response"] = response
        return event_of(event.name, ended)

    def _brings_more(self, response: dict[str, Json]) -> bool:
        """Whether a response object contains calls that came in no event, and were not judged."""
        seen = read_reply({"output": [*self._output]}).calls
        return any(call not in seen for call in read_reply(response).calls)

    def _as_judged(self, index: int, item: dict[str, Json]) -> bytes:
        """The events of a judged call, written anew without deltas, so that all parsers agree."""
        place: dict[str, Json] = {"output_index": index + self._shift}
        events = tuple(
            (f"response.output_item.{kind}", {**place, "item": item}) for kind in ("added", "done")
        )
        return b"".join(
            event_of(kind, {"type": kind, "sequence_number": self._take(), **more})
            for kind, more in events
        )

    def _note(self, index: int, text: str) -> bytes:
        """The events of a message item that contains one text, as the API itself sends them."""
        place = index + self._shift
        item = note_item(place, text)
        part: dict[str, Json] = {"type": "output_text", "text": text, "annotations": []}
        empty: dict[str, Json] = {**part, "text": ""}
        begun: dict[str, Json] = {**item, "status": "in_progress", "content": []}
        inside: dict[str, Json] = {
            "item_id": item.get("id"),
            "output_index": place,
            "content_index": 0,
        }
        self._output.append(item)
        events: tuple[tuple[str, dict[str, Json]], ...] = (
            ("response.output_item.added", {"output_index": place, "item": begun}),
            ("response.content_part.added", {**inside, "part": empty}),
            ("response.output_text.delta", {**inside, "delta": text}),
            ("response.output_text.done", {**inside, "text": text}),
            ("response.content_part.done", {**inside, "part": part}),
            ("response.output_item.done", {"output_index": place, "item": item}),
        )
        return b"".join(
            event_of(kind, {"type": kind, "sequence_number": self._take(), **more})
            for kind, more in events
        )


def with_output(events: list[Event], output: list[Json]) -> list[Event]:
    """The events of a whole stream with other output items, each in two events without deltas.

    Of the given events only the first ones and the last are left, and errors.
    """
    bodies: list[dict[str, Json]] = []
    for body in filter(None, map(payload, events)):
        response = object_of(body.get("response"))
        if body.get("type") in _ENDS:
            bodies += [
                {"type": f"response.output_item.{kind}", "output_index": index, "item": item}
                for index, item in enumerate(output)
                for kind in ("added", "done")
            ]
            bodies.append({**body, "response": {**response, "output": output}})
        elif body.get("type") in _BEGINS:
            bodies.append({**body, "response": {**response, "output": []}})
        elif body.get("type") == "error":
            bodies.append(body)
    return [_event({**body, "sequence_number": at}) for at, body in enumerate(bodies)]


def _event(body: dict[str, Json]) -> Event:
    name, data = text_of(body.get("type")) or "", write_body(body).decode("utf-8")
    return Event(raw=event_bytes(name, data), name=name, data=data)


def _tell(events: list[tuple[Event, dict[str, Json]]], item: dict[str, Json]) -> bool:
    """Whether the events of a call describe exactly the call that was judged.

    Only then are the events forwarded unchanged.
    """
    field = "input" if item.get("type") == "custom_tool_call" else "arguments"
    given = item.get(field)
    pieces: list[str] = []
    for event, body in events:
        kind = text_of(body.get("type")) or ""
        begun = object_of(body.get("item"))
        named = all(begun.get(key) == item.get(key) for key in _NAMED) if begun else True
        whole = kind.endswith(".done") and field in body and body[field] != given
        if not named or whole or event.name not in {"", kind}:
            return False
        if kind.startswith(_CALL_DELTAS) and kind.endswith(".delta"):
            pieces.append(text_of(body.get("delta")) or "")
        if begun and begun.get(field) not in (None, "", given):
            return False
    return not pieces or "".join(pieces) == given


def note_item(place: int, text: str) -> dict[str, Json]:
    """A text of the sidecar as an output item: a message of the assistant."""
    part: dict[str, Json] = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": f"{_NOTE_ID}{place}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def refusal_item(call_id: str, kind: str, text: str) -> dict[str, Json]:
    """The refusal of a call as an input item: the call's output."""
    return {"type": f"{kind}_output", "call_id": call_id, "output": text}


def call_item(item: dict[str, Json]) -> ModelCall:
    """The call in a complete item.

    An item that began as a call and ends as another type counts as a call as well.
    """
    calls = read_turn(item).calls
    given = item.get("arguments")
    return calls[0] if calls else call_of(item.get("call_id"), item.get("name"), given)
