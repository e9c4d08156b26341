"""Strings that a client only sends back to the server: cursors, request states, ids of tasks.

A server could put any text into such a string, so the client gets a random handle in place of the
string.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from proxy.dialects.mcp.elicit import STATE_PREFIX
from proxy.dialects.mcp.paths import Location, value_at
from proxy.dialects.strict_json.strict import JsonValue

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
_TASK_STATUS: Final = "notifications/tasks/status"

_RELATED: Final[Location] = ("_meta", RELATED_TASK, "taskId")

Found = list[tuple[Location, str]]


def replaced(value: JsonValue, found: Found, by: Callable[[str], str]) -> JsonValue:
    """The value with `by(text)` at each place of `found`; the same object if `found` is empty."""
    for place, text in found:
        value = _with(value, place, by(text))
    return value


def given(method: str | None, value: JsonValue) -> Found:
    """The strings in a server's message that a client only sends back, each with its place.

    `value` is a result, or the params of a notification.
    """
    if method is None:
        return []
    places: list[Location] = [("requestState",), ("task", "taskId"), _RELATED]
    if method.endswith("/list"):
        places.append(("nextCursor",))
    if method.startswith("tasks/") or method == _TASK_STATUS:
        places.append(("taskId",))
    tasks = value_at(value, ("tasks",)) if method == "tasks/list" else None
    if isinstance(tasks, list):
        places += [("tasks", index, "taskId") for index in range(len(tasks))]
    return _strings(value, places)


def given_back(method: str, params: JsonValue) -> Found:
    """The handles in a client's request, each with its place.

    A request state that the sidecar itself made, for a question of its own, is no handle.
    """
    places: list[Location] = [_RELATED]
    if method.endswith("/list"):
        places.append(("cursor",))
    if method.startswith("tasks/"):
        places.append(("taskId",))
    state = value_at(params, ("requestState",))
    if isinstance(state, str) and not state.startswith(STATE_PREFIX):
        places.append(("requestState",))
    return _strings(params, places)


def _strings(value: JsonValue, places: list[Location]) -> Found:
    return [(place, text) for place in places if isinstance(text := value_at(value, place), str)]


def _with(value: JsonValue, place: Location, text: str) -> JsonValue:
    if not place:
        return text
    step, *rest = place
    if isinstance(value, dict) and isinstance(step, str):
        return {**value, step: _with(value[step], tuple(rest), text)}
    if isinstance(value, list) and isinstance(step, int):
        return [
            _with(item, tuple(rest), text) if index == step else item
            for index, item in enumerate(value)
        ]
    return value
