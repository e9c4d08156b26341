"""What an origin is called: names that neither a model nor a page could choose."""

from __future__ import annotations

import pytest

from policy.model import Tenant
from proxy.dialects.mcp.message import parse
from proxy.mcp.answers import call_of, method_of, tool_of
from proxy.mcp.pending_requests import PendingRequest
from proxy.mcp.relay import Server
from proxy.seams.guard import PinnedTool
from tests.unit.proxy.mcp.wire import call, line, request

TENANT = Tenant("default")


@pytest.mark.parametrize(
    ("request_id", "name"),
    [(0, "0"), (7, "7"), (2**31, "other"), (-1, "other"), ("7", "other"), ("a secret", "other")],
)
def test_only_a_count_is_the_name_of_a_call(request_id: int | str, name: str) -> None:
    assert call_of(request_id) == name


@pytest.mark.parametrize(
    ("method", "name"),
    [("resources/read", "resources/read"), ("Zebra/always", "other"), (None, "other")],
)
def test_only_the_protocol_s_own_methods_have_names(method: str | None, name: str) -> None:
    assert method_of(method) == name


def test_a_tool_is_named_where_its_server_lists_it_for_this_tenant() -> None:
    server = Server("web", context=True)
    called = PendingRequest(parse(line(call(1, "search"))), None)
    called.tool = "search"
    assert tool_of(called, server, TENANT) == "other"
    server.listed(TENANT, (PinnedTool(name="search", digest="0" * 64),))
    assert tool_of(called, server, TENANT) == "search"
    assert tool_of(called, server, Tenant("elsewhere")) == "other"


def test_what_is_no_tool_call_is_called_by_its_method() -> None:
    asked = PendingRequest(parse(line(request(1, "prompts/get", name="Zebra"))), None)
    assert tool_of(asked, Server("web"), TENANT) == "prompts/get"
