"""A client's `tools/call`: read through the map, judged, and sent on without its refused items."""

from __future__ import annotations

from policy.verdict import Reason
from proxy.dialects.mcp.calls import Call, read_call, without
from proxy.dialects.mcp.elicit import Reaction, retried
from proxy.dialects.mcp.maps import FORMAT, ToolKind, ToolMap
from proxy.dialects.mcp.message import Message, Object, made
from proxy.mcp.catalogue import Catalogue
from proxy.mcp.connection import Connection
from proxy.mcp.memory_files import read_files
from proxy.mcp.own_requests import meta_of
from proxy.mcp.pending import Pending, join_of, short
from proxy.mcp.people import People
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Forwarded, GuardedCall, Judged
from proxy.seams.observations import observation_of_call
from proxy.settle.forwarding import UNDECIDED, admitted_of, judge

_TRACEPARENT_LEN = 64
# The map for a server that no map fits: every tool is a write, and no write can be parsed.
_NOTHING_KNOWN = ToolMap(format=FORMAT, name="none", read_from="nothing")


class Calls:
    """Decides whether each tool call is forwarded, and with which items. Event loop only."""

    def __init__(self, connection: Connection, catalogue: Catalogue, people: People) -> None:
        self._connection = connection
        self._catalogue = catalogue
        self._people = people

    async def outgoing(self, message: Message, pending: Pending) -> Message | None:
        """The message for the server; None if the call was answered here, or waits for a person.

        All items in the message are admitted; `pending.admitted` has to be settled by the answer.
        """
        if await self._came_back(message, pending):
            return None
        refusal = await self._catalogue.refusal(meta_of(message))
        call = None if refusal is not None else await self._read(message, pending)
        if refusal is None and call is not None:
            refusal = self._closed(call)
        if refusal is not None:
            await self._refused(pending, observation_of_call(refusal))
            return None
        if call is None:
            return None
        if call.kind in (ToolKind.WRITE, ToolKind.DELETE):
            return await self._write(message, pending, call)
        return message

    async def _read(self, message: Message, pending: Pending) -> Call | None:
        """The call as the map reads it; None if the call was refused for its form."""
        tool_map = self._connection.tool_map or _NOTHING_KNOWN
        try:
            call = read_call(tool_map, message.params)
            pending.tool, pending.rule, pending.join = call.tool, call.rule, join_of(message.meta)
            return await read_files(self._connection, call, meta_of(message))
        except MalformedRequest as error:
            text = f"{observation_of_call(Reason.CALL_MALFORMED)} ({error.detail})"
            await self._refused(pending, text)
            return None

    def _closed(self, call: Call) -> Reason | None:
        """Why calls of this tool are refused, whatever their arguments; None if they are not."""
        if call.kind is None:
            return Reason.UNKNOWN_TOOL
        if call.kind is ToolKind.ADMIN and self._connection.is_agent:
            return Reason.ADMIN_TOOL
        return None

    async def _write(self, message: Message, pending: Pending, call: Call) -> Message | None:
        if "task" in message.params:
            # A call that runs as a task is refused: its first answer says only that the task began,
            # not how it ended.
            text = f"{observation_of_call(Reason.CALL_MALFORMED)} (params.task: not for a write)"
            await self._refused(pending, text)
            return None
        judged = await self._judged(message, pending, call)
        if judged is None:
            await self._refused(pending, observation_of_call(Reason.GATE_UNAVAILABLE))
            return None
        admitted = admitted_of(judged)
        if pending.cancelled.is_set() or self._connection.gone.is_set():
            # The client cancelled the call or has gone, so the call is not sent.
            await self._connection.forwarding.settle(admitted, Forwarded.FAILED)
            return None
        if not admitted:
            if not await self._people.take_over(message, pending, judged):
                await self._connection.refuse(pending, [one.observation for one in judged])
            return None
        outgoing = _reduced(message, call, judged)
        if outgoing is None:
            await self._connection.forwarding.settle(admitted, Forwarded.FAILED)
            await self._refused(pending, observation_of_call(Reason.CALL_MALFORMED))
            return None
        pending.admitted = admitted
        pending.item_count = len(judged)
        pending.note = tuple(one.observation for one in judged if one.decision != "admit")
        return outgoing

    async def _judged(
        self, message: Message, pending: Pending, call: Call
    ) -> tuple[Judged, ...] | None:
        guarded = GuardedCall(
            server=self._connection.server.name,
            tool=call.tool,
            items=call.items,
            join=pending.join,
            traceparent=short(message.meta.get("traceparent"), _TRACEPARENT_LEN),
        )
        try:
            return await judge(self._connection.guard.judge, self._connection.principal, guarded)
        except UNDECIDED:
            return None

    async def _came_back(self, message: Message, pending: Pending) -> bool:
        """Whether the client repeats a call to bring a person's answer; if so, this handles it."""
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

    async def _refused(self, pending: Pending, observation: str) -> None:
        await self._connection.refuse(pending, [observation])


def _reduced(message: Message, call: Call, judged: tuple[Judged, ...]) -> Message | None:
    """The call without the items that were not admitted; None if no item is left."""
    refused = frozenset(index for index, one in enumerate(judged) if one.decision != "admit")
    if not refused:
        return message
    arguments = without(call, refused)
    if arguments is None:
        return None
    params: Object = {**message.params, "arguments": arguments}
    return made({**message.body, "params": params}, message.era)
