"""The stream of OpenAI's Chat Completions API, edited: calls of tools wait, all else passes.

A chunk may hold text and a piece of a call at once, and nothing says that a call is whole until the
choice ends: the text goes on, the pieces wait for the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.dialects.model.reading import call_of, list_of, object_of, text_of
from proxy.dialects.model.stream import Waiting, event_of, payload

if TYPE_CHECKING:
    from proxy.dialects.model.body import Json
    from proxy.dialects.model.sse import Event
    from proxy.dialects.model.stream import Decided

DONE: Final = "[DONE]"


class _Call:
    """One call while its pieces arrive."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []

    def add(self, piece: dict[str, Json]) -> None:
        function = object_of(piece.get("function"))
        self.call_id = text_of(piece.get("id")) or self.call_id
        self.name += text_of(function.get("name")) or ""
        self.arguments.append(text_of(function.get("arguments")) or "")

    def whole(self) -> dict[str, Json]:
        return {
            "id": self.call_id,
            "type": "function",
            "function": {"name": self.name, "arguments": "".join(self.arguments)},
        }


class ChatEditor:
    """One reply of one choice; several choices are edited each by itself."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._calls: dict[tuple[int, int], _Call] = {}
        self._order: list[tuple[int, int]] = []
        self._going_on: dict[int, list[Json]] = {}
        self._refusals: list[tuple[dict[str, Json], str]] = []
        self._text: list[str] = []
        self._ends: list[tuple[str, dict[str, Json]]] = []  # chunks that end a choice with calls
        self._waiting = 0
        self._chunk: dict[str, Json] = {}

    def feed(self, event: Event) -> tuple[bytes, tuple[Waiting, ...]]:
        """What goes on now; at a choice's end its calls, all at once."""
        body = payload(event)
        if body is None:
            return (b"" if event.data == DONE and self.refused_all() else event.raw), ()
        self._chunk = {key: body[key] for key in body if key not in {"choices", "usage"}}
        choices = [object_of(choice) for choice in list_of(body.get("choices"))]
        touched = [one for one in choices if list_of(object_of(one.get("delta")).get("tool_calls"))]
        for choice in choices:
            self._text.append(text_of(object_of(choice.get("delta")).get("content")) or "")
        for choice in touched:
            self._pieces(choice)
        ending = [one for one in choices if one.get("finish_reason") and self._of(_index(one))]
        if not touched and not ending:
            return event.raw, ()
        passing = [rest for one in choices if (rest := _without_calls(one, ending)) is not None]
        out = event_of(event.name, {**body, "choices": _as_list(passing)}) if passing else b""
        waiting: list[Waiting] = []
        for choice in ending:
            self._ends.append((event.name, choice))
            waiting += self._whole(_index(choice))
        self._waiting += len(waiting)
        return out, tuple(waiting)

    def decide(self, decided: Decided) -> bytes:
        """Nothing until the last call is decided; then those that go on, and the end."""
        place = self._order[decided.key]
        call = self._calls[place]
        if decided.refusal is None:
            self._going_on.setdefault(place[0], []).append(call.whole())
        else:
            self._refusals.append((call.whole(), decided.refusal))
        self._waiting -= 1
        note = b"" if decided.refusal is None else self._said(place[0], decided.refusal)
        return note if self._waiting or self.refused_all() else note + self._end()

    def refused_all(self) -> bool:
        """Whether there was a call, and none goes on: ask again, the reply is not over."""
        return bool(self._refusals) and not self._going_on and not self._waiting

    def again(self) -> list[Json]:
        """The messages to append: what the model said, and the results of its refused calls."""
        calls: list[Json] = [call for call, _ in self._refusals]
        results: list[Json] = [
            {"role": "tool", "tool_call_id": call.get("id"), "content": text}
            for call, text in self._refusals
        ]
        said: dict[str, Json] = {"role": "assistant", "content": "".join(self._text) or None}
        said["tool_calls"] = calls
        self._clear()
        return [said, *results]

    def _of(self, index: int) -> list[tuple[int, int]]:
        return [place for place in self._calls if place[0] == index]

    def _pieces(self, choice: dict[str, Json]) -> None:
        for part in list_of(object_of(choice.get("delta")).get("tool_calls")):
            piece = object_of(part)
            at = piece.get("index")
            place = (_index(choice), at if isinstance(at, int) else 0)
            self._calls.setdefault(place, _Call()).add(piece)

    def _whole(self, index: int) -> list[Waiting]:
        found: list[Waiting] = []
        for place in self._of(index):
            whole = self._calls[place].whole()
            function = object_of(whole.get("function"))
            call = call_of(whole.get("id"), function.get("name"), function.get("arguments"))
            found.append(Waiting(call=call, key=len(self._order)))
            self._order.append(place)
        return found

    def _said(self, index: int, text: str) -> bytes:
        choice: dict[str, Json] = {
            "index": index,
            "delta": {"content": text},
            "finish_reason": None,
        }
        return event_of("", {**self._chunk, "choices": [choice]})

    def _end(self) -> bytes:
        out = b""
        for name, choice in self._ends:
            index = _index(choice)
            calls = self._going_on.get(index, [])
            if calls:
                pieces: list[Json] = [
                    {"index": at, **object_of(call)} for at, call in enumerate(calls)
                ]
                delta: dict[str, Json] = {"tool_calls": pieces}
                part: dict[str, Json] = {"index": index, "delta": delta, "finish_reason": None}
                out += event_of(name, {**self._chunk, "choices": [part]})
            reason = choice.get("finish_reason") if calls else "stop"
            end: dict[str, Json] = {**choice, "delta": {}, "finish_reason": reason}
            out += event_of(name, {**self._chunk, "choices": [end]})
        self._ends.clear()
        return out


def _as_list(choices: list[dict[str, Json]]) -> list[Json]:
    return [*choices]


def _index(choice: dict[str, Json]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _without_calls(
    choice: dict[str, Json], ending: list[dict[str, Json]]
) -> dict[str, Json] | None:
    """The rest of a choice's chunk; None where nothing is left that may go on now."""
    delta = {
        key: value for key, value in object_of(choice.get("delta")).items() if key != "tool_calls"
    }
    over = any(choice is one for one in ending)
    if over and not any(delta.values()):
        return None
    if not over and not delta and choice.get("finish_reason") is None:
        return None
    return {
        **choice,
        "delta": delta,
        "finish_reason": None if over else choice.get("finish_reason"),
    }
