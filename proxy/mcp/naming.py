"""What a segment's origin is called.

The name of a culprit stands in the log for good, beside the refusal of what was found in it. So it
is one that neither a model nor a page could choose: a refused text would be read there otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from policy.model import Tenant
    from proxy.dialects.mcp.message import RequestId
    from proxy.mcp.pending import Pending
    from proxy.mcp.server import Server

OTHER: Final = "other"
# Every method by which text of a server may reach a model, either way, in both eras.
_METHODS: Final = frozenset(
    {"completion/complete", "elicitation/create", "initialize", "ping", "prompts/get"}
    | {"prompts/list", "resources/list", "resources/read", "resources/subscribe"}
    | {"resources/templates/list", "resources/unsubscribe", "roots/list"}
    | {"sampling/createMessage", "server/discover", "subscriptions/listen", "tasks/cancel"}
    | {"tasks/get", "tasks/list", "tasks/result", "tasks/update", "tools/list"}
)
# Clients count their requests. A text, or a number that long, could be anything.
_ID_MAX: Final = 2**31


def tool_of(pending: Pending, server: Server, tenant: Tenant) -> str:
    """The tool that was called, where the map or the server's own list names it; else a method."""
    if not pending.tool:
        return method_of(pending.method)
    listed = server.tools(tenant) or ()
    known = pending.rule is not None or any(tool.name == pending.tool for tool in listed)
    return pending.tool if known else OTHER


def method_of(method: str | None) -> str:
    """A method of the protocol by its name."""
    return method if method is not None and method in _METHODS else OTHER


def call_of(request_id: RequestId) -> str:
    """The number of a call."""
    counted = isinstance(request_id, int) and 0 <= request_id < _ID_MAX
    return str(request_id) if counted else OTHER
