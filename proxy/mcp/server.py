"""One server behind, as all its connections know it: tools, map, and what waits for a person."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.dialects.mcp.maps import Posture, ToolMap
from proxy.dialects.mcp.message import META_SERVER_INFO
from proxy.mcp.handles import Handles
from proxy.settings.tool_maps import CONTEXT_MAP, map_for_server, shipped_map

if TYPE_CHECKING:
    from policy.model import CandidateId, PrincipalId, Tenant
    from proxy.dialects.mcp.message import Object
    from proxy.seams.guard import PinnedTool

PAGES_MAX: Final = 64
WAITING_MAX: Final = 1_024


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A held item whose client will come back with an answer (stateless era)."""

    candidate_id: CandidateId
    principal_id: PrincipalId
    observation: str


class Server:
    """The server behind, shared by every relay to it. Event loop only.

    Without a `tool_map` the first name that the server gives itself chooses one of those that are
    shipped; until then, and where none fits, every tool counts as a write.
    """

    def __init__(
        self, name: str, tool_map: ToolMap | None = None, *, context: bool = False
    ) -> None:
        self.name = name
        self.tool_map = shipped_map(CONTEXT_MAP) if context else tool_map
        self._introduced = False
        self._tools: dict[Tenant, tuple[PinnedTool, ...]] = {}
        # Approval does not end by itself: it is asked for again when the tools are others.
        self._approved: dict[Tenant, tuple[PinnedTool, ...]] = {}
        self.handles = Handles()
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        # One relay at a time sends what was released and looks up what was lost.
        self.tending = asyncio.Lock()

    @property
    def is_context(self) -> bool:
        """Nothing is remembered behind it: every tool passes, and results are tool results."""
        return self.tool_map is not None and self.tool_map.posture is Posture.CONTEXT

    def heed(self, result: Object) -> None:
        """Take the server's name from a result that says it. The first one counts."""
        if self._introduced:
            return
        info = result.get("serverInfo")
        if not isinstance(info, dict):
            meta = result.get("_meta")
            info = meta.get(META_SERVER_INFO) if isinstance(meta, dict) else None
        name = info.get("name") if isinstance(info, dict) else None
        if isinstance(name, str):
            self._introduced = True
            if self.tool_map is None:
                self.tool_map = map_for_server(name)

    def tools(self, tenant: Tenant) -> tuple[PinnedTool, ...] | None:
        """The tools as they were listed last; None where that is to be asked again."""
        return self._tools.get(tenant)

    def listed(self, tenant: Tenant, tools: tuple[PinnedTool, ...] | None) -> None:
        """Its tools are these; None: they may have changed."""
        if tools is None:
            self._tools.clear()
        else:
            self._tools[tenant] = tools

    def approved(self, tenant: Tenant, tools: tuple[PinnedTool, ...]) -> None:
        """The gate said that these are the tools that were approved."""
        self._approved[tenant] = tools

    def is_approved(self, tenant: Tenant, tools: tuple[PinnedTool, ...]) -> bool:
        """Whether the gate has said so of these very tools."""
        return self._approved.get(tenant) == tools

    def has_approved(self, tenant: Tenant, tools: tuple[PinnedTool, ...]) -> bool:
        """Whether each of these is among those of which the gate has said so."""
        return set(tools) <= set(self._approved.get(tenant, ()))

    def wait_for(self, state: str, waiting: Waiting) -> None:
        """A client was asked to come back with this state. The oldest are forgotten."""
        self._waiting[state] = waiting
        if len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)

    def come_back(self, state: str, principal_id: PrincipalId) -> Waiting | None:
        """What a state stood for, once, and only for the principal that was asked."""
        found = self._waiting.get(state)
        if found is None or found.principal_id != principal_id:
            return None
        return self._waiting.pop(state)
