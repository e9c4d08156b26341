"""Names that the log may keep for the origin of a segment.

The name of a culprit stays in the log for good. So it must be a name that no model or page could
choose: otherwise a refused text could get into the log as a name.
"""

from __future__ import annotations

from typing import Final

from policy.model import Tenant
from proxy.dialects.mcp.message import RequestId
from proxy.mcp.pending import Pending
from proxy.mcp.server import Server

OTHER: Final = "other"
# Methods whose names may be logged. By each of them a server's text may reach a model.
_METHODS: Final = frozenset(
    {"completion/complete", "elicitation/create", "initialize", "ping", "prompts/get"}
    | {"prompts/list", "resources/list", "resources/read", "resources/subscribe"}
    | {"resources/templates/list", "resources/unsubscribe", "roots/list"}
    | {"sampling/createMessage", "server/discover", "subscriptions/listen", "tasks/cancel"}
    | {"tasks/get", "tasks/list", "tasks/result", "tasks/update", "tools/list"}
)
# Clients number their requests. A text, or a longer number, could contain anything.
_ID_MAX: Final = 2**31


def tool_of(pending: Pending, server: Server, tenant: Tenant) -> str:
    """The name of the called tool, or the method's where no tool was called.

    A tool that neither the map nor the server's list has is called "other".
    """
    if not pending.tool:
        return method_of(pending.method)
    listed = server.tools(tenant) or ()
    known = pending.rule is not None or any(tool.name == pending.tool for tool in listed)
    return pending.tool if known else OTHER


def method_of(method: str | None) -> str:
    """The method's name, if the protocol has it."""
    return method if method is not None and method in _METHODS else OTHER


def call_of(request_id: RequestId) -> str:
    """A JSON-RPC id as the log may keep it: a small number as text, "other" for any other id."""
    counted = isinstance(request_id, int) and 0 <= request_id < _ID_MAX
    return str(request_id) if counted else OTHER
