"""Reads a client's `tools/call` by the map, and forwards it without the refused items."""

from __future__ import annotations

import msgspec

from policy.verdict import Reason
from proxy.dialects.files.edits import FileCall, check_alone, item_of, read_file_calls
from proxy.dialects.mcp.calls import ToolCall, read_call, without
from proxy.dialects.mcp.elicit import Reaction, retried
from proxy.dialects.mcp.maps import FORMAT, ToolKind, ToolMap
from proxy.dialects.mcp.message import CALL, Message, MessageKind, Object, made
from proxy.files.here import place_of
from proxy.mcp.catalogue import ToolCatalogue
from proxy.mcp.connection import RelayConnection, ServerGone, Side
from proxy.mcp.pending_requests import PendingRequest, join_of, short
from proxy.mcp.people import People, meta_of
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, GuardedCall, ItemVerdict
from proxy.seams.observations import observation_of_call
from proxy.settle.forwarder import UNDECIDED, admitted_of, judge


async def read_files(connection: RelayConnection, call: ToolCall, meta: Object) -> ToolCall:
    """The call with an item to judge if it changes a place (docs/mcp-maps.md); else unchanged.

    The server is asked for the file's text, so that lines which a shell wrote count as old too.

    Raises:
        MalformedRequest: The call does not have the form that its map says, or the path is a link.
    """
    tool_map = connection.tool_map
    rule = None if call.rule is None else call.rule.file
    if tool_map is None or rule is None or call.rule is None:
        return call
    if call.rule.kind is not ToolKind.WRITE:
        return call
    found = [
        (read, place)
        for read in read_file_calls(rule, call.arguments)
        if not read.idle and (place := await place_of(read, tool_map.all_places)) is not None
    ]
    if not found:
        return call
    check_alone(found)
    read, place = found[0]
    item = item_of(read, call.arguments, await _text_now(connection, read, meta), place)
    if item is None:
        return call
    return msgspec.structs.replace(call, kind=ToolKind.WRITE, items=(item,))


async def _text_now(connection: RelayConnection, call: FileCall, meta: Object) -> str | None:
    """The whole text of a call's file; "" if there is no file, None if it cannot be read."""
    tools = {} if connection.tool_map is None else connection.tool_map.tools
    for name, tool in tools.items():
        rule = tool.file
        if tool.kind is ToolKind.READ and rule is not None:
            params: Object = {"name": name, "arguments": {rule.path: call.path}}
            if meta:
                params["_meta"] = meta
            try:
                answer = await connection.ask(Side.SERVER, CALL, params, None)
            except ServerGone:
                return None
            shown = _shown(answer)
            if shown is None or answer.result.get("isError") is True:
                missing = shown is not None and rule.missing is not None and rule.missing in shown
                return "" if missing else None
            return shown
    return None


def _shown(answer: Message) -> str | None:
    """The text of an answer that consists of one text block; None for any other answer."""
    blocks = answer.result.get("content") if answer.kind is MessageKind.RESULT else None
    if not isinstance(blocks, list) or len(blocks) != 1 or not isinstance(blocks[0], dict):
        return None
    text = blocks[0].get("text")
    return text if isinstance(text, str) else None


_TRACEPARENT_LEN = 64
# The map for a server that no map fits: every tool is a write, and every write is refused.
_NOTHING_KNOWN = ToolMap(format=FORMAT, name="none", read_from="nothing")


