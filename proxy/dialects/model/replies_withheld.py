"""Removes withheld texts from a streamed reply on its way to the agent. Pure.

A text is forwarded word by word: only words that may begin a withheld text wait. Tool calls are not
searched here, because they are judged whole. Any other string is forwarded at once, and cut as soon
as it contains a withheld text together with the strings sent before at its place. While anything is
withheld, every event is written anew, so that it has no fields but its name and data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from policy.bounded import Bounded
from proxy.dialects.model.reading import (
    index_in,
    kind_of,
    list_of,
    object_of,
    put_at,
    text_of,
)
from proxy.dialects.model.stream import event_of, payload
from proxy.dialects.model.withheld import Asks, changed, names, seals, sieved
from proxy.dialects.sse import Event, event_bytes
from proxy.dialects.strict_json.tolerant import Json

_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking"}
_CALLS: Final = frozenset({"tool_use", "function_call", "custom_tool_call"})
# These members are not filtered here, because a tool call is judged whole: `_DECIDED` are members
# of a call, `_CHAT_CALLS` members of a chat's delta that contain calls.
_DECIDED: Final = frozenset({"name", "arguments", "input"})
_CHAT_CALLS: Final = frozenset({"tool_calls", "function_call"})
_CHAT_TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning", "thinking")
_RESPONSE_DELTAS: Final = (
    *("response.output_text", "response.refusal"),
    *("response.reasoning_text", "response.reasoning_summary_text"),
)
_CALL_DELTAS: Final = ("response.function_call_arguments", "response.custom_tool_call_input")
# The member in which an API repeats a text token by token.
_BESIDE: Final = "logprobs"
_EVENT_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z0-9_.$-]*", re.ASCII)
# Finds the words in a part of JSON text. Only words are removed: the punctuation stays, so that the
# text is still JSON.
_JSON_WORDS: Final = re.compile(r"\\.|\w")
_TRAIL_LEN: Final = 512
_ENDED_MAX: Final = 64
_DONE: Final = "[DONE]"
_ENDS: Final = frozenset({"message_delta", "message_stop", "error"})
# For each API, the keys that lead to a call which is judged whole, with the event type in front of
# them where it matters.
_PLACES: Final = {
    "anthropic": frozenset({("content_block_start", "content_block")}),
    "responses": frozenset({("item",), ("response", "output")}),
}
_HOLD_CALLS: Final = frozenset({"function", "custom"})
# For each API, the places of calls in a whole reply; a star is each element of a list.
_EACH: Final = "*"
_CALLS_AT: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "anthropic": (("content", _EACH),),
    "responses": (("output", _EACH),),
    "gemini": (("candidates", _EACH, "content", "parts", _EACH, "functionCall"),),
    "chat": (
        ("choices", _EACH, "message", "tool_calls", _EACH, "function"),
        ("choices", _EACH, "message", "tool_calls", _EACH, "custom"),
        ("choices", _EACH, "message", "function_call"),
    ),
}


class Flows(Protocol):
    """Filters one text of a reply while it arrives."""

    @property
    def holds(self) -> bool:
        """Whether a part of the text waits, because it may begin a withheld text."""
        ...

    def feed(self, text: str) -> str:
        """Take the next part of the text; return the words to forward now."""
        ...

    def end(self) -> str:
        """Return the words that still wait, at the end of the text."""
        ...


class Withholds(Protocol):
    """The withheld texts of a principal, as the filter of a reply uses them."""

    @property
    def active(self) -> bool:
        """Whether any text is withheld at this moment."""
        ...

    def flow(self) -> Flows:
        """A new filter, for a text of the reply that begins now."""
        ...

    def carries(self, text: str) -> bool:
        """Whether a text contains a withheld text."""
        ...


class _ReplyText:
    """One text of the reply, with the last event that contained a part of the text."""

    def __init__(self, flow: Flows, event: Event, body: dict[str, Json]) -> None:
        self.flow = flow
        self.event = event
        self.body = body


_Key = tuple[str | int, ...]


class ReplyFilter:
    """Removes withheld texts from one streamed reply; in an unknown API, from every string."""

    def __init__(self, api: str, withholds: Withholds) -> None:
        self._withholds = withholds
        self._texts: dict[_Key, _ReplyText] = {}
        self._feed = {
            "anthropic": self._anthropic,
            "chat": self._chat,
            "completions": self._chat,
            "responses": self._responses,
            "gemini": self._gemini,
        }.get(api, self._other)
        self._places = _PLACES.get(api, frozenset[tuple[str, ...]]())
        # Filters of ended texts, oldest first: some clients append later strings to an ended text.
        self._ended = Bounded[_Key, Flows](_ENDED_MAX)
        self._next: int | None = (
            None  # the `sequence_number` of the next event, once the reply had one
        )
        self._trails: dict[_Key, str] = {}  # the last words that were forwarded, for each place
        self._calls: set[int] = set()  # the indexes of calls, which are judged before forwarding

    def feed(self, event: Event) -> list[Event]:
        """Take the next event; return the events to forward now."""
        begun = self._texts or self._trails or self._next is not None
        if not self._withholds.active and not begun:
            return [event]
        body = payload(event)
        if body is None:
            # A comment does not end a text, so the words of texts continue to wait.
            return [*(self._flush(()) if event.data == _DONE else ()), self._bare(event)]
        return self._feed(event, body)

    def end(self) -> list[Event]:
        """Return events with the words that still wait, for a stream that breaks off."""
        return self._flush(())

    def _bare(self, event: Event) -> Event:
        """An event without a JSON object, such as a comment or `[DONE]`, without withheld texts."""
        if event.data is None:
            text = event.raw.decode("utf-8", "replace")
            kept = self._trailed((), text) == text
            return event if kept else Event(raw=b":\n\n", name="", data=None)
        data = self._trailed(("",), event.data)
        return Event(raw=event_bytes(_name(event), data), name=_name(event), data=data)

    def _other(self, event: Event, body: dict[str, Json]) -> list[Event]:
        """Filter an event of an unknown API, in which any string may be text."""
        return [_made(event, self._whole(body, (event.name, str(body.get("type")))))]

    # ---- filtering one text of the reply ---------------------------------------------------------

    def _told(self, key: _Key, text: str, event: Event, body: dict[str, Json]) -> str:
        known = self._texts.get(key)
        if known is None:
            flow = self._ended.pop(key, None) or self._withholds.flow()
            known = self._texts[key] = _ReplyText(flow, event, body)
        known.event, known.body = event, body
        return known.flow.feed(text)

    def _flush(self, prefix: _Key) -> list[Event]:
        """End all texts whose key begins with `prefix`; return events with their waiting words.

        Each event is a copy of the last event of its text, with the waiting words as content.
        """
        return [
            event
            for key, text, rest in self._rests(prefix)
            for event in self._numbered(text.event, _with_text(key, text.body, rest))
        ]

    def _rests(self, prefix: _Key) -> Iterator[tuple[_Key, _ReplyText, str]]:
        """End all texts whose key begins with `prefix`; yield each one that has waiting words."""
        for key in [key for key in self._texts if key[: len(prefix)] == prefix]:
            text = self._texts.pop(key)
            rest = text.flow.end()
            self._ended[key] = text.flow
            if rest:
                yield key, text, rest

    def _trailed(self, at: _Key, text: str) -> str:
        """A string to forward at once, cut if it completes a withheld text with earlier ones.

        It is searched together with the last words that were forwarded for the place `at`.
        """
        if self._withholds.carries(text):
            self._trails.pop(at, None)
            return self._cut(text)
        before = self._trails.get(at, "")
        if text == before:
            return text
        told = before + text
        if before and self._withholds.carries(told):
            self._trails.pop(at, None)
            cut = self._cut(told)
            return _behind(before, cut)
        self._trails[at] = told[-_TRAIL_LEN:]
        return text

    def _cut(self, text: str) -> str:
        """A text that arrived whole, without withheld words; "" if it still contains some."""
        flow = self._withholds.flow()
        cut = flow.feed(text) + flow.end()
        return "" if self._withholds.carries(cut) else cut

    def _whole(self, body: dict[str, Json], at: _Key) -> dict[str, Json]:
        return object_of(self._cleaned(body, at))

    def _cleaned(self, value: Json, at: _Key) -> Json:
        """JSON of an event without withheld texts; the members of judged calls stay unchanged."""
        if isinstance(value, str):
            return self._trailed(at, value)
        if isinstance(value, list):
            return [self._cleaned(part, (*at, index)) for index, part in enumerate(value)]
        if not isinstance(value, dict):
            return value
        called = text_of(value.get("type")) in _CALLS and self._decides(at)
        return self._fields(value, at, _DECIDED if called else frozenset())

    def _fields(self, value: dict[str, Json], at: _Key, left: frozenset[str]) -> dict[str, Json]:
        return {
            name: part
            if name in left or seals(name, part) or names(name, part)
            else self._cleaned(part, (*at, name))
            for name, part in value.items()
            if name != _BESIDE and (_KEY.fullmatch(name) or not self._withholds.carries(name))
        }

    def _decides(self, at: _Key) -> bool:
        named = tuple(part for part in at if isinstance(part, str))
        return named in self._places or named[1:] in self._places

    def _called(self, value: Json, at: _Key) -> Json:
        """Calls in a chat's delta without withheld texts, except in members that are judged."""
        if isinstance(value, list):
            return [self._called(part, (*at, index)) for index, part in enumerate(value)]
        if not isinstance(value, dict):
            return self._cleaned(value, at)
        inside: dict[str, Json] = {
            name: self._fields(object_of(value[name]), (*at, name), _DECIDED)
            for name in _HOLD_CALLS
            if isinstance(value.get(name), dict)
        }
        left = _DECIDED if at[-1] == "function_call" else frozenset[str]()
        return {**self._fields(value, at, _HOLD_CALLS | left), **inside}

    def _in_json(self, at: _Key, piece: str) -> str:
        """A delta of JSON arguments that no verdict is about, without withheld words.

        The arguments remain valid JSON.
        """
        return piece if self._trailed(at, piece) == piece else _JSON_WORDS.sub("", piece)

    # ---- filtering events of each of the four APIs- ----------------------------------------------

    def _anthropic(self, event: Event, body: dict[str, Json]) -> list[Event]:
        kind = body.get("type")
        if kind == "content_block_delta":
            return self._anthropic_delta(event, body)
        index = index_in(body)
        made = _made(event, self._whole(body, (str(kind), index)))
        if kind == "content_block_start":
            start = object_of(body.get("content_block"))
            change = (
                self._calls.add if text_of(start.get("type")) in _CALLS else self._calls.discard
            )
            change(index)
        if kind == "content_block_stop":
            return [*self._flush((index,)), made]
        return [*(self._flush(()) if kind in _ENDS else ()), made]

    def _anthropic_delta(self, event: Event, body: dict[str, Json]) -> list[Event]:
        index = index_in(body)
        delta = object_of(body.get("delta"))
        kind = str(delta.get("type"))
        if kind == "input_json_delta" and isinstance(piece := delta.get("partial_json"), str):
            if index not in self._calls:
                piece = self._in_json((index, kind), piece)
            lean = self._whole({**body, "delta": {**delta, "partial_json": ""}}, (index, ""))
            told = {**object_of(lean["delta"]), "partial_json": piece}
            return [_made(event, {**lean, "delta": told})]
        field = _DELTAS.get(kind, "")
        given = delta.get(field)
        if not isinstance(given, str):
            return [_made(event, self._whole(body, (index, kind)))]
        lean = self._whole({**body, "delta": {**delta, field: ""}}, (index, kind))
        ready = self._told((index, field), given, event, lean)
        told = {**object_of(lean["delta"]), field: ready}
        return [_made(event, {**lean, "delta": told})] if ready else []

    def _chat(self, event: Event, body: dict[str, Json]) -> list[Event]:
        out: list[Event] = []
        made: list[Json] = []
        lean = self._whole({key: body[key] for key in body if key != "choices"}, ("chunk",))
        lean |= {"choices": made} if "choices" in body else {}
        for part in list_of(body.get("choices")):
            choice = dict(object_of(part))
            at = index_in(choice)
            given_delta = choice.pop("delta", None)
            delta = object_of(given_delta)
            texts: dict[str, Json] = {}
            if isinstance(text := choice.pop("text", None), str):
                texts["text"] = self._told((at, "text"), text, event, lean)
            said: dict[str, Json] = {}
            for field, given in delta.items():
                if field in _CHAT_TEXTS and isinstance(given, str) and given:
                    said[field] = self._told((at, "delta", field), given, event, lean)
                elif field in _CHAT_CALLS:
                    said[field] = self._called(given, (at, "delta", field))
                else:
                    said |= self._whole({field: given}, (at, "delta"))
            if choice.get("finish_reason") is not None:
                # Words that still wait are forwarded now, because in a later chunk they would come
                # after the end of the choice.
                out += self._flush((at,))
            rest = self._whole(choice, (at, "choice"))
            rest |= {} if given_delta is None else {"delta": said}
            made.append({**rest, **texts})
        return [*out, _made(event, lean)]

    def _responses(self, event: Event, body: dict[str, Json]) -> list[Event]:
        kind = str(body.get("type"))
        part = "content_index" if "content_index" in body else "summary_index"
        place = (index_in(body, "output_index"), index_in(body, part))
        for family in _RESPONSE_DELTAS:
            key: _Key = (*place, family)
            given = body.get("delta")
            if kind == f"{family}.delta" and isinstance(given, str):
                lean = self._whole({**body, "delta": ""}, (kind, *place))
                ready = self._told(key, given, event, lean)
                if not ready:
                    self._count(body)
                    return []
                return self._numbered(event, {**lean, "delta": ready})
            if kind == f"{family}.done":
                return [*self._flush(key), *self._beside(event, body, (kind, *place))]
        if text_of(object_of(body.get("item")).get("type")) in _CALLS:
            self._calls.add(place[0])
        out: list[Event] = []
        if kind.endswith((".completed", ".incomplete", ".failed")):
            out = self._flush(())
        elif kind.endswith((".done", ".added")):
            out = self._flush(place[:1])
        return [*out, *self._beside(event, body, (kind, *place))]

    def _beside(self, event: Event, body: dict[str, Json], at: _Key) -> list[Event]:
        """Filter an event that is no delta of a text: it repeats texts, or its type is unknown."""
        kind, index = str(at[0]), at[1]
        if kind.startswith(_CALL_DELTAS) and index in self._calls:
            lean = self._fields(body, at, frozenset({"delta", "arguments", "input"}))
            return self._numbered(event, lean)
        piece = body.get("delta")
        if kind.endswith(("arguments.delta", "input.delta")) and isinstance(piece, str):
            return self._numbered(event, {**body, "delta": self._in_json(at, piece)})
        return self._numbered(event, self._whole(body, at))

    def _gemini(self, event: Event, body: dict[str, Json]) -> list[Event]:
        made: list[Json] = []
        lean = self._whole({key: body[key] for key in body if key != "candidates"}, ("chunk",))
        lean |= {"candidates": made} if "candidates" in body else {}
        for one in list_of(body.get("candidates")):
            candidate = dict(object_of(one))
            at = index_in(candidate)
            content = dict(object_of(candidate.pop("content", None)))
            given = map(object_of, list_of(content.pop("parts", None)))
            parts: list[Json] = [new for part in given for new in self._part(at, part, event, lean)]
            if candidate.get("finishReason") is not None:
                parts += [_part_of(key, words) for key, _, words in self._rests((at,))]
            rest = self._whole(candidate, (at, "candidate"))
            made.append({**rest, "content": {**self._whole(content, (at,)), "parts": parts}})
        return [_made(event, lean)]

    def _part(
        self, at: int, part: dict[str, Json], event: Event, lean: dict[str, Json]
    ) -> list[Json]:
        """The part to forward in place of one part of a candidate; none while its words wait.

        Only the candidate's end ends a text: what comes between two parts of it may be any part.
        """
        text, call = part.get("text"), object_of(part.get("functionCall"))
        kind = "thought" if part.get("thought") is True else "text"
        if isinstance(text, str) and text and not call:
            made = self._whole({**part, "text": ""}, (at, kind))
            made["text"] = self._told((at, kind), text, event, lean)
            return [made] if made["text"] or "thoughtSignature" in made else []
        left = {name: value for name, value in part.items() if name != "functionCall"}
        made = self._whole(left, (at, "part"))
        if call:
            made["functionCall"] = self._fields(call, (at, "call"), frozenset({"name", "args"}))
        return [made]

    # ---- numbering the events anew ---------------------------------------------------------------

    def _numbered(self, event: Event, body: dict[str, Json]) -> list[Event]:
        """The event with the next sequence number, because events were dropped and added."""
        self._count(body)
        if self._next is not None and "sequence_number" in body:
            body = {**body, "sequence_number": self._next}
            self._next += 1
        return [_made(event, body)]

    def _count(self, body: dict[str, Json]) -> None:
        number = body.get("sequence_number")
        if self._next is None and isinstance(number, int):
            self._next = number


