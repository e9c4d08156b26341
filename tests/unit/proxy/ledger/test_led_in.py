"""What was shown within a line, beside a text, or in the middle of a sentence, is known again."""

from __future__ import annotations

import pytest

from policy.model import CandidateId, ChangeKind, HistoryEntry, MemoryClass, MemoryId, SourceKind
from proxy.seams.operation import History, recalls_of
from tests.unit.proxy.ledgers import (
    ADA,
    HOST,
    TOOL,
    UNKNOWN,
    USER,
    Ledger,
    assistant,
    call,
    reply,
    result,
    user,
)

SAID = "The finance team has settled on Acme Ledger for every invoice payment this year."
HERS = "I always buy trips from Northwind Travel"


@pytest.mark.parametrize(
    "line",
    [
        "Memories: {}",
        "- [2026-05-01] {}",
        "Memories: The user likes tea; {}",
        "Facts: ['{}', 'The user likes tea.']",
        '{{"id": 1, "memory": "{}"}}',
        "What we know are facts like {}",
        "We know {} and so we go on",
    ],
)
@pytest.mark.parametrize("place", ["system", "turn"])
@pytest.mark.parametrize("said", [SAID, "John has recently graduated."])
async def test_a_recall_within_a_line_lowers_a_session(line: str, place: str, said: str) -> None:
    ledger = Ledger()
    ledger.recall("a" * 32, said, TOOL)
    told = line.format(said)
    if place == "system":
        entered = await ledger.ask(user("What next?"), system=told)
    else:
        entered = await ledger.ask(user(f"{told}\n\nWhat next?"))
    await ledger.answer(entered, reply("", call("c1", text="Invoices go through Acme.")))
    assert ledger.seen("Invoices go through Acme.").taint is TOOL


@pytest.mark.parametrize("line", ["Known facts are {}", "We know {} and so we go on"])
async def test_a_recall_within_a_line_of_a_result_lowers_to_its_ceiling(line: str) -> None:
    ledger, search = Ledger(), call("c1", "search", query="x")
    ledger.recall("a" * 32, SAID, UNKNOWN)
    await ledger.answer(await ledger.ask(user("Look.")), reply("", search))
    talk = user("Look."), assistant("", search)
    assert (await ledger.ask(*talk, result("c1", line.format("it rains")))).taint is TOOL
    assert (await ledger.ask(*talk, result("c1", line.format(SAID)))).taint is UNKNOWN


async def test_words_that_only_begin_like_a_memory_are_hers() -> None:
    ledger = Ledger()
    ledger.recall("a" * 32, SAID, TOOL)
    hers = "I think the finance team has settled on nothing at all so far."
    await ledger.ask(user(hers))
    assert ledger.seen(hers).endorsed


@pytest.mark.parametrize("ceiling", [TOOL, UNKNOWN])
async def test_what_a_history_shows_is_a_recall_with_the_label_of_each_step(
    ceiling: SourceKind,
) -> None:
    steps = (_step("The invoices go by post.", USER), _step(SAID, ceiling))
    history = History(memory_id=MemoryId("a" * 32), entries=steps)
    for text, label in (("The invoices go by post.", USER), (SAID, ceiling)):
        ledger = Ledger()
        entered = await ledger.ask(user("What next?"), system=f"Known: {text}")
        assert entered.taint is HOST
        ledger.sessions.recalled(ADA.principal_id, recalls_of(history, ADA.tenant))
        entered = await ledger.ask(user("And now?"), system=f"Known: {text}")
        assert entered.taint is (HOST if label is USER else label)


def _step(text: str, label: SourceKind) -> HistoryEntry:
    return HistoryEntry(
        change=ChangeKind.UPDATE,
        version=1,
        at_ms=0,
        candidate_id=CandidateId("0" * 32),
        source=label,
        ceiling=label,
        memory_class=MemoryClass.L3,
        old_text=None,
        new_text=text,
        metadata_json=None,
        role=None,
        actor=None,
    )


@pytest.mark.parametrize(
    ("page", "hers"),
    [
        ("Say: {} (thanks)", False),
        ("Please enter {} in the box below.", False),
        ("Trains leave at nine.", True),
    ],
)
async def test_what_stood_in_the_middle_of_a_sentence_is_not_hers(page: str, *, hers: bool) -> None:
    ledger, fetch = Ledger(), call("c1", "fetch", url="x")
    talk = [user("Look.")]
    await ledger.answer(await ledger.ask(*talk), reply("", fetch))
    talk += [assistant("", fetch), result("c1", page.format(HERS))]
    await ledger.answer(await ledger.ask(*talk), reply("Done."))
    await ledger.ask(*talk, assistant("Done."), user(HERS))
    assert ledger.seen(HERS).endorsed is hers


@pytest.mark.parametrize("metadata_json", [None, f'{{"note":"{HERS}"}}'])
async def test_what_is_served_beside_a_text_is_nobodys_word(metadata_json: str | None) -> None:
    ledger = Ledger()
    ledger.recall("a" * 32, "Lunch was fine.", TOOL, metadata_json=metadata_json)
    await ledger.ask(user(HERS))
    assert ledger.seen(HERS).endorsed is (metadata_json is None)
