"""Health and metrics, without a key, on the admin listener or a listener of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

import msgspec

from proxy.dialects.problem import problem
from proxy.seams.faults import MalformedRequest, NotFound, UnknownWrite
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.responses import AnswerFailure, attempt
from storage.values import STAGED_IN_MEMORY, StoreStatus

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
UNKNOWN_ROUTE: Final = "unknown"
READING: Final = frozenset({"GET", "HEAD"})
_SAFE: Final = READING | {"OPTIONS"}
_STRICT: Final = (("strict", "true"),)
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_ADDRESS: Final = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")
_ENCODER: Final = msgspec.json.Encoder()


class _Readiness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Body of `/readyz`: reads work while the process lives, writes perhaps not."""

    status: str  # One of "ready" and "degraded".
    reason: str | None
    mode: str  # One of "enforce" and "observe".
    # The names of tools that seem to be about memory and stand in no tool map.
    unmapped_tools: tuple[str, ...] = ()
    # Uids of relays beside a model front that are bound to no principal: their calls are judged
    # again.
    unbound_uids: tuple[int, ...] = ()
    # How many principals of people have keys that agents use.
    people_with_agents: int = 0
    # The names of receivers for which too many steps of incidents wait.
    receivers_behind: tuple[str, ...] = ()
    # Settings and rules that let in more than the shipped ones.
    wider: tuple[str, ...] = ()
    # How many candidates wait for a person, and since when the oldest does; waiting is no failure.
    held: int = 0
    held_since_ms: int | None = None
    # The kind of storage in which undecided candidates are staged.
    staging: str = STAGED_IN_MEMORY


class Health:
    """Answers health and metrics requests, without asking for a principal. Event loop only."""

    def __init__(
        self,
        status: Callable[[], StoreStatus],
        render_metrics: Callable[[], bytes],
        *,
        unmapped_tools: Callable[[], tuple[str, ...]] = tuple,
        unbound_uids: Callable[[], tuple[int, ...]] = tuple,
        people_with_agents: Callable[[], int] = int,
        wider: Callable[[], tuple[str, ...]] = tuple,
        receivers_behind: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._receivers_behind = receivers_behind
        self._wider = wider
        self._unbound_uids = unbound_uids
        self._people_with_agents = people_with_agents
        self._unmapped_tools = unmapped_tools
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
                # Liveness depends on nothing else: any answer proves that the process answers.
                return HttpReply(status=200, body=b"ok\n", content_type="text/plain")
            case "/readyz":
                return self._readiness(head.query)
            case "/metrics":
                return HttpReply(status=200, body=self._render_metrics(), content_type=_PROMETHEUS)
            case _:
                return None

    def _readiness(self, query: tuple[tuple[str, str], ...]) -> HttpReply:
        """The answer to `/readyz`.

        A degraded sidecar counts as ready, unless `strict` is asked (decision 008).

        A 503 takes the pod out of its service: on a full disk that would end the reads as well,
        which work, and turn an honest refusal of a write into a dead address.
        """
        if query not in {(), _STRICT}:
            # A misspelt query parameter is refused, because ignoring it would answer another
            # question.
            raise MalformedRequest("query: only strict=true is known here", status=400)
        status = self._status()
        body = _Readiness(
            status="ready" if status.writable else "degraded",
            reason=status.reason,
            mode="observe" if status.observing else "enforce",
            unmapped_tools=self._unmapped_tools(),
            unbound_uids=self._unbound_uids(),
            people_with_agents=self._people_with_agents(),
            receivers_behind=self._receivers_behind(),
            wider=self._wider(),
            held=status.held_count,
            held_since_ms=status.held_since_ms,
            staging=status.staged_in,
        )
        code = 200 if status.writable or not query else 503
        return HttpReply(status=code, body=_ENCODER.encode(body))


class HealthHosts(HostRules, frozen=True, kw_only=True):
    """Host names for health.

    Allowed are the listener's own names, and any bare address, as kubelets and Prometheus use. A
    page whose name was made to resolve to this address sends that foreign name, and is refused.
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
    """Serves the health listener: three paths, none of the operator API."""

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
