"""A long text is cut once while its request is read, and nothing of it is kept behind that."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from proxy.ledger import once
from proxy.ledger.once import KEPT_MAX, LONG, Once
from tests.unit.proxy.ledgers import Ledger, call, reply, result, user

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.dialects.strict_json.tolerant import Json

LINES = " ".join(f"{at}: The garden by the river was quiet that evening." for at in range(200))
PARAGRAPHS = f"{LINES}\n\n{LINES.upper()}"


class Counting:
    """A function of one text, and how often it was asked for each that is long."""

    def __init__(self, call: Callable[[str], tuple[str, ...]]) -> None:
        self.call = call
        self.asked: Counter[str] = Counter()

    def __call__(self, text: str) -> tuple[str, ...]:
        if len(text) >= LONG:
            self.asked[text] += 1
        return self.call(text)


async def read(ledger: Ledger, said: list[Json]) -> object:
    entered = await ledger.ask(user("Look."))
    await ledger.answer(entered, reply("", call("c1", "fetch", url="x")))
    entered = await ledger.ask(user("Look."), *said)
    return entered.taint, [turn.label for turn in entered.turns]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sentences_between", [user(LINES)]),
        ("sentences_between", [user(PARAGRAPHS)]),
        ("sentences_between", [user(LINES), user(LINES + " ")]),
        ("all_readings", [result("c1", LINES)]),
    ],
    ids=["typed", "paragraphs", "twice", "result"],
)
async def test_no_long_text_is_cut_twice_for_one_request(
    name: str, said: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await read(Ledger(), said)
    counted = Counting(getattr(once, name))
    monkeypatch.setattr(once, name, counted)
    assert await read(Ledger(), said) == expected
    assert counted.asked
    assert set(counted.asked.values()) == {1}
    # Control: without it, the same text is cut for each who asks.
    plain = Counting(counted.call)
    monkeypatch.setattr(once, name, plain)
    monkeypatch.setattr(once, "LONG", len(PARAGRAPHS) + 1)
    assert await read(Ledger(), said) == expected
    assert max(plain.asked.values()) > 1


def test_nothing_is_remembered_outside_of_it_and_little_within(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Counting(lambda text: (text,))
    monkeypatch.setattr(once, "sentences_between", asked)
    memo, texts = Once(), [f"{at}{'x' * LONG}" for at in range(KEPT_MAX + 1)]
    with memo:
        for text in (*texts, texts[-1], texts[0]):
            assert memo.sentences(text) == (text,)
    assert asked.asked[texts[-1]] == 1
    assert asked.asked[texts[0]] == 2, "it made room"
    for _ in range(2):
        memo.sentences(texts[1])
    assert asked.asked[texts[1]] == 3
