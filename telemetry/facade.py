"""The one object to report events to: `record(event)`."""

from __future__ import annotations

import time

from telemetry.events import Event
from telemetry.exporter import SpanPipe
from telemetry.logs import EventLog
from telemetry.metrics import Metrics
from telemetry.settings import TelemetrySettings


class Telemetry:
    """Counts, logs and traces each event. Any thread.

    `record` never blocks and never raises.

    Logging itself is set up by `telemetry.logs.configure`, once per process.
    """

    def __init__(self, settings: TelemetrySettings, routes: frozenset[str] = frozenset()) -> None:
        """`routes` are the route templates that metrics may name."""
        self.metrics = Metrics(routes)
        self._logs = EventLog(access_log=settings.access_log)
        self.metrics.watch_pipe("logs", self._logs.counts)
        self._spans: SpanPipe | None = None
        url = settings.traces_url
        if url is not None:
            self._spans = SpanPipe(settings, url, time.monotonic)
            self.metrics.watch_pipe("spans", self._spans.counts)

    def record(self, event: Event) -> None:
        """Report an event to metrics, logs and traces. A few microseconds."""
        self.metrics.observe(event)
        self._logs.offer(event)
        if self._spans is not None:
            self._spans.offer(event)

    def close(self) -> None:
        """Send and write out queued events; takes at most 2.5 s, whatever the collector does."""
        if self._spans is not None:
            self._spans.close()
        self._logs.close()
