"""Settles writes on an MCP server: sends released items, and looks up lost outcomes.

A server may accept a call and change nothing: it has the name already, or the text. If its answer
names what was done (the map's `done`), only what it names is live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import msgspec

from policy.model import ChangeKind
from proxy.dialects.files.edits import call_in
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.kept_before import json_of, own_texts
from proxy.dialects.mcp.maps import AnswerShape, Reconcile, Tool, ToolMap, path
from proxy.dialects.mcp.message import CALL, Message, MessageKind, Object
from proxy.dialects.mcp.paths import MisfitError, Pattern, places
from proxy.dialects.mcp.pieces import arguments_of
from proxy.dialects.mcp.removal import Structure
from proxy.dialects.mcp.results import texts_of
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.catalogue import ToolCatalogue
from proxy.mcp.connection import RelayConnection, ServerGone, Side
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, Item, UnsettledItem

_ARGUMENT: Final = "$arg:"


class BackendQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A read of a server, and the texts to look for in its answer."""

    tool: str
    arguments: Object
    # Texts that only this item contains; if there are none, all names that it consists of.
    texts: tuple[str, ...]
    removes: bool
    proves_absence: bool
    # Where texts are in the answer, and which of them are compared as one, such as the names of one
    # relation.
    shown: AnswerShape


def question_of(tool_map: ToolMap, one: UnsettledItem) -> BackendQuestion | None:
    """The read that shows an item's outcome; None if the map has no read for the item."""
    try:
        arguments = arguments_of(one.arguments, one.pieces)
        call = read_call(tool_map, {"name": one.tool, "arguments": arguments})
        if call.rule is None or call.rule.reconcile is None or len(call.items) != 1:
            return None
        item = call.items[0]
        own = own_texts(item.key, item.pieces, item.labels)
        asked = _filled(call.rule.reconcile, arguments, item.key, own)
    except (MalformedRequest, MisfitError):
        return None
    return BackendQuestion(
        tool=call.rule.reconcile.tool,
        arguments=asked,
        texts=own or item.pieces,
        removes=one.change is ChangeKind.DELETE,
        proves_absence=call.rule.reconcile.proves_absence,
        shown=call.rule.shown or tool_map.shown,
    )


def told(question: BackendQuestion, result: JsonValue) -> ForwardStatus | None:
    """The outcome that the answer proves: DONE or FAILED; None if it proves neither.

    Raises:
        MalformedRequest: The answer is too large to be searched.
    """
    shown = texts_of(result, question.shown)
    found = [any(text in seen for seen in shown) for text in question.texts]
    if question.removes:
        # If one of the texts is still there, it may belong to another memory. If all are still
        # there, the item was not removed.
        if all(found):
            return ForwardStatus.FAILED
        return ForwardStatus.DONE if question.proves_absence and not any(found) else None
    if all(found):
        return ForwardStatus.DONE
    return ForwardStatus.FAILED if question.proves_absence and not any(found) else None


def _filled(reconcile: Reconcile, arguments: Object, key: str, texts: tuple[str, ...]) -> Object:
    def filled(value: JsonValue) -> JsonValue:
        if value == "$key":
            return key
        if value == "$text":
            if not texts:
                raise MalformedRequest("item: has no text to look for")
            return texts[0]
        if isinstance(value, str) and value.startswith(_ARGUMENT):
            found = [one for _, one in places(arguments, path(value.removeprefix(_ARGUMENT)))]
            if not found:
                raise MalformedRequest("item: lacks what it is looked up by")
            return found[0]
        return value

    return {
        name: [filled(one) for one in value] if isinstance(value, list) else filled(value)
        for name, value in reconcile.arguments.items()
    }


def outcomes_of(
    message: Message, rule: Tool | None, items: Sequence[Item]
) -> tuple[ForwardStatus, ...]:
    """The outcome of each item of a forwarded call, read from the server's answer."""
    result = message.result
    failed = message.kind is not MessageKind.RESULT or result.get("isError") is True
    # The server asks for more input, so nothing is done yet. The client calls again, and that call
    # is judged.
    if failed or result.get("resultType", "complete") != "complete":
        return (ForwardStatus.FAILED,) * len(items)
    if rule is None or rule.done is None:
        return (ForwardStatus.DONE,) * len(items)
    return effects_of(rule.done, items, result)


