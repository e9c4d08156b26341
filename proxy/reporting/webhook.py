"""Sends messages to an HTTP receiver: one signed POST for each (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import hmac
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver

from proxy.seams.faults import UpstreamError
from proxy.settings.review_webhook import Receiver
from proxy.transport.addresses import JudgedResolver, LookUp, Network, is_address, look_up
from proxy.transport.upstream import Upstream, UpstreamLimits

_DONE: Final = range(200, 300)
LIMITS: Final = UpstreamLimits(connect_seconds=5.0, head_seconds=10.0, connections_max=1)


class HttpPoster:
    """Posts to one URL, after a check of its addresses, each time by a new connection.

    Event loop only.
    """

    def __init__(
        self,
        url: str,
        allow: Sequence[Network],
        *,
        limits: UpstreamLimits = LIMITS,
        look_up: LookUp = look_up,
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        """`tls` verifies the receiver; by default against the system's authorities."""
        parts = urlsplit(url)
        self._host = str(parts.hostname)
        self._resolver = JudgedResolver(
            tuple(allow), only_allowed=parts.scheme != "https", look_up=look_up
        )
        self._tls = tls
        self._upstream = Upstream(url, limits=limits, connector=self._connector)

    def _connector(self) -> aiohttp.BaseConnector:
        return aiohttp.TCPConnector(
            resolver=cast("AbstractResolver", self._resolver),
            use_dns_cache=False,
            force_close=True,
            limit=LIMITS.connections_max,
            ssl=self._tls,
        )

    async def post(self, headers: Mapping[str, str], body: bytes) -> None:
        """Send one message. Only the status of the answer counts: no byte of its body is read.

        Raises:
            UpstreamError: The receiver refused the message, or it may not have arrived.
        """
        # If the host is an IP address, the HTTP connector skips its resolver, so the address is
        # checked here.
        if is_address(self._host):
            self._resolver.check(self._host)
        async with self._upstream as upstream, upstream.send("POST", dict(headers), body) as reply:
            if reply.status not in _DONE:
                raise UpstreamError(f"the receiver answered {reply.status}")


def signature(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """One signature for the header: `v1,` and the HMAC-SHA256 of id, time and body in base64."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


class Webhook:
    """Posts signed messages to the receiver of a table (`Sink`). Event loop only."""

    def __init__(
        self,
        table: Receiver,
        now_ms: Callable[[], int],
        content_type: str,
        *,
        limits: UpstreamLimits = LIMITS,
        look_up: LookUp = look_up,
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        """`tls` verifies the receiver; by default against the system's authorities."""
        self._now_ms = now_ms
        self._content_type = content_type
        self._keys = table.keys
        self._posting = HttpPoster(
            table.url, table.networks, limits=limits, look_up=look_up, tls=tls
        )

    async def deliver(self, message_id: str, body: bytes) -> None:
        """Send one message, signed with each of the receiver's keys at the current time.

        Only the status of the answer counts: no byte of its body is read.

        Raises:
            UpstreamError: The receiver refused the message, or it may not have arrived.
        """
        timestamp_s = self._now_ms() // 1_000
        signatures = [signature(key, message_id, timestamp_s, body) for key in self._keys]
        headers = {
            "content-type": self._content_type,
            "user-agent": "mnemogate",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp_s),
            "webhook-signature": " ".join(signatures),
        }
        await self._posting.post(headers, body)
