"""The state that all connections to one upstream server share: tools, map, and waiting items."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from policy.bounded import Bounded
from policy.model import CandidateId, PrincipalId, Tenant
from proxy.dialects.mcp.maps import Posture, ToolMap
from proxy.dialects.mcp.message import META_SERVER_INFO, Object
from proxy.seams.guard import PinnedTool
from proxy.settings.tool_maps import CONTEXT_MAP, map_for_server, shipped_map
from proxy.settle.forwarder import NoGate

HANDLES_MAX: Final = 1_024
CHARS_MAX: Final = 4 * 1024 * 1024
PRINCIPALS_MAX: Final = 1_024
_ID_BYTES: Final = 16


class StringHandles:
    """Handles that clients get in place of a server's strings which they only send back.

    Each principal has handles of its own; the least recently used are dropped. Until then a string
    has the same handle, so that equal pages look equal. Event loop only.
    """

    def __init__(self) -> None:
        self._of = Bounded[PrincipalId, _OfOne](PRINCIPALS_MAX)

    def give(self, principal_id: PrincipalId, text: str, random_hex: Callable[[int], str]) -> str:
        """The handle that a client gets in place of a server's string."""
        one = self._of[principal_id] = self._of.get(principal_id) or _OfOne()
        return one.give(text, random_hex)

    def find(self, principal_id: PrincipalId, handle: str) -> str | None:
        """The string that a handle of this principal replaces; None if no such handle is known."""
        one = self._of.get(principal_id)
        return None if one is None else one.texts.get(handle)


class _OfOne:
    def __init__(self) -> None:
        self.texts: OrderedDict[str, str] = OrderedDict()
        self._handles: dict[str, str] = {}
        self._chars = 0

    def give(self, text: str, random_hex: Callable[[int], str]) -> str:
        handle = self._handles.get(text)
        if handle is not None:
            self.texts.move_to_end(handle)
            return handle
        handle = self._handles[text] = random_hex(_ID_BYTES)
        self.texts[handle] = text
        self._chars += len(text)
        while len(self.texts) > 1 and (len(self.texts) > HANDLES_MAX or self._chars > CHARS_MAX):
            _, oldest = self.texts.popitem(last=False)
            del self._handles[oldest]
            self._chars -= len(oldest)
        return handle


PAGES_MAX: Final = 64
WAITING_MAX: Final = 1_024


class HeldCall(msgspec.Struct, frozen=True, kw_only=True):
    """A held item whose call the client will repeat with a person's answer (stateless era)."""

    candidate_id: CandidateId
    principal_id: PrincipalId
    observation: str


class Server:
    """One upstream server, shared by every relay to it. Event loop only.

    Without a `tool_map`, the first name that the server gives itself chooses a shipped map. Before
    that, and where no shipped map fits, every tool counts as a write.
    """

    def __init__(
        self, name: str, tool_map: ToolMap | None = None, *, context: bool = False
    ) -> None:
        self.name = name
        self.tool_map = shipped_map(CONTEXT_MAP) if context else tool_map
        self._introduced = False
        # Whether the log has the warning that this server has tools that write, although its map
        # says that it keeps no memory.
        self.told_of_writes = False
        # The changed tools that the log has a warning of.
        self.told_of_changes: tuple[PinnedTool, ...] = ()
        # Why no gate runs, where the relay's last request reached none.
        self.no_gate = ""
        self._tools: dict[Tenant, tuple[PinnedTool, ...]] = {}
        # An approval holds until the tools change; then the gate is asked again.
        self._approved: dict[Tenant, tuple[PinnedTool, ...]] = {}
        self.handles = StringHandles()
        self._waiting = Bounded[str, HeldCall](WAITING_MAX)
        # Only one relay at a time sends released items and looks up lost ones.
        self.tending = asyncio.Lock()
        # Held from before a write is sent until it is answered, if the map asks for that.
        self.writing = asyncio.Lock()

    @property
    def is_context(self) -> bool:
        """Whether the server keeps no memory or only files, so that its texts are tool results."""
        return self.tool_map is not None and not self.tool_map.keeps_memory

    @property
    def is_never_written(self) -> bool:
        """Whether no call of this server is judged, because its map says it keeps no memory."""
        return self.tool_map is not None and self.tool_map.posture is Posture.CONTEXT

    @property
    def takes_turns(self) -> bool:
        """Whether only one write at a time may be sent, because the server would lose others."""
        return self.tool_map is not None and self.tool_map.one_write_at_a_time

    def heed(self, result: Object) -> None:
        """Take the server's name from a result that contains one; only the first name counts."""
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
        """The tools as last listed; None if they have to be listed again."""
        return self._tools.get(tenant)

    def listed(self, tenant: Tenant, tools: tuple[PinnedTool, ...] | None) -> None:
        """Set a tenant's list of tools; None clears the lists of all tenants after a change."""
        if tools is None:
            self._tools.clear()
        else:
            self._tools[tenant] = tools

    def approved(self, tenant: Tenant, tools: tuple[PinnedTool, ...]) -> None:
        """Note that the gate confirmed a list of tools as the approved one."""
        self._approved[tenant] = tools

    def is_approved(self, tenant: Tenant, tools: tuple[PinnedTool, ...]) -> bool:
        """Whether the gate confirmed exactly this list of tools."""
        return self._approved.get(tenant) == tools

    def undecided(self, error: Exception) -> None:
        """Note that the gate did not answer, and why if no gate runs."""
        self.no_gate = str(error) if isinstance(error, NoGate) else ""

    def has_approved(self, tenant: Tenant, tools: tuple[PinnedTool, ...]) -> bool:
        """Whether the gate confirmed each tool in this list."""
        return set(tools) <= set(self._approved.get(tenant, ()))

    def wait_for(self, state: str, waiting: HeldCall) -> None:
        """Store an item under the `requestState` with which its client will repeat the call.

        Beyond `WAITING_MAX` items the oldest are dropped.
        """
        self._waiting[state] = waiting

    def come_back(self, state: str, principal_id: PrincipalId) -> HeldCall | None:
        """Remove and return the item stored under a `requestState`.

        None if the item belongs to another principal, or was returned before.
        """
        found = self._waiting.get(state)
        if found is None or found.principal_id != principal_id:
            return None
        return self._waiting.pop(state)
