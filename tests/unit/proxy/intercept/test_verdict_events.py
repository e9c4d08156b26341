"""The record of a verdict names what was judged and how, and holds no byte of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from policy.checks import STEPS
from policy.model import ChangeKind, MemoryClass, SourceKind
from proxy.intercept.verdict_events import Judging, undecided_event, verdict_event
from storage.embedded import EmbeddedStore
from storage.ground.errors import StoreUnavailable
from telemetry.events import TraceContext
from telemetry.vocabulary import WRITE_OPERATIONS
from tests.unit.storage.opening import AGENT, Bench, candidate_of, submission_of

CANARY = "canary-7f3a"
SPAN = Judging(
    context=TraceContext(trace_id="0a" * 16, span_id="0b" * 8),
    dialect="native",
    started_ns=10,
    ended_ns=20,
    epoch=3,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = Bench(tmp_path).open()
    yield opened
    opened.close()


def test_an_admit_names_the_memory_and_every_step_as_passed(store: EmbeddedStore) -> None:
    submission = submission_of(candidate_of(f"The word is {CANARY}."))
    outcome = asyncio.run(store.writer.submit(submission))
    event = verdict_event(submission, outcome, SPAN)
    assert outcome.memory is not None
    assert (event.decision, event.reason, event.step) == ("admit", "", 0)
    assert (event.memory_id, event.version) == (outcome.memory.memory_id, 1)
    assert [one.step for one in event.steps] == [step.number for step in STEPS]
    assert {one.outcome for one in event.steps} == {"passed"}
    assert (event.ruleset_epoch, event.principal) == (3, AGENT.principal_id)


def test_a_refusal_names_the_step_that_failed_and_not_the_text(store: EmbeddedStore) -> None:
    candidate = candidate_of(
        f"The word is {CANARY}.",
        memory_class=MemoryClass.L1,
        class_named=True,
        claimed_source=SourceKind.OPERATOR,
        metadata_json=f'{{"k":"{CANARY}"}}',
    )
    submission = submission_of(candidate)
    event = verdict_event(submission, asyncio.run(store.writer.submit(submission)), SPAN)
    outcomes = {one.step: one.outcome for one in event.steps}
    assert (event.decision, event.reason, event.step) == ("reject", "source_class_forbidden", 1)
    assert (outcomes[4], outcomes[1]) == ("passed", "failed")
    assert (event.source_kind, event.claimed_source_kind) == ("unknown", "operator")
    assert CANARY in str(submission), "control"
    assert CANARY.encode() not in msgspec.json.encode(event)


def test_a_retry_names_the_candidate_that_was_judged(store: EmbeddedStore) -> None:
    candidate = candidate_of("Tea is at four.")
    first, again = submission_of(candidate), submission_of(candidate)
    asyncio.run(store.writer.submit(first))
    event = verdict_event(again, asyncio.run(store.writer.submit(again)), SPAN)
    assert (event.replayed, event.candidate_id) == (True, first.candidate_id)


def test_a_gate_that_could_not_decide_is_an_error_and_no_verdict() -> None:
    submission = submission_of(candidate_of(f"The word is {CANARY}."))
    event = undecided_event(submission, StoreUnavailable(f"full of {CANARY}"), SPAN)
    assert (event.decision, event.reason, event.error_type) == ("error", "", "StoreUnavailable")
    assert (event.leaf_index, event.steps) == (-1, ())
    assert CANARY.encode() not in msgspec.json.encode(event)


@pytest.mark.parametrize("change", ChangeKind)
def test_every_change_has_an_operation_that_metrics_know(change: ChangeKind) -> None:
    submission = submission_of(candidate_of(None, change=change))
    event = undecided_event(submission, StoreUnavailable("x"), SPAN)
    assert event.operation in WRITE_OPERATIONS