class Calls:
    """Decides whether each tool call is forwarded, and with which items. Event loop only."""

    def __init__(
        self, connection: RelayConnection, catalogue: ToolCatalogue, people: People
    ) -> None:
        self._connection = connection
        self._catalogue = catalogue
        self._people = people

    async def outgoing(self, message: Message, pending: PendingRequest) -> Message | None:
        """Judge a call; return the message to forward, or None if there is nothing to forward.

        All items in the message are admitted; the answer has to settle `pending.admitted`. If None,
        the call was answered here or cancelled, or waits for a person.
        """
        if await self._came_back(message, pending):
            return None
        refusal = await self._catalogue.refusal(meta_of(message))
        call = None if refusal is not None else await self._read(message, pending)
        if refusal is None and call is not None:
            refusal = self._closed(call)
        if refusal is not None:
            await self._refused(pending, self._connection.observation(refusal))
            return None
        if call is None:
            return None
        if call.kind in (ToolKind.WRITE, ToolKind.DELETE):
            return await self._write(message, pending, call)
        return message

    async def _read(self, message: Message, pending: PendingRequest) -> ToolCall | None:
        """Read the call by the map; None if the call was malformed and is refused already."""
        tool_map = self._connection.tool_map or _NOTHING_KNOWN
        try:
            call = read_call(tool_map, message.params)
            pending.tool, pending.rule, pending.join = call.tool, call.rule, join_of(message.meta)
            return await read_files(self._connection, call, meta_of(message))
        except MalformedRequest as error:
            text = f"{observation_of_call(Reason.CALL_MALFORMED)} ({error.detail})"
            await self._refused(pending, text)
            return None

    def _closed(self, call: ToolCall) -> Reason | None:
        """Why calls of this tool are refused, whatever their arguments; None if they are not."""
        if call.kind is None:
            return Reason.UNKNOWN_TOOL
        if call.kind is ToolKind.ADMIN and self._connection.is_agent:
            return Reason.ADMIN_TOOL
        return None

    async def _write(
        self, message: Message, pending: PendingRequest, call: ToolCall
    ) -> Message | None:
        if "task" in message.params:
            # A call that runs as a task is refused: its answer reports that the task began, not
            # the outcome, by which the items have to be settled.
            text = f"{observation_of_call(Reason.CALL_MALFORMED)} (params.task: not for a write)"
            await self._refused(pending, text)
            return None
        judged = await self._judged(message, pending, call)
        if judged is None:
            await self._refused(pending, self._connection.observation(Reason.GATE_UNAVAILABLE))
            return None
        admitted = admitted_of(judged)
        if pending.cancelled.is_set() or self._connection.gone.is_set():
            # The client cancelled the call or has gone, so the call is not sent.
            await self._connection.forwarding.settle(admitted, ForwardStatus.FAILED)
            return None
        if not admitted:
            if not await self._people.take_over(message, pending, judged):
                await self._connection.refuse(pending, [one.observation for one in judged])
            return None
        outgoing = _reduced(message, call, judged)
        if outgoing is None:
            await self._connection.forwarding.settle(admitted, ForwardStatus.FAILED)
            await self._refused(pending, observation_of_call(Reason.CALL_MALFORMED))
            return None
        pending.admitted = admitted
        pending.items = tuple(
            item for item, one in zip(call.items, judged, strict=True) if one.decision == "admit"
        )
        pending.item_count = len(judged)
        pending.note = tuple(one.observation for one in judged if one.decision != "admit")
        return outgoing

    async def _judged(
        self, message: Message, pending: PendingRequest, call: ToolCall
    ) -> tuple[ItemVerdict, ...] | None:
        guarded = GuardedCall(
            server=self._connection.server.name,
            tool=call.tool,
            items=call.items,
            join=pending.join,
            traceparent=short(message.meta.get("traceparent"), _TRACEPARENT_LEN),
        )
        try:
            return await judge(self._connection.guard.judge, self._connection.principal, guarded)
        except UNDECIDED as error:
            self._connection.server.undecided(error)
            return None

    async def _came_back(self, message: Message, pending: PendingRequest) -> bool:
        """Whether a call is repeated with a person's answer; if so, the call is handled here."""
        try:
            found = retried(message.params)
        except MalformedRequest as error:
            text = f"{observation_of_call(Reason.CALL_MALFORMED)} ({error.detail})"
            await self._refused(pending, text)
            return True
        if found is None:
            return False
        waiting = self._connection.server.come_back(
            found.state, self._connection.principal.principal_id
        )
        if waiting is None:
            await self._refused(pending, observation_of_call(Reason.CALL_MALFORMED))
        elif found.answer is not Reaction.ACCEPT:
            await self._refused(pending, waiting.observation)
        else:
            self._people.wait(pending, waiting.candidate_id, waiting.observation)
        return True

    async def _refused(self, pending: PendingRequest, observation: str) -> None:
        await self._connection.refuse(pending, [observation])


def _reduced(message: Message, call: ToolCall, judged: tuple[ItemVerdict, ...]) -> Message | None:
    """The call without the items that were not admitted; None if no item is left."""
    refused = frozenset(index for index, one in enumerate(judged) if one.decision != "admit")
    if not refused:
        return message
    arguments = without(call, refused)
    if arguments is None:
        return None
    params: Object = {**message.params, "arguments": arguments}
    return made({**message.body, "params": params}, message.era)
