"""Metrics for Prometheus: counters, durations from 50 us up, and the state of the store.

Counting is on the path of a verdict, so it costs one lock and a few dictionary operations; the text
for Prometheus is made at scrape time. Every label is a word of a closed list, so no peer can
increase the number of series.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry import vocabulary
from telemetry.events import (
    Event,
    IncidentStepped,
    ModelServed,
    ReadServed,
    RequestServed,
    StoreGauges,
    VerdictRecorded,
)
from telemetry.pipe import PipeCounts

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS_S: Final = (
    50e-6,
    100e-6,
    250e-6,
    500e-6,
    1e-3,
    2.5e-3,
    5e-3,
    10e-3,
    25e-3,
    50e-3,
    100e-3,
    250e-3,
    500e-3,
    1.0,
    2.5,
    5.0,
    10.0,
)

_STATUSES: Final = {status.value: str(status.value) for status in HTTPStatus}
_OPERATIONS: Final = vocabulary.READ_OPERATIONS | vocabulary.WRITE_OPERATIONS

_Counts = defaultdict[tuple[str, ...], int]
_LABELS_MAX: Final = 1_024

_COUNTERS: Final = (
    (
        "mnemogate_verdicts",
        "Candidates judged.",
        ("decision", "reason", "memory_class", "source"),
    ),
    (
        "mnemogate_observed",
        "Candidates that observe mode let in over an objection.",
        ("decision", "reason", "memory_class", "source"),
    ),
    ("mnemogate_replays", "Answers given again to a repeated request.", ("decision",)),
    ("mnemogate_requests", "HTTP requests answered.", ("listener", "route", "status")),
    ("mnemogate_reads", "Reads answered.", ("operation", "outcome")),
    ("mnemogate_incidents", "Steps of the incidents of wrong answers.", ("signal", "state")),
    (
        "mnemogate_incidents_for_person",
        "Incidents that were left to a person.",
        ("signal", "why"),
    ),
    ("mnemogate_model_requests", "Model requests answered.", ("api", "status")),
    ("mnemogate_model_askings", "Requests sent to a model, second askings included.", ("api",)),
    ("mnemogate_model_calls", "Tool calls that models made.", ("api", "outcome")),
    ("mnemogate_model_withheld", "Model requests that something was taken out of.", ("api",)),
)
_DURATIONS: Final = (
    (
        "mnemogate_verdict_duration_seconds",
        "From the request's arrival to its verdict, durable.",
        "decision",
    ),
    ("mnemogate_gate_duration_seconds", "The gate's own decision.", ""),
    ("mnemogate_commit_duration_seconds", "The write transaction and its fdatasync.", ""),
    ("mnemogate_queue_duration_seconds", "Waiting for the writer thread.", ""),
    ("mnemogate_request_duration_seconds", "HTTP request, first byte to answer.", "listener"),
    ("mnemogate_read_duration_seconds", "One read.", ""),
    (
        "mnemogate_model_preparation_seconds",
        "From a model request's arrival until it went upstream.",
        "api",
    ),
    (
        "mnemogate_model_first_byte_seconds",
        "From a model request's arrival to the first byte of its reply.",
        "api",
    ),
)


class _Durations:
    """One histogram of durations, in seconds. Not thread-safe: `Metrics` locks."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0


