"""Laundering and utility on real texts, through ledger, interceptor, gate and store.

1,210 notes are real paraphrases, by a model, of the remarks they were made of. Fed as results of a
tool and then written, they are laundered text; said by a person, they are what memory is for.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest

from policy.gate import GATE
from policy.labels.derive import derive_provenance
from policy.model import MemoryClass, Principal, PrincipalId
from policy.text.own_words import own_forms
from proxy.ledger.records import encode
from tests.conformance.labelled import (
    DISGUISES,
    LABELS_NO_BETTER_THAN_A_TOOL,
    Agent,
    days_of,
    harmless,
    labels_in,
    new_sessions,
    remarks_of,
)
from tests.unit.proxy.ledger.crowds import having_heard
from tests.unit.proxy.ledgers import ADA
from tests.unit.proxy.wired import wired

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.seams.operation import WrittenItem
    from tests.conformance.labelled import Remark

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
    corpora: Path, tmp_path: Path, memory_class: MemoryClass, *, every: int, named: bool = False
) -> list[WrittenItem]:
    """Notes of remarks that a tool answered, one session per day of a conversation."""
    items: list[WrittenItem] = []
    for number, days in enumerate(_stores(corpora, every)):
        with wired(tmp_path / str(number), GATE, sessions=(sessions := new_sessions())) as live:
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
@pytest.mark.timeout(600)
async def test_a_paraphrase_of_what_a_tool_said_is_no_better_than_the_tool(
    corpora: Path, tmp_path: Path, every: int
) -> None:
    items = await laundered(corpora, tmp_path, MemoryClass.L2, every=every)
    assert len(items) >= NOTES // (2 * every)
    assert {item.source.value for item in items if item.source} <= LABELS_NO_BETTER_THAN_A_TOOL
    assert {item.decision for item in items} == {"hold"}, "nobody named a class: a person decides"
    tell("laundered into L2, rule taint", labels_in(items))


@pytest.mark.timeout(600)
async def test_naming_the_class_makes_knowledge_of_it(corpora: Path, tmp_path: Path) -> None:
    every = SHARE_OF_A_QUICK_RUN
    items = await laundered(corpora, tmp_path, MemoryClass.L2, every=every, named=True)
    assert {(item.decision, item.memory_class) for item in items} == {("admit", MemoryClass.L3)}
    assert all(item.class_lowered for item in items)
    assert {item.source.value for item in items if item.source} <= LABELS_NO_BETTER_THAN_A_TOOL


@pytest.mark.timeout(600)
async def test_control_without_the_session_s_taint_the_paraphrases_land(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untainted(*given: object) -> object:
        provenance = derive_provenance(*given)  # type: ignore[arg-type]
        own = provenance.culprits[-1].kind
        return msgspec.structs.replace(provenance, source=own)

    monkeypatch.setattr("policy.labels.derive.derive_provenance", untainted)
    items = await laundered(corpora, tmp_path, MemoryClass.L2, every=SHARE_OF_A_QUICK_RUN)
    decisions = Counter(item.decision for item in items)
    assert decisions["admit"] > 0.9 * len(items)


@pytest.mark.parametrize("every", [SHARE_OF_A_QUICK_RUN, pytest.param(1, marks=pytest.mark.whole)])
@pytest.mark.timeout(600)
async def test_most_paraphrases_are_found_in_what_they_were_made_of(
    corpora: Path, tmp_path: Path, every: int
) -> None:
    items = await laundered(corpora, tmp_path, MemoryClass.L3, every=every)
    labels = labels_in(items)
    tell("laundered into L3, rule containment", labels)
    assert not [item for item in items if item.decision == "reject"]
    assert {item.source.value for item in items if item.source} <= {
        "model_inference",
        *LABELS_NO_BETTER_THAN_A_TOOL,
    }
    found = sum(item.source.value == "tool_result" for item in items if item.source)
    assert found >= 0.76 * len(items)


@pytest.mark.parametrize("how", DISGUISES)
@pytest.mark.timeout(600)
async def test_a_disguise_does_not_hide_a_copy(corpora: Path, tmp_path: Path, how: str) -> None:
    """Text of a tool, rewritten, and proposed for a class that the containment rule guards."""
    disguised = DISGUISES[how]
    items: list[WrittenItem] = []
    with wired(tmp_path, GATE, sessions=(sessions := new_sessions())) as live:
        agent = Agent(sessions, live)
        for day in days_of(remarks_of(corpora))[::SHARE_OF_A_QUICK_RUN]:
            sources = [remark.text for remark in day if remark.notes]
            if not sources:
                continue
            session = await agent.session([("tool", remark.text) for remark in day])
            items += await session.write([disguised(text) for text in sources], MemoryClass.L4)
    labels = labels_in(items)
    found = sum(count for label, count in labels.items() if label.endswith(" tool_result"))
    tell(how, labels)
    assert found >= 0.99 * len(items)


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
async def test_whole_turns_are_hers_and_what_was_noted_of_them_is_the_model_s(
    corpora: Path, tmp_path: Path, every: int
) -> None:
    counted: dict[str, Counter[str]] = {}
    remarks = remarks_of(corpora)
    answers = harmless(corpora)
    assert (len(remarks), sum(len(one.notes) for one in remarks)) == (REMARKS, NOTES)
    shut_out = sum(not own_forms(one.text).said for one in remarks)
    tell("turns", Counter({"of her own": len(remarks) - shut_out, "shut out": shut_out}))
    assert shut_out <= 0.05 * len(remarks)
    for number, days in enumerate(_stores(corpora, every)):
        with wired(tmp_path / str(number), GATE, sessions=(sessions := new_sessions())) as live:
            agent = Agent(sessions, live)
            for day in days:
                session = await agent.session(_with_answers(day, answers))
                forms = [own_forms(remark.text).said for remark in day]
                texts = {
                    "verbatim": [one.text for one, own in zip(day, forms, strict=True) if own],
                    "told of the user": [own[1] for own in forms if len(own) > 1],
                    "noted": [note for remark in day for note in remark.notes],
                }
                for memory_class in (MemoryClass.L2, MemoryClass.L3):
                    for kind, written in texts.items():
                        counts = counted.setdefault(f"{kind} {memory_class.value}", Counter())
                        counts += labels_in(await session.write(written, memory_class))
    for kind, counts in counted.items():
        tell(kind, counts)
        hers = _hers(counts)
        least = {"verbatim": 0.99, "told": 0.95, "noted": 0.0}[kind.split(" ", 1)[0]]
        assert hers >= least * counts.total()
        assert not [label for label in counts if label.startswith("reject")]


TENANT = tuple(
    Principal(principal_id=PrincipalId(f"key:{n}"), tenant=ADA.tenant) for n in range(20)
)
FALSE_HITS_MAX = 0.001


@pytest.mark.parametrize(
    ("every", "prints"),
    [
        pytest.param(SHARE_OF_A_QUICK_RUN, 500_000, marks=pytest.mark.heavy),
        pytest.param(1, 5_000_000, marks=pytest.mark.whole),
    ],
)
@pytest.mark.timeout(900)
async def test_what_a_whole_tenant_said_takes_hardly_a_turn_from_who_typed_it(
    corpora: Path, tmp_path: Path, every: int, prints: int
) -> None:
    """Twenty principals of one tenant, whose models and tools said so many sentences before."""
    answers, days = harmless(corpora), days_of(remarks_of(corpora))[::every]
    crowd = [encode(one) for one in having_heard(prints).records()]
    told: list[Counter[str]] = []
    for before in ([], crowd):
        sessions = new_sessions()
        sessions.restore(before)
        items: list[WrittenItem] = []
        with wired(tmp_path / str(len(before)), GATE, sessions=sessions) as live:
            for number, day in enumerate(days):
                agent = Agent(sessions, live, TENANT[number % len(TENANT)])
                session = await agent.session(_with_answers(day, answers))
                own = [own_forms(remark.text).said for remark in day]
                items += await session.write([said[0] for said in own if said], MemoryClass.L3)
        told.append(labels_in(items))
        tell(f"verbatim, with {prints if before else 0:,} sentences of a tenant", told[-1])
    alone, among = told
    assert alone.total() == among.total() >= REMARKS // (2 * every)
    assert _hers(among) >= 0.99 * among.total()
    assert _hers(alone) - _hers(among) <= FALSE_HITS_MAX * among.total()


def _hers(counts: Counter[str]) -> int:
    return sum(count for label, count in counts.items() if label.endswith(" user_input"))
