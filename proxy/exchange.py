"""One request and its answer, as a front sees them: no sockets, no framing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.auth import Peer
    from proxy.dialects.operation import Answering, HttpReply, HttpRequest
    from telemetry.events import TraceContext


# The route of a request that was refused before any front saw it.
REFUSED_ROUTE: Final = "refused"


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose head is checked and whose body waits to be asked for.

    A front authenticates on the head first: nobody without a key makes us hold a body.
    """

    head: HttpRequest
    peer: Peer
    trace: TraceContext
    answering: Answering
    read_body: Callable[[], Awaitable[bytes]]

    async def complete(self) -> HttpRequest:
        """The request with its body.

        Raises:
            MalformedRequest: The body is too large or too slow.
        """
        return msgspec.structs.replace(self.head, body=await self.read_body())


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, and what telemetry may know of it. `route` is a template of ours, never the path."""

    reply: HttpReply
    route: str
    principal: str = ""
    error_type: str = ""


class Front(Protocol):
    """Answers every request of one listener, failures included."""

    name: str  # "data" | "admin" | "health"
    routes: frozenset[str]  # every `Answered.route` it can give

    async def answer(self, incoming: Incoming) -> Answered:
        """The answer; raises nothing."""
        ...
