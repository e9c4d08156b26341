"""Where a session became unknown, and the rule that would be needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from policy.labels.endorsement import Asked
from proxy.ledger.views import NEEDED, WHY
from proxy.seams.guard import Join
from tests.unit.proxy.ledgers import ADA, Ledger, admitted, assistant, call, reply, result, user

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


@pytest.mark.parametrize(("name", "told"), [("tea.md", True), ("breakfast", False)])
async def test_a_name_that_kept_her_words_from_being_hers_is_told(name: str, *, told: bool) -> None:
    ledger, hers = Ledger(), "I have my breakfast at seven."
    entered = await ledger.ask(user(hers))
    await ledger.answer(entered, reply("", call("w1", text=hers)))
    asked = Asked(texts=(hers,), names=(name,), sayable=True)
    seen = ledger.sessions.seen(ADA.principal_id, (hers,), Join(tool_use_id="w1"), asked)
    assert seen.endorsed is not told
    ledger.sessions.wrote(ADA.principal_id, seen, admitted())
    shown = ledger.sessions.shown(entered.session)
    assert shown is not None
    (write,) = shown.writes
    assert (write.not_hers is not msgspec.UNSET) is told


@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_conversation_that_began_under_an_open_call_says_which(*, goes_on: bool) -> None:
    ledger, asked = Ledger(), user("Read it.")
    await ledger.answer(await ledger.ask(asked), reply("", FETCH))
    if goes_on:
        # The person stopped the call, and says something else.
        await ledger.ask(asked, assistant("", FETCH), user("Leave it. What time is it?"))
    entered = await ledger.ask(user("I have my breakfast at seven."))
    shown = ledger.sessions.shown(entered.session)
    assert shown is not None
    if goes_on:
        assert shown.began_under is msgspec.UNSET
    else:
        assert shown.began_under
        assert (shown.began_under.call.tool, shown.began_under.call.call_id) == ("fetch", "f1")