def effects_of(done: str, items: Sequence[Item], result: JsonValue) -> tuple[ForwardStatus, ...]:
    """The outcome of each item of a write, as far as the answer names what was done.

    Each element at the place `done` answers for one item. An item is `DONE` if an element has all
    of the item's strings, and `NO_EFFECT` if no element with its names has any other string of it.
    It is `UNKNOWN` if an element has a part of them, or if the answer lacks the place.
    """
    *above, _ = path(done)
    try:
        lists = [one for _, one in places(json_of(result), Pattern(tuple(above)))]
    except (MalformedRequest, MisfitError):
        lists = []
    named = [_texts(one) for found in lists if isinstance(found, list) for one in found]
    if not any(isinstance(found, list) for found in lists):
        return (ForwardStatus.UNKNOWN,) * len(items)
    return tuple(_effect(item, named) for item in items)


def _effect(item: Item, named: list[Counter[str]]) -> ForwardStatus:
    said = _texts(arguments_of(item.arguments, item.pieces))
    names = Counter({item.pieces[number] for number in item.labels} | {item.key}) & said
    for one in named:
        if said <= one:
            named.remove(one)
            return ForwardStatus.DONE
    in_part = any(names <= one and (said - names) & (one - names) for one in named)
    return ForwardStatus.UNKNOWN if in_part else ForwardStatus.NO_EFFECT


def _texts(value: JsonValue) -> Counter[str]:
    return Counter(Structure(value, AnswerShape()).texts())


class SentItem(msgspec.Struct, frozen=True, kw_only=True):
    """The server's answer to a released item, and the outcome that the answer shows."""

    answer: Message
    state: ForwardStatus


class McpBackend:
    """Sends and looks up unsettled items over one connection (`proxy.settle.leftovers.Backend`).

    Event loop only.
    """

    def __init__(self, connection: RelayConnection, catalogue: ToolCatalogue) -> None:
        self._connection = connection
        self._catalogue = catalogue
        # The `_meta` of the relay's own requests.
        self.meta: Object = {}

    async def is_ready(self) -> bool:
        """Whether the server keeps memories, is connected, and has the tools that were approved."""
        connection = self._connection
        if connection.server.is_never_written or connection.gone.is_set():
            return False
        if connection.server.tools(connection.principal.tenant) is None:
            # The client has not listed the tools yet. Unsettled items can wait until it does.
            return False
        refusal = await self._catalogue.refusal(self.meta)
        return refusal is None and connection.server.tool_map is not None

    async def send(self, item: UnsettledItem) -> SentItem | None:
        """Send an item's call once; return the server's answer, or None if none arrived.

        Raises:
            MalformedRequest: The item's arguments cannot be rebuilt; nothing was sent.
        """
        arguments = arguments_of(item.arguments, item.pieces)
        one = Item(change=item.change, arguments=item.arguments, pieces=item.pieces, key=item.key)
        rule = None
        if self._connection.server.is_context:
            # For a server of files, an item has the changed lines as its text, and the whole call
            # packed in its arguments.
            arguments = call_in(arguments)
        elif self._connection.server.tool_map is not None:
            params: Object = {"name": item.tool, "arguments": arguments}
            call = read_call(self._connection.server.tool_map, params)
            rule, one = call.rule, next(iter(call.items), one)
        answer = await self._called(item.tool, arguments)
        if answer is None:
            return None
        return SentItem(answer=answer, state=outcomes_of(answer, rule, (one,))[0])

    def outcome(self, reply: SentItem) -> ForwardStatus:
        """The outcome of a sent item, read from the server's answer."""
        return reply.state

    def turn(self, item: UnsettledItem) -> AbstractAsyncContextManager[None]:
        """The server's turn to write, if it takes one write at a time; a look-up needs none."""
        server = self._connection.server
        return server.writing if server.takes_turns and not item.sent else nullcontext()

    async def look_up(self, item: UnsettledItem) -> ForwardStatus | None:
        """Look up an item's outcome by the tool map's `reconcile` read.

        None if the map has no such read, or the read proves neither outcome.
        """
        tool_map = self._connection.server.tool_map
        question = None if tool_map is None else question_of(tool_map, item)
        if question is None:
            return None
        answer = await self._called(question.tool, question.arguments)
        if (
            answer is None
            or answer.kind is not MessageKind.RESULT
            or answer.result.get("isError") is True
        ):
            return None
        try:
            return told(question, answer.result)
        except MalformedRequest:
            return None

    async def _called(self, tool: str, arguments: Object) -> Message | None:
        params: Object = {"name": tool, "arguments": arguments}
        if self.meta:
            params["_meta"] = self.meta
        try:
            return await self._connection.ask(Side.SERVER, CALL, params, None)
        except ServerGone:
            return None
