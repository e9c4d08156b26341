"""The memory front: authenticates, decodes, performs and answers requests of the memory APIs.

It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

import msgspec

from proxy.seams.faults import OF_DATA, NotFound, UnknownWrite
from proxy.seams.operation import (
    DeleteWhere,
    Dialect,
    HttpReply,
    HttpRequest,
    Operation,
    Performs,
    Refusal,
    Write,
)
from proxy.seams.pace import LARGE, Pace
from proxy.transport.auth import Authenticator
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, RequestHead
from proxy.transport.responses import AnswerFailure, attempt, problem

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
UNKNOWN_ROUTE: Final = "unknown"
_OF_MODELS: Final = ("/chat/completions", "/responses", "/messages", "/completions", "/embeddings")


def route_of(dialect: Dialect, operation: Operation | None) -> str:
    """The route's name for telemetry, such as `native.write`; one of `routes_of`."""
    if operation is None:
        return f"{dialect.name}.refused"
    return f"{dialect.name}.{operation.__struct_config__.tag}"


def routes_of(dialects: tuple[Dialect, ...]) -> frozenset[str]:
    """Every route of the memory APIs that telemetry may name."""
    operations: tuple[type[Operation], ...] = get_args(Operation)
    named = {
        f"{dialect.name}.{operation.__struct_config__.tag}"
        for dialect in dialects
        for operation in operations
    }
    refused = {f"{dialect.name}.refused" for dialect in dialects}
    return frozenset(named | refused | {UNKNOWN_ROUTE, REFUSED_ROUTE})


class _MemoryProgress(msgspec.Struct):
    """The facts known so far about one request, for telemetry."""

    request: HttpRequest
    operation: Operation | None = None
    principal: str = ""


class MemoryFront:
    """Serves every dialect on one listener. Event loop only; holds no state of a request."""

    name = "data"

    def __init__(
        self,
        dialects: tuple[Dialect, ...],
        operations: Performs,
        authenticator: Authenticator,
        halt: Callable[[], None],
        *,
        pace: Pace,
        bases: tuple[str, ...] = (),
    ) -> None:
        """`bases`, for hints: per model API the variable for its base URL, and the URL's end."""
        self._bases = bases
        self._dialects = dialects
        self._pace = pace
        self._operations = operations
        self._authenticator = authenticator
        self._halt = halt
        self.routes = routes_of(dialects)

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """Answer in the dialect that claims the request, or with problem details if none does."""
        for dialect in self._dialects:
            if dialect.claims(incoming.head):
                break
        else:
            return await self._unclaimed(incoming)
        progress = _MemoryProgress(incoming.head)
        done = await attempt(self._serve(dialect, incoming, progress), self._halt)
        error_type, changed = "", isinstance(progress.operation, Write | DeleteWhere)
        if isinstance(done, AnswerFailure):
            error_type, changed = done.error_type, False
            refusal = self._hinted(done.refusal, incoming.head.path)
            done = dialect.refuse(progress.request, refusal, incoming.answering)
        return AnsweredReply(
            reply=done,
            route=route_of(dialect, progress.operation),
            principal=progress.principal,
            error_type=error_type,
            done=changed,
        )

    async def _serve(
        self, dialect: Dialect, incoming: RequestHead, progress: _MemoryProgress
    ) -> HttpReply:
        principal = self._authenticator.require(dialect.credential(incoming.head), incoming)
        progress.principal = principal.principal_id
        incoming.enter(principal)
        request = await incoming.complete()
        progress.request = request
        owner, size = principal.principal_id, len(request.body)
        aside = self._pace.aside if size > LARGE else None
        operation = (
            await aside(owner, size, dialect.decode, request) if aside else dialect.decode(request)
        )
        progress.operation = operation
        result = await self._operations.perform(
            principal, operation, dialect=dialect.name, trace=incoming.trace
        )
        answering = incoming.answering
        return (
            await aside(owner, size, dialect.encode, request, operation, result, answering)
            if aside
            else dialect.encode(request, operation, result, answering)
        )

    async def _unclaimed(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to a path of no dialect: not found for a read, else an unknown write."""
        served = ", ".join(dialect.name for dialect in self._dialects)
        failure = await attempt(_nobody(incoming.head.method, served), self._halt)
        return AnsweredReply(
            reply=problem(self._hinted(failure.refusal, incoming.head.path), incoming.answering),
            route=UNKNOWN_ROUTE,
            error_type=failure.error_type,
        )

    def _hinted(self, refusal: Refusal, path: str) -> Refusal:
        """The refusal, with a hint if the client called a model API without the API's name."""
        if not path.rstrip("/").endswith(_OF_MODELS):
            return refusal
        bases = ", ".join(self._bases) or "no [[model]] table is configured"
        hint = f"; a model's API is served below its name alone: {bases}"
        return msgspec.structs.replace(refusal, detail=refusal.detail + hint)


async def _nobody(method: str, served: str) -> AnswerFailure:
    hint = f"{OF_DATA} {served} (docs/clients.md), and serves /mcp/NAME and models' APIs"
    if method in _SAFE:
        raise NotFound(f"there is nothing here; {hint}")
    raise UnknownWrite(f"; {hint}")
