"""Compares a server's tools with the approved ones before any tool is shown or called."""

from __future__ import annotations

from typing import Final

from policy.verdict import Reason
from proxy.dialects.mcp.catalogue import next_cursor, pinned_tools
from proxy.dialects.mcp.message import LIST, Message, MessageKind, Object
from proxy.dialects.model.memory_words import writes_by_name
from proxy.mcp.connection import LOG, RelayConnection, ServerGone, Side
from proxy.mcp.server import PAGES_MAX
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import PinnedTool
from proxy.settle.forwarder import UNDECIDED

_TOLD_MAX: Final = 16


class ToolCatalogue:
    """The tools of the server on one connection. Event loop only."""

    def __init__(self, connection: RelayConnection) -> None:
        self._connection = connection

    def changed(self) -> None:
        """Forget the listed tools, so that they are listed again before the next call."""
        self._connection.server.listed(self._connection.principal.tenant, None)

    def is_part(self, asked: Object, answer: Message) -> bool:
        """Whether this page of tools must wait until all pages were fetched."""
        connection = self._connection
        if "cursor" not in asked and next_cursor(answer.result) is None:
            return False
        try:
            tools = pinned_tools([answer.result])
        except MalformedRequest:
            return False
        return not connection.server.has_approved(connection.principal.tenant, tools)

    async def refusal_of_page(self, asked: Object, answer: Message) -> Reason | None:
        """Why a client may not see this page of tools; None if it may.

        Each tool on the page must be pinned and approved.
        """
        connection = self._connection
        try:
            tools = pinned_tools([answer.result])
        except MalformedRequest:
            self.changed()
            return Reason.TOOLS_CHANGED
        if "cursor" not in asked and next_cursor(answer.result) is None:
            return await self._pin(tools)
        if connection.server.has_approved(connection.principal.tenant, tools):
            return None
        return Reason.TOOLS_CHANGED

    async def refusal(self, meta: Object) -> Reason | None:
        """Why no tool of this server may be called now; None if all are as they were approved."""
        connection = self._connection
        tools = connection.server.tools(connection.principal.tenant)
        if tools is None:
            try:
                tools = await self._list(meta)
            except (ServerGone, MalformedRequest):
                return Reason.GATE_UNAVAILABLE
        return await self._pin(tools)

    async def _list(self, meta: Object) -> tuple[PinnedTool, ...]:
        """List the server's tools, because a client may call tools that it never listed."""
        pages: list[Object] = []
        params: Object = {"_meta": meta} if meta else {}
        for _ in range(PAGES_MAX):
            answer = await self._connection.ask(Side.SERVER, LIST, params, None)
            if answer.kind is not MessageKind.RESULT:
                raise MalformedRequest("tools: the server lists none")
            self._connection.server.heed(answer.result)
            pages.append(answer.result)
            cursor = next_cursor(answer.result)
            if cursor is None:
                return pinned_tools(pages)
            params = {**params, "cursor": cursor}
        raise MalformedRequest("tools: too many pages")

    def _tell_of_writes(self, tools: tuple[PinnedTool, ...]) -> None:
        """Warn once if a server whose map says that it keeps no memory has tools that write.

        Calls of such tools are not judged.
        """
        server = self._connection.server
        if not server.is_never_written or server.told_of_writes:
            return
        writing = sorted(tool.name for tool in tools if writes_by_name(tool.name))
        if writing:
            server.told_of_writes = True
            LOG.warning(
                "the map context judges NOTHING that this server writes, and it has tools that "
                "seem to write; give it a map, or take these tools away",
                extra={"fields": {"server": server.name, "tools": writing[:_TOLD_MAX]}},
            )

    async def _pin(self, tools: tuple[PinnedTool, ...]) -> Reason | None:
        connection = self._connection
        tenant = connection.principal.tenant
        connection.server.listed(tenant, tools)
        self._tell_of_writes(tools)
        if connection.server.is_approved(tenant, tools):
            return None
        try:
            state = await connection.guard.pin(connection.principal, connection.server.name, tools)
        except UNDECIDED as error:
            connection.server.undecided(error)
            return Reason.GATE_UNAVAILABLE
        if state.approved:
            connection.server.approved(tenant, tools)
            return None
        # The gate is asked again and again, because an operator may approve the tools meanwhile.
        if connection.server.told_of_changes != tools:
            connection.server.told_of_changes = tools
            fields = {"server": connection.server.name, "count": len(state.changed)}
            LOG.warning("tools changed", extra={"fields": fields})
        return Reason.TOOLS_CHANGED
