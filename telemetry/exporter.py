"""Spans on their way to an OTLP collector, off the decision path.

A collector that is dead, slow, silent or refuses changes one counter. The audit log is the
evidence; the trace is for people to read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from telemetry.pipe import Pipe, PipeCounts
from telemetry.tracing import is_refusal, is_traced, resource_of, spans_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan

    from telemetry.events import Event
    from telemetry.settings import TelemetrySettings

CLOSE_TIMEOUT_S: Final = 2.0
_WARNING_INTERVAL_S: Final = 60.0
# What the exporter and the HTTP client under it say about a dead collector, several lines per
# batch. One warning a minute of ours takes their place.
_CHATTERING: Final = ("opentelemetry", "urllib3")

_logger = logging.getLogger("mnemogate.telemetry")


class SpanPipe:
    """Takes events, sends spans. One daemon thread; every method may be called from any thread."""

    def __init__(
        self,
        settings: TelemetrySettings,
        exporter: SpanExporter,
        monotonic_s: Callable[[], float],
    ) -> None:
        """`exporter` is used on the pipe's own thread only, and shut down with the pipe."""
        self._share = settings.admit_detail_share
        self._resource = resource_of(settings)
        self._exporter = exporter
        self._monotonic_s = monotonic_s
        self._warned_at_s = float("-inf")
        self._lost = 0
        self._pipe: Pipe[Event] = Pipe("mnemogate-spans", self._deliver)

    def offer(self, event: Event) -> bool:
        """Trace the event; False where it was dropped because the pipe is full or closed.

        Never blocks, never raises. An event that is not traced (an unsampled admit or read, a
        request) takes no place. A refusal finds a place where an admit no longer does.
        """
        if not is_traced(event):
            return True
        return self._pipe.offer(event, urgent=is_refusal(event))

    def counts(self) -> PipeCounts:
        """What became of the events offered so far."""
        return self._pipe.counts()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send what can be sent in time; returns by then even where the collector hangs."""
        self._pipe.close(timeout_s)
        # Ends a wait between two attempts, so that the thread goes away soon after.
        self._exporter.shutdown()

    def _deliver(self, events: list[Event]) -> int:
        """Build and send one batch; how many events arrived, each with all its spans."""
        spans: list[ReadableSpan] = []
        built = 0
        for event in events:
            try:
                spans.extend(spans_of(event, self._resource, self._share))
            except ValueError:
                continue
            built += 1
        arrived = built
        # An export of nothing would be a request to the collector all the same.
        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            arrived = 0
        if arrived < len(events):
            self._warn(len(events) - arrived)
        return arrived

    def _warn(self, lost: int) -> None:
        self._lost += lost
        now_s = self._monotonic_s()
        if now_s - self._warned_at_s < _WARNING_INTERVAL_S:
            return
        _logger.warning("spans_lost", extra={"fields": {"events": self._lost}})
        self._warned_at_s = now_s
        self._lost = 0


def otlp_exporter(settings: TelemetrySettings, url: str) -> SpanExporter:
    """An OTLP/HTTP exporter told everything it would otherwise look up in the environment.

    Its own log lines, and those of the HTTP client under it, are switched off for the process.

    # BUG: the SDK adds OTEL_EXPORTER_OTLP_HEADERS to the headers it is given, and requests reads
    # the proxy variables; neither has a parameter that says no. Both are the operator's own.
    """
    for name in _CHATTERING:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return OTLPSpanExporter(
        endpoint=url,
        certificate_file=settings.certificate_file,
        headers=dict(settings.headers),
        timeout=settings.export_timeout_s,
        compression=Compression.NoCompression,
    )
