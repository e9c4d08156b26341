"""Checks of the requests that begin a run or a thread, and the strings in their answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from proxy.backends.kept_request import strings_of
from proxy.dialects.strict_json.strict import JsonValue, convert, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest

_LINE: Final = re.compile(r"\r\n|\r|\n")
_THREADS: Final = ("thread_id", "checkpoint", "__")
_DATA: Final = "data"
_STATE: Final = "supersteps"
_FORBIDDEN: Final = 403
_WRITES_STATE: Final = "supersteps: a new thread with a state is a write that nobody judges"


class _Resuming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command without `update` and `goto`, which change a thread's state by hand."""

    resume: JsonValue = None


class _Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a run.

    The members `webhook`, `if_not_exists` and checkpoints are refused, so that a run sends nothing
    elsewhere, creates no thread, and continues from the current state of its thread.
    """

    assistant_id: str
    input: JsonValue = None
    command: _Resuming | None = None
    config: dict[str, JsonValue] | None = None
    context: JsonValue = None
    metadata: dict[str, JsonValue] | None = None
    stream_mode: str | tuple[str, ...] | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    interrupt_before: str | tuple[str, ...] | None = None
    interrupt_after: str | tuple[str, ...] | None = None
    feedback_keys: tuple[str, ...] | None = None
    multitask_strategy: str | None = None
    on_disconnect: str | None = None
    on_completion: str | None = None
    after_seconds: float | None = None
    durability: str | None = None


class _Lifetime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ttl: float | None = None
    strategy: Literal["delete", "keep_latest"] | None = None


class _NewThread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /threads`; an initial state in it is refused."""

    thread_id: Annotated[str, Meta(max_length=64)] | None = None
    metadata: dict[str, JsonValue] | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: _Lifetime | None = None


def check_new_thread(request: HttpRequest) -> None:
    """Refuse a new thread whose request has an initial state or an unknown member.

    Raises:
        MalformedRequest: The request has a state (403) or an unknown member.
    """
    if request.query:
        raise MalformedRequest("query: this route takes none")
    value = decode_object(request.body, any_text=True)
    if isinstance(value, dict) and _STATE in value:
        raise MalformedRequest(_WRITES_STATE, status=_FORBIDDEN)
    convert(value, _NewThread)


def check_run(request: HttpRequest) -> None:
    """Refuse a run with unknown members, or with one that names a thread beside the path's.

    Raises:
        MalformedRequest: The body has such a member.
    """
    value = decode_object(request.body, any_text=True)
    for one in value if isinstance(value, list) else [value]:
        run = convert(one, _Run)
        named = (run.config or {}).get("configurable")
        if any(name.startswith(_THREADS) for name in (named if isinstance(named, dict) else {})):
            raise MalformedRequest("config: a thread or a checkpoint is named in the path alone")


def said_in(value: JsonValue) -> tuple[str, ...]:
    """Every string in an answer, and the strings joined.

    A text that is streamed token by token is spread over many values of one member name, over
    values of several names, or over the names themselves, so each of these is joined.
    """
    strings: list[str] = []
    names: list[str] = []
    under: dict[str, list[str]] = {}
    for name, text, is_name in _words(value):
        (names if is_name else strings).append(text)
        if not is_name:
            under.setdefault(name, []).append(text)
    pieces = [one for one in (strings, names, *under.values()) if len(one) > 1]
    joined = [between.join(one) for one in pieces for between in ("", " ")]
    return (*strings_of(value), *joined)


def events_of(body: bytes) -> tuple[list[str], list[str]]:
    """The data of each event of a stream; and each other line, with and without its field name."""
    data: list[str] = []
    others: list[str] = []
    values: list[str] = []
    waiting: list[str] = []
    for line in (*_LINE.split(body.decode("utf-8-sig", "replace")), ""):
        name, _, rest = line.partition(":")
        if name == _DATA:
            waiting.append(rest.removeprefix(" "))
        elif line:
            others.append(line)
            values.append(rest.removeprefix(" "))
        elif waiting:
            data.append("\n".join(waiting))
            waiting = []
    return [one for one in data if one.strip()], [one for one in (*others, *values) if one]


def _words(value: JsonValue) -> Iterator[tuple[str, str, bool]]:
    """Yield each string with its member's name, and each name itself (True), in their order."""
    waiting: list[tuple[str, JsonValue, bool]] = [("", value, False)]
    while waiting:
        name, one, is_name = waiting.pop()
        if isinstance(one, str):
            if one:
                yield name, one, is_name
        elif isinstance(one, list):
            waiting.extend((name, below, False) for below in reversed(one))
        elif isinstance(one, dict):
            for inner, below in reversed(one.items()):
                waiting.append((inner, below, False))
                waiting.append((inner, inner, True))
