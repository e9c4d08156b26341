"""One request and its answer, as a front uses them: without sockets and framing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import msgspec

from policy.model import Principal
from proxy.seams.access import Access
from proxy.seams.faults import Unauthenticated
from proxy.seams.operation import EncodingContext, HttpReply, HttpRequest
from proxy.transport.auth import Peer
from telemetry.events import TraceContext

# The name under which telemetry counts requests that were refused before a front saw them.
REFUSED_ROUTE: Final = "refused"


class Departure(msgspec.Struct, eq=False):
    """An event, such as that a peer has left, that calls registered callbacks. Event loop only."""

    _told: list[Callable[[], None]] = msgspec.field(default_factory=list[Callable[[], None]])
    _happened: bool = False

    def tell(self, told: Callable[[], None]) -> None:
        """Register `told`, to be called when the event happens, or at once if it has happened.

        `told` must not raise.
        """
        if self._happened:
            told()
        else:
            self._told.append(told)

    def forget(self, told: Callable[[], None]) -> None:
        """Remove a function that `tell` registered, so that it is not called any more."""
        if told in self._told:
            self._told.remove(told)

    def happen(self) -> None:
        """Call all registered functions, each once; later ones are called as they register."""
        self._happened = True
        told, self._told = self._told, []
        for one in told:
            one()


class AnswerDeadline(msgspec.Struct, eq=False):
    """Reports when a request's answer is no longer wanted: its peer left, or its credential ended.

    Event loop only.
    """

    # Happens also when the request's connection ends.
    gone: Departure
    # Whether a credential of the request has ended, so that its answer may not be sent.
    over: bool = False
    _accesses: list[Access] = msgspec.field(default_factory=list[Access])

    def close(self) -> None:
        """Stop watching credentials, because the last piece of the answer was sent."""
        for access in self._accesses:
            access.forget(self._end)

    def stands_on(self, access: Access) -> None:
        """Tie the request to this credential as well: when the credential ends, `gone` happens."""
        self._accesses.append(access)
        access.tell(self._end)

    def _end(self) -> None:
        self.over = True
        self.gone.happen()

    def check(self) -> None:
        """Check that the credentials of the request are still valid.

        Raises:
            Unauthenticated: One of the credentials has ended meanwhile.
        """
        if self.over:
            raise Unauthenticated


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose head is checked and whose body was not read yet.

    A front authenticates by the head first, so that no one without a credential can make the
    sidecar store a body.
    """

    head: HttpRequest
    peer: Peer
    trace: TraceContext
    answering: EncodingContext
    # Reads and returns the body, of at most so many bytes, while the credential is valid.
    read_up_to: Callable[[int], Awaitable[bytes]]
    body_bytes_max: int
    welcome: AnswerDeadline
    # A front calls it once the credential is checked, before it reads the body: the request and its
    # connection then count for this principal. Raises `Busy` if the principal has too many
    # requests.
    enter: Callable[[Principal], None]
    # Ties the request to a credential; only the authenticator calls it.
    stands_on: Callable[[Access], None]

    async def complete(self, bytes_max: int | None = None) -> HttpRequest:
        """Read the body, of at most `bytes_max` or the listener's limit; return the whole request.

        Raises:
            MalformedRequest: The body is too large or too slow.
            Unauthenticated: The credential ended before the whole body had arrived.
        """
        most = self.body_bytes_max if bytes_max is None else bytes_max
        return msgspec.structs.replace(self.head, body=await self.read_up_to(most))


class Pieces(Protocol):
    """A body that is streamed in pieces to one reader, which always calls `aclose`, once."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body, none of them empty."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Stop reading, and release the source."""
        ...


class AnsweredReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, with the facts about it that telemetry may have.

    `route` is the template of the request's route, never the path that was sent.
    """

    reply: HttpReply
    route: str
    principal: str = ""
    error_type: str = ""
    # Whether the reply reports a change that was made. Such a reply is sent even if the caller's
    # credential was revoked or expired meanwhile.
    done: bool = False
    # The streamed body, if the reply has no body of its own. It is closed early if the peer leaves
    # or the listener ends. If reading it raises, the connection is cut, so that an incomplete body
    # does not look complete.
    pieces: Pieces | None = None


class Front(Protocol):
    """Answers every request of one listener, failures included."""

    name: str  # One of "data", "admin" and "health".
    routes: frozenset[str]  # all values that `AnsweredReply.route` may have

    def answer(self, incoming: RequestHead) -> Coroutine[Any, Any, AnsweredReply]:
        """Answer one request, failures included; raises nothing."""
        ...
