"""A receiver over HTTP: one signed POST for each message (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import hmac
import ssl
from collections.abc import Callable

from proxy.reporting.http_poster import LIMITS, HttpPoster
from proxy.settings.review_webhook import Receiver
from proxy.transport.addresses import LookUp, look_up
from proxy.transport.upstream import UpstreamLimits


def signature(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """One signature as the header has it: `v1,` and HMAC-SHA256 of id, time and body in base64."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


class Webhook:
    """Implements `Sink`. Event loop only; one connection for each message."""

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
        """Send one message, signed with every current key and the present time.

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
