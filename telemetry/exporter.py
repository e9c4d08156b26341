"""Exports spans to an OTLP collector, off the decision path.

If the collector is dead, slow or silent, or refuses, spans are lost and counted; nothing else
changes. The audit log is the evidence; the trace is for people to read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from policy.bounded import Bounded
from telemetry.collector import Collector, Delivery
from telemetry.events import Event, ModelServed, VerdictRecorded
from telemetry.otlp import Envelope, encoded_span
from telemetry.pipe import Pipe, PipeCounts
from telemetry.settings import TelemetrySettings
from telemetry.tracing import SCOPE, is_traced, resource_of, spans_of

CLOSE_TIMEOUT_S: Final = 2.0
# About a megabyte for one request: collectors and proxies refuse larger bodies.
SPANS_PER_REQUEST_MAX: Final = 2_048
_SPANS_PER_TURN: Final = 8
# The number of times that a too large body is split in half before its spans are dropped.
_HALVINGS_MAX: Final = 4
_WARNING_INTERVAL_S: Final = 60.0
# The number of model requests under way whose verdicts are remembered for the requests' spans.
_ROOTS_MAX: Final = 4_096

_logger = logging.getLogger("mnemogate.telemetry")

# The encoded spans of one event: all of them are sent together, or none.
_Group = list[bytes]


class SpanPipe:
    """Sends the spans of events to a collector, on one daemon thread. Methods: any thread."""

    def __init__(
        self, settings: TelemetrySettings, url: str, monotonic_s: Callable[[], float]
    ) -> None:
        """Start the thread; the first span connects to the collector.

        Raises:
            ValueError: The URL is not http or https, or a header has an illegal character.
            OSError: The certificate file cannot be read.
        """
        self._share = settings.admit_detail_share
        self._resource = resource_of(settings)
        self._envelope = Envelope(self._resource, SCOPE)
        self._collector = Collector(
            url,
            settings.headers,
            settings.certificate_file,
            settings.export_timeout_s,
            monotonic_s,
            proxy=settings.proxy,
            proxy_headers=settings.proxy_headers,
        )
        self._monotonic_s = monotonic_s
        # The gravest verdict below each span that is not ended, by the span's trace and id.
        self._below: Bounded[tuple[str, str], VerdictRecorded] = Bounded(_ROOTS_MAX)
        self._warned_at_s = float("-inf")
        self._lost = 0
        self._closed = False
        self._pipe: Pipe[Event] = Pipe("mnemogate-spans", self._deliver, self._collector.disconnect)

    def offer(self, event: Event) -> bool:
        """Queue the event for tracing; return False if it was dropped (pipe full or closed).

        Never blocks, never raises. An event that is not traced (an unsampled admit or read, a
        request) is not queued. Part of the queue is reserved for refusals.
        """
        if not is_traced(event):
            return True
        return self._pipe.offer(
            event, urgent=isinstance(event, VerdictRecorded) and event.gravity > 0
        )

    def counts(self) -> PipeCounts:
        """The number of traced events offered so far, by their outcome."""
        return self._pipe.counts()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send queued spans for at most `timeout_s`, and drop the rest.

        Returns in time even if the collector hangs.
        """
        self._collector.hurry()
        self._pipe.close(timeout_s)
        # A thread that outlives `close` builds no more spans, and logs nothing.
        self._closed = True
        self._collector.abort()

    def _deliver(self, events: list[Event]) -> int:
        """Build and send the spans of a batch; return the number of events that fully arrived."""
        arrived = sum(self._send(groups, _HALVINGS_MAX) for groups in self._requests(events))
        if arrived < len(events):
            self._warn(len(events) - arrived)
        return arrived

    def _requests(self, events: list[Event]) -> Iterator[list[_Group]]:
        """The spans of the events, divided into requests of bounded size."""
        groups: list[_Group] = []
        spans_count = 0
        for event in events:
            if self._closed:
                return
            if not spans_count % _SPANS_PER_TURN:
                # Release the interpreter's lock to the event loop and the writer. Otherwise both
                # would wait for a whole switch interval (5 ms) after each I/O.
                time.sleep(0)
            try:
                spans = spans_of(event, self._resource, self._share, self._gravest(event))
                group = [encoded_span(span) for span in spans]
            except ValueError:
                # One of the event's ids is invalid, so the collector would refuse the whole
                # request. The event counts as lost.
                continue
            groups.append(group)
            spans_count += len(group)
            if spans_count >= SPANS_PER_REQUEST_MAX:
                yield groups
                groups, spans_count = [], 0
        if groups:
            yield groups

    def _gravest(self, event: Event) -> VerdictRecorded | None:
        """The gravest verdict below the span of a model request, which ends after its verdicts."""
        trace_id = event.context.trace_id
        if isinstance(event, ModelServed):
            return self._below.pop((trace_id, event.context.span_id), None)
        if isinstance(event, VerdictRecorded) and event.context.parent_span_id:
            above = trace_id, event.context.parent_span_id
            known = self._below.get(above, event)
            self._below[above] = max(known, event, key=lambda one: one.gravity)
        return None

    def _send(self, groups: list[_Group], halvings: int) -> int:
        spans = [span for group in groups for span in group]
        match self._collector.post(self._envelope.around(spans)):
            case Delivery.ARRIVED:
                return len(groups)
            case Delivery.TOO_LARGE if halvings and len(groups) > 1:
                middle = len(groups) // 2
                return self._send(groups[:middle], halvings - 1) + self._send(
                    groups[middle:], halvings - 1
                )
            case Delivery.TOO_LARGE | Delivery.LOST:
                return 0

    def _warn(self, lost: int) -> None:
        """Log the number of lost events as a warning, at most once a minute."""
        self._lost += lost
        now_s = self._monotonic_s()
        if self._closed or now_s - self._warned_at_s < _WARNING_INTERVAL_S:
            return
        _logger.warning("spans_lost", extra={"fields": {"events": self._lost}})
        self._warned_at_s = now_s
        self._lost = 0
