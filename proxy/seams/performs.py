"""The interface through which fronts have one decoded operation carried out."""

from __future__ import annotations

from typing import Protocol

from policy.model import Principal
from proxy.seams.operation import Operation, Result
from telemetry.events import TraceContext


class Performs(Protocol):
    """Carries out decoded operations; `proxy.intercept.operations.Operations` implements it."""

    async def perform(
        self, principal: Principal, operation: Operation, *, dialect: str, trace: TraceContext
    ) -> Result:
        """Carry out one decoded operation and return its result."""
        ...
