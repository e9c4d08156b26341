"""An MCP server as the settling of writes sees it: sends and looks up items, reads answers."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from proxy.dialects.files.edits import call_in
from proxy.dialects.mcp.message import CALL, Kind, Message, Object
from proxy.dialects.mcp.pieces import arguments_of
from proxy.mcp.catalogue import Catalogue
from proxy.mcp.connection import Connection, ServerGone, Side
from proxy.mcp.reconciling import question_of, told
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Forwarded, Unsettled


def outcome_of(message: Message) -> Forwarded:
    """The outcome of the items in a forwarded call, read from the server's answer."""
    result = message.result
    if message.kind is not Kind.RESULT or result.get("isError") is True:
        return Forwarded.FAILED
    # The server asks for more input, so nothing is done yet. The client calls again, and that call
    # is judged.
    if result.get("resultType", "complete") != "complete":
        return Forwarded.FAILED
    return Forwarded.DONE


class McpBackend:
    """Implements `proxy.seams.backend.Backend` on one connection. Event loop only."""

    def __init__(self, connection: Connection, catalogue: Catalogue) -> None:
        self._connection = connection
        self._catalogue = catalogue
        self._meta: Object = {}

    def speak_as(self, meta: Object) -> None:
        """Send the relay's own requests with this `_meta` from now on."""
        self._meta = meta

    async def is_ready(self) -> bool:
        """Whether the server keeps memories, is connected, and has the tools that were approved."""
        connection = self._connection
        if connection.server.is_never_written or connection.gone.is_set():
            return False
        if connection.server.tools(connection.principal.tenant) is None:
            # The client has not asked for the tools yet. Unsettled items can wait until it does.
            return False
        refusal = await self._catalogue.refusal(self._meta)
        return refusal is None and connection.tool_map is not None

    async def send(self, item: Unsettled) -> Message | None:
        """The answer to an item's call, sent once; None if no answer came.

        Raises:
            MalformedRequest: The item's arguments cannot be rebuilt; nothing was sent.
        """
        arguments = arguments_of(item.arguments, item.pieces)
        if self._connection.server.is_context:
            # For a server of files, an item has the changed lines as its text, and the whole call
            # packed in its arguments.
            arguments = call_in(arguments)
        return await self._called(item.tool, arguments)

    def outcome(self, reply: Message) -> Forwarded:
        """The outcome of the item, as the server's answer tells it."""
        return outcome_of(reply)

    def turn(self, item: Unsettled) -> AbstractAsyncContextManager[None]:
        """Nothing is held: the host's calls go to the server in the order that the host chose."""
        del item
        return nullcontext()

    async def look_up(self, item: Unsettled) -> Forwarded | None:
        """The outcome of an item, as the tool map's `reconcile` read shows it.

        None if the read shows neither outcome.
        """
        tool_map = self._connection.tool_map
        question = None if tool_map is None else question_of(tool_map, item)
        if question is None:
            return None
        answer = await self._called(question.tool, question.arguments)
        if answer is None or answer.kind is not Kind.RESULT or answer.result.get("isError") is True:
            return None
        try:
            return told(question, answer.result)
        except MalformedRequest:
            return None

    async def _called(self, tool: str, arguments: Object) -> Message | None:
        params: Object = {"name": tool, "arguments": arguments}
        if self._meta:
            params["_meta"] = self._meta
        try:
            return await self._connection.ask(Side.SERVER, CALL, params, None)
        except ServerGone:
            return None
