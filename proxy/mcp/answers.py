"""Removes withheld texts from a server's messages to a client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Final, NamedTuple

from msgspec.structs import replace

from policy.model import SourceKind, Tenant
from proxy.dialects.mcp.known_members import METHODS
from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.mcp.message import (
    CALL,
    INITIALIZE,
    INTERNAL_ERROR,
    LIST,
    Era,
    Message,
    MessageKind,
    RequestId,
    error_answer,
    made,
    result_answer,
)
from proxy.dialects.mcp.opaque import given, replaced
from proxy.dialects.mcp.results import (
    PLAIN,
    Answer,
    filtering,
    filtering_tools,
    greeting,
    partly_done,
    refused,
    texts_of,
    uncached,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.catalogue import ToolCatalogue
from proxy.mcp.connection import RelayConnection
from proxy.mcp.pending_requests import PendingRequest, join_of
from proxy.mcp.server import Server
from proxy.seams.guard import Join, RelayedText
from proxy.settle.forwarder import UNDECIDED

OTHER: Final = "other"
# The protocol's methods that may bring a server's text to a model. Only their names may be logged.
_METHODS: Final = frozenset(
    {"completion/complete", "elicitation/create", "initialize", "ping", "prompts/get"}
    | {"prompts/list", "resources/list", "resources/read", "resources/subscribe"}
    | {"resources/templates/list", "resources/unsubscribe", "roots/list"}
    | {"sampling/createMessage", "server/discover", "subscriptions/listen", "tasks/cancel"}
    | {"tasks/get", "tasks/list", "tasks/result", "tasks/update", "tools/list"}
)
# Clients number their requests. A text, or a longer number, could contain anything.
_ID_MAX: Final = 2**31


# The name of a text's origin stays in the audit log for good, so no model or page may choose it:
# otherwise a refused text could enter the log as a name.
def tool_of(pending: PendingRequest, server: Server, tenant: Tenant) -> str:
    """The name of the called tool, or of the method if no tool was called.

    It is "other" for a tool that neither the map nor the server's list contains.
    """
    if not pending.tool:
        return method_of(pending.method)
    listed = server.tools(tenant) or ()
    known = pending.rule is not None or any(tool.name == pending.tool for tool in listed)
    return pending.tool if known else OTHER


def method_of(method: str | None) -> str:
    """The method's name if it is one of `_METHODS`, else "other"."""
    return method if method is not None and method in _METHODS else OTHER


def call_of(request_id: RequestId) -> str:
    """A JSON-RPC id as the log may keep it: a small number as text, "other" for any other id."""
    counted = isinstance(request_id, int) and 0 <= request_id < _ID_MAX
    return str(request_id) if counted else OTHER


NOT_SHOWN: Final = (
    "The gate could not tell which of it may be shown, so nothing of it is. Try again later."
)


REMEMBERED_BYTES_MAX: Final = 256 * 1024


class _Unchanged(NamedTuple):
    """The last answer if nothing in it was withheld: its texts, and the strings asked about."""

    value: JsonValue
    shown: AnswerShape
    asked: tuple[str, ...]
    texts: tuple[str, ...]


