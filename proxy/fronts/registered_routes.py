"""Routes of the operator API about what is registered as true: anchors and canaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.admin.wire import registered as wire
from proxy.admin.wire.queries import TenantQuery
from proxy.dialects.query import NoQuery

if TYPE_CHECKING:
    import msgspec

    from proxy.admin.commands import Operate
    from proxy.fronts.operator_call import OperatorCall


async def _anchors(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The anchors of a tenant."""
    return operate.registering.anchors(call.tenant())


async def _anchor_put(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Register a statement that memories are compared with."""
    return await operate.registering.put_anchor(call.by, call.body(wire.AnchorRequest))


async def _canaries(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The canaries of a tenant."""
    return await operate.registering.canaries(call.tenant())


async def _canary_put(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Register a question, and what memories may not answer to it."""
    return await operate.registering.put_canary(call.by, call.body(wire.CanaryRequest))


RULES: Final = (
    ("GET", "/anchors", _anchors, TenantQuery, None, wire.AnchorList),
    ("POST", "/anchors", _anchor_put, NoQuery, wire.AnchorRequest, wire.AnchorView),
    ("GET", "/canaries", _canaries, TenantQuery, None, wire.CanaryList),
    ("POST", "/canaries", _canary_put, NoQuery, wire.CanaryRequest, wire.CanaryView),
)
