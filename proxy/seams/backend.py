"""The seam between settling and a protocol: what its side does for one server behind the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from proxy.seams.guard import Forwarded, Unsettled

Reply = TypeVar("Reply")


class Backend(Protocol[Reply]):
    """One server behind, asked in our own name. Event loop only."""

    async def is_ready(self) -> bool:
        """Whether the server may be asked now; else it is left alone until the next round."""
        ...

    async def send(self, item: Unsettled) -> Reply | None:
        """Send one item, once. The server's answer, or None where no answer came in time.

        Raises:
            MalformedRequest: The item cannot be sent as it is kept; nothing was sent. Never raised
                once anything was: the item would count as failed.
        """
        ...

    def outcome(self, reply: Reply) -> Forwarded:
        """What an answer says of the item that was sent."""
        ...

    async def look_up(self, item: Unsettled) -> Forwarded | None:
        """What a read proves of an item that was sent; None where it proves nothing."""
        ...
