"""Spans and log lines over real sockets and pipes: none lost, and a bad reader changes nothing."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from telemetry.exporter import SpanPipe
from telemetry.logs import Telemetry
from telemetry.settings import TelemetrySettings
from telemetry.tracing import resource_of, spans_of
from tests.integration.cli_process import DEADLINE_S, Place, Running
from tests.integration.otlp_receiver import (
    attributes,
    black_hole,
    otlp_receiver,
)
from tests.integration.test_mcp_command import FREE_PORTS, SERVER, Host
from tests.unit.telemetry import sample

PATIENT_S = 60.0


def span_pipe(settings: TelemetrySettings, clock: Callable[[], float] = time.monotonic) -> SpanPipe:
    url = settings.traces_url
    assert url is not None
    return SpanPipe(settings, url, clock)


def wait_until_sent(spans: SpanPipe) -> None:
    deadline_s = time.monotonic() + PATIENT_S
    while spans.counts().waiting and time.monotonic() < deadline_s:
        time.sleep(0.01)


def test_a_reject_arrives_with_its_attributes_and_its_steps_below_it() -> None:
    with otlp_receiver() as received:
        spans = span_pipe(
            TelemetrySettings(
                endpoint=received.url,
                headers=(("x-team", "gate"),),
                service_version="1.2.3",
                resource=(("openinference.project.name", "gate"),),
            )
        )
        assert spans.offer(sample.unsampled(sample.REJECT))
        spans.close(PATIENT_S)
    assert received.paths == ["/v1/traces"]
    assert received.headers[0]["x-team"] == "gate"
    resource = received.requests[0].resource_spans[0].resource
    assert attributes(resource.attributes) == {
        "openinference.project.name": "gate",
        "service.name": "mnemogate",
        "service.version": "1.2.3",
    }
    root, *children = received.spans
    assert (root.name, root.kind) == ("create_memory reject", Span.SPAN_KIND_SERVER)
    assert root.trace_id.hex() == sample.CONTEXT.trace_id
    assert root.span_id.hex() == sample.CONTEXT.span_id
    assert root.parent_span_id.hex() == sample.CONTEXT.parent_span_id
    assert root.status.code == 0
    assert root.end_time_unix_nano - root.start_time_unix_nano == 3_000_000
    shown = attributes(root.attributes)
    built = spans_of(sample.REJECT, resource_of(TelemetrySettings()), 0.0)[0]
    assert shown == dict(built.attributes or {})
    assert shown["mnemogate.reason"] == "source_class_forbidden"
    assert [child.name for child in children] == [
        "step 7 audit",
        "step 4 digest",
        "step 5 nonce",
        "step 1 source_class failed: source_class_forbidden",
    ]
    for child in children:
        assert child.parent_span_id == root.span_id
        assert child.trace_id == root.trace_id
        assert root.start_time_unix_nano <= child.start_time_unix_nano
        assert child.end_time_unix_nano <= root.end_time_unix_nano
    assert attributes(children[-1].attributes)["mnemogate.step.outcome"] == "failed"


def test_twenty_thousand_spans_go_in_and_none_is_lost() -> None:
    with otlp_receiver() as received:
        spans = span_pipe(TelemetrySettings(endpoint=received.url, admit_detail_share=0.0))
        for number in range(20_000):
            assert spans.offer(sample.numbered(sample.ADMIT, number))
        spans.close(PATIENT_S)
    assert len({span.trace_id for span in received.spans}) == len(received.spans) == 20_000
    counts = spans.counts()
    assert (counts.delivered, counts.dropped, counts.waiting) == (20_000, 0, 0)


@pytest.mark.parametrize("status", [400, 413, 500])
def test_a_collector_that_refuses_costs_the_batch_and_is_counted(status: int) -> None:
    with otlp_receiver(status) as received:
        spans = span_pipe(TelemetrySettings(endpoint=received.url))
        for number in range(10):
            spans.offer(sample.numbered(sample.REJECT, number))
        spans.close(PATIENT_S)
    assert received.paths
    counts = spans.counts()
    assert (counts.delivered, counts.dropped) == (0, 10)


def test_a_collector_with_a_small_limit_gets_smaller_requests() -> None:
    with otlp_receiver(len_max=40_000) as received:
        spans = span_pipe(TelemetrySettings(endpoint=received.url, admit_detail_share=0.0))
        for number in range(100):
            spans.offer(sample.numbered(sample.ADMIT, number))
        spans.close(PATIENT_S)
    assert len({span.trace_id for span in received.spans}) == len(received.spans) == 100
    assert len(received.requests) > 1
    assert spans.counts().delivered == 100


def test_a_collector_that_comes_back_gets_the_batch_it_missed() -> None:
    with otlp_receiver(503) as received:
        received.status_after = (1, 200)
        spans = span_pipe(TelemetrySettings(endpoint=received.url))
        spans.offer(sample.REJECT)
        wait_until_sent(spans)
        spans.close(PATIENT_S)
    assert spans.counts().delivered == 1
    assert len(received.paths) == 2


def test_one_event_with_a_broken_id_does_not_cost_the_others() -> None:
    broken = msgspec.structs.replace(
        sample.REJECT, context=msgspec.structs.replace(sample.CONTEXT, trace_id="nonsense")
    )
    with otlp_receiver() as received:
        spans = span_pipe(TelemetrySettings(endpoint=received.url))
        for event in (sample.REJECT, broken, sample.ADMIT):
            spans.offer(event)
        spans.close(PATIENT_S)
    names = [span.name for span in received.spans]
    assert (names.count("create_memory reject"), names.count("create_memory admit")) == (1, 1)
    assert (spans.counts().delivered, spans.counts().dropped) == (2, 1)


def test_shutdown_is_bounded_when_the_collector_never_answers() -> None:
    with black_hole() as url:
        telemetry = Telemetry(TelemetrySettings(endpoint=url, export_timeout_s=30.0))
        for number in range(1_000):
            telemetry.record(sample.numbered(sample.REJECT, number))
        started_s = time.monotonic()
        telemetry.close()
        assert time.monotonic() - started_s < 20.0
    assert b'mnemogate_telemetry_dropped_total{signal="spans"} 1000.0' in telemetry.metrics.render()


class Clock:
    """A monotonic clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_dead_collector_is_one_warning_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with otlp_receiver(400) as received, caplog.at_level(logging.DEBUG):
        spans = span_pipe(TelemetrySettings(endpoint=received.url), clock)
        for now_s in (1_000.0, 1_030.0, 1_059.0, 1_061.0):
            clock.now_s = now_s
            spans.offer(sample.REJECT)
            wait_until_sent(spans)
        spans.close(PATIENT_S)
    assert [(line.name, line.getMessage()) for line in caplog.records] == [
        ("mnemogate.telemetry", "spans_lost"),
        ("mnemogate.telemetry", "spans_lost"),
    ]
    assert [vars(line)["fields"] for line in caplog.records] == [{"events": 1}, {"events": 3}]


