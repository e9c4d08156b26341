"""Serves health and metrics without a key, on the admin listener or a listener of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

import msgspec

from proxy.dialects.problem import problem
from proxy.seams.faults import MalformedRequest, NotFound, UnknownWrite
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.seams.readiness import Readiness
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.responses import AnswerFailure, attempt
from storage.values import StoreStatus

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
UNKNOWN_ROUTE: Final = "unknown"
READING: Final = frozenset({"GET", "HEAD"})
_SAFE: Final = READING | {"OPTIONS"}
_STRICT: Final = (("strict", "true"),)
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_ADDRESS: Final = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")
_ENCODER: Final = msgspec.json.Encoder()


class Health:
    """Answers health and metrics requests, without asking for a principal. Event loop only."""

    def __init__(
        self,
        status: Callable[[], StoreStatus],
        render_metrics: Callable[[], bytes],
        *,
        around: Callable[[Readiness], Readiness] = lambda one: one,
    ) -> None:
        """`around` adds to the body of `/readyz` what the store does not know."""
        self._around = around
        self._status = status
        self._render_metrics = render_metrics

    def answer(self, head: HttpRequest) -> HttpReply | None:
        """The answer to a GET or HEAD of one of `HEALTH_PATHS`; None to anything else.

        Raises:
            MalformedRequest: `/readyz` was given an unknown query parameter.
        """
        if head.method not in READING:
            return None
        match head.path:
            case "/healthz":
                # Liveness depends on nothing else: the answer itself proves that the process lives.
                return HttpReply(status=200, body=b"ok\n", content_type="text/plain")
            case "/readyz":
                return self._readiness(head.query)
            case "/metrics":
                return HttpReply(status=200, body=self._render_metrics(), content_type=_PROMETHEUS)
            case _:
                return None

    def _readiness(self, query: tuple[tuple[str, str], ...]) -> HttpReply:
        """The answer to `/readyz`: 200, or with `strict=true` 503 if degraded (decision 008).

        A 503 removes the pod from its service. On a full disk that would end reads, which still
        work, and clients would get no connection instead of a refusal of their writes.
        """
        if query not in {(), _STRICT}:
            # A misspelt query parameter is refused: without it, `/readyz` would mean something
            # else than the client asks for.
            raise MalformedRequest("query: only strict=true is known here", status=400)
        status = self._status()
        body = Readiness(
            status="ready" if status.writable else "degraded",
            reason=status.reason,
            mode="observe" if status.observing else "enforce",
            held=status.held_count,
            held_since_ms=status.held_since_ms,
            staging=status.staged_in,
            mismatched=status.mismatched,
        )
        code = 200 if status.writable or not query else 503
        return HttpReply(status=code, body=_ENCODER.encode(self._around(body)))


class HealthHosts(HostRules, frozen=True, kw_only=True):
    """The host names that health requests may have: the listener's own names, and any IP address.

    Kubelets and Prometheus use addresses. A web page whose name was made to resolve to this address
    (DNS rebinding) sends that name as the host, and is refused.
    """

    def check(self, headers: dict[str, str]) -> None:
        """Refuse a request for a host name, or from an origin, that is not allowed.

        Raises:
            MalformedRequest: 421 for a foreign `Host`, 403 for a foreign `Origin`.
        """
        if _is_address(headers.get("host", "")):
            headers = {**headers, "host": "localhost"}
        HostRules.check(self, headers)


def _is_address(host: str) -> bool:
    found = _ADDRESS.fullmatch(host)
    if found is None:
        return False
    try:
        ip_address(found[1] or found[2])
    except ValueError:
        return False
    return True


class HealthFront:
    """Serves the health listener: the three `HEALTH_PATHS`, and no operator API."""

    name = "health"

    def __init__(self, health: Health, halt: Callable[[], None]) -> None:
        self._health = health
        self._halt = halt
        self.routes = HEALTH_PATHS | {UNKNOWN_ROUTE, REFUSED_ROUTE}

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to a request; failures are problem details."""
        done = await attempt(self._serve(incoming.head), self._halt)
        error_type = ""
        if isinstance(done, AnswerFailure):
            error_type = done.error_type
            done = problem(done.refusal, incoming.answering)
        path = incoming.head.path
        route = path if path in HEALTH_PATHS else UNKNOWN_ROUTE
        return AnsweredReply(reply=done, route=route, error_type=error_type)

    async def _serve(self, head: HttpRequest) -> HttpReply:
        answer = self._health.answer(head)
        if answer is None:
            raise NotFound if head.method in _SAFE else UnknownWrite
        return answer