class Answers:
    """Filters a server's messages before the client gets them. Event loop only.

    An agent reads its whole memory again and again, so the last answer is remembered with its
    strings. The gate is asked every time whether each string may be shown.
    """

    def __init__(self, connection: RelayConnection, catalogue: ToolCatalogue) -> None:
        self._connection = connection
        self._catalogue = catalogue
        self._last: _Unchanged | None = None

    def needs_all_pages(self, pending: PendingRequest, message: Message) -> bool:
        """Whether this answer is a page of tools, which is shown only once all pages are known."""
        listed = pending.method == LIST and message.kind is MessageKind.RESULT
        return listed and self._catalogue.is_part(pending.params, message)

    async def shown(self, pending: PendingRequest, message: Message) -> Message:
        """The answer in the form that the client may see; the same object if nothing changes."""
        if message.kind is MessageKind.RESULT:
            self._connection.server.heed(message.result)
        if pending.method == LIST and message.kind is MessageKind.RESULT:
            refusal = await self._catalogue.refusal_of_page(pending.params, message)
            if refusal is not None:
                text = self._connection.observation(refusal)
                return error_answer(pending.request_id, INTERNAL_ERROR, text)
        part = "result" if message.kind is MessageKind.RESULT else "error"
        found = self._with_handles(pending.method, message.body.get(part))
        reading = self._read_and_noted(pending, part, found, len(message.one_line()))
        greets = pending.method == INITIALIZE and message.kind is MessageKind.RESULT
        try:
            kept = await (self._in_time(reading, found) if greets else reading)
        except UNDECIDED:
            return self._withheld(pending)
        if message.kind is MessageKind.RESULT:
            if not self._connection.server.is_context:
                kept = uncached(pending.method, kept)
            if pending.note:
                kept = partly_done(kept, pending.note, pending.item_count)
        return _with_part(message, part, kept)

    async def _read_and_noted(
        self, pending: PendingRequest, part: str, found: JsonValue, length: int
    ) -> JsonValue:
        connection, shown = self._connection, self._shown_of(pending)
        tool = tool_of(pending, connection.server, connection.principal.tenant)
        segment = self._segment(tool, call_of(pending.request_id), pending.join)
        if connection.server.is_context:
            kept = found
        elif part == "result" and pending.method == LIST:
            kept = await self._plan(filtering_tools(found))
        else:
            return await self._read(found, shown, length, segment)
        await self._saw(segment, kept, shown)
        return kept

    async def _in_time(self, reading: Awaitable[JsonValue], found: JsonValue) -> JsonValue:
        """The answer to `initialize` as it was read; bare if the gate, which may start, is late.

        A host gives up a server that does not answer this request within seconds.
        """
        try:
            async with asyncio.timeout(self._connection.limits.greeting_seconds):
                return await reading
        except (TimeoutError, *UNDECIDED):
            if self._connection.server.is_context:
                return found
            return greeting(found, self._connection.server.name)

    async def shown_unasked(self, message: Message) -> Message | None:
        """A message that answers no request, in the form that the client may see.

        None if the gate did not answer, or the id or method is withheld. The message is a request
        or notification of the server, or an error that names no request. The text of a request or
        error may reach the model, so it is noted as a segment.
        """
        part = "error" if message.kind is MessageKind.ERROR else "params"
        kept = self._with_handles(message.method, message.body.get(part))
        if not self._connection.server.is_context:
            try:
                if await self._names_what_is_withheld(message):
                    return None
                kept = await self._plan(filtering(kept))
            except UNDECIDED:
                return None
        if message.kind is not MessageKind.NOTIFICATION:
            await self._saw(self._segment(method_of(message.method), "-", join_of({})), kept)
        return _with_part(message, part, kept)

    async def _names_what_is_withheld(self, message: Message) -> bool:
        """Whether the id or the method of a message contains a withheld text."""
        said = [message.request_id, None if message.method in METHODS else message.method]
        texts = tuple(one for one in said if isinstance(one, str))
        if not texts:
            return False
        return any(await self._sift(texts))

    def _with_handles(self, method: str | None, value: JsonValue) -> JsonValue:
        connection = self._connection
        return replaced(
            value,
            given(method, value),
            lambda text: connection.server.handles.give(
                connection.principal.principal_id, text, connection.surroundings.random_hex
            ),
        )

    async def _read(
        self, found: JsonValue, shown: AnswerShape, length: int, segment: RelayedText
    ) -> JsonValue:
        last, self._last = self._last, None
        # An answer equal to the last one has the same strings in the same places, so the strings to
        # be looked up are the same as well.
        same = last is not None and last.shown is shown and last.value == found
        if last is not None and same:
            segment = replace(segment, texts=last.texts)
            if not any(await self._sift(last.asked, segment)):
                self._last = last._replace(value=found)
                return found
        answer = Answer(found, shown)
        segment = replace(segment, texts=answer.said())
        asked: list[tuple[tuple[str, ...], bool]] = []
        plan = filtering(found, shown, answer)
        kept = await self._plan(plan, asked.append, segment)
        if [hides for _, hides in asked] != [False]:
            await self._saw(segment, kept, shown)
        elif length <= REMEMBERED_BYTES_MAX:
            # Nothing is withheld, so the gate noted the texts when it was asked.
            self._last = _Unchanged(found, shown, asked[0][0], segment.texts)
        return kept

    def _shown_of(self, pending: PendingRequest) -> AnswerShape:
        tool_map = self._connection.server.tool_map
        if tool_map is None:
            return PLAIN
        rule = pending.rule
        return tool_map.shown if rule is None or rule.shown is None else rule.shown

    async def _sift(
        self, strings: tuple[str, ...], seen: RelayedText | None = None
    ) -> tuple[bool, ...]:
        connection = self._connection
        return await connection.guard.sift(
            connection.principal, connection.server.name, strings, seen
        )

    async def _plan(
        self,
        plan: Generator[tuple[str, ...], tuple[bool, ...], JsonValue],
        asking: Callable[[tuple[tuple[str, ...], bool]], None] = lambda _asked: None,
        seen: RelayedText | None = None,
    ) -> JsonValue:
        """Carry out a plan of look-ups, the first with the segment to note if nothing is hidden."""
        try:
            strings = next(plan)
            while True:
                flags = await self._sift(strings, seen)
                asking((strings, any(flags)))
                strings, seen = plan.send(flags), None
        except StopIteration as end:
            value: JsonValue = end.value
            return value

    def _withheld(self, pending: PendingRequest) -> Message:
        if pending.method == CALL:
            result = refused([NOT_SHOWN], stateless=pending.era is Era.STATELESS)
            return result_answer(pending.request_id, result, pending.era)
        return error_answer(pending.request_id, INTERNAL_ERROR, NOT_SHOWN)

    def _segment(self, tool: str, call_id: str, join: Join) -> RelayedText:
        """The segment that an answer is noted as, still without texts."""
        server = self._connection.server
        return RelayedText(
            server=server.name,
            tool=tool,
            call_id=call_id,
            texts=(),
            join=join,
            kind=SourceKind.TOOL_RESULT if server.is_context else SourceKind.UNKNOWN,
        )

    async def _saw(
        self, segment: RelayedText, value: JsonValue, shown: AnswerShape = PLAIN
    ) -> None:
        connection = self._connection
        # The gate may be unable to note the segment. That is harmless: without a model front every
        # write has the lowest label anyway.
        with contextlib.suppress(*UNDECIDED):
            texts = texts_of(value, shown)
            if texts:
                await connection.guard.saw(connection.principal, replace(segment, texts=texts))


def _with_part(message: Message, part: str, kept: JsonValue) -> Message:
    if kept is message.body.get(part):
        return message
    return made({**message.body, part: kept}, message.era)