class Metrics:
    """Counts events and renders them. Every method may be called from any thread."""

    def __init__(self, routes: frozenset[str] = frozenset()) -> None:
        """`routes` are the route templates served; any other is counted as "other"."""
        self._routes = routes
        self._lock = threading.Lock()
        self._counters: dict[str, _Counts] = {
            counter: defaultdict(int) for counter, _, _ in _COUNTERS
        }
        self._durations: dict[str, defaultdict[str, _Durations]] = {
            durations: defaultdict(_Durations) for durations, _, _ in _DURATIONS
        }
        self._verdicts = self._counters["mnemogate_verdicts"]
        self._verdict_durations = self._durations["mnemogate_verdict_duration_seconds"]
        self._gate = self._durations["mnemogate_gate_duration_seconds"][""]
        self._commit = self._durations["mnemogate_commit_duration_seconds"][""]
        self._queue = self._durations["mnemogate_queue_duration_seconds"][""]
        self._store: StoreGauges | None = None
        self._trust: dict[str, int] = {}
        self._pipes: dict[str, Callable[[], PipeCounts]] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Exposition(self))

    def observe(self, event: Event) -> None:
        """Count one event. Takes a few microseconds; raises for no string in the event."""
        match event:
            case VerdictRecorded():
                self._observe_verdict(event)
            case ReadServed():
                self._observe_read(event)
            case RequestServed():
                self._observe_request(event)
            case ModelServed():
                self._observe_model(event)
            case IncidentStepped():
                signal = vocabulary.known(event.signal, vocabulary.INCIDENT_SIGNALS)
                step = vocabulary.known(event.step, vocabulary.INCIDENT_STEPS)
                why = vocabulary.known(event.why, vocabulary.INCIDENT_REASONS)
                with self._lock:
                    self._counters["mnemogate_incidents"][signal, step] += 1
                    if step == "needs_person":
                        self._counters["mnemogate_incidents_for_person"][signal, why] += 1

    def set_store(self, gauges: StoreGauges) -> None:
        """Replace the store's gauges; call before `render`."""
        self._store = gauges

    def set_trust(self, principals: Mapping[str, int]) -> None:
        """Replace the gauge of principals; `principals` maps each trust level to their number."""
        counted: defaultdict[str, int] = defaultdict(int)
        for level, count in principals.items():
            counted[vocabulary.known(level, vocabulary.TRUST_LEVELS)] += count
        self._trust = dict(counted)

    def watch_pipe(self, signal: str, counts: Callable[[], PipeCounts]) -> None:
        """Report the counts of a pipe at each scrape; `signal` is "spans" or "logs"."""
        self._pipes[signal] = counts

    def render(self) -> bytes:
        """All metrics in Prometheus text format 0.0.4 (`CONTENT_TYPE`)."""
        return generate_latest(self._registry)

    def families(self) -> Iterator[Metric]:
        """Every metric with its present values."""
        yield from self._counter_families()
        yield from self._duration_families()
        yield from self._store_families()
        yield from self._pipe_families()

    def _observe_verdict(self, event: VerdictRecorded) -> None:
        key = _verdict_labels(event.decision, event.reason, event.memory_class, event.source_kind)
        decision = key[0]
        with self._lock:
            if event.replayed:
                # A repeated request gets no new verdict. Counting it as one would let a client
                # inflate the figures by repetition.
                self._counters["mnemogate_replays"][(decision,)] += 1
                return
            self._verdicts[key] += 1
            if event.observed:
                observed = vocabulary.known(event.observed, vocabulary.DECISIONS)
                self._counters["mnemogate_observed"][(observed, *key[1:])] += 1
            _add(
                (self._verdict_durations[decision], event.ended_ns - event.started_ns),
                (self._gate, event.gate_us * 1_000),
                (self._queue, event.queued_us * 1_000),
                (self._commit, event.commit_us * 1_000),
            )

    def decisions(self) -> dict[str, int]:
        """How many verdicts there were since the start, by decision."""
        counts: dict[str, int] = {}
        with self._lock:
            for (decision, *_), count in self._verdicts.items():
                counts[decision] = counts.get(decision, 0) + count
        return counts

    def _observe_read(self, event: ReadServed) -> None:
        key = (
            vocabulary.known(event.operation, _OPERATIONS),
            "error" if event.error_type else "ok",
        )
        with self._lock:
            self._counters["mnemogate_reads"][key] += 1
            reads = self._durations["mnemogate_read_duration_seconds"][""]
            _add((reads, event.ended_ns - event.started_ns))

    def _observe_request(self, event: RequestServed) -> None:
        key = _request_labels(event.listener, event.route, event.status, self._routes)
        with self._lock:
            self._counters["mnemogate_requests"][key] += 1
            answered = self._durations["mnemogate_request_duration_seconds"][key[0]]
            _add((answered, event.ended_ns - event.started_ns))

    def _observe_model(self, event: ModelServed) -> None:
        api = vocabulary.known(event.api, vocabulary.MODEL_APIS)
        status = _STATUSES.get(event.status, vocabulary.OTHER)
        prepared, first = (
            self._durations[f"mnemogate_model_{name}_seconds"][api]
            for name in ("preparation", "first_byte")
        )
        with self._lock:
            self._counters["mnemogate_model_requests"][api, status] += 1
            self._counters["mnemogate_model_askings"][(api,)] += event.askings
            calls = self._counters["mnemogate_model_calls"]
            calls[api, "refused"] += event.refused
            calls[api, "passed"] += event.calls - event.refused
            self._counters["mnemogate_model_withheld"][(api,)] += int(event.withheld)
            if event.sent_ns:
                _add((prepared, event.sent_ns - event.started_ns))
            if event.first_ns:
                _add((first, event.first_ns - event.started_ns))

    def _counter_families(self) -> Iterator[Metric]:
        for counter, documentation, labels in _COUNTERS:
            family = CounterMetricFamily(counter, documentation, labels=labels)
            with self._lock:
                counted = sorted(self._counters[counter].items())
            for values, count in counted:
                family.add_metric(values, count)
            yield family

    def _duration_families(self) -> Iterator[Metric]:
        for durations, documentation, label in _DURATIONS:
            family = HistogramMetricFamily(
                durations, documentation, labels=(label,) if label else ()
            )
            with self._lock:
                measured = sorted(
                    (value, tuple(one.counts), one.sum_s)
                    for value, one in self._durations[durations].items()
                )
            for value, counts, sum_s in measured:
                family.add_metric((value,) if label else (), _cumulative(counts), sum_s)
            yield family

    def _store_families(self) -> Iterator[Metric]:
        store = self._store
        if store is not None:
            for gauge, documentation, value in (
                ("version", "Generation of the store.", store.version),
                ("epoch", "Generation of the ruleset.", store.epoch),
                ("live", "Memories that reads may show.", store.live_count),
                ("held", "Candidates that wait for a person.", store.held_count),
                (
                    "held_oldest_seconds",
                    "Age of the oldest candidate that waits for a person; 0: none does.",
                    store.held_oldest_s,
                ),
                (
                    "held_untold_seconds",
                    "Age of the oldest hold that no receiver was told of; 0: none, or no receiver.",
                    store.held_untold_s,
                ),
                ("leaves", "Leaves in the audit log.", store.leaf_count),
                ("used_bytes", "Bytes in use of the store.", store.bytes_used),
                ("quota_bytes", "Bytes the store may use.", store.bytes_quota),
                ("writable", "1 if the store takes writes.", int(store.writable)),
                ("observing", "1 in observe mode: nothing is refused.", int(store.observing)),
            ):
                yield GaugeMetricFamily(f"mnemogate_store_{gauge}", documentation, value=value)
            yield CounterMetricFamily(
                "mnemogate_recalls_dropped",
                "Records of reads and replies that are not kept.",
                value=store.recalls_dropped,
            )
            yield CounterMetricFamily(
                "mnemogate_replies_unchecked",
                "Replies of models that were not held against anchors, for want of room.",
                value=store.replies_unchecked,
            )
            yield GaugeMetricFamily(
                "mnemogate_queue_length", "Candidates before the writer.", value=store.queue_len
            )
        trust = GaugeMetricFamily(
            "mnemogate_principals", "Principals on each rung of the trust ladder.", labels=["trust"]
        )
        for level, count in sorted(self._trust.items()):
            trust.add_metric([level], count)
        yield trust

    def _pipe_families(self) -> Iterator[Metric]:
        counts = {signal: ask() for signal, ask in sorted(self._pipes.items())}
        exported = CounterMetricFamily(
            "mnemogate_telemetry_exported", "Events delivered.", labels=["signal"]
        )
        dropped = CounterMetricFamily(
            "mnemogate_telemetry_dropped", "Events lost on the way.", labels=["signal"]
        )
        waiting = GaugeMetricFamily(
            "mnemogate_telemetry_waiting", "Events not yet delivered.", labels=["signal"]
        )
        for signal, count in counts.items():
            exported.add_metric([signal], count.delivered)
            dropped.add_metric([signal], count.dropped)
            waiting.add_metric([signal], count.waiting)
        yield from (exported, dropped, waiting)


