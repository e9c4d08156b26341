"""Lives of the sidecar with seeded random bytes and a clock in the test's hand, as once recorded.

Every answer, everything that went upstream, the audit log and the counters are what they were. What
changes them on purpose records them anew: `python -m tests.integration.recorded`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from policy.checks import STEPS
from policy.gate import Gate
from policy.verdict import Reason, Reject
from tests.integration.recorded.lives import LIVES, recorded
from tests.integration.recorded.recording import Sent, differences, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policy.facts import Facts
    from policy.model import Candidate
    from policy.ruleset import Ruleset
    from policy.verdict import Verdict
    from tests.integration.recorded.recording import Recording, Step


# Those that have a server behind them.
BEHIND = ("mcp", "model")


@pytest.mark.parametrize("name", LIVES)
def test_a_life_is_the_one_that_was_recorded(tmp_path: Path, name: str) -> None:
    told = differences(read(name), recorded(name, tmp_path))
    assert told == [], "\n".join(told)


@pytest.mark.parametrize("name", LIVES)
def test_a_recording_holds_what_was_admitted_held_and_refused(name: str) -> None:
    kept = read(name)
    decided = {leaf.fields.get("decision") for leaf in kept.leaves}
    assert {"admit", "hold", "reject"} <= decided
    assert len(kept.steps) >= 20
    assert kept.checkpoint.splitlines()[1] == str(len(kept.leaves))
    if name in BEHIND:
        assert sum(len(step.upstream) for step in kept.steps) >= 20


class Mistaken(Gate):
    """A gate that gives one reason where the shipped one gives another."""

    def decide(self, candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Verdict:
        verdict = super().decide(candidate, facts, ruleset)
        if isinstance(verdict, Reject) and verdict.reason is Reason.SOURCE_CLASS_FORBIDDEN:
            return msgspec.structs.replace(verdict, reason=Reason.CLASS_FLOOR)
        return verdict


def test_one_changed_reason_is_told_with_its_step_its_leaf_and_its_counter(tmp_path: Path) -> None:
    kept = read("native")
    told = differences(kept, recorded("native", tmp_path, Mistaken(STEPS)))
    (step,) = [one for one in told if one.startswith("step native.reject: body differs")]
    assert "source_class_forbidden" in step
    assert "class_floor" in step
    assert not [one for one in told if one.startswith("step native.hold:")]
    assert [one for one in told if one.startswith("leaf") and ": reason differs" in one]
    assert [one for one in told if one.startswith("counter mnemogate_verdicts_total")]
    assert [one for one in told if one.startswith("checkpoint differs")]


def _step(kept: Recording, **changed: object) -> Recording:
    steps: tuple[Step, ...] = kept.steps
    other = msgspec.structs.replace(steps[3], **changed)
    return msgspec.structs.replace(kept, steps=(*steps[:3], other, *steps[4:]))


def test_comparing_names_the_request_upstream_that_differs() -> None:
    kept = read("mcp")
    for part in ("request", "headers", "body"):
        at, step = next((at, step) for at, step in enumerate(kept.steps) if step.upstream)
        sent = msgspec.structs.replace(step.upstream[0], **{part: "another"})
        other = msgspec.structs.replace(step, upstream=(sent, *step.upstream[1:]))
        steps = (*kept.steps[:at], other, *kept.steps[at + 1 :])
        (told,) = differences(kept, msgspec.structs.replace(kept, steps=steps))
        assert told.startswith(f"step {step.name}: upstream 0: {part} differs")


def _leaf(kept: Recording, **changed: object) -> Recording:
    other = msgspec.structs.replace(kept.leaves[2], **changed)
    return msgspec.structs.replace(kept, leaves=(*kept.leaves[:2], other, *kept.leaves[3:]))


def _counter(kept: Recording, *, value: str | None) -> Recording:
    name = "mnemogate_store_version"
    counters = {key: count for key, count in kept.counters.items() if key != name}
    return msgspec.structs.replace(
        kept, counters=counters if value is None else {**counters, name: value}
    )


CHANGES: dict[str, Callable[[Recording], Recording]] = {
    "step native.add.nonce_of_another: status": lambda kept: _step(kept, status="200 OK"),
    "step native.add.nonce_of_another: headers": lambda kept: _step(
        kept, headers=kept.steps[3].headers.replace("no-store", "no-cache")
    ),
    "step native.add.nonce_of_another: body": lambda kept: _step(
        kept, body=kept.steps[3].body + " "
    ),
    "step native.add.nonce_of_another: upstream": lambda kept: _step(
        kept, upstream=(Sent(request="POST /", headers="", body=""),)
    ),
    "step native.add.nonce_of_another: request": lambda kept: _step(kept, request="GET /"),
    "leaf 2: bytes": lambda kept: _leaf(kept, sha256="00"),
    "leaf 2: principal_id": lambda kept: _leaf(
        kept, fields={**kept.leaves[2].fields, "principal_id": "another"}
    ),
    "checkpoint": lambda kept: msgspec.structs.replace(kept, checkpoint="another"),
    "counter mnemogate_store_version": lambda kept: _counter(kept, value="1.0"),
}


@pytest.mark.parametrize("place", CHANGES)
def test_comparing_names_the_one_place_that_differs(place: str) -> None:
    kept = read("native")
    assert differences(kept, kept) == []
    (told,) = differences(kept, CHANGES[place](kept))
    assert told.startswith(f"{place} differs")
    assert "\n  recorded: " in told
    assert "\n  found:    " in told


GAPS: dict[str, Callable[[Recording], Recording]] = {
    "counter mnemogate_store_version differs": lambda kept: _counter(kept, value=None),
    "steps: other ones": lambda kept: msgspec.structs.replace(kept, steps=kept.steps[1:]),
    "leaves: ": lambda kept: msgspec.structs.replace(kept, leaves=kept.leaves[:-1]),
}


@pytest.mark.parametrize("expected", GAPS)
def test_comparing_tells_what_is_missing(expected: str) -> None:
    kept = read("native")
    for one, other in ((kept, GAPS[expected](kept)), (GAPS[expected](kept), kept)):
        (told,) = differences(one, other)
        assert told.startswith(expected)
