"""The seam between fronts and the interceptor: who carries out one decoded operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from policy.model import Principal
    from proxy.seams.operation import Operation, Result
    from telemetry.events import TraceContext


class Performs(Protocol):
    """What the front needs of `proxy.intercept.operations.Operations`."""

    async def perform(
        self, principal: Principal, operation: Operation, *, dialect: str, trace: TraceContext
    ) -> Result:
        """The result of one decoded operation."""
        ...
