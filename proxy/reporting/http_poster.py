"""One POST to a receiver outside, whose address is judged each time.

An operator gives the URL, and still nothing about it is trusted: the name may lead into this
network, the answer may redirect, be endless, or never come.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Final, cast
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver

from proxy.seams.faults import UpstreamError
from proxy.transport.addresses import JudgedResolver, LookUp, Network, is_address, look_up
from proxy.transport.upstream import Upstream, UpstreamLimits

_DONE: Final = range(200, 300)
LIMITS: Final = UpstreamLimits(connect_seconds=5.0, head_seconds=10.0, connections_max=1)


class HttpPoster:
    """Posts to one URL. Event loop only; one connection for each message."""

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
