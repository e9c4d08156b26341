"""A client of one OTLP/HTTP collector: posts a body, and reports whether the body arrived.

The SDK's own exporter is not used: it adds OTEL_EXPORTER_OTLP_HEADERS to the headers it is given,
and its HTTP client follows `http_proxy` and `.netrc`, so that a variable meant for the agent would
send the traces to another host. The client here reads neither.
"""

from __future__ import annotations

import contextlib
import enum
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*", re.ASCII)
_PAYLOAD_TOO_LARGE: Final = 413
_OK: Final = range(200, 300)
# The statuses after which OTLP/HTTP permits sending the same request again.
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_ANSWER_LEN_MAX: Final = 65_536
_PAUSES_S: Final = (0.25, 0.5, 1.0, 2.0)


def collector_url(url: str, headers: tuple[tuple[str, str], ...] = ()) -> SplitResult:
    """Check a collector's URL and the headers for it; return the parts of the URL.

    Raises:
        ValueError: The URL is not http or https, or a header has an illegal character.
    """
    parts = urlsplit(url)
    good = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
    # `parts.port` raises ValueError for a port that is no number, or out of range.
    if not good or parts.port == 0:
        raise ValueError("the collector's URL must be http://host[:port] or https://host[:port]")
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError("a header for the collector has an illegal character")
    return parts


class Delivery(enum.Enum):
    """The outcome of posting one body to the collector."""

    ARRIVED = "arrived"
    TOO_LARGE = "too_large"
    LOST = "lost"


class Collector:
    """Posts to one collector over one connection.

    `post` is for one thread; `hurry`, `abort` for any.
    """

    def __init__(
        self,
        url: str,
        headers: tuple[tuple[str, str], ...],
        certificate_file: str | None,
        timeout_s: float,
        monotonic_s: Callable[[], float],
        *,
        proxy: str | None = None,
        proxy_headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Check the URL and the headers; the first `post` connects, with CONNECT if by a proxy.

        Raises:
            ValueError: The URL is not http or https, or a header has an illegal character.
            OSError: The certificate file cannot be read.
        """
        parts = collector_url(url, headers)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._path = parts.path or "/"
        # Where a connection begins: at the proxy, if there is one.
        first = urlsplit(proxy or url)
        self._first = first.hostname or "", first.port or (443 if first.scheme == "https" else 80)
        self._proxy_headers = None if proxy is None else dict(proxy_headers)
        self._tls = (
            ssl.create_default_context(cafile=certificate_file) if parts.scheme == "https" else None
        )
        self._headers = {**dict(headers), "Content-Type": "application/x-protobuf"}
        self._timeout_s = timeout_s
        self._monotonic_s = monotonic_s
        self._hurried = threading.Event()
        self._aborted = False
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: bytes) -> Delivery:
        """Post one body, with retries after a retryable failure; return the outcome.

        The timeout bounds the pauses and each single wait on the socket; a collector that trickles
        its answer can hold the calling thread longer, until `abort`.
        """
        deadline_s = self._monotonic_s() + self._timeout_s
        for pause_s in (*_PAUSES_S, None):
            status = self._attempt(body, deadline_s)
            if status in _OK:
                return Delivery.ARRIVED
            if status == _PAYLOAD_TOO_LARGE:
                return Delivery.TOO_LARGE
            if status is not None and status not in _RETRYABLE:
                return Delivery.LOST
            if pause_s is None or self._monotonic_s() + pause_s > deadline_s:
                return Delivery.LOST
            if self._hurried.wait(pause_s):
                return Delivery.LOST
        return Delivery.LOST

    def hurry(self) -> None:
        """Make `post` give up instead of pausing, because the process is about to end."""
        self._hurried.set()

    def abort(self) -> None:
        """Abort the present request, so that a thread that waits in `post` returns soon."""
        self._aborted = True
        connection = self._connection
        waited_on = connection.sock if connection is not None else None
        if waited_on is not None:
            # Closing the socket alone would not wake a thread that reads from it.
            with contextlib.suppress(OSError):
                waited_on.shutdown(socket.SHUT_RDWR)

    def disconnect(self) -> None:
        """Close the connection. Only for the thread that posts."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self, body: bytes, deadline_s: float) -> int | None:
        """Post the body once; return the HTTP status, or None if no answer arrived."""
        kept = self._connection is not None
        status = self._exchange(body, deadline_s)
        # On a reused connection a failure is repeated without a pause, because the collector may
        # have closed the idle connection.
        return self._exchange(body, deadline_s) if status is None and kept else status

    def _exchange(self, body: bytes, deadline_s: float) -> int | None:
        remaining_s = deadline_s - self._monotonic_s()
        if remaining_s <= 0 or self._aborted:
            return None
        connection = self._connection or self._connect(remaining_s)
        self._connection = connection
        try:
            if connection.sock is not None:
                connection.sock.settimeout(remaining_s)
            connection.request("POST", self._path, body=body, headers=self._headers)
            answer = connection.getresponse()
            rest = answer.read(_ANSWER_LEN_MAX)
        except (OSError, http.client.HTTPException):
            self.disconnect()
            return None
        if len(rest) == _ANSWER_LEN_MAX or answer.will_close:
            self.disconnect()
        return answer.status

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._tls is None:
            connection = http.client.HTTPConnection(*self._first, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(
                *self._first, timeout=timeout_s, context=self._tls
            )
        if self._proxy_headers is not None:
            connection.set_tunnel(self._host, self._port, self._proxy_headers)
        return connection
