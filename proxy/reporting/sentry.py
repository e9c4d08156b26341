"""Encodes steps of incidents with Sentry's SDK, and posts them from an outbox.

An event is built from the incident's record alone: the SDK adds no process, request, frame or
breadcrumb, and sends nothing itself. The outbox posts each envelope, so that an event that the
receiver did not confirm is sent again, with the same id.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from policy.bounded import Bounded
from proxy.reporting.webhook import LIMITS, HttpPoster
from proxy.settings.servers import Network
from proxy.settings.values import BadValue, Secret
from proxy.transport.addresses import LookUp, look_up
from storage.audit import IncidentLeaf
from storage.features.cases import Case

if TYPE_CHECKING:
    # The SDK is an optional dependency (extra), so it may be missing when this module is imported.
    from sentry_sdk.envelope import Envelope

_ENDED: Final = frozenset({"healed", "closed", "not_reproduced", "not_memory_caused"})
_TAKEN_MAX: Final = 1_000
"""The number of confirmed event ids that are stored; a message has at most a hundred events."""
_ENCODER: Final = msgspec.json.Encoder()


class SentryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an incident, in the names of Sentry's event protocol. `timestamp`: seconds."""

    event_id: str
    timestamp: float
    level: str
    message: str
    fingerprint: tuple[str, str]
    tags: dict[str, str]
    extra: dict[str, int]
    logger: str = "mnemogate.incident"


_DECODER: Final = msgspec.json.Decoder(tuple[SentryEvent, ...])


def sentry_events(steps: Sequence[IncidentLeaf], case_of: Callable[[str], Case]) -> bytes:
    """The events about some steps, in their order. `case_of` returns an incident's record."""
    return _ENCODER.encode(tuple(_event(one, case_of(one.case_id)) for one in steps))


def _event(leaf: IncidentLeaf, case: Case) -> SentryEvent:
    origins = [f"{one.server}/{one.tool}" for one in case.culprits if one.server or one.tool]
    step, signal = leaf.step.value, leaf.signal.value
    tags = {
        "incident": leaf.case_id,
        "state": step,
        "signal": signal,
        "mode": "" if leaf.mode is None else leaf.mode.value,
        "why": leaf.why or "",
        "origin": origins[0] if origins else "",
        "by": leaf.by,
    }
    named = f"{leaf.case_id} {step} {leaf.at_ms}".encode()
    return SentryEvent(
        event_id=hashlib.blake2b(named, digest_size=16).hexdigest(),
        timestamp=leaf.at_ms / 1_000,
        level="info" if step in _ENDED else "error",
        message=f"incident of a wrong answer: {step}",
        fingerprint=(signal, tags["origin"]),
        tags={name: value for name, value in tags.items() if value},
        extra={"suspects": leaf.suspects, "asks": leaf.asks, "culprits": leaf.culprits},
    )


class Sentry:
    """Posts events to Sentry, one request for each (`Sink`). Event loop only.

    Raises:
        BadValue: The extra `sentry` is not installed, or the DSN is invalid.
    """

    def __init__(
        self,
        dsn: Secret,
        allow: tuple[Network, ...],
        release: str,
        *,
        look_up: LookUp = look_up,
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        """`release` is the version of this program, as Sentry shows it."""
        try:
            # The SDK is an extra, and only a process that uses it imports it.
            from sentry_sdk import Client, Scope  # noqa: PLC0415
            from sentry_sdk.consts import EndpointType  # noqa: PLC0415
            from sentry_sdk.transport import Transport  # noqa: PLC0415
            from sentry_sdk.utils import BadDsn, Dsn  # noqa: PLC0415
        except ImportError:
            raise BadValue("after.sentry: install mnemogate[sentry] first") from None
        kept: list[bytes] = []

        class Keeping(Transport):
            """Stores each envelope that the SDK builds, and sends none."""

            def capture_envelope(self, envelope: Envelope) -> None:
                kept.append(envelope.serialize())

        try:
            auth = Dsn(dsn.reveal()).to_auth("mnemogate")
        except BadDsn:
            raise BadValue("after.sentry: SENTRY_DSN is no DSN") from None
        self._kept, self._scope = kept, Scope
        # `send_default_pii` is off unless it is set, and setting it is deprecated.
        self._client = Client(
            dsn=dsn.reveal(),
            transport=Keeping,
            release=release,
            environment="production",
            server_name="mnemogate",
            send_client_reports=False,
            auto_session_tracking=False,
            default_integrations=False,
            auto_enabling_integrations=False,
            max_breadcrumbs=0,
            # Otherwise an environment variable could make the SDK post to another address itself.
            spotlight=False,
        )
        self._header = auth.to_header()
        # The newest ids of events that the receiver confirmed; some are sent again after a restart.
        self._taken = Bounded[str, None](_TAKEN_MAX)
        self._posting = HttpPoster(
            auth.get_api_url(EndpointType.ENVELOPE),
            allow,
            limits=LIMITS,
            look_up=look_up,
            tls=tls,
        )

    async def deliver(self, message_id: str, body: bytes) -> None:
        """Send the events of one message, one after the other.

        Raises:
            UpstreamError: The receiver refused an event, or it may not have arrived. When the
                message is sent again, this event and the later ones are sent, and no earlier one.
        """
        del message_id
        headers = {
            "content-type": "application/x-sentry-envelope",
            "user-agent": "mnemogate",
            "x-sentry-auth": self._header,
        }
        for event in _DECODER.decode(body):
            if event.event_id in self._taken:
                continue
            self._kept.clear()
            self._client.capture_event(msgspec.to_builtins(event), scope=self._scope())
            for envelope in tuple(self._kept):
                await self._posting.post(headers, envelope)
            self._taken[event.event_id] = None
