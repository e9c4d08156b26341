"""Inputs far larger than anything typed or recalled are answered in bounded time and space."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import TYPE_CHECKING, Final

import pytest

from proxy.ledger.hearsay import CAPACITIES, DAILY_MAX, FLOOD_CAPACITIES, Hearsay
from proxy.ledger.ring import PRINTS_MAX
from tests.unit.proxy.ledgers import TOOL, USER, Ledger, assistant, call, reply, result, user

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH: Final = 600_000
PLAIN: Final = "The ship with number {} leaves for the north at noon. "
TURNS: Final[dict[str, Callable[[], str]]] = {
    "sentences": lambda: "".join(PLAIN.format(at) for at in range(LENGTH // 54)),
    "one sentence": lambda: "the ship leaves " * (LENGTH // 16),
    "no words": lambda: ".:-" * (LENGTH // 3),
    "one word": lambda: "x" * LENGTH,
    "base64": lambda: b64encode(bytes(range(256)) * (LENGTH * 3 // 4 // 256)).decode(),
    "lines": lambda: "- a: b\n" * (LENGTH // 7),
}


@pytest.mark.parametrize("turn", TURNS)
async def test_a_turn_of_600_kb_is_read_and_what_is_kept_of_it_is_bounded(turn: str) -> None:
    ledger, text = Ledger(), TURNS[turn]()
    assert len(text) > LENGTH * 0.95
    entered = await ledger.ask(user(text))
    assert ledger.sessions.print_count <= PRINTS_MAX
    # Control: what comes after it is read as ever.
    await ledger.answer(entered, reply("I read it."))
    later = await ledger.ask(user(text), assistant("I read it."), user("I live in Lisbon."))
    assert later.turns[-1].label is USER


async def test_a_turn_of_600_kb_that_begins_like_a_memory_everywhere_is_read_in_time() -> None:
    ledger = Ledger()
    ledger.recall("a" * 32, "The ship leaves at noon.", TOOL)
    ledger.recall("b" * 32, "Ship leaves the quay.", TOOL)
    # Control: a few such beginnings say nothing.
    few = await ledger.ask(user("the ship leaves " * 9))
    assert few.turns[-1].label is USER
    assert (await ledger.ask(user("the ship leaves " * (LENGTH // 16)))).taint is TOOL


@pytest.mark.heavy
async def test_a_recall_of_ten_thousand_memories_is_bounded_and_known() -> None:
    ledger, search = Ledger(), call("c1", "search", query="ships")
    texts = [PLAIN.format(at).strip() for at in range(10_000)]
    for at, text in enumerate(texts):
        ledger.recall(f"{at:032x}", text, TOOL)
    await ledger.answer(await ledger.ask(user("Look.")), reply("", search))
    asked = user("Look."), assistant("", search), result("c1", "\n".join(texts))
    assert (await ledger.ask(*asked)).taint is TOOL
    assert ledger.sessions.print_count <= PRINTS_MAX
    # The first and the last are still known.
    for text in (texts[0], texts[-1]):
        assert (await ledger.ask(user("Hello."), system=f"Known: {text}")).taint is TOOL


@pytest.mark.heavy
def test_a_million_prints_in_an_hour_are_kept_in_as_much_room_as_ever() -> None:
    heard = Hearsay()
    dice = random.Random(7)  # noqa: S311 - the same in every run
    before = [dice.getrandbits(64) for _ in range(1_000)]
    heard.share("harbour", "grace", 1, before, 1)
    for minute in range(60):
        said = (dice.getrandbits(64) for _ in range(17_000))
        heard.share("harbour", "ada", 1, said, 1 + minute * 60_000)
    assert heard.flooding == ("ada",)
    # The room of a young and an old filter of each kind, three bytes for each entry.
    most = 2 * 3 * (sum(CAPACITIES) + sum(FLOOD_CAPACITIES))
    assert sum(len(record.bits) for record in heard.records()) <= most
    assert DAILY_MAX < 1_000_000
    # Control: what a quiet principal said before is still told.
    assert all(heard.trust("harbour", "bea", one) == 1 for one in before)
