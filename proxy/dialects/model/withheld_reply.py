"""A reply on its way to the agent, without what is withheld by now. Pure.

Texts are let through word by word: only what may become a refused stretch waits for the next word.
Calls of tools are not looked into here: whoever decides about them has them whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.dialects.model.reading import list_of, object_of
from proxy.dialects.model.sse import Event
from proxy.dialects.model.stream import event_of, payload
from proxy.dialects.model.withheld import NAMES, SEALED

if TYPE_CHECKING:
    from proxy.dialects.model.body import Json

_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking"}
_CALLS: Final = frozenset({"tool_use", "function_call", "custom_tool_call"})
_CHAT_TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning", "thinking")
_RESPONSE_DELTAS: Final = (
    *("response.output_text", "response.refusal"),
    *("response.reasoning_text", "response.reasoning_summary_text"),
)
# What would spell the text once more, word by word.
_BESIDE: Final = "logprobs"


class Flows(Protocol):
    """One text that goes out while it is being written."""

    @property
    def holds(self) -> bool:
        """Whether something of it waits."""
        ...

    def feed(self, text: str) -> str:
        """What may go out now."""
        ...

    def end(self) -> str:
        """The rest, at its end."""
        ...


class Withholds(Protocol):
    """What a reply must not bring."""

    @property
    def active(self) -> bool:
        """Whether anything is withheld at this moment."""
        ...

    def flow(self) -> Flows:
        """A text that begins now."""
        ...


class _Text:
    """One text of the reply, and an event that brought some of it."""

    def __init__(self, flow: Flows, event: Event, body: dict[str, Json]) -> None:
        self.flow = flow
        self.event = event
        self.body = body


_Key = tuple[str | int, ...]


class ReplyFilter:
    """One streamed reply; of an API that is not named nothing is changed."""

    def __init__(self, api: str, withholds: Withholds) -> None:
        self._withholds = withholds
        self._texts: dict[_Key, _Text] = {}
        self._feed = {
            "anthropic": self._anthropic,
            "chat": self._chat,
            "responses": self._responses,
        }.get(api, self._pass)
        self._next: int | None = None  # number of the next event, once one went or came

    def feed(self, event: Event) -> list[Event]:
        """The events that go on now."""
        if not self._withholds.active and not self._texts and self._next is None:
            return [event]
        body = payload(event)
        if body is None:
            return [*self._flush(()), event]
        return self._feed(event, body)

    def end(self) -> list[Event]:
        """What is left where a stream ends without saying so."""
        return self._flush(())

    def _pass(self, event: Event, body: dict[str, Json]) -> list[Event]:
        del body
        return [event]

    # ---- texts ---------------------------------------------------------------------------------

    def _told(self, key: _Key, text: str, event: Event, body: dict[str, Json]) -> str:
        known = self._texts.get(key)
        if known is None:
            known = self._texts[key] = _Text(self._withholds.flow(), event, body)
        known.event, known.body = event, body
        return known.flow.feed(text)

    def _flush(self, prefix: _Key) -> list[Event]:
        """The rest of every text whose key begins so, each in an event like its last one."""
        out: list[Event] = []
        for key in [key for key in self._texts if key[: len(prefix)] == prefix]:
            text = self._texts.pop(key)
            rest = text.flow.end()
            if rest:
                out += self._numbered(text.event, _with_text(key, text.body, rest))
        return out

    def whole(self, text: str) -> str:
        """A text that came at once, as it would have gone out in pieces."""
        flow = self._withholds.flow()
        return flow.feed(text) + flow.end()

    def _cleaned(self, value: Json, key: str = "") -> Json:
        """JSON beside the texts, without what is withheld; calls stay for others to decide."""
        if isinstance(value, str):
            return value if key in SEALED or key in NAMES else self.whole(value)
        if isinstance(value, list):
            return [self._cleaned(part, key) for part in value]
        if isinstance(value, dict) and value.get("type") not in _CALLS:
            return {name: self._cleaned(part, name) for name, part in value.items()}
        return value

    # ---- the three APIs ------------------------------------------------------------------------

    def _anthropic(self, event: Event, body: dict[str, Json]) -> list[Event]:
        kind = body.get("type")
        if kind == "content_block_delta":
            return self._anthropic_delta(event, body)
        if kind == "ping":
            return [event]
        if kind == "content_block_start":
            body = {**body, "content_block": self._cleaned(body.get("content_block"))}
        return [*self._flush(()), _made(event, body)]

    def _anthropic_delta(self, event: Event, body: dict[str, Json]) -> list[Event]:
        index = body.get("index")
        delta = object_of(body.get("delta"))
        kind = delta.get("type")
        if kind == "citations_delta":
            return [_made(event, {**body, "delta": self._cleaned(delta)})]
        field = _DELTAS.get(str(kind), "")
        given = delta.get(field)
        if not isinstance(given, str) or not isinstance(index, int):
            return [event]
        ready = self._told((index, field), given, event, body)
        return [_made(event, {**body, "delta": {**delta, field: ready}})] if ready else []

    def _chat(self, event: Event, body: dict[str, Json]) -> list[Event]:
        out: list[Event] = []
        made: list[Json] = []
        for part in list_of(body.get("choices")):
            choice = object_of(part)
            index = choice.get("index")
            at = index if isinstance(index, int) else 0
            delta = dict(object_of(choice.get("delta")))
            for field in _CHAT_TEXTS:
                given = delta.get(field)
                if isinstance(given, str) and given:
                    delta[field] = self._told((at, field), given, event, body)
            if "reasoning_details" in delta:
                delta["reasoning_details"] = self._cleaned(delta["reasoning_details"])
            if choice.get("finish_reason") is not None or list_of(delta.get("tool_calls")):
                # Inside the same chunk the rest would come after the end.
                out += self._flush((at,))
            rest = {key: value for key, value in choice.items() if key != _BESIDE}
            made.append({**rest, "delta": delta})
        return [*out, _made(event, {**body, "choices": made})]

    def _responses(self, event: Event, body: dict[str, Json]) -> list[Event]:
        kind = str(body.get("type"))
        for family in _RESPONSE_DELTAS:
            place = body.get("output_index"), body.get("content_index", body.get("summary_index"))
            key: _Key = (*(at if isinstance(at, int) else 0 for at in place), family)
            given = body.get("delta")
            if kind == f"{family}.delta" and isinstance(given, str):
                ready = self._told(key, given, event, body)
                lean = {name: part for name, part in body.items() if name != _BESIDE}
                if not ready:
                    self._count(body)
                    return []
                return self._numbered(event, {**lean, "delta": ready})
            if kind == f"{family}.done":
                return [*self._flush(key), *self._done(event, body)]
        if kind.endswith((".done", ".completed", ".incomplete", ".failed", ".added")):
            return [*self._flush(()), *self._done(event, body)]
        return self._numbered(event, body)

    def _done(self, event: Event, body: dict[str, Json]) -> list[Event]:
        """An event that repeats a text, or all of them."""
        if str(body.get("type")).startswith("response.function_call_arguments"):
            return self._numbered(event, body)
        made = dict(body)
        for key in ("text", "refusal", "part", "item"):
            if key in made:
                made[key] = self._cleaned(made[key])
        response = object_of(made.get("response"))
        if response:
            made["response"] = {**response, "output": self._cleaned(response.get("output"))}
        made.pop(_BESIDE, None)
        return self._numbered(event, made)

    # ---- numbers -------------------------------------------------------------------------------

    def _numbered(self, event: Event, body: dict[str, Json]) -> list[Event]:
        """The event under the next number: some events went, and some came."""
        self._count(body)
        if self._next is not None and "sequence_number" in body:
            body = {**body, "sequence_number": self._next}
            self._next += 1
        return [_made(event, body)]

    def _count(self, body: dict[str, Json]) -> None:
        number = body.get("sequence_number")
        if self._next is None and isinstance(number, int):
            self._next = number


def _with_text(key: _Key, body: dict[str, Json], text: str) -> dict[str, Json]:
    """The event's body with another text, and nothing else of what it brought."""
    last = key[-1]
    if "choices" in body:
        choice: dict[str, Json] = {
            "index": key[0],
            "delta": {str(last): text},
            "finish_reason": None,
        }
        return {**body, "choices": [choice]}
    if last in {"text", "thinking"}:
        return {**body, "delta": {**object_of(body.get("delta")), str(last): text}}
    return {**body, "delta": text}


def _made(event: Event, body: dict[str, Json]) -> Event:
    if payload(event) == body:
        return event
    raw = event_of(event.name, body)
    data = raw.partition(b"data: ")[2].strip().decode("utf-8", "surrogatepass")
    return Event(raw=raw, name=event.name, data=data)
