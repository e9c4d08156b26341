"""Edits streams of OpenAI's Chat Completions API: tool calls wait, everything else is forwarded.

A call is complete only when its choice ends. So from the first piece of a call on, the chunks of
the choice wait; if no call is refused, the chunks are forwarded unchanged.
"""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.dialects.model.openai.chat import quoted_in
from proxy.dialects.model.reading import call_of, index_in, list_of, object_of, spelled, text_of
from proxy.dialects.model.stream import (
    CallDecision,
    CompleteCall,
    UnreadableEvent,
    added,
    event_of,
    payload,
    summed,
)
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json

DONE: Final = "[DONE]"
_LEGACY: Final = -1  # the index given here to the one call of the older `function_call` member
_OF_ONE_REPLY: Final = ("id", "created", "model")


class _Call:
    """One tool call while its pieces arrive."""

    def __init__(self) -> None:
        self.call_id = ""
        self.kind = "function"
        self.name = ""
        self.given: list[str] = []
        self.odd = False  # whether other parsers might build a different call from the pieces

    def add(self, piece: dict[str, Json]) -> None:
        custom = object_of(piece.get("custom"))
        function = object_of(piece.get("function"))
        self.kind = "custom" if custom else self.kind
        call_id = text_of(piece.get("id")) or self.call_id
        name = text_of((custom or function).get("name")) or ""
        again = bool(self.name and name) or call_id != (self.call_id or call_id)
        self.odd = self.odd or again or bool(custom and function)
        self.call_id = call_id
        self.name += name if name != self.name else ""
        given = custom.get("input") or function.get("arguments")
        self.odd = self.odd or not isinstance(given, str | None)
        self.given.append("" if given is None else spelled(given))

    def whole(self) -> dict[str, Json]:
        field = "input" if self.kind == "custom" else "arguments"
        inside: dict[str, Json] = {"name": self.name, field: "".join(self.given)}
        return {"id": self.call_id, "type": self.kind, self.kind: inside}

    def read(self) -> ModelCall:
        given: Json = "".join(self.given)
        if self.kind == "custom":
            # The input of a custom tool is free text, not JSON.
            free: dict[str, Json] = {"input": given}
            given = free
        return call_of(self.call_id, self.name, given)


class _WaitingChoice(msgspec.Struct):
    """The part of a waiting chunk that belongs to one choice of the reply.

    `raw` is the whole chunk if it contains only this choice and no text, else None.
    """

    name: str
    body: dict[str, Json]
    choice: dict[str, Json]
    raw: bytes | None


class _Choice:
    """One choice of the reply, with the choice's calls and waiting chunks."""

    def __init__(self) -> None:
        self.calls: dict[int, _Call] = {}
        self.kept: list[_WaitingChoice] = []
        self.text: list[str] = []
        self.annotations: list[Json] = []
        self.undecided: set[int] = set()
        self.ended = False
        self.odd = False
        self.latest: dict[int, int] = {}  # index in the stream -> index of the latest call under it
        self.refused: dict[int, str] = {}

    def place(self, at: int, piece: dict[str, Json]) -> int:
        """The index of the call that a piece belongs to, as calls are counted here.

        Some servers give every call the same index, so a new call id or name begins a new call.
        """
        if at == _LEGACY:
            return at
        known = self.calls.get(self.latest.get(at, at))
        call_id = text_of(piece.get("id"))
        named = object_of(piece.get("custom")) or object_of(piece.get("function"))
        fresh = known is not None and call_id is not None and call_id != known.call_id
        if known is None or (fresh and text_of(named.get("name"))):
            self.odd = self.odd or known is not None or at in self.calls
            self.latest[at] = max((-1, *self.calls)) + 1 if known or at in self.calls else at
        return self.latest.get(at, at)

    def told_twice(self) -> bool:
        return self.odd or any(call.odd for call in self.calls.values())

    def going_on(self) -> list[int]:
        return [at for at in self.calls if at not in self.refused]


