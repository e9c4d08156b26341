"""A life of the sidecar, with seeded random bytes and a clock of the test, as once recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from policy.checks import STEPS
from policy.facts import Facts
from policy.gate import Gate
from policy.model import Candidate
from policy.ruleset import Ruleset
from policy.verdict import Reason, Reject, Verdict
from tests.integration.recorded.lives import KEPT, LIVES, recorded
from tests.integration.recorded.recording import Recording, Sent, Step, differences, read


def test_the_life_is_the_one_that_was_recorded(tmp_path: Path) -> None:
    told = differences(read(), recorded(KEPT, tmp_path))
    assert told == [], "\n".join(told)


def test_the_recording_holds_what_was_admitted_held_and_refused() -> None:
    kept = read()
    decided = {leaf.fields.get("decision") for leaf in kept.leaves}
    assert {"admit", "hold", "reject"} <= decided
    assert len(kept.steps) >= 20
    assert kept.checkpoint.splitlines()[1] == str(len(kept.leaves))


FORBIDDEN: Final = "this route configures or empties the store: an operator's act, not an agent's"


class Outline(NamedTuple):
    """What became of a life: verdicts by reason, requests upstream, and words in some answers."""

    decided: dict[str, int]
    upstream: int
    told: dict[str, tuple[str, str]]


# Of the other lives: what is in no unit test's words. They are compared whole with themselves,
# beside a neighbour, in `test_neighbours.py`.
OTHERS: Final = {
    "mem0": Outline(
        {"admit": 17, "class_floor": 3, "source_class_forbidden": 2},
        upstream=0,
        told={
            "mem0.bare.reset": (f"403 {FORBIDDEN}", FORBIDDEN),
            "mem0.bare.configure": (f"403 {FORBIDDEN}", FORBIDDEN),
            "mem0.bare.delete": ("200", '{"message":"Memory deleted successfully"}'),
            "mem0.platform.delete": ("200", '{"message":"Memory deleted successfully!"}'),
            "mem0.bare.delete_where": ("200", '{"message":"All relevant memories deleted"}'),
            "mem0.platform.malformed.no_id": (
                "400 One of the filters: app_id, user_id, agent_id, run_id is required!",
                "One of the filters: app_id, user_id, agent_id, run_id is required!",
            ),
            "mem0.platform.malformed.field": (
                "422 immutable: not a field of this route",
                "immutable: not a field of this route",
            ),
            "mem0.platform.malformed.image": (
                "422 messages[0].content: only parts of type text are kept",
                "messages[0].content: only parts of type text are kept",
            ),
            "mem0.platform.batch.update": ("200", "1 were not, see results"),
        },
    ),
    "mcp": Outline(
        {"admit": 12, "class_floor": 7, "denied_by_person": 3, "person_required": 1},
        upstream=33,
        told={
            "mcp.write.hold": ("200", "1 of 2 items were not stored.\\nNot stored yet (class_fl"),
            "mcp.write.lost": ("200", "Whether it stored this is not known yet"),
            "mcp.delete.entities": ("200", "Not deleted yet (person_required, L3)"),
            "mcp.unknown_tool": ("200", "Not done (unknown_tool)."),
            "mcp.malformed.arguments": ("200", "(arguments: entities[].entityType: missing)"),
            "mcp.malformed.array": ("400", '"message":"batches of messages are not relayed"'),
            "mcp.malformed.nan": ("400", '"message":"body: NaN and Infinity are not JSON"'),
            "mcp.session.unknown": ("404", '{"code":-32001,"message":"no such session: send i'),
            "mcp.stateless.contradiction": ("400", '{"code":-32020,"message":"mcp-name: not the'),
            "mcp.person": (
                "200",
                '"method":"elicitation/create","params":{"mode":"url","url":"htt',
            ),
            "mcp.person.deny.came_back": ("200", "Not stored (denied_by_person, L1)."),
            "mcp.tools.changed.write": ("200", "Not done (tools_changed)."),
        },
    ),
    "store": Outline(
        {"admit": 16, "class_floor": 3, "denied_by_person": 1},
        upstream=0,
        told={
            "store.remove": ("", '{"success":true,"message":"Entities deleted successfully"}'),
            "store.hold": ("", "1 of 4 items were not stored.\\nNot stored yet (class_floor, L1)"),
            "store.unknown_tool": ("", "params.name: there is no such tool"),
            "store.malformed.arguments": ("", "arguments: entities[]: not of the expected type"),
            "store.malformed.array": ("", '"message":"batches of messages are not relayed"'),
            "store.method.unknown": ("", '{"code":-32601,"message":"this method is not served"}'),
        },
    ),
    "model": Outline(
        {"admit": 11, "class_floor": 8, "source_class_forbidden": 1},
        upstream=65,
        told={
            "model.chat.page.withheld": ("200", "I read: This result was withheld: it repeats a"),
            "model.file.withheld": ("403", "Mnemogate: withheld: the body of this request carries"),
            "model.hosted.vector_stores": ("403", "Mnemogate: unknown_write: this route would"),
            "model.anthropic.thread": ("400", '"error_code":"thread_unsupported_request"'),
            "model.anthropic.key.wrong": ("401", '{"type":"authentication_error","message":"Mn'),
            "model.chat.malformed": ("400", '"param":null,"code":"bad_request"'),
            "model.responses.conversation": ("400", "what came before is not known here; send"),
        },
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_life_has_the_verdicts_and_the_answers_that_it_had(
    tmp_path: Path, name: str
) -> None:
    lived = recorded(name, tmp_path)
    verdicts = [leaf.fields for leaf in lived.leaves if "decision" in leaf.fields]
    expected = OTHERS[name]
    assert Counter(one.get("reason") or one["decision"] for one in verdicts) == expected.decided
    assert sum(len(step.upstream) for step in lived.steps) == expected.upstream
    steps = {step.name: step for step in lived.steps}
    for step, (status, words) in expected.told.items():
        assert (steps[step].status, words in steps[step].body) == (status, True), steps[step].body


def test_each_life_is_recorded_or_outlined() -> None:
    assert {KEPT, *OTHERS} == set(LIVES)


class Mistaken(Gate):
    """A gate that gives one reason where the shipped one gives another."""

    def decide(self, candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Verdict:
        verdict = super().decide(candidate, facts, ruleset)
        if isinstance(verdict, Reject) and verdict.reason is Reason.SOURCE_CLASS_FORBIDDEN:
            return msgspec.structs.replace(verdict, reason=Reason.CLASS_FLOOR)
        return verdict


def test_one_changed_reason_is_told_with_its_step_its_leaf_and_its_counter(tmp_path: Path) -> None:
    kept = read()
    told = differences(kept, recorded(KEPT, tmp_path, Mistaken(STEPS)))
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
    kept = read()
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
    kept = read()
    for one, other in ((kept, GAPS[expected](kept)), (GAPS[expected](kept), kept)):
        (told,) = differences(one, other)
        assert told.startswith(expected)
