"""One request and its answer, as a front sees them: no sockets, no framing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, Self

import msgspec

from proxy.seams.faults import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from policy.model import Principal
    from proxy.seams.access import Access
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


class Welcome:
    """How long one request is wanted: until its peer goes, or a credential it came in on ends.

    A context around all of it, the last piece of its answer included. Event loop only.
    """

    __slots__ = ("_accesses", "_departure", "gone")

    def __init__(self, departure: Departure) -> None:
        """`departure` is that of its connection."""
        self.gone = Departure()
        self._departure = departure
        self._accesses: list[Access] = []

    def __enter__(self) -> Self:
        """Begin."""
        self._departure.tell(self.gone.happen)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """It is answered."""
        self._departure.forget(self.gone.happen)
        for access in self._accesses:
            access.forget(self.gone.happen)

    def stands_on(self, access: Access) -> None:
        """It came in on this credential, too."""
        self._accesses.append(access)
        access.tell(self.gone.happen)

    @property
    def over(self) -> bool:
        """Whether a credential that it came in on has ended."""
        return not all(access.stands() for access in self._accesses)

    def check(self) -> None:
        """Look at its credential again.

        Raises:
            Unauthenticated: It has ended meanwhile.
        """
        if self.over:
            raise Unauthenticated


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose head is checked and whose body waits to be asked for.

    A front authenticates on the head first: nobody without a key makes us hold a body.
    """

    head: HttpRequest
    peer: Peer
    trace: TraceContext
    answering: Answering
    # The body, of so many bytes at most, once it is whole and its sender still welcome.
    read_up_to: Callable[[int], Awaitable[bytes]]
    body_bytes_max: int
    welcome: Welcome
    # Said by a front as soon as the credential is found good, before the body: whose request and
    # connection this is. It raises `Busy` where that principal has too many under way.
    enter: Callable[[Principal], None]

    @property
    def gone(self) -> Departure:
        """Tells when nobody may have the answer any more: the peer went, or its key ended."""
        return self.welcome.gone

    def stands_on(self, access: Access) -> None:
        """It came in on this credential; only the authenticator says so."""
        self.welcome.stands_on(access)

    async def complete(self, bytes_max: int | None = None) -> HttpRequest:
        """The request with its body, of so many bytes at most or of as many as its listener takes.

        Raises:
            MalformedRequest: The body is too large or too slow.
            Unauthenticated: Its credential ended before the body was whole.
        """
        most = self.body_bytes_max if bytes_max is None else bytes_max
        return msgspec.structs.replace(self.head, body=await self.read_up_to(most))


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
    # It tells of a change that is made: it is sent although its credential ended meanwhile.
    done: bool = False
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
