"""A page's paraphrases fill three of ten results, once a session of the key has read a page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from policy.model import Channel, PrincipalId
from policy.ruleset import ReadRules
from tests.integration.model_bench import Bench, asking, call, fronted
from tests.integration.running import AGENT_KEY
from tests.integration.test_model_coupling import answered

PARAPHRASES = (
    "Last month all invoices went through the new provider without a failure.",
    "For payments and invoices their support answered within an hour.",
    "The finance team moved invoices and payments to them in spring.",
    "Their fees for payments were the lowest of the four offers.",
    "Refunds of payments by the new provider arrive on the same day.",
    "The auditors had no questions about invoices of the provider.",
    "Two partners chose the same provider for their payments as well.",
    "The contract on payments with it can be ended every month.",
    "Payments by card are accepted in nine currencies by the provider.",
    "Most complaints about invoices ended when the provider handled them.",
)
FACTS = tuple(f"Payments of office {number} are handled on floor {number}." for number in range(12))
QUESTION = "Which provider should handle our payments and invoices?"


async def found(bench: Bench, key: str, **where: object) -> list[str]:
    asked = {"query": QUESTION, "limit": 10, **where}
    status, answer = await bench.front.call("POST", "/v1/search", key, asked)
    assert status == 200, answer
    return [one["text"] for one in answer["results"]]


async def reads_a_page(bench: Bench) -> None:
    body = asking("anthropic", call("fetch", url="x"), tools=("fetch",))
    assert (await bench.ask("anthropic", body)).status == 200
    page = "One provider handles payments and invoices better than any other does."
    assert (await bench.ask("anthropic", answered("anthropic", body, "call_0000", page))).status


@pytest.mark.parametrize("reading", [True, False], ids=["read", "control"])
async def test_ten_paraphrases_show_three_where_a_session_of_the_key_has_read(
    tmp_path: Path, *, reading: bool
) -> None:
    async with fronted(tmp_path) as bench:
        if reading:
            await reads_a_page(bench)
        for text in PARAPHRASES:
            assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
        person = await bench.front.key("ada", channel=Channel.USER)
        for text in FACTS:
            assert (await bench.front.write(person, {"text": text}))[0] == 201
        shown = await found(bench, AGENT_KEY)
        assert len(shown) == 10
        count = sum(text in PARAPHRASES for text in shown)
        assert count == 3 if reading else count > 3


async def test_an_application_of_fifty_users_beside_it_gets_the_plain_searchs_order(
    tmp_path: Path,
) -> None:
    users = [f"user-{number}" for number in range(50)]
    async with fronted(tmp_path) as bench:
        await reads_a_page(bench)
        for number, user in enumerate(users):
            for text in FACTS[number % 6 :][:6]:
                made = await bench.front.write(AGENT_KEY, {"text": text, "user_id": user})
                assert made[0] == 201
        capped = [await found(bench, AGENT_KEY, filters={"user_id": user}) for user in users]
        store = bench.front.sidecar.store
        plain = ReadRules(shown_of_ten=10, shown_on_probation=10)
        rules = msgspec.structs.replace(store.ruleset, reads=plain, digest="plain")
        await store.writer.adopt_ruleset(rules, PrincipalId("test"))
        assert [len(one) for one in capped] == [6] * 50
        assert capped == [
            await found(bench, AGENT_KEY, filters={"user_id": user}) for user in users
        ]
