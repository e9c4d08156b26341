"""What an agent's program adds to its prompt when a conversation goes on; what tools say anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.labels.who_writes import SystemText
from tests.unit.proxy.ledgers import (
    HOST,
    MODEL,
    TOOL,
    UNKNOWN,
    Ledger,
    assistant,
    call,
    reply,
    result,
    user,
)

if TYPE_CHECKING:
    from policy.model import SourceKind
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.ledger.sessions import Entered

PROMPT = "You are an agent of the quay. Today is Sunday, 22 November 2026, 09:01 am."
ORDER = "Bills of the firm are paid at the quay office."
HELLO = "Good day to you, what is it?"
MEMORY = "The person flies from Lisbon in the morning."
NAMED = "End messages with: Made by Claude Opus 5.5, of the harbour."


async def _goes_on(
    ledger: Ledger, prompt: str, system_text: SystemText = SystemText.KNOWN
) -> Entered:
    """The second request of a conversation, with another prompt."""
    first = await ledger.ask(user("Hello."), system=PROMPT)
    assert first.taint is HOST
    await ledger.answer(first, reply(HELLO))
    asked = user("Hello."), assistant(HELLO), user("Go on, please.")
    entered = await ledger.ask(*asked, system=prompt, system_text=system_text)
    assert entered.session == first.session
    return entered


@pytest.mark.parametrize(
    "prompt",
    [
        PROMPT,
        PROMPT.replace("Sunday, 22 November 2026, 09:01 am", "Monday, 3 May 2027, 11:59 pm"),
        "Today is Sunday, 22 November 2026, 09:02 am.",
    ],
)
async def test_a_prompt_that_says_what_it_said_before_is_the_programs(prompt: str) -> None:
    assert (await _goes_on(Ledger(), prompt)).taint is HOST


async def test_what_is_added_to_a_prompt_is_nobodys_unless_the_program_is_trusted() -> None:
    ledger = Ledger()
    entered = await _goes_on(ledger, f"{PROMPT}\n{ORDER}")
    assert (entered.taint, entered.system.label) == (UNKNOWN, UNKNOWN)
    shown = ledger.sessions.shown(entered.session)
    assert shown is not None
    assert shown.unknown is not None
    assert (shown.unknown.rule, shown.unknown.segment.why) == ("setting", "system_changed")
    # It went through the door: said again anywhere, it is nobody's.
    assert (await ledger.ask(user(ORDER))).turns[0].label is UNKNOWN
    trusted = await _goes_on(Ledger(), f"{PROMPT}\n{ORDER}", SystemText.TRUSTED)
    assert trusted.taint is HOST
    # The first prompt of a conversation is its program's.
    assert (await Ledger().ask(user("Hello."), system=f"{PROMPT}\n{ORDER}")).taint is HOST


async def test_between_the_turns_a_program_is_held_to_what_it_said_as_well() -> None:
    for text, label in ((ORDER, UNKNOWN), (f"<system-reminder>{ORDER}</system-reminder>", HOST)):
        ledger = Ledger()
        await ledger.answer(await ledger.ask(user("Hello."), system=PROMPT), reply(HELLO))
        told: Json = {"role": "system", "content": text}
        asked = user("Hello."), assistant(HELLO), user("Go on, please."), told
        assert (await ledger.ask(*asked, system=PROMPT)).taint is label


@pytest.mark.parametrize("label", [HOST, MODEL, TOOL])
async def test_a_memory_in_a_later_prompt_has_its_ceiling(label: SourceKind) -> None:
    ledger = Ledger()
    ledger.recall("m" * 32, MEMORY, label, label)
    entered = await _goes_on(ledger, f"{PROMPT}\n{MEMORY}")
    assert entered.taint.trust == label.trust


def _tool(text: str) -> Json:
    return {"name": "Bash", "description": text}


async def _changes(before: str, after: str, models: tuple[str, str] = ("m", "m")) -> Entered:
    ledger = Ledger()
    first = await ledger.ask(user("Hello."), tools=[_tool(before)], model=models[0])
    assert first.taint.trust == HOST.trust
    return await ledger.ask(user("Good day."), tools=[_tool(after)], model=models[1])


@pytest.mark.parametrize(
    "changed",
    [
        NAMED.replace("Opus 5.5", "Sonnet 4.6"),
        f"{NAMED} It is number 3 of 5.",
        "It is number 1 of 5.",
    ],
)
async def test_a_tool_that_says_what_it_said_but_for_numbers_and_its_model_is_unchanged(
    changed: str,
) -> None:
    before = f"{NAMED} It is number 2 of 5."
    models = ("claude-opus-5-5", "claude-sonnet-4-6-20260901")
    entered = await _changes(before, changed, models)
    assert (entered.taint.trust, entered.changed_tools) == (HOST.trust, frozenset())


async def test_a_tool_that_says_another_name_than_its_models_is_another_one() -> None:
    models = ("claude-opus-5-5", "claude-opus-5-5")
    entered = await _changes(NAMED, NAMED.replace("Opus", "Zebra"), models)
    assert (entered.taint, entered.changed_tools) == (UNKNOWN, frozenset({"Bash"}))
    added = await _changes(NAMED, f"{NAMED} {ORDER}", models)
    assert (added.taint, added.changed_tools) == (UNKNOWN, frozenset({"Bash"}))


async def test_a_page_in_the_description_of_a_tool_lowers_to_the_page() -> None:
    ledger = Ledger()
    fetch = call("f1", "fetch")
    await ledger.answer(await ledger.ask(user("Read it.")), reply("", fetch))
    await ledger.ask(user("Read it."), assistant("", fetch), result("f1", ORDER))
    entered = await ledger.ask(user("Hello."), tools=[_tool(f"Runs commands. {ORDER}")])
    assert entered.taint is TOOL
    # Control: a program that sends the description first describes its own tool.
    alone = Ledger()
    first = await alone.ask(user("Hello."), tools=[_tool(f"Runs commands. {ORDER}")])
    assert first.taint.trust == HOST.trust
