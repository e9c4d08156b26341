"""One request and its answer, as a front sees them: no sockets, no framing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from proxy.seams.operation import Answering, HttpReply, HttpRequest
    from proxy.transport.auth import Peer
    from telemetry.events import TraceContext


# The route of a request that was refused before any front saw it.
REFUSED_ROUTE: Final = "refused"


class Departure:
    """Tells those who ask that the peer of one connection went away. Event loop only."""

    def __init__(self) -> None:
        self._told: list[Callable[[], None]] = []
        self._happened = False

    def tell(self, told: Callable[[], None]) -> None:
        """Call `told` when the peer goes, at once if it did; it must not raise."""
        if self._happened:
            told()
        else:
            self._told.append(told)

    def forget(self, told: Callable[[], None]) -> None:
        """Do not call it any more."""
        if told in self._told:
            self._told.remove(told)

    def happen(self) -> None:
        """The peer went; called once by the connection."""
        self._happened = True
        told, self._told = self._told, []
        for one in told:
            one()


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose head is checked and whose body waits to be asked for.

    A front authenticates on the head first: nobody without a key makes us hold a body.
    """

    head: HttpRequest
    peer: Peer
    trace: TraceContext
    answering: Answering
    read_body: Callable[[], Awaitable[bytes]]
    gone: Departure = msgspec.field(default_factory=Departure)
    # The same with another cap than the listener's, for a front whose bodies are larger.
    read_up_to: Callable[[int], Awaitable[bytes]] | None = None

    async def complete(self) -> HttpRequest:
        """The request with its body.

        Raises:
            MalformedRequest: The body is too large or too slow.
        """
        return msgspec.structs.replace(self.head, body=await self.read_body())


class Pieces(Protocol):
    """A body that comes in pieces. One reader; `aclose` is called once, read to the end or not."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces, none of them empty."""
        ...

    async def aclose(self) -> None:
        """Nobody reads on: let go of what stands behind it."""
        ...


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, and what telemetry may know of it. `route` is a template of ours, never the path."""

    reply: HttpReply
    route: str
    principal: str = ""
    error_type: str = ""
    # The body in pieces, instead of the reply's own. It is closed when the peer or the listener
    # goes first; what it raises tears the connection, so that nobody takes a part for the whole.
    pieces: Pieces | None = None


class Front(Protocol):
    """Answers every request of one listener, failures included."""

    name: str  # "data" | "admin" | "health"
    routes: frozenset[str]  # every `Answered.route` it can give

    async def answer(self, incoming: Incoming) -> Answered:
        """The answer; raises nothing."""
        ...
