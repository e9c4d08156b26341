"""Logs without content on stderr: one JSON object per line, or the lines of a given `Wording`.

A thread of its own writes the lines, because a reader of stderr that stops reading would otherwise
stop the event loop, and with it every request. Texts of libraries' messages are left out: aiohttp
puts paths and exception texts into them, and both may contain what a peer sent.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from functools import lru_cache
from os import write
from select import select
from typing import TYPE_CHECKING, Final, Protocol, TextIO

import msgspec

from telemetry import vocabulary
from telemetry.events import (
    Event,
    IncidentStepped,
    ModelServed,
    ReadServed,
    RequestServed,
    VerdictRecorded,
)
from telemetry.metrics import Metrics
from telemetry.pipe import Pipe, PipeCounts
from telemetry.settings import TelemetrySettings

if TYPE_CHECKING:
    from telemetry.exporter import SpanPipe

LOGGER_NAME: Final = "mnemogate"
CLOSE_TIMEOUT_S: Final = 0.5
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_FRAMES_MAX: Final = 20
_NAMES_KEPT_MAX: Final = 256
_OPERATIONS: Final = vocabulary.READ_OPERATIONS | vocabulary.WRITE_OPERATIONS

Field = str | int | float | bool | list[str]

_EVENTS_NAME: Final = f"{LOGGER_NAME}.event"
_ENCODER: Final = msgspec.json.Encoder()
_events_logger = logging.getLogger(_EVENTS_NAME)


class Wording(Protocol):
    """Words log lines for a person. Each method returns one line without a newline; "" for none."""

    def of_event(self, event: Event) -> str:
        """The line about an event."""
        ...

    def of_record(self, at_s: float, fields: Mapping[str, Field]) -> str:
        """The line about a log record with these fields, created at this Unix time."""
        ...


def _record_fields(record: logging.LogRecord) -> dict[str, Field]:
    """The fields of a log record's line, every string bounded and printable.

    Of an exception only its class and places in code are included: its text may quote its input.
    """
    fields: dict[str, Field] = {
        "time": _rfc3339(int(record.created * 1e9)),
        "level": record.levelname.lower(),
        "logger": vocabulary.name(record.name),
    }
    own = record.name == LOGGER_NAME or record.name.startswith(f"{LOGGER_NAME}.")
    # The message's template, without its arguments, which may contain anything.
    fields["event"] = vocabulary.printable(str(record.msg)) if own else "library"
    extra: Mapping[str, Field] = getattr(record, "fields", {}) if own else {}
    for key, value in extra.items():
        fields[key] = vocabulary.printable(value) if isinstance(value, str) else value
    error_type = getattr(record, "error_type", None)
    if own and isinstance(error_type, str):
        fields["error_type"] = vocabulary.name(error_type)
    if record.exc_info and record.exc_info[0] is not None:
        fields["error_type"] = vocabulary.name(record.exc_info[0].__name__)
        fields["frames"] = _frames(record)
    return fields


class LogLines(logging.Handler):
    """Writes log records and events as lines, on one thread. Any thread may log; none waits.

    Lines are lost if the stream's reader is too slow, or the stream refuses them. The next batch
    begins with a line that reports the number of lost lines.
    """

    def __init__(self, stream: TextIO | None, wording: Wording | None = None) -> None:
        """If `stream` is None, lines are only counted. Without `wording` a line is JSON."""
        super().__init__()
        self._stream = stream
        self._wording = wording
        self._lost = 0
        self.pipe: Pipe[Event | str] = Pipe("mnemogate-logs", self._deliver)

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, without a newline."""
        fields = _record_fields(record)
        if self._wording is None:
            return json.dumps(fields, separators=(",", ":"))
        return self._wording.of_record(record.created, fields)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record as a line; never blocks."""
        self.pipe.offer(self.format(record), urgent=record.levelno >= logging.WARNING)

    def flush(self) -> None:
        """Wait until all lines are written, or for half a second."""
        self.pipe.flush(CLOSE_TIMEOUT_S)

    def close(self) -> None:
        """Write queued lines for at most half a second, and drop the rest."""
        self.pipe.close(CLOSE_TIMEOUT_S)
        super().close()

    def _deliver(self, batch: list[Event | str]) -> int:
        if self._stream is None:
            return len(batch)
        worded = _line if self._wording is None else self._wording.of_event
        lines = [one if isinstance(one, str) else worded(one) for one in batch]
        lost = self.pipe.counts().dropped
        if lost > self._lost:
            told: dict[str, object] = {
                "name": LOGGER_NAME,
                "levelname": "WARNING",
                "msg": "log lines were lost: nothing took them in time",
                "fields": {"lines": lost - self._lost},
            }
            lines.insert(0, self.format(logging.makeLogRecord(told)))
        try:
            _write(self._stream, "".join(f"{line}\n" for line in lines if line))
        except (OSError, ValueError):
            return 0
        self._lost = lost
        return len(batch)


class EventLog:
    """Logs one line per event, off the decision path. Any thread.

    Without `configure` there is no stream, and events are only counted.
    """

    def __init__(self, *, access_log: bool) -> None:
        self._access_log = access_log
        handlers = logging.getLogger().handlers
        self._configured = next((one for one in handlers if isinstance(one, LogLines)), None)
        self._lines = self._configured or LogLines(None)

    def offer(self, event: Event) -> bool:
        """Queue the event's line; return False if it was dropped. Never blocks, never raises."""
        match event:
            case RequestServed() | ModelServed() if not self._access_log:
                return True
            case _:
                level = level_of(event)
        if not _events_logger.isEnabledFor(level):
            return True
        return self._lines.pipe.offer(event, urgent=level >= logging.WARNING)

    def counts(self) -> PipeCounts:
        """The number of lines offered so far, by their outcome."""
        return self._lines.pipe.counts()

    def close(self) -> None:
        """Wait until queued lines are written, but half a second at most."""
        self._lines.flush()
        if self._configured is None:
            self._lines.close()


