"""The HTTP client for one upstream server, which only the configuration chooses.

Answers are not trusted: redirects are not followed, no cookie is stored, every wait has a deadline,
and sizes are limited before and after decompression.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from proxy.seams.environment import Serving
from proxy.seams.faults import MalformedRequest, UpstreamError, why_unreached
from proxy.seams.readiness import UpstreamState
from proxy.settings.egress import DIRECT, Egress
from proxy.settings.load import unused_proxy
from proxy.transport.codings import Opener, codings_of

_LOG: Final = logging.getLogger("mnemogate.upstream")

HEADER_BYTES_MAX: Final = 16 * 1024
_PIECE_BYTES: Final = 64 * 1024
_FINAL_FROM: Final = 200
_REDIRECTS: Final = range(300, 400)
_UNAUTHORIZED: Final = 401
_NO_CREDENTIAL: Final = "it answers 401: it does not take the credential in headers_file"
_NOT_HELD: Final = "this process does not hold its shard any more"
# Headers that are not forwarded: hop-by-hop ones (RFC 9110, section 7.6.1), cookies, and those that
# each hop sets itself: length, coding, host.
_HOP: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "cookie",
        "cookie2",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "set-cookie",
        "set-cookie2",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class UpstreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what one upstream server may use."""

    connect_seconds: float = 5.0
    # Seconds until the head of an answer; a slow tool may work long before its first byte.
    head_seconds: float = 120.0
    # Seconds for the body of an answer that is read as a whole.
    body_seconds: float = 120.0
    body_bytes_max: int = 16 * 1024 * 1024
    connections_max: int = 256


class UpstreamReply(msgspec.Struct, frozen=True, kw_only=True):
    """The head of an answer, and its body in pieces. Header names are lower-case."""

    status: int
    headers: dict[str, str]
    pieces: AsyncIterator[bytes]

    @property
    def content_type(self) -> str:
        """The answer's media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def end_to_end(headers: dict[str, str]) -> dict[str, str]:
    """The headers that are forwarded: not hop-by-hop ones, nor those that `Connection` names."""
    named = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return {
        name: value for name, value in headers.items() if name not in _HOP and name not in named
    }


def why_unanswered(error: Exception) -> str:
    """The reason why no answer was received, for an operator, without any text of the peer."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    return why_unreached(_local(error))


