"""One JSON object per line, stable keys; one call tells metrics, logs and traces."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import ast
import io
import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry import logs, pipe
from telemetry.logs import Telemetry
from telemetry.settings import TelemetrySettings
from tests.trees import nodes_of, shipped_trees
from tests.unit.telemetry import sample
from tests.unit.telemetry.sample import EVENTS, REJECT, REQUEST

CANARY = "canary-7f3a"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The stream that everything is logged to; logging is put back afterwards."""
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


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    for handler in logging.getLogger().handlers:
        handler.flush()
    return [json.JSONDecoder().decode(line) for line in stream.getvalue().splitlines()]


def test_a_refusal_is_one_warning_with_stable_keys_and_no_traceback(stream: io.StringIO) -> None:
    log = logs.EventLog(access_log=True)
    assert log.offer(sample.REJECT)
    log.close()
    (line,) = lines(stream)
    assert list(line) == [
        "time",
        "level",
        "logger",
        "event",
        "decision",
        "reason",
        "step",
        "operation",
        "memory_class",
        "source_kind",
        "claimed_source_kind",
        "basis",
        "session",
        "principal",
        "tenant",
        "dialect",
        "candidate_id",
        "memory_id",
        "version",
        "leaf_index",
        "epoch",
        "replayed",
        "observed",
        "class_lowered",
        "queued_us",
        "gate_us",
        "commit_us",
        "error_type",
        "duration_us",
        "trace_id",
        "span_id",
    ]
    assert line["time"] == "2023-11-14T22:13:20.003000Z"
    assert (line["level"], line["event"]) == ("warning", "verdict")
    assert (line["decision"], line["reason"]) == ("reject", "source_class_forbidden")
    assert line["duration_us"] == 3_000
    assert line["trace_id"] == sample.CONTEXT.trace_id


def test_levels_say_how_much_a_person_should_care() -> None:
    assert logs.level_of(sample.ADMIT) == logging.INFO
    assert logs.level_of(sample.HOLD) == logging.WARNING
    assert logs.level_of(sample.ERROR) == logging.ERROR
    assert logs.level_of(sample.READ) == logging.DEBUG
    assert logs.level_of(sample.REQUEST) == logging.INFO
    for status, level in ((500, logging.ERROR), (404, logging.WARNING), (0, logging.ERROR)):
        ended = msgspec.structs.replace(sample.REQUEST, status=status, error_type="SomeError")
        assert logs.level_of(ended) == level


def test_a_models_name_is_logged_only_where_its_provider_served_it() -> None:
    said = msgspec.structs.replace(sample.MODEL, model="always-recommend-the-shop-of-acme")
    refused = msgspec.structs.replace(said, status=404, error_type="ModelUnavailable")
    assert logs.fields_of(refused)["model"] == "other"
    assert logs.fields_of(said)["model"] == said.model, "control: a provider has such a model"


@pytest.mark.parametrize(("access_log", "expected"), [(True, ["request"]), (False, [])])
def test_the_access_line_can_be_turned_off(
    stream: io.StringIO,
    access_log: bool,  # noqa: FBT001
    expected: list[str],
) -> None:
    log = logs.EventLog(access_log=access_log)
    log.offer(sample.REQUEST)
    log.close()
    assert [line["event"] for line in lines(stream)] == expected


def test_a_level_below_the_configured_one_costs_no_place_in_the_pipe(stream: io.StringIO) -> None:
    log = logs.EventLog(access_log=True)
    assert log.offer(sample.READ)
    assert log.counts().offered == 0
    log.close()
    assert lines(stream) == []


def test_a_line_of_our_own_shows_its_template_and_its_fields_alone(stream: io.StringIO) -> None:
    logger = logging.getLogger("mnemogate.proxy")
    logger.warning("ruleset_kept", extra={"fields": {"reason": "line\nbreak", "epoch": 3}})
    logger.warning("with arguments %s", CANARY)
    logger.error("request failed", extra={"error_type": "StoreUnavailable"})
    first, second, third = lines(stream)
    assert third["error_type"] == "StoreUnavailable"
    assert first["event"] == "ruleset_kept"
    assert (first["reason"], first["epoch"]) == ("line\\u000abreak", 3)
    assert second["event"] == "with arguments %s"
    assert CANARY not in stream.getvalue()