def _write(stream: TextIO, text: str) -> None:
    """Write to the stream's file descriptor, without the stream's own buffer.

    The buffer's lock would be held while the reader reads nothing, and Python's exit would wait for
    the lock.
    """
    try:
        number = stream.fileno()
    except OSError:
        stream.write(text)
        return
    left = memoryview(text.encode(stream.encoding or "utf-8", "backslashreplace"))
    while left:
        try:
            left = left[write(number, left) :]
        except BlockingIOError:  # the host that opened the stream made it non-blocking
            select((), (number,), ())


@lru_cache(maxsize=_NAMES_KEPT_MAX)
def _safe(text: str) -> str:
    if len(text) <= vocabulary.PRINTABLE_LEN_MAX and text.isascii() and text.isprintable():
        return text
    # A character that the stream's encoding lacks would fail the whole batch, so lines are ASCII.
    return vocabulary.printable(text).encode("ascii", "backslashreplace").decode()


def _line(event: Event) -> str:
    fields: dict[str, Field] = {
        "time": _rfc3339(event.ended_ns),
        "level": logging.getLevelName(level_of(event)).lower(),
        "logger": _EVENTS_NAME,
        "event": event_name(event),
    }
    return _ENCODER.encode(fields | fields_of(event)).decode()


def configure(
    stream: TextIO, level: str, *, events: bool = True, wording: Wording | None = None
) -> None:
    """Make every logger of the process write lines to `stream`, and nowhere else.

    `level` is for the sidecar's own loggers; libraries' messages are logged from WARNING on. If
    `events` is false, events get no lines. Without `wording` lines are JSON. Call once, at start.
    """
    root = logging.getLogger()
    root.handlers[:] = [LogLines(stream, wording)]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER_NAME).setLevel(_LEVELS[level])
    _events_logger.setLevel(logging.NOTSET if events else logging.CRITICAL)
    # A stream that fails must not print a traceback with the record's arguments.
    logging.raiseExceptions = False


# The HTTP statuses that report a fault of the request, not of the sidecar.
_CLIENTS_OWN: Final = range(400, 500)


def level_of(event: Event) -> int:
    """The log level: the sidecar's failures are errors; refusals and bad requests are warnings."""
    match event:
        case VerdictRecorded():
            if event.decision == "error":
                return logging.ERROR
            agreed = event.decision == "admit" and not event.observed
            return logging.INFO if agreed else logging.WARNING
        case ReadServed():
            return logging.WARNING if event.error_type else logging.DEBUG
        case RequestServed() | ModelServed():
            if not event.error_type:
                return logging.INFO
            return logging.WARNING if event.status in _CLIENTS_OWN else logging.ERROR
        case IncidentStepped():
            return logging.ERROR if event.error_type else logging.WARNING


def event_name(event: Event) -> str:
    """The event's name: "verdict", "read", "request", "model" or "incident"."""
    match event:
        case VerdictRecorded():
            return "verdict"
        case ReadServed():
            return "read"
        case RequestServed():
            return "request"
        case ModelServed():
            return "model"
        case IncidentStepped():
            return "incident"


def fields_of(event: Event) -> dict[str, Field]:
    """The stable keys and values of an event's line, in order; exported verdicts have them too.

    Every string is of a closed list or a fixed form, or `_safe`.
    """
    match event:
        case VerdictRecorded():
            return _verdict_fields(event)
        case ReadServed():
            return _read_fields(event)
        case RequestServed():
            return _request_fields(event)
        case ModelServed():
            return _model_fields(event)
        case IncidentStepped():
            return _incident_fields(event)


def _read_fields(event: ReadServed) -> dict[str, Field]:
    return {
        "operation": vocabulary.known(event.operation, _OPERATIONS),
        "dialect": vocabulary.name(event.dialect),
        "principal": _safe(event.principal),
        "tenant": _safe(event.tenant),
        "records": event.record_count,
        **_how_and_when(event),
    }


def _model_fields(event: ModelServed) -> dict[str, Field]:
    return {
        "provider": vocabulary.known(event.provider, vocabulary.PROVIDERS),
        "api": vocabulary.known(event.api, vocabulary.MODEL_APIS),
        "model": vocabulary.model_name(event.model, event.status),
        "status": event.status,
        "principal": _safe(event.principal),
        "tenant": _safe(event.tenant),
        "session": vocabulary.hex_id(event.session),
        "askings": event.askings,
        "calls": event.calls,
        "refused": event.refused,
        "withheld": event.withheld,
        **_how_and_when(event),
    }


