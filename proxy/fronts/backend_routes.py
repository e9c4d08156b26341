"""The operator API's routes about memory servers behind the gate that speak HTTP."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.commands import Operate
from proxy.admin.wire.backend_comparison import (
    CompareRequest,
    CompareView,
    KeptList,
    KeptQuery,
)
from proxy.admin.wire.upkeep import AdoptRequest, AdoptView
from proxy.dialects.query import NoQuery
from proxy.fronts.operator_call import OperatorCall


async def _compare(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """How memories that a server has stand here: the same, different, or let in by no verdict."""
    return await operate.backends.compare(call.argument, call.body(CompareRequest).items)


async def _kept(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Live memories that a server should have, without their texts."""
    return await operate.backends.kept(call.argument, call.query(KeptQuery).after)


async def _adopt(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Take in, as of unknown origin, what a server has and no verdict let in."""
    return await operate.backends.adopt(call.by, call.argument, call.body(AdoptRequest))


BACKENDS: Final = (
    ("POST", "/backends/{backend}/compare", _compare, NoQuery, CompareRequest, CompareView),
    ("GET", "/backends/{backend}/kept", _kept, KeptQuery, None, KeptList),
    ("POST", "/backends/{backend}/adopt", _adopt, NoQuery, AdoptRequest, AdoptView),
)
