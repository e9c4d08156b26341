"""What was shown within a line, beside a text, or in the middle of a sentence, is known again."""

from __future__ import annotations

import pytest

from tests.unit.proxy.ledgers import TOOL, Ledger, assistant, call, reply, result, user

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
