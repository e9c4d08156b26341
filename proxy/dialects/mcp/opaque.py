"""Strings that a client only sends back to the server: cursors, request states, ids of tasks.

A server could put any text into such a string, so the client gets a random handle in place of the
string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from proxy.dialects.mcp.elicit import STATE_PREFIX
from proxy.dialects.strict_json.strict import JsonValue

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
_TASK_STATUS: Final = "notifications/tasks/status"

Place = tuple["str | int", ...]


def replaced(
    value: JsonValue, found: Iterator[tuple[Place, str]], by: Callable[[str], str]
) -> JsonValue:
    """The value with `by(text)` at each place of `found`; the same object if `found` is empty."""
    for place, text in tuple(found):
        value = _with(value, place, by(text))
    return value


def given(method: str | None, value: JsonValue) -> Iterator[tuple[Place, str]]:
    """Yield the strings in a server's message that a client only sends back, each with its place.

    `value` is a result, or the params of a notification.
    """
    if not isinstance(value, dict) or method is None:
        return
    if method.endswith("/list"):
        yield from _string(value, "nextCursor")
    yield from _string(value, "requestState")
    if method.startswith("tasks/") or method == _TASK_STATUS:
        yield from _string(value, "taskId")
    yield from _string(value, "task", "taskId")
    tasks = value.get("tasks") if method == "tasks/list" else None
    if isinstance(tasks, list):
        for index in range(len(tasks)):
            yield from _string(value, "tasks", index, "taskId")
    yield from _string(value, "_meta", RELATED_TASK, "taskId")


def given_back(method: str, params: JsonValue) -> Iterator[tuple[Place, str]]:
    """Yield the handles in a client's request, each with its place.

    A request state that the sidecar itself made, for a question of its own, is no handle.
    """
    if not isinstance(params, dict):
        return
    if method.endswith("/list"):
        yield from _string(params, "cursor")
    for place, text in _string(params, "requestState"):
        if not text.startswith(STATE_PREFIX):
            yield place, text
    if method.startswith("tasks/"):
        yield from _string(params, "taskId")
    yield from _string(params, "_meta", RELATED_TASK, "taskId")


def _string(value: JsonValue, *place: str | int) -> Iterator[tuple[Place, str]]:
    found = value
    for step in place:
        if isinstance(found, dict) and isinstance(step, str):
            found = found.get(step)
        elif isinstance(found, list) and isinstance(step, int):
            found = found[step]
        else:
            return
    if isinstance(found, str):
        yield place, found


def _with(value: JsonValue, place: Place, text: str) -> JsonValue:
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