def sieved_reply(
    api: str, body: dict[str, Json], asks: Asks, spared: Callable[[str], str]
) -> dict[str, Json]:
    """A whole reply without withheld texts.

    `spared` removes sentences that made a memory count as false. The reply's calls stay, because
    they are judged elsewhere.
    """
    lifted: list[tuple[_Key, Json]] = []
    left: Json = body
    decided = {"name", "args"} if api == "gemini" else _DECIDED
    for place, call in _calls_in(api, body):
        for name in sorted(decided & call.keys()):
            lifted.append(((*place, name), call[name]))
            left = put_at(left, (*place, name), None)
    made = sieved(changed(left, spared, asks.of), asks)
    for place, value in lifted:
        try:
            made = put_at(made, place, value)
        except LookupError:
            continue  # a call below a withheld key is gone
    return made if isinstance(made, dict) else {}


def _calls_in(api: str, body: dict[str, Json]) -> Iterator[tuple[_Key, dict[str, Json]]]:
    """The calls in a whole reply, each with its place."""
    for pattern in _CALLS_AT.get(api, _CALLS_AT["anthropic"]):
        for place, value in _parts_at(body, pattern):
            # An element among others is a call by its type, any other value by its member's name.
            if pattern[-1] != _EACH or kind_of(value) in _CALLS:
                yield place, object_of(value)


