"""Laundering and utility on real texts, through ledger, interceptor, gate and store."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from policy.gate import GATE, Gate
from policy.model import MemoryClass, Provenance
from proxy.ledger.sessions import evidence
from proxy.seams.operation import WrittenItem
from tests.conformance.labelled import (
    DISGUISES,
    LABELS_NO_BETTER_THAN_A_TOOL,
    Agent,
    Remark,
    days_of,
    harmless,
    labels_in,
    new_sessions,
    remarks_of,
)
from tests.evaluate.unsafe import unsafe_gate_without
from tests.unit.proxy.ledgers import ADA
from tests.unit.proxy.wired import wired

pytestmark = pytest.mark.corpora

SHARE_OF_A_QUICK_RUN = 8
REMARKS, NOTES = 2_760, 1_210
DAYS_PER_STORE = 12


def tell(what: str, counts: Counter[str]) -> None:
    total = sum(counts.values())
    shares = ", ".join(
        f"{label}: {count} ({count / total:.1%})" for label, count in counts.most_common()
    )
    sys.stdout.write(f"\n{what}: {total}: {shares}\n")


async def laundered(
    corpora: Path,
    tmp_path: Path,
    memory_class: MemoryClass,
    *,
    every: int,
    named: bool = False,
    gate: Gate = GATE,
) -> list[WrittenItem]:
    """Notes of remarks that a tool answered, one session per day of a conversation."""
    items: list[WrittenItem] = []
    for number, days in enumerate(_stores(corpora, every)):
        with wired(tmp_path / str(number), gate, sessions=(sessions := new_sessions())) as live:
            agent = Agent(sessions, live)
            for day in days:
                entering = [("user", "Read on.")] + [("tool", remark.text) for remark in day]
                session = await agent.session(entering)
                notes = [note for remark in day for note in remark.notes]
                items += await session.write(notes, memory_class, named=named)
    return items


def _stores(corpora: Path, every: int) -> list[list[list[Remark]]]:
    """Days, as many to each store as it has room for what a person must decide about."""
    days = days_of(remarks_of(corpora))[::every]
    return [days[at : at + DAYS_PER_STORE] for at in range(0, len(days), DAYS_PER_STORE)]


@pytest.mark.parametrize("every", [SHARE_OF_A_QUICK_RUN, pytest.param(1, marks=pytest.mark.whole)])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.timeout(600)
async def test_a_paraphrase_of_what_a_tool_said_lands_at_the_floor(
    corpora: Path, tmp_path: Path, every: int, *, named: bool
) -> None:
    items = await laundered(corpora, tmp_path, MemoryClass.L2, every=every, named=named)
    assert len(items) >= NOTES // (2 * every)
    assert {item.source.value for item in items if item.source} <= LABELS_NO_BETTER_THAN_A_TOOL
    landed = [item for item in items if item.decision == "admit"]
    assert {item.memory_class for item in landed} == {MemoryClass.L3}
    assert all(item.class_lowered is named for item in landed)
    # What reads as an order waits for a person; nothing is refused.
    assert {item.decision for item in items} <= {"admit", "hold"}
    assert len(landed) >= 0.95 * len(items)
    tell("laundered into L2", labels_in(items))


def _nothing(_provenance: Provenance) -> bool:
    return False


@pytest.mark.timeout(600)
async def test_control_without_the_floor_the_paraphrases_are_preferences(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("policy.checks.is_unproven", _nothing)
    gate, every = unsafe_gate_without(frozenset({1, 6})), SHARE_OF_A_QUICK_RUN
    items = await laundered(corpora, tmp_path, MemoryClass.L2, every=every, gate=gate)
    landed = Counter((item.decision, item.memory_class) for item in items)
    assert landed["admit", MemoryClass.L2] > 0.9 * len(items)


@pytest.mark.parametrize("how", DISGUISES)
@pytest.mark.timeout(600)
async def test_of_a_copy_in_a_disguise_the_tool_is_named(
    corpora: Path, tmp_path: Path, how: str
) -> None:
    """Text of a tool, rewritten; the label needs no finding, and a person is told the tool."""
    disguised = DISGUISES[how]
    items: list[WrittenItem] = []
    named = 0
    with wired(tmp_path, GATE, sessions=(sessions := new_sessions())) as live:
        agent = Agent(sessions, live)
        for day in days_of(remarks_of(corpora))[::SHARE_OF_A_QUICK_RUN]:
            sources = [remark.text for remark in day if remark.notes]
            if not sources:
                continue
            session = await agent.session([("tool", remark.text) for remark in day])
            copies = [disguised(text) for text in sources]
            for copy in copies:
                core = sessions._core  # pyright: ignore[reportPrivateUsage]
                found = evidence(core, ADA.principal_id, (copy,), 0, None).contained
                named += any(origin.tool == "fetch" for origin in found)
            items += await session.write(copies, MemoryClass.L4)
    tell(how, labels_in(items))
    assert named >= 0.95 * len(items)
    assert {item.source.value for item in items if item.source} <= LABELS_NO_BETTER_THAN_A_TOOL


ANSWER_EVERY = 4
_SMALL_TALK = ("Thanks!", "Sounds good.", "I see, go on.", "Noted.", "That's wonderful!")


def _with_answers(day: list[Remark], answers: list[str]) -> list[tuple[str, str]]:
    """A person talks, a model answers each turn, and now and then a tool says something harmless.

    What the model says is what models say: small talk, and what it makes of the turn before.
    """
    entering: list[tuple[str, str]] = []
    for at, remark in enumerate(day):
        entering.append(("user", remark.text))
        entering.append(("model", " ".join((_SMALL_TALK[at % 5], *remark.notes))))
        if at % ANSWER_EVERY == 0:
            entering.append(("tool", answers[at % len(answers)]))
    return entering


@pytest.mark.parametrize("every", [SHARE_OF_A_QUICK_RUN, pytest.param(1, marks=pytest.mark.whole)])
@pytest.mark.timeout(900)
async def test_what_she_said_and_what_was_noted_of_it_land_low_and_do_not_wait(
    corpora: Path, tmp_path: Path, every: int
) -> None:
    counted: dict[str, Counter[str]] = {}
    remarks = remarks_of(corpora)
    answers = harmless(corpora)
    assert (len(remarks), sum(len(one.notes) for one in remarks)) == (REMARKS, NOTES)
    for number, days in enumerate(_stores(corpora, every)):
        with wired(tmp_path / str(number), GATE, sessions=(sessions := new_sessions())) as live:
            agent = Agent(sessions, live)
            for day in days:
                session = await agent.session(_with_answers(day, answers))
                texts = {
                    "verbatim": [one.text for one in day],
                    "noted": [note for remark in day for note in remark.notes],
                }
                for kind, written in texts.items():
                    counts = counted.setdefault(kind, Counter())
                    counts += labels_in(await session.write(written, MemoryClass.L2))
    for kind, counts in counted.items():
        tell(kind, counts)
        landed = sum(count for label, count in counts.items() if label.startswith("admit"))
        assert landed >= {"verbatim": 0.9, "noted": 0.95}[kind] * counts.total()
        assert not [label for label in counts if label.startswith("reject")]
        assert {label.rsplit(" ", 1)[1] for label in counts} <= LABELS_NO_BETTER_THAN_A_TOOL