def _local(error: Exception) -> BaseException:
    """The error of this machine's own socket or TLS library that an error of the client wraps."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    return error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error


def _cause(error: Exception) -> str:
    """The class of the cause why a server cannot be reached, for whoever sent the request."""
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return "proxy"
    local = _local(error)
    return next((name for kind, name in _CAUSES if isinstance(local, kind)), "network")


_CAUSES: Final = (
    (socket.gaierror, "DNS"),
    (ssl.SSLError, "TLS"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "refused"),
)


def _fence(serving: Serving) -> aiohttp.TraceConfig:
    """Refuses each request of which no byte was sent once another process may hold the store."""

    async def refuse(*_: object) -> None:
        if not serving.holds():
            raise UpstreamError(_NOT_HELD, sent=False)

    # A request waits for its connection, and the process may have slept meanwhile.
    traced = aiohttp.TraceConfig()
    for moment in (
        traced.on_request_start,
        traced.on_connection_create_end,
        traced.on_connection_reuseconn,
    ):
        moment.append(refuse)
    return traced


class Upstream:
    """Sends requests to one URL while its context is open. Event loop only; any number at once."""

    def __init__(
        self,
        url: str,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        limits: UpstreamLimits | None = None,
        way: Egress = DIRECT,
        connector: Callable[[], aiohttp.BaseConnector] | None = None,
        serving: Serving | None = None,
    ) -> None:
        """`headers` replace those of the same name in a request.

        `connector` makes the connector, for requests whose addresses have to be checked first.
        `serving` gets the state of the server; while it does not hold the store, nothing is sent.
        """
        self._url = url
        self._way = way
        self._state = UpstreamState(table=way.table, url=url)
        self._serving = serving or Serving()
        self._serving.upstreams.append(self._state)
        self._injected = {name.lower(): value for name, value in headers}
        self._limits = limits or UpstreamLimits()
        self._connector = connector or partial(
            aiohttp.TCPConnector, limit=self._limits.connections_max, ssl=self._way.tls
        )
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the pool of connections; nothing is sent."""
        self._session = aiohttp.ClientSession(
            connector=self._connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[_fence(self._serving)],
            trust_env=False,  # a proxy variable in the environment would choose another server
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            timeout=aiohttp.ClientTimeout(
                total=None, connect=None, sock_connect=self._limits.connect_seconds
            ),
        )
        # aiohttp would send a PUT or DELETE again when the connection breaks, because HTTP calls
        # them idempotent. A write is never sent again here: whether it arrived is looked up.
        self._session._retry_connection = False  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def reach(self) -> None:
        """Connect once without a request, and log it if the server or proxy cannot be reached."""
        parts = urlsplit(self._way.proxy or self._url)
        tls = None if parts.scheme == "http" else self._way.tls
        port = parts.port or (80 if tls is None else 443)
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                _, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
            writer.close()
        except OSError as error:
            self._tell(self._unreachable(error).told_operator)

    def _unreachable(self, error: Exception) -> UpstreamError:
        hint = "" if self._way.proxy else unused_proxy(self._url)
        return UpstreamError(
            f"{self._way.table or 'the server behind'} cannot be reached ({_cause(error)})",
            sent=False,
            why=why_unanswered(error) + hint,
        )

    def _tell(self, trouble: str) -> None:
        """Log the trouble with a table's server, or "" as its end, whenever it changes."""
        if not self._way.table or trouble == self._state.cause:
            return
        self._state.cause = trouble
        fields = {"table": self._way.table, "url": self._url}
        if trouble:
            _LOG.error("an upstream does not serve", extra={"fields": {**fields, "why": trouble}})
        else:
            _LOG.info("an upstream serves again", extra={"fields": fields})

    @asynccontextmanager
    async def send(
        self, method: str, headers: dict[str, str], body: bytes | None = None, target: str = ""
    ) -> AsyncGenerator[UpstreamReply]:
        """Send one request, and give its answer to the context, which closes the connection.

        `target`, an encoded path and query, is appended to the URL unchanged. What fails is logged
        when it begins and when it ends.

        Raises:
            UpstreamError: There is no answer, or one that is not forwarded. Reading the pieces
                raises it too, if the body is too large after decompression, or incomplete.
        """
        try:
            response = await self._response(method, headers, body, target)
            try:
                yield self._reply(response)
            finally:
                # Closing the response drops the rest of the body, which would be waited for
                # otherwise.
                response.close()
        except UpstreamError as error:
            self._tell(error.told_operator)
            raise
        refused = response.status == _UNAUTHORIZED and self._injected
        self._tell(_NO_CREDENTIAL if refused else "")

    async def _response(
        self, method: str, headers: dict[str, str], body: bytes | None, target: str
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise UpstreamError("the server behind is not being served any more", sent=False)
        sent = {**end_to_end(headers), "accept-encoding": "identity", **self._injected}
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                return await self._session.request(
                    method,
                    self._url + target,
                    data=body,
                    headers=sent,
                    allow_redirects=False,
                    proxy=self._way.proxy,
                    proxy_headers=dict(self._way.proxy_headers) or None,
                )
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ClientHttpProxyError,
            aiohttp.ConnectionTimeoutError,
        ) as error:
            raise self._unreachable(error) from None
        except TimeoutError:
            raise UpstreamError("the server behind did not answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UpstreamError(
                "the server behind broke the connection", why=why_unanswered(error)
            ) from None

    def _reply(self, response: aiohttp.ClientResponse) -> UpstreamReply:
        if response.status < _FINAL_FROM:
            # A final 1xx status would mean another protocol on this connection, or an answer
            # without an end.
            raise UpstreamError("the server behind ended its answer with an interim one")
        if response.status in _REDIRECTS:
            # A redirect would decide where the upstream's credential and the next message go.
            raise UpstreamError("the server behind sent a redirect; none is followed")
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            # A text in another character set has no use for any reader.
            if value.isascii() and value.isprintable():
                key = name.lower()
                headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return UpstreamReply(
            status=response.status,
            headers=end_to_end(headers),
            pieces=self._pieces(response, headers.get("content-encoding", "")),
        )

    async def _pieces(self, response: aiohttp.ClientResponse, coding: str) -> AsyncGenerator[bytes]:
        try:
            openers = [Opener(one, self._limits.body_bytes_max) for one in codings_of(coding)]
            while piece := await response.content.read(_PIECE_BYTES):
                for opener in openers:
                    piece = opener.feed(piece)
                if not self._serving.holds():
                    raise UpstreamError(_NOT_HELD)
                if piece:
                    yield piece
            for opener in openers:
                opener.finish()
        except MalformedRequest as why:
            raise UpstreamError(f"the answer of the server behind, {why.detail}") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise UpstreamError("the server behind broke off its answer") from None

    async def whole(self, reply: UpstreamReply) -> bytes:
        """Read the body of an answer that is not a stream; return all of it.

        Raises:
            UpstreamError: The body is too large, too slow, or incomplete.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for piece in reply.pieces:
                    body += piece
                    if len(body) > self._limits.body_bytes_max:
                        raise UpstreamError("the answer of the server behind is too large")
        except TimeoutError:
            raise UpstreamError("the server behind did not finish its answer in time") from None
        return bytes(body)