class ChatEditor:
    """Edits one streamed reply of the Chat Completions API (`Editor`).

    The model is asked again only if the reply has exactly one choice.
    """

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        # The index of choice and call for each `key` of `CompleteCall` and `CallDecision`.
        self._order: list[tuple[int, int]] = []
        self._chunk: dict[str, Json] = {}
        self._first: dict[str, Json] = {}
        self._askings = 0
        self._spent: dict[str, int] = {}
        # Whether the editor has been fed the end of the reply.
        self.over = False

    @property
    def holds(self) -> bool:
        """Whether any event waits for a decision."""
        return any(choice.kept for choice in self._choices.values()) and not self.refused_all()

    def said(self) -> ModelReply:
        """The model's words and calls in reply to the latest request, refused calls included."""
        texts = ("".join(choice.text) for choice in self._choices.values())
        calls = (call for choice in self._choices.values() for call in choice.calls.values())
        quoted: list[Json] = []
        for choice in self._choices.values():
            quoted += choice.annotations
        return ModelReply(
            reply_id=text_of(self._first.get("id")),
            said=tuple(text for text in texts if text),
            calls=tuple(call.read() for call in calls),
            heard=quoted_in({"annotations": quoted}),
        )

    def feed(self, event: Event) -> tuple[bytes, tuple[CompleteCall, ...]]:
        """Take an event; return the bytes to forward now, and the calls of a choice that ends."""
        body = payload(event)
        if body is None:
            if event.data != DONE:
                return event.raw, ()
            self.over = True
            return (b"" if self.refused_all() else event.raw), ()
        self._chunk = {key: body[key] for key in body if key not in {"choices", "usage"}}
        if not self._first:
            self._first = {key: body[key] for key in _OF_ONE_REPLY if key in body}
        choices = [_streamed(object_of(choice)) for choice in list_of(body.get("choices"))]
        if not choices:
            return self._usage(event, body), ()
        if self._askings:
            # In the reply to a second request, the role is removed, because the agent has it.
            choices = [_without_role(choice) for choice in choices]
            unnamed: dict[str, Json] = {**body, "choices": [*choices]}
            body = unnamed
        passing: list[Json] = []
        waiting: list[CompleteCall] = []
        for choice in choices:
            now = self._choice(event, body, choice, alone=len(choices) == 1)
            if now is not None:
                passing.append(now)
            waiting += self._whole(choice)
        if len(passing) == len(choices) and all(map(_is, passing, choices)):
            return self._renamed(event.name, body, event.raw), tuple(waiting)
        out = self._renamed(event.name, {**body, "choices": passing}) if passing else b""
        return out, tuple(waiting)

    def decide(self, decided: CallDecision) -> bytes:
        """Take the decision on a waiting call; return the bytes to forward now.

        The chunks of a choice wait until its last call is decided; a refusal's text does not.
        """
        index, at = self._order[decided.key]
        choice = self._choices[index]
        choice.undecided.discard(at)
        note = b""
        if decided.refusal is not None:
            choice.refused[at] = decided.refusal
            note = self._note(index, decided.refusal)
        if choice.undecided or self.refused_all():
            return note
        kept, choice.kept = choice.kept, []
        if choice.told_twice() and kept:
            note += self._as_judged(index, choice)
            kept = [_bare(one) for one in kept]
        return note + b"".join(self._let_go(choice, one) for one in kept)

    def refused_all(self) -> bool:
        """Whether the only choice has calls and all were refused: then the model is asked again."""
        if len(self._choices) != 1:
            return False
        (choice,) = self._choices.values()
        return bool(choice.calls) and not choice.undecided and not choice.going_on()

    def again(self) -> list[Json]:
        """Prepare for a second request; return the messages to append to its conversation.

        They are the model's reply, and the refusals as results of the reply's calls.
        """
        (choice,) = self._choices.values()
        said: dict[str, Json] = {"role": "assistant", "content": "".join(choice.text) or None}
        results: list[dict[str, Json]]
        if _LEGACY in choice.calls:
            call = choice.calls[_LEGACY]
            said["function_call"] = call.whole()["function"]
            text = choice.refused[_LEGACY]
            results = [{"role": "function", "name": call.name, "content": text}]
        else:
            said["tool_calls"] = [call.whole() for call in choice.calls.values()]
            results = [
                {"role": "tool", "tool_call_id": call.call_id, "content": choice.refused[at]}
                for at, call in choice.calls.items()
            ]
        self._choices.clear()
        self._askings += 1
        self.over = False
        return [said, *results]

    def close(self) -> bytes:
        """The bytes that end a reply whose calls were all refused, without a second request."""
        self.over = True
        end: dict[str, Json] = {"index": 0, "delta": {}, "finish_reason": "stop"}
        self._choices.clear()
        chunk = self._renamed("", {**self._chunk, "choices": [end]})
        return chunk + f"data: {DONE}\n\n".encode()

    def _choice(
        self, event: Event, body: dict[str, Json], choice: dict[str, Json], *, alone: bool
    ) -> Json:
        """The part of a choice to forward now; None if all of it waits.

        The same object if nothing of it waits.
        """
        state = self._choices.setdefault(index_in(choice), _Choice())
        delta = object_of(choice.get("delta"))
        text = text_of(delta.get("content")) or text_of(choice.get("text")) or ""
        state.text.append(text)
        state.annotations += list_of(delta.get("annotations"))
        pieces = _pieces(delta)
        if pieces and state.ended:
            # Pieces of a call after the end of its choice are refused, because other parsers may
            # add them to a judged call.
            raise UnreadableEvent
        state.odd = state.odd or not _placed(delta)
        for at, piece in pieces:
            state.calls.setdefault(state.place(at, piece), _Call()).add(piece)
        ends = choice.get("finish_reason") is not None
        if not pieces and not (ends and state.calls and not state.ended):
            return choice
        if text or not alone:
            # Text that comes together with a piece of a call is forwarded at once.
            rest: dict[str, Json] = {**choice, "delta": _calls_of(delta)}
            state.kept.append(_WaitingChoice(event.name, body, rest, None))
            if not text:
                return None
            without: dict[str, Json] = {
                key: value for key, value in delta.items() if key not in _calls_of(delta)
            }
            return {**choice, "delta": without, "finish_reason": None}
        state.kept.append(_WaitingChoice(event.name, body, choice, event.raw))
        return None

    def _whole(self, choice: dict[str, Json]) -> list[CompleteCall]:
        """The calls of a choice that ends with this chunk, to be judged; else none."""
        index = index_in(choice)
        state = self._choices[index]
        if choice.get("finish_reason") is None or state.ended:
            return []
        found: list[CompleteCall] = []
        state.ended = bool(state.calls)
        for at, call in state.calls.items():
            found.append(CompleteCall(key=self._key(index, at), call=call.read()))
            state.undecided.add(at)
        return found

    def _key(self, index: int, at: int) -> int:
        self._order.append((index, at))
        return len(self._order) - 1

    def _let_go(self, choice: _Choice, kept: _WaitingChoice) -> bytes:
        """The bytes of a chunk that waited, without the refused calls."""
        if not choice.refused and kept.raw is not None:
            return self._renamed(kept.name, kept.body, kept.raw)
        part = _without(kept.choice, choice)
        if part is None:
            return b""
        return self._renamed(kept.name, {**kept.body, "choices": [part]})

    def _as_judged(self, index: int, choice: _Choice) -> bytes:
        """The admitted calls, each written anew as one piece that all parsers read alike."""
        going_on = choice.going_on()
        pieces: list[Json] = [
            {"index": number, **choice.calls[at].whole()}
            for number, at in enumerate(at for at in going_on if at != _LEGACY)
        ]
        delta: dict[str, Json] = {"tool_calls": pieces} if pieces else {}
        if _LEGACY in going_on:
            delta["function_call"] = choice.calls[_LEGACY].whole()["function"]
        part: dict[str, Json] = {"index": index, "delta": delta, "finish_reason": None}
        return self._renamed("", {**self._chunk, "choices": [part]}) if delta else b""

    def _renamed(self, name: str, body: dict[str, Json], raw: bytes | None = None) -> bytes:
        """The bytes of a chunk: after a second request, with the id of the first reply."""
        if not self._askings and raw is not None:
            return raw
        return event_of(name, {**body, **self._first} if self._askings else body)

    def _usage(self, event: Event, body: dict[str, Json]) -> bytes:
        usage = object_of(body.get("usage"))
        if self.refused_all():
            self._spent = added(self._spent, usage)
            return b""
        if not usage or not self._spent:
            return self._renamed(event.name, body, event.raw)
        return self._renamed(event.name, {**body, "usage": summed(usage, self._spent)})

    def _note(self, index: int, text: str) -> bytes:
        part: dict[str, Json] = {"index": index, "delta": {"content": text}, "finish_reason": None}
        return self._renamed("", {**self._chunk, "choices": [part]})


