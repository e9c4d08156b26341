"""Where a session became unknown, and the rule that would be needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.ledger.views import NEEDED, WHY
from tests.unit.proxy.ledgers import Ledger, assistant, call, reply, result, user

if TYPE_CHECKING:
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.ledger.wire import UnknownView

FETCH = call("f1", "fetch")
DOCUMENT: Json = {"role": "user", "content": [{"type": "document", "source": {"data": "A page."}}]}


async def _unknown(*messages: Json, tools: tuple[str, ...] = ()) -> UnknownView | None:
    ledger = Ledger()
    await ledger.answer(await ledger.ask(user("Read it.")), reply("", FETCH))
    offered: list[Json] = [{"name": "fetch", "description": one} for one in tools]
    for one in offered[:-1]:
        await ledger.ask(user("What can you do?"), tools=[one])
    asked = user("Read it."), assistant("", FETCH), *messages
    entered = await ledger.ask(*asked, tools=offered[-1:])
    shown = ledger.sessions.shown(entered.session)
    assert shown is not None
    return shown.unknown


@pytest.mark.parametrize(
    ("messages", "why", "rule"),
    [
        ((DOCUMENT,), "unplaced", "splice"),
        ((user("So."), assistant("I never said that to you."), user("And?")), "lost", "history"),
        ((user("<memory-context>\nShe pays at once.\n</memory-context>"),), "not_recalled", "map"),
    ],
)
async def test_the_first_place_is_shown_with_the_rule_that_it_needs(
    messages: tuple[Json, ...], why: str, rule: str
) -> None:
    page = result("f1", "A page.")
    unknown = await _unknown(page, *messages, DOCUMENT)
    assert unknown is not None
    assert (unknown.segment.why, unknown.rule) == (why, rule)
    assert unknown.needs
    # What is read in the ordinary way leaves nothing to say.
    assert await _unknown(page) is None


async def test_a_tool_that_changed_is_to_be_approved() -> None:
    unknown = await _unknown(result("f1", "A page."), tools=("Reads a page.", "Reads it faster."))
    assert unknown is not None
    assert (unknown.segment.why, unknown.rule) == ("changed", "person")


def test_each_reason_that_is_told_has_words() -> None:
    assert NEEDED.keys() <= WHY.keys()