class _Exposition(Collector):
    """The collector that the Prometheus registry calls at scrape time."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.families()


# The events of one kind have few labels, so they are looked up in the closed lists once.
@lru_cache(maxsize=_LABELS_MAX)
def _verdict_labels(
    decision: str, reason: str, memory_class: str, source_kind: str
) -> tuple[str, str, str, str]:
    return (
        vocabulary.known(decision, vocabulary.DECISIONS),
        vocabulary.known(reason, vocabulary.REASONS),
        vocabulary.known(memory_class, vocabulary.MEMORY_CLASSES),
        vocabulary.known(source_kind, vocabulary.SOURCE_KINDS),
    )


@lru_cache(maxsize=_LABELS_MAX)
def _request_labels(
    listener: str, route: str, status: int, routes: frozenset[str]
) -> tuple[str, str, str]:
    return (
        vocabulary.known(listener, vocabulary.LISTENERS),
        vocabulary.known(route, routes),
        _STATUSES.get(status, vocabulary.OTHER),
    )


def _add(*measured: tuple[_Durations, int]) -> None:
    """Add durations in nanoseconds to histograms.

    None is negative: a clock set back must not lower a histogram's sum.
    """
    for durations, elapsed_ns in measured:
        seconds = elapsed_ns / 1e9 if elapsed_ns > 0 else 0.0
        durations.counts[bisect_left(BUCKETS_S, seconds)] += 1
        durations.sum_s += seconds


def _cumulative(counts: tuple[int, ...]) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