def _streamed(choice: dict[str, Json]) -> dict[str, Json]:
    """One choice of a chunk; calls in a whole `message` are moved to `delta`, as in a stream."""
    message = object_of(choice.get("message"))
    if not _calls_of(message):
        return choice
    rest = {key: value for key, value in choice.items() if key != "message"}
    return {**rest, "delta": {**message, **object_of(choice.get("delta"))}}


def _without_role(choice: dict[str, Json]) -> dict[str, Json]:
    delta = object_of(choice.get("delta"))
    if "role" not in delta:
        return choice
    return {**choice, "delta": {key: part for key, part in delta.items() if key != "role"}}


def _is(one: Json, other: dict[str, Json]) -> bool:
    return one is other


def _pieces(delta: dict[str, Json]) -> list[tuple[int, dict[str, Json]]]:
    """The pieces of calls in one delta (an increment of the reply), each with its index."""
    found: list[tuple[int, dict[str, Json]]] = []
    for part in list_of(delta.get("tool_calls")):
        piece = object_of(part)
        at = piece.get("index")
        found.append((at if isinstance(at, int) and at >= 0 else 0, piece))
    legacy = object_of(delta.get("function_call"))
    if legacy:
        found.append((_LEGACY, {"function": legacy}))
    return found


def _placed(delta: dict[str, Json]) -> bool:
    """Whether each piece of a call in a delta has a valid index."""
    calls = delta.get("tool_calls")
    places = [object_of(part).get("index") for part in list_of(calls)]
    return isinstance(calls, list | None) and all(type(at) is int and at >= 0 for at in places)