def test_the_environment_has_no_say_in_where_spans_go(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_receiver() as received, otlp_receiver() as elsewhere:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", elsewhere.url + "/v1/traces")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0")
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-stray=1")
        monkeypatch.setenv("http_proxy", elsewhere.url)
        spans = span_pipe(TelemetrySettings(endpoint=received.url))
        spans.offer(sample.ADMIT)
        spans.close(PATIENT_S)
    assert elsewhere.paths == []
    assert len(received.spans) == 1
    assert "x-stray" not in received.headers[0]


F_SETPIPE_SZ, F_GETPIPE_SZ = 1_031, 1_032
PAGE = 4_096
WRITES = 40  # of which each logs a verdict and a request: about 1,000 bytes


@contextmanager
def _full_pipe(place: Place, *words: str) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A command whose stderr is a pipe of one page that no one reads, and the pipe's end."""
    reading, writing = os.pipe()
    fcntl.fcntl(reading, F_SETPIPE_SZ, PAGE)
    with subprocess.Popen(
        [*place.program, *words],
        cwd="/",
        env=place.environment(MEMORY_FILE=str(place.root / "memory.jsonl"), **FREE_PORTS)
        | {"PYTHONPATH": place.path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
    ) as process:
        os.close(writing)
        try:
            yield process, reading
        finally:
            process.kill()
            process.wait(DEADLINE_S)
            os.close(reading)


def _waiting(reading: int) -> int:
    return int.from_bytes(fcntl.ioctl(reading, 0x541B, b"\0" * 4), "little")  # FIONREAD


def _drained(reading: int) -> bytes:
    os.set_blocking(reading, False)
    found, end_s = b"", time.monotonic() + 3
    while time.monotonic() < end_s:
        try:
            found += os.read(reading, 1 << 20)
        except BlockingIOError:
            time.sleep(0.05)
    return found


def _is_well(sidecar: Running) -> bool:
    with urllib.request.urlopen(f"{sidecar.ready['health']}/healthz", timeout=DEADLINE_S) as answer:  # noqa: S310
        return bool(answer.status == 200)


def _ready(place: Place, process: subprocess.Popen[str]) -> Running:
    assert process.stdout is not None
    return Running(place=place, pid=process.pid, ready=json.loads(process.stdout.readline()))


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_sidecar_serves_and_ends_while_no_one_reads_its_log(
    tmp_path: Path, *, comes_back: bool
) -> None:
    place = Place(root=tmp_path)
    listens = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--health", "127.0.0.1:0")
    with _full_pipe(place, "run", "--json", *listens) as (process, reading):
        sidecar = _ready(place, process)
        key = sidecar.key("agent")
        for number in range(WRITES):
            assert sidecar.write(key, text=f"Plain fact number {number}.")[0] == 201
        assert _until(lambda: _waiting(reading) > 0)
        # A line of the program's own: the log of a reload.
        os.kill(process.pid, signal.SIGHUP)
        assert _is_well(sidecar)
        assert sidecar.write(key, text="A fact after the reload.")[0] == 201
        # Control: the pipe holds a fifth of the log at most, so its writer waits.
        assert _waiting(reading) <= fcntl.fcntl(reading, F_GETPIPE_SZ) == PAGE
        if comes_back:
            said = _drained(reading).decode()
            assert len(said) > 5 * PAGE
            assert said.count('"event":"verdict"') == WRITES + 1
            assert '"event":"log lines were lost' not in said  # all of them had room
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0  # before, it never ended


def test_a_wrapper_writes_nothing_per_call_and_serves_while_no_one_reads_its_log(
    tmp_path: Path,
) -> None:
    place = Place(root=tmp_path)
    words = ("mcp", "--server", "memory", "--", sys.executable, "-P", SERVER)
    (tmp_path / "work").mkdir()
    with _full_pipe(place, *words) as (process, reading):
        host = Host(process)
        host.hello()
        for number in range(1, WRITES):
            assert "isError" not in host.create(number, f"topic{number}", f"Fact {number}.")
        time.sleep(0.5)  # longer than a line waits for its thread
        assert _waiting(reading) == 0
        # Lines of the program's own fill the pipe all the same: a message that is none.
        for _ in range(WRITES):
            host.say_raw("[]")
            assert "error" in host.hear()
        assert _until(lambda: _waiting(reading) > 0)
        assert "isError" not in host.create(2_000, "last", "The last fact.")
        assert host.leave() == 0


def _until(holds: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + DEADLINE_S
    while not holds() and time.monotonic() < end_s:
        time.sleep(0.05)
    return holds()