def _incident_fields(event: IncidentStepped) -> dict[str, Field]:
    return {
        "incident_id": vocabulary.hex_id(event.incident_id),
        "signal": vocabulary.known(event.signal, vocabulary.INCIDENT_SIGNALS),
        "step": vocabulary.known(event.step, vocabulary.INCIDENT_STEPS),
        "mode": vocabulary.known(event.mode, vocabulary.INCIDENT_MODES),
        "why": vocabulary.known(event.why, vocabulary.INCIDENT_REASONS),
        "tenant": _safe(event.tenant),
        "suspects": event.suspects,
        "asks": len(event.asks),
        "rounds": event.rounds,
        "culprits": event.culprits,
        **_how_and_when(event),
    }


def _request_fields(event: RequestServed) -> dict[str, Field]:
    return {
        "listener": vocabulary.known(event.listener, vocabulary.LISTENERS),
        "method": vocabulary.known(event.method, vocabulary.METHODS),
        "route": _safe(event.route),
        "status": event.status,
        "principal": _safe(event.principal),
        **_how_and_when(event),
    }


def _verdict_fields(event: VerdictRecorded) -> dict[str, Field]:
    return {
        "decision": vocabulary.known(event.decision, vocabulary.DECISIONS),
        "reason": vocabulary.known(event.reason, vocabulary.REASONS),
        "step": event.step,
        "operation": vocabulary.known(event.operation, _OPERATIONS),
        "memory_class": vocabulary.known(event.memory_class, vocabulary.MEMORY_CLASSES),
        "source_kind": vocabulary.known(event.source_kind, vocabulary.SOURCE_KINDS),
        "claimed_source_kind": vocabulary.known(event.claimed_source_kind, vocabulary.SOURCE_KINDS),
        "basis": vocabulary.known(event.basis, vocabulary.BASES),
        "session": vocabulary.hex_id(event.session) if event.session else "",
        "principal": _safe(event.principal),
        "tenant": _safe(event.tenant),
        "dialect": vocabulary.name(event.dialect),
        "candidate_id": vocabulary.hex_id(event.candidate_id),
        "memory_id": vocabulary.hex_id(event.memory_id) if event.memory_id else "",
        "version": event.version,
        "leaf_index": event.leaf_index,
        "epoch": event.ruleset_epoch,
        "replayed": event.replayed,
        "observed": vocabulary.known(event.observed, vocabulary.DECISIONS),
        "class_lowered": event.class_lowered,
        "queued_us": event.queued_us,
        "gate_us": event.gate_us,
        "commit_us": event.commit_us,
        **_how_and_when(event),
    }


def _how_and_when(event: Event) -> dict[str, Field]:
    return {
        "error_type": vocabulary.name(event.error_type) if event.error_type else "",
        "duration_us": max(0, event.ended_ns - event.started_ns) // 1_000,
        "trace_id": vocabulary.hex_id(event.context.trace_id),
        "span_id": vocabulary.hex_id(event.context.span_id),
        **({"caller": vocabulary.hex_id(event.context.caller)} if event.context.caller else {}),
    }


def _frames(record: logging.LogRecord) -> list[str]:
    """The places in an exception's traceback, innermost last: module, function and line only."""
    frames: list[str] = []
    traceback = record.exc_info[2] if record.exc_info else None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        module = traceback.tb_frame.f_globals.get("__name__", "?")
        frames.append(vocabulary.printable(f"{module}:{code.co_name}:{traceback.tb_lineno}"))
        traceback = traceback.tb_next
    return frames[-_FRAMES_MAX:]


def _rfc3339(at_ns: int) -> str:
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest_ns // 1000:06d}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class Telemetry:
    """Counts, logs and traces each event. Any thread.

    `record` never blocks and never raises.

    `telemetry.logs.configure` sets up logging, once per process.
    """

    def __init__(self, settings: TelemetrySettings, routes: frozenset[str] = frozenset()) -> None:
        """`routes` are the route templates that metrics may name."""
        self.metrics = Metrics(routes)
        self._logs = EventLog(access_log=settings.access_log)
        self.metrics.watch_pipe("logs", self._logs.counts)
        self._spans: SpanPipe | None = None
        url = settings.traces_url
        if url is not None:
            # The import is local, because it loads OpenTelemetry.
            from telemetry.exporter import SpanPipe  # noqa: PLC0415

            self._spans = SpanPipe(settings, url, time.monotonic)
            self.metrics.watch_pipe("spans", self._spans.counts)

    def record(self, event: Event) -> None:
        """Report an event to metrics, logs and traces; takes a few microseconds."""
        self.metrics.observe(event)
        self._logs.offer(event)
        if self._spans is not None:
            self._spans.offer(event)

    def close(self) -> None:
        """Send and write queued events; takes at most 2.5 s, whatever the collector does."""
        if self._spans is not None:
            self._spans.close()
        self._logs.close()
