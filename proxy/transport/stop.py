"""A time limit on work that other code can also end early."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Stop:
    """A context that ends the work inside it with `TimeoutError` when called. Event loop only.

    It may be called at any time and repeatedly, also before the context is entered and after.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """`seconds` is the most that the work may take; None: no limit but a call."""
        self._scope = asyncio.timeout(seconds)
        self._inside = False
        self._called = False

    async def __aenter__(self) -> Self:
        """Start the time limit; end the work at once if the stop was called before."""
        await self._scope.__aenter__()
        self._inside = True
        if self._called:
            self()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise `TimeoutError` if the stop was called, or the time is over."""
        self._inside = False
        await self._scope.__aexit__(kind, error, trace)

    def __call__(self) -> None:
        """End the work now."""
        self._called = True
        self.after(0)

    def after(self, seconds: float) -> None:
        """End the work in so many seconds from now, unless its time limit is earlier."""
        if self._inside and not self._scope.expired():
            due = asyncio.get_running_loop().time() + seconds
            when = self._scope.when()
            if when is None or due < when:
                self._scope.reschedule(due)
