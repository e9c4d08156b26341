"""Reads a client's `tools/call` by the map, and forwards it without the refused items."""

from __future__ import annotations

import contextlib

import msgspec

from policy.verdict import Reason
from proxy.dialects.files.edits import FileCall, item_of
from proxy.dialects.mcp.calls import ToolCall, read_call, without
from proxy.dialects.mcp.elicit import Reaction, retried
from proxy.dialects.mcp.maps import FORMAT, ToolKind, ToolMap
from proxy.dialects.mcp.message import CALL, Message, Object, made
from proxy.files.here import placed_calls
from proxy.mcp.catalogue import ToolCatalogue
from proxy.mcp.connection import RelayConnection, ServerGone, Side
from proxy.mcp.pending_requests import PendingRequest, join_of, short
from proxy.mcp.people import People, meta_of
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, GuardedCall, ItemVerdict, RefusedCall
from proxy.seams.observations import observation_of_call
from proxy.settle.forwarder import UNDECIDED, admitted_of, judge


async def read_files(connection: RelayConnection, call: ToolCall, meta: Object) -> ToolCall:
    """The call with an item to judge if it changes a place (docs/mcp-maps.md); else unchanged.

    The server is asked for the file's text, so that lines which a shell wrote count as old too.

    Raises:
        MalformedRequest: The call does not have the form that its map says, or the path is a link.
    """
    tool_map, rule = connection.server.tool_map, call.rule
    if tool_map is None or rule is None or rule.file is None or rule.kind is not ToolKind.WRITE:
        return call
    found = await placed_calls(rule.file, call.arguments, tool_map.all_places, alone=True)
    for read, place in found:
        before = await _text_now(connection, tool_map, read, meta)
        item = item_of(read, call.arguments, before, place)
        if item is not None:
            return msgspec.structs.replace(call, kind=ToolKind.WRITE, items=(item,))
    return call


async def _text_now(
    connection: RelayConnection, tool_map: ToolMap, call: FileCall, meta: Object
) -> str | None:
    """The whole text of a call's file; "" if there is no file, None if it cannot be read."""
    reads = (one for one in tool_map.tools.items() if one[1].kind is ToolKind.READ)
    name, rule = next(((name, tool.file) for name, tool in reads if tool.file), ("", None))
    if rule is None:
        return None
    params: Object = {"name": name, "arguments": {rule.path: call.path}}
    params |= {"_meta": meta} if meta else {}
    try:
        answer = await connection.ask(Side.SERVER, CALL, params, None)
    except ServerGone:
        return None
    match answer.result:
        case {"isError": True, "content": [{"text": str(text)}]}:
            return "" if rule.missing is not None and rule.missing in text else None
        case {"content": [{"text": str(text)}]}:
            return text
        case _:
            return None


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
            refusal = call.closed(by_agent=self._connection.is_agent)
        if refusal is not None:
            await self._refused(pending, refusal, self._connection.observation(refusal))
            return None
        if call is None:
            return None
        if call.kind in (ToolKind.WRITE, ToolKind.DELETE):
            return await self._write(message, pending, call)
        return message

    async def _read(self, message: Message, pending: PendingRequest) -> ToolCall | None:
        """Read the call by the map; None if the call was malformed and is refused already."""
        tool_map = self._connection.server.tool_map or _NOTHING_KNOWN
        try:
            call = read_call(tool_map, message.params)
            pending.tool, pending.rule, pending.join = call.tool, call.rule, join_of(message.meta)
            return await read_files(self._connection, call, meta_of(message))
        except MalformedRequest as error:
            text = f"{observation_of_call(Reason.CALL_MALFORMED)} ({error.detail})"
            await self._refused(pending, Reason.CALL_MALFORMED, text)
            return None

    async def _write(
        self, message: Message, pending: PendingRequest, call: ToolCall
    ) -> Message | None:
        if "task" in message.params:
            # A call that runs as a task is refused: its answer reports that the task began, not
            # the outcome, by which the items have to be settled.
            text = f"{observation_of_call(Reason.CALL_MALFORMED)} (params.task: not for a write)"
            await self._refused(pending, Reason.CALL_MALFORMED, text)
            return None
        judged = await self._judged(message, pending, call)
        if judged is None:
            text = self._connection.observation(Reason.GATE_UNAVAILABLE)
            await self._connection.refuse(pending, [text])
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
            await self._refused(pending, Reason.CALL_MALFORMED)
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
            await self._refused(pending, Reason.CALL_MALFORMED, text)
            return True
        if found is None:
            return False
        waiting = self._connection.server.come_back(
            found.state, self._connection.principal.principal_id
        )
        if waiting is None:
            await self._refused(pending, Reason.CALL_MALFORMED)
        elif found.answer is not Reaction.ACCEPT:
            await self._connection.refuse(pending, [waiting.observation])
        else:
            self._people.wait(pending, waiting.candidate_id, waiting.observation)
        return True

    async def _refused(
        self, pending: PendingRequest, reason: Reason, observation: str = ""
    ) -> None:
        """Answer a call that is not judged, and record it where the gate can be reached."""
        connection = self._connection
        await connection.refuse(pending, [observation or observation_of_call(reason)])
        with contextlib.suppress(*UNDECIDED):
            await connection.guard.refused(connection.principal, RefusedCall(reason=reason))


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