def _parts_at(value: Json, pattern: tuple[str, ...]) -> Iterator[tuple[_Key, Json]]:
    """Each value to which a pattern leads, with its place; None where there is no value."""
    if not pattern:
        yield (), value
        return
    first, rest = pattern[0], pattern[1:]
    named: list[tuple[str | int, Json]] = [(first, object_of(value).get(first))]
    for step, part in enumerate(list_of(value)) if first == _EACH else named:
        for place, found in _parts_at(part, rest):
            yield (step, *place), found


def _with_text(key: _Key, body: dict[str, Json], text: str) -> dict[str, Json]:
    """The event's body with the given text as its only content."""
    last = str(key[-1])
    if "choices" in body:
        choice: dict[str, Json] = {"index": key[0], "finish_reason": None}
        choice |= {"delta": {last: text}} if "delta" in key else {last: text}
        return {**body, "choices": [choice]}
    if "candidates" in body:
        content: dict[str, Json] = {"role": "model", "parts": [_part_of(key, text)]}
        return {**body, "candidates": [{"index": key[0], "content": content}]}
    if last in {"text", "thinking"}:
        return {**body, "delta": {**object_of(body.get("delta")), last: text}}
    return {**body, "delta": text}


def _part_of(key: _Key, text: str) -> Json:
    """A part of a candidate: a thought, if the key of the text is that of thoughts."""
    return {"text": text, "thought": True} if key[-1] == "thought" else {"text": text}


def _behind(before: str, cut: str) -> str:
    """The part of a cleaned text (`cut`) that was not sent to the agent yet."""
    pairs = zip(before, cut, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(before))
    # A space separates the replacement from the last word that was sent.
    return cut[same:] if same == len(before) else f" {cut[same:]}"


def _name(event: Event) -> str:
    return event.name if _EVENT_NAME.fullmatch(event.name) else ""


def _made(event: Event, body: dict[str, Json]) -> Event:
    """An event with the given body and no other field."""
    raw = event_of(_name(event), body)
    data = raw.partition(b"data: ")[2].strip().decode("utf-8", "surrogatepass")
    return Event(raw=raw, name=_name(event), data=data)
