"""Whether a server's tools are those that were approved, before any of them is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.verdict import Reason
from proxy.dialects.mcp.message import Kind, Message, Object
from proxy.dialects.operation import MalformedRequest
from proxy.mcp.ground import LOG, UNDECIDED, Ground, ServerGone, Side
from proxy.mcp.server import PAGES_MAX, Pages

if TYPE_CHECKING:
    from proxy.guard import PinnedTool


class Catalogue:
    """The tools of the server on one connection. Event loop only."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._pages = Pages()

    def changed(self) -> None:
        """The server says that its tools are others now."""
        self._ground.server.listed(self._ground.principal.tenant, None)

    async def listed(self, asked: Object, answer: Message) -> None:
        """The client is about to see this page of the list: what it sees is what is pinned."""
        try:
            tools = self._pages.add(asked, answer)
        except MalformedRequest:
            self.changed()
            return
        if tools is not None:
            await self._pin(tools)

    async def refusal(self, meta: Object) -> Reason | None:
        """Why no tool of this server may be called now; None where they are as approved."""
        ground = self._ground
        tools = ground.server.tools(ground.principal.tenant)
        if tools is None:
            try:
                tools = await self._list(meta)
            except (ServerGone, MalformedRequest):
                return Reason.GATE_UNAVAILABLE
        return await self._pin(tools)

    async def _list(self, meta: Object) -> tuple[PinnedTool, ...]:
        """Ask for the tools ourselves: a client that never did may still call them."""
        pages, cursor = Pages(), None
        for _ in range(PAGES_MAX):
            params: Object = {"_meta": meta} if meta else {}
            if cursor is not None:
                params["cursor"] = cursor
            answer = await self._ground.ask(Side.SERVER, "tools/list", params)
            if answer.kind is not Kind.RESULT:
                raise MalformedRequest("tools: the server lists none")
            self._ground.server.heed(answer.result)
            tools = pages.add(params, answer)
            if tools is not None:
                return tools
            cursor = answer.result.get("nextCursor")
        raise MalformedRequest("tools: too many pages")

    async def _pin(self, tools: tuple[PinnedTool, ...]) -> Reason | None:
        ground = self._ground
        tenant = ground.principal.tenant
        ground.server.listed(tenant, tools)
        if ground.server.is_approved(tenant, tools):
            return None
        try:
            state = await ground.guard.pin(ground.principal, ground.server.name, tools)
        except UNDECIDED:
            return Reason.GATE_UNAVAILABLE
        if state.approved:
            ground.server.approved(tenant, tools)
            return None
        LOG.warning("tools changed", extra={"count": len(state.changed)})
        return Reason.TOOLS_CHANGED
