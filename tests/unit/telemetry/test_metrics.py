"""The exposition: what is counted, how it parses, and that no peer can make it grow."""

from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from telemetry.events import StoreGauges, VerdictRecorded
from telemetry.metrics import Metrics
from telemetry.pipe import PipeCounts
from tests.unit.telemetry import sample

GAUGES = StoreGauges(
    version=42,
    epoch=2,
    live_count=40,
    held_count=3,
    leaf_count=84,
    bytes_used=1_000_000,
    bytes_quota=8_000_000,
    writable=True,
    queue_len=5,
)


def rendered(metrics: Metrics) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Sample name -> labels -> value, as Prometheus itself would read it."""
    samples: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for one in family.samples:
            samples.setdefault(one.name, {})[frozenset(one.labels.items())] = one.value
    return samples


def labels(**pairs: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairs.items())


def test_a_verdict_is_counted_under_its_reason_and_timed() -> None:
    metrics = Metrics()
    metrics.observe(sample.REJECT)
    metrics.observe(sample.ADMIT)
    samples = rendered(metrics)
    reject = labels(
        decision="reject",
        reason="source_class_forbidden",
        memory_class="L1",
        source="tool_result",
    )
    admit = labels(decision="admit", reason="none", memory_class="L3", source="tool_result")
    assert samples["mnemogate_verdicts_total"] == {reject: 1, admit: 1}
    buckets = samples["mnemogate_verdict_duration_seconds_bucket"]
    assert buckets[labels(decision="reject", le="0.0025")] == 0
    assert buckets[labels(decision="reject", le="0.005")] == 1
    assert samples["mnemogate_gate_duration_seconds_sum"] == {frozenset(): 0.0008}
    assert samples["mnemogate_queue_duration_seconds_count"] == {frozenset(): 2}
    assert samples["mnemogate_commit_duration_seconds_count"] == {frozenset(): 2}


def test_a_duration_on_a_bound_counts_under_that_bound() -> None:
    metrics = Metrics()
    metrics.observe(msgspec.structs.replace(sample.REJECT, gate_us=50))
    buckets = rendered(metrics)["mnemogate_gate_duration_seconds_bucket"]
    assert buckets[labels(le="5e-05")] == 1


def test_a_replayed_answer_is_no_second_verdict() -> None:
    metrics = Metrics()
    replayed = msgspec.structs.replace(sample.REJECT, replayed=True)
    for event in (sample.REJECT, replayed, replayed):
        metrics.observe(event)
    samples = rendered(metrics)
    assert sum(samples["mnemogate_verdicts_total"].values()) == 1
    assert samples["mnemogate_replays_total"] == {labels(decision="reject"): 2}


def test_requests_and_reads_are_counted() -> None:
    metrics = Metrics(frozenset({"/v1/memories"}))
    metrics.observe(sample.REQUEST)
    metrics.observe(sample.READ)
    metrics.observe(msgspec.structs.replace(sample.READ, error_type="StoreUnavailable"))
    samples = rendered(metrics)
    assert samples["mnemogate_requests_total"] == {
        labels(listener="data", route="/v1/memories", status="403"): 1
    }
    assert samples["mnemogate_request_duration_seconds_count"] == {labels(listener="data"): 1}
    assert samples["mnemogate_reads_total"] == {
        labels(operation="search_memory", outcome="ok"): 1,
        labels(operation="search_memory", outcome="error"): 1,
    }


def test_model_requests_and_the_calls_in_their_replies_are_counted() -> None:
    metrics = Metrics()
    metrics.observe(sample.MODEL)
    metrics.observe(msgspec.structs.replace(sample.MODEL, sent_ns=0, first_ns=0, status=503))
    samples = rendered(metrics)
    assert samples["mnemogate_model_requests_total"] == {
        labels(api="anthropic", status="200"): 1,
        labels(api="anthropic", status="503"): 1,
    }
    assert samples["mnemogate_model_calls_total"] == {
        labels(api="anthropic", outcome="passed"): 4,
        labels(api="anthropic", outcome="refused"): 2,
    }
    assert samples["mnemogate_model_askings_total"] == {labels(api="anthropic"): 4}
    for name in ("preparation", "first_byte"):
        counted = samples[f"mnemogate_model_{name}_seconds_count"]
        assert counted == {labels(api="anthropic"): 1}


def test_the_store_the_ladder_and_the_pipes_are_shown() -> None:
    metrics = Metrics()
    assert "mnemogate_store_version" not in rendered(metrics)
    metrics.set_store(GAUGES)
    metrics.set_trust({"trusted": 4, "degraded": 1, "no such level": 9})
    metrics.watch_pipe("spans", lambda: PipeCounts(offered=10, delivered=7, dropped=2, waiting=1))
    samples = rendered(metrics)
    assert samples["mnemogate_store_version"] == {frozenset(): 42}
    assert samples["mnemogate_store_held"] == {frozenset(): 3}
    assert samples["mnemogate_store_writable"] == {frozenset(): 1}
    assert samples["mnemogate_queue_length"] == {frozenset(): 5}
    assert samples["mnemogate_principals"] == {
        labels(trust="trusted"): 4,
        labels(trust="degraded"): 1,
        labels(trust="other"): 9,
    }
    assert samples["mnemogate_telemetry_exported_total"] == {labels(signal="spans"): 7}
    assert samples["mnemogate_telemetry_dropped_total"] == {labels(signal="spans"): 2}
    assert samples["mnemogate_telemetry_waiting"] == {labels(signal="spans"): 1}


def series(metrics: Metrics) -> int:
    return sum(len(values) for values in rendered(metrics).values())


def hostile_verdict(number: int) -> VerdictRecorded:
    word = f'evil"{number}\n'
    return msgspec.structs.replace(
        sample.REJECT,
        decision=word,
        reason=word,
        memory_class=word,
        source_kind=word,
        principal=word,
        tenant=word,
        dialect=word,
        error_type=word,
    )


def test_ten_thousand_hostile_peers_do_not_grow_the_number_of_series() -> None:
    metrics = Metrics(frozenset({"/v1/memories"}))
    metrics.observe(hostile_verdict(0))
    metrics.observe(msgspec.structs.replace(sample.REQUEST, route="/x", status=99, listener="l"))
    metrics.observe(msgspec.structs.replace(sample.READ, operation="x"))
    before = series(metrics)
    for number in range(10_000):
        metrics.observe(hostile_verdict(number))
        metrics.observe(
            msgspec.structs.replace(
                sample.REQUEST,
                route=f"/v1/{number}",
                status=1_000 + number,
                principal=f"p{number}",
                listener=f"l{number}",
                method=f"M{number}",
            )
        )
        metrics.observe(msgspec.structs.replace(sample.READ, operation=f"o{number}"))
    assert series(metrics) == before
    # The control: a route on the list does get a series of its own.
    metrics.observe(sample.REQUEST)
    assert series(metrics) > before


def test_a_clock_that_went_back_takes_nothing_off_a_sum() -> None:
    metrics = Metrics()
    metrics.observe(msgspec.structs.replace(sample.REJECT, ended_ns=0))
    assert rendered(metrics)["mnemogate_verdict_duration_seconds_sum"] == {
        labels(decision="reject"): 0
    }
