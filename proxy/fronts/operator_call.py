"""One request to the operator API, as its handlers see it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from policy.model import CandidateId, MemoryId, Principal, Tenant
from proxy.admin.commands import Operate
from proxy.admin.wire.queries import TenantQuery
from proxy.dialects.native.wire import UUID_PATTERN
from proxy.dialects.query import query_as
from proxy.dialects.strict_json.strict import decode_as
from proxy.seams.faults import NotFound
from proxy.seams.operation import HttpRequest
from proxy.transport.exchange import Incoming

_CANDIDATE_ID: Final = re.compile(r"[0-9a-f]{32}")
_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class OperatorCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request of an authenticated operator, whose route is known."""

    by: Principal
    incoming: Incoming
    request: HttpRequest
    argument: str  # the one variable segment of the route's path; "" if it has none

    def body(self, shape: type[_Shape]) -> _Shape:
        """The request's body as this struct; an empty body is read as an empty object."""
        return decode_as(self.request.body or b"{}", shape)

    def query(self, shape: type[_Shape]) -> _Shape:
        """The tenant that the request asks about."""
        return query_as(self.request.query, shape)

    def tenant(self) -> Tenant:
        """The tenant asked about."""
        return Tenant(self.query(TenantQuery).tenant)

    def memory_id(self) -> MemoryId:
        """The memory id in the path, checked for the form that ids in the store have."""
        if re.fullmatch(UUID_PATTERN, self.argument) is None:
            raise NotFound("there is no such memory")
        return MemoryId(self.argument)

    def candidate_id(self) -> CandidateId:
        """The candidate named in the path."""
        if _CANDIDATE_ID.fullmatch(self.argument) is None:
            raise NotFound("no candidate of that id is held")
        return CandidateId(self.argument)


Handler = Callable[["Operate", OperatorCall], Awaitable[msgspec.Struct]]