def _bare(kept: _WaitingChoice) -> _WaitingChoice:
    """A chunk that waited, without any of its calls."""
    delta = object_of(kept.choice.get("delta"))
    called = _calls_of(delta)
    rest: dict[str, Json] = {key: part for key, part in delta.items() if key not in called}
    return _WaitingChoice(kept.name, kept.body, {**kept.choice, "delta": rest}, None)


def _calls_of(delta: dict[str, Json]) -> dict[str, Json]:
    return {key: delta[key] for key in ("tool_calls", "function_call") if key in delta}


def _without(part: dict[str, Json], choice: _Choice) -> dict[str, Json] | None:
    """The part of a chunk that belongs to one choice, without the refused calls.

    None if the part has neither content nor an end then.
    """
    delta = dict(object_of(part.get("delta")))
    places = {at: number for number, at in enumerate(choice.going_on())}
    pieces: list[Json] = [
        {**piece, "index": places[at]}
        for at, piece in _pieces({"tool_calls": delta.pop("tool_calls", None)})
        if at in places
    ]
    if pieces:
        delta["tool_calls"] = pieces
    if _LEGACY in choice.refused:
        delta.pop("function_call", None)
    reason = part.get("finish_reason")
    if reason in ("tool_calls", "function_call") and not places:
        reason = "stop"
    if not any(delta.values()) and reason is None:
        return None
    return {**part, "delta": delta, "finish_reason": reason}
