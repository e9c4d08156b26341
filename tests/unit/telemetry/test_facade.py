"""One call tells all three: metrics, logs, and traces where there is a collector."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator

import pytest

from telemetry import logs
from telemetry.facade import Telemetry
from telemetry.settings import TelemetrySettings
from tests.unit.telemetry.sample import EVENTS, REJECT, REQUEST


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, own = logging.getLogger(), logging.getLogger(logs.LOGGER_NAME)
    before = (root.handlers[:], root.level, own.level, logging.raiseExceptions)
    stream = io.StringIO()
    logs.configure(stream, "info")
    yield stream
    root.handlers[0].close()
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])
    logging.raiseExceptions = before[3]


def _pipes() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("mnemogate-")}


def test_a_recorded_event_is_counted_and_logged_and_close_ends_the_threads(
    stream: io.StringIO,
) -> None:
    telemetry = Telemetry(TelemetrySettings(), frozenset({REQUEST.route}))
    for event in EVENTS:
        telemetry.record(event)
    telemetry.close()
    page = telemetry.metrics.render().decode()
    assert REJECT.reason in page
    assert REQUEST.route in page
    assert REJECT.candidate_id in stream.getvalue()
    # The log outlives the sidecar: what the command itself logs afterwards is still written.
    assert _pipes() == {"mnemogate-logs"}
    logging.getLogger().handlers[0].close()
    assert _pipes() == set()


def test_where_no_log_was_configured_close_ends_its_thread() -> None:
    telemetry = Telemetry(TelemetrySettings())
    assert _pipes() == {"mnemogate-logs"}
    telemetry.close()
    assert _pipes() == set()


def test_without_a_collector_no_span_thread_is_started(stream: io.StringIO) -> None:
    quiet = Telemetry(TelemetrySettings())
    assert "mnemogate-spans" not in _pipes()
    assert 'signal="spans"' not in quiet.metrics.render().decode()
    quiet.close()
    # Control: with one there is a thread, and a counter of what became of its events.
    traced = Telemetry(TelemetrySettings(endpoint="http://127.0.0.1:9"))
    assert "mnemogate-spans" in _pipes()
    assert 'signal="spans"' in traced.metrics.render().decode()
    traced.close()


def test_a_dead_collector_stops_neither_recording_nor_counting(stream: io.StringIO) -> None:
    telemetry = Telemetry(TelemetrySettings(endpoint="http://127.0.0.1:9", export_timeout_s=0.1))
    for _ in range(1_000):
        telemetry.record(REJECT)
    telemetry.close()
    assert stream.getvalue().count(REJECT.candidate_id) == 1_000
    telemetry.record(REJECT)
    assert " 1001.0" in telemetry.metrics.render().decode()
