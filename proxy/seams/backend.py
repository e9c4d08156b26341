"""What the settling of writes needs from the protocol of a server behind the gate."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from proxy.seams.guard import Forwarded, Unsettled

Reply = TypeVar("Reply")


class Backend(Protocol[Reply]):
    """One server behind, to which the sidecar sends requests of its own. Event loop only."""

    async def is_ready(self) -> bool:
        """Whether the server can be asked now. If not, it is asked again in the next round."""
        ...

    def turn(self, item: Unsettled) -> AbstractAsyncContextManager[None]:
        """What is held from before an item is sent or looked up until its outcome is recorded.

        Where a server's changes of one place wait for each other, no other change of the item's
        place happens meanwhile.
        """
        ...

    async def send(self, item: Unsettled) -> Reply | None:
        """Send one item, once. The server's answer, or None where no answer came in time.

        Raises:
            MalformedRequest: The item cannot be sent as it is kept; nothing was sent. Never raised
                after sending: the item would count as failed.
        """
        ...

    def outcome(self, reply: Reply) -> Forwarded:
        """The outcome of a sent item, as the server's answer tells it."""
        ...

    async def look_up(self, item: Unsettled) -> Forwarded | None:
        """The outcome of a sent item, as a read of the server shows it.

        None if the read shows nothing.
        """
        ...