class Stuck(io.StringIO):
    """A stream whose reader takes nothing until `goes` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.goes = threading.Event()

    def write(self, text: str) -> int:
        """Write once the reader is back."""
        self.goes.wait(10)
        return super().write(text)


def test_a_reader_that_stops_costs_lines_and_the_next_line_contains_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipe, "QUEUE_LEN_MAX", 8)
    monkeypatch.setattr(pipe, "URGENT_RESERVE", 0)
    stuck = Stuck()
    handler = logs.LogLines(stuck)
    try:
        record = logging.LogRecord("mnemogate", logging.INFO, "", 0, "one", (), None)
        handler.emit(record)
        while handler.pipe.counts().waiting == 1 and not handler.pipe._in_flight:
            time.sleep(0.01)
        for _ in range(20):
            handler.emit(record)  # none of these waits
        stuck.goes.set()
        handler.flush()
        events = [one["event"] for one in map(json.loads, stuck.getvalue().splitlines())]
        assert events[0] == "one"
        assert events[1] == "log lines were lost: nothing took them in time"
        assert events[2:] == ["one"] * 8
        assert json.loads(stuck.getvalue().splitlines()[1])["lines"] == 12
        handler.emit(record)
        handler.flush()
        assert stuck.getvalue().count("were lost") == 1
    finally:
        handler.close()


def _dropped(tree: ast.AST) -> list[str]:
    """The names in `extra` of a log line that no line shows."""
    given = (
        word.value
        for call in nodes_of(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"debug", "info", "warning", "error", "critical", "exception"}
        for word in call.keywords
        if word.arg == "extra"
    )
    # Anything but a dictionary that is written out here could have any name in it.
    names = (
        [ast.unparse(key) if key else "**" for key in one.keys]
        if isinstance(one, ast.Dict)
        else [ast.unparse(one)]
        for one in given
    )
    return [name for some in names for name in some if name not in {"'fields'", "'error_type'"}]


def test_every_field_of_a_line_of_our_own_is_shown() -> None:
    dropped = {path: _dropped(tree) for path, tree in shipped_trees().items()}
    assert {path: names for path, names in dropped.items() if names} == {}
    # Control: a name beside `fields` is shown by no line.
    assert _dropped(ast.parse("LOG.warning('later', extra={'count': 3, 'fields': {}})")) == [
        "'count'"
    ]


def test_an_exception_is_shown_as_places_in_code_and_never_as_text(stream: io.StringIO) -> None:
    nothing: dict[str, str] = {}
    try:
        nothing[CANARY]
    except KeyError:
        logging.getLogger("mnemogate.proxy").exception("failed")
    (line,) = lines(stream)
    assert line["error_type"] == "KeyError"
    assert any("test_an_exception_is_shown" in frame for frame in line["frames"])
    assert CANARY not in stream.getvalue()


def test_a_library_is_heard_without_its_words(stream: io.StringIO) -> None:
    logging.getLogger("aiohttp.server").error("bad request %s", f"GET /?q={CANARY}")
    logging.getLogger("aiohttp.access").info("GET /?q=%s", CANARY)
    (line,) = lines(stream)
    assert (line["event"], line["logger"], line["level"]) == ("library", "aiohttp.server", "error")
    assert CANARY not in stream.getvalue()


def test_the_control_plain_logging_would_have_shown_the_words() -> None:
    record = logging.LogRecord("aiohttp.server", logging.ERROR, "", 0, "bad %s", (CANARY,), None)
    assert CANARY in logging.Formatter().format(record)
    handler = logs.LogLines(None)
    assert CANARY not in handler.format(record)
    handler.close()


ODD = st.text() | st.sampled_from(
    ["\x7f", "\\", '"', "\x00", "\u202e", "\U000e0041", "a" * 256, "a" * 257, "\ud800", "é", "\n"]
)


@given(ODD, ODD)
def test_a_line_is_printable_ascii_whatever_a_principal_or_a_tenant_is_called(
    principal: str, tenant: str
) -> None:
    event = msgspec.structs.replace(sample.REJECT, principal=principal, tenant=tenant)
    line = json.loads(logs._line(event))
    assert line["principal"] == logs._safe(principal)
    assert line["tenant"] == logs._safe(tenant)
    assert all(" " <= character <= "~" for character in logs._line(event))
    assert all(len(value) <= 6 * 256 for value in line.values() if isinstance(value, str))


def _pipes() -> set[str]:
    # Not those of the pools of other rooms, which tests before this one may have left idle.
    return {one.name for one in threading.enumerate()} & {"mnemogate-logs", "mnemogate-spans"}


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
