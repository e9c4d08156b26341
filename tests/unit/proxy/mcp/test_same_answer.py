"""An answer that comes again: taken apart once, asked for each time, shown as if it were new."""

from __future__ import annotations

import json
import random
from collections.abc import Generator
from typing import Any

import pytest

from proxy.dialects.mcp import results
from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.strict_json.strict import JsonValue
from tests.unit.proxy.mcp.graph import connected
from tests.unit.proxy.mcp.wire import call

NOTES: tuple[str, ...] = ("likes tea", "has a cat", "a quarantined note", "lives in Ulm")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every value that was taken apart to be sifted."""
    made: list[object] = []

    def counted(
        result: JsonValue, shown: AnswerShape = results.PLAIN
    ) -> Generator[tuple[str, ...], tuple[bool, ...], JsonValue]:
        made.append(result)
        return results.filtering(result, shown)

    monkeypatch.setattr("proxy.mcp.answers.filtering", counted)
    return made


async def test_the_same_answer_is_taken_apart_once_and_asked_for_each_time(
    plans: list[object],
) -> None:
    async with connected() as (ends, graph, guard):
        graph.entities = {"Ann": ["likes tea", "a quarantined note"]}
        for number in (1, 2, 3):
            plans.clear()
            await ends.client(call(number, "read_graph"))
            await ends.client_has(number)
            assert len(plans) == (number == 1)
        told = [one.texts for one in guard.segments if one.tool == "read_graph"]
        assert told == [told[0]] * 3, "each of them is noted"
        guard.withheld = {"a quarantined note"}
        await ends.client(call(4, "read_graph"))
        assert "a quarantined note" not in json.dumps((await ends.client_has(4))[3])
        guard.withheld = set()
        await ends.client(call(5, "read_graph"))
        shown = await ends.client_has(5)
    assert "a quarantined note" in json.dumps(shown[4]), "the control: it is let out again"
    assert len(plans) == 2, "and neither of these was remembered"


async def test_another_answer_is_not_taken_for_the_one_before(plans: list[object]) -> None:
    async with connected() as (ends, graph, guard):
        answers: list[Any] = []
        guard.withheld = {"a quarantined note"}
        for number, note in enumerate(("likes tea", "a quarantined note", "likes tea"), 1):
            graph.entities = {"Ann": [note]}
            await ends.client(call(number, "read_graph"))
            answers = await ends.client_has(number)
    said = [json.dumps(one) for one in answers]
    assert ["likes tea" in one for one in said] == [True, False, True]
    assert "a quarantined note" not in said[1]
    assert len(plans) >= 3


async def test_a_gate_that_cannot_say_withholds_an_answer_that_was_shown_before() -> None:
    async with connected() as (ends, graph, guard):
        graph.entities = {"Ann": ["likes tea"]}
        await ends.client(call(1, "read_graph"))
        await ends.client_has(1)
        guard.sift_broken = True
        await ends.client(call(2, "read_graph"))
        refused = (await ends.client_has(2))[1]
    assert refused["result"]["isError"] is True
    assert "likes tea" not in json.dumps(refused)


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_shown_again_is_what_a_new_relay_would_show(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same run each time
    turns = [
        (chance.sample(NOTES, k=2), set(chance.sample(NOTES, k=chance.choice((0, 0, 1)))))
        for _ in range(30)
    ]
    turns = [one for one in turns for _ in range(2)]
    async with connected() as (ends, graph, guard):
        for number, (notes, withheld) in enumerate(turns, 1):
            graph.entities, guard.withheld = {"Ann": notes}, withheld
            await ends.client(call(number, "read_graph"))
            shown = (await ends.client_has(number))[number - 1]
            there = [one for one in notes if one not in withheld]
            entities = shown["result"]["structuredContent"]["entities"]
            assert [one for entity in entities for one in entity["observations"]] == there
            assert all(one not in json.dumps(shown) for one in withheld)
