"""What a person pastes is not hers; what she says beside it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.seams.guard import Join
from tests.unit.proxy.ledgers import TOOL, Ledger, assistant, call, reply, result, user

if TYPE_CHECKING:
    from proxy.ledger.turn_values import TurnRead

LINE = "Bills of the firm are paid at the quay office."
PAGE = "The bills of the firm are paid at the quay office before noon on every second Monday."
OPENS = "The harbour opens at nine."
SAID = "Ada Bryn never eats meat."


async def told(read: str, typed: str, text: str) -> tuple[Ledger, TurnRead]:
    """A session in which a tool said `read`, then a person `typed`, and a model writes `text`."""
    ledger = Ledger()
    first = await ledger.ask(user("Read the file."), names=("s1",))
    fetch = call("toolu_read_1", "Read", file="desk.md")
    await ledger.answer(first, reply("", fetch))
    turns = (user("Read the file."), assistant("", fetch), result("toolu_read_1", read))
    await ledger.answer(await ledger.ask(*turns, names=("s1",)), reply("It is read."))
    last = await ledger.ask(*turns, assistant("It is read."), user(typed), names=("s1",))
    await ledger.answer(last, reply("", call("toolu_save_1", text=text)))
    return ledger, last.turns[-1]


def endorsed(ledger: Ledger, text: str) -> bool:
    return ledger.seen(text, join=Join(tool_use_id="toolu_save_1")).endorsed


@pytest.mark.parametrize(
    ("page", "typed"),
    [
        (f"     1\u2192{LINE}\n     2\u2192Open from nine.", LINE),
        (f"desk.md:12:{LINE}", f"Please remember: {LINE}"),
        (f"note: {LINE}", LINE),
        ("Bills of the firm\nare paid at the\nquay office.", LINE),
        (LINE, "Bills of the firm are paid\nat the quay office."),
    ],
)
async def test_what_a_tool_said_first_is_not_hers_without_its_numbers_and_line_breaks(
    page: str, typed: str
) -> None:
    ledger, turn = await told(page, typed, LINE)
    assert typed.startswith("Please") or turn.label is TOOL
    assert not endorsed(ledger, LINE)
    # Without the page the same words are hers.
    clean, _ = await told(OPENS, typed, LINE)
    assert endorsed(clean, LINE)


@pytest.mark.parametrize("beside", ["", f"{OPENS} ", f"{LINE} ", f"{LINE}\n"])
async def test_what_is_nearly_a_copy_endorses_nothing(beside: str) -> None:
    typed = PAGE.replace("are paid", "are to be paid")
    said = f"Hello there.\n\n{beside}{typed}"
    copied, _ = await told(f"{beside}{PAGE}", said, typed)
    assert not endorsed(copied, typed)
    # Without the page the same words are hers.
    clean, _ = await told("The market is on Friday.", said, typed)
    assert endorsed(clean, typed)


@pytest.mark.parametrize("gap", [" ", "\n"])
@pytest.mark.parametrize("read", [OPENS, PAGE, f"note: {OPENS}"])
async def test_what_she_says_beside_a_quotation_is_hers(read: str, gap: str) -> None:
    bare = read.removeprefix("note: ")
    for typed in (f"{bare}{gap}{SAID}", f"{SAID}{gap}{bare}"):
        ledger, turn = await told(read, typed, SAID)
        assert endorsed(ledger, SAID)
        assert turn.label is TOOL, "the quotation is not"
        quoting, _ = await told(read, typed, bare)
        assert not endorsed(quoting, bare)


async def test_where_line_breaks_leave_it_in_doubt_who_said_which_words_none_are_hers() -> None:
    cut = "Bills of the firm are paid\nat the quay office. And never at the gate."
    for text in ("Bills of the firm are paid.", "At the quay office.", "And never at the gate."):
        ledger, _ = await told(LINE, cut, text)
        assert not endorsed(ledger, text)


@pytest.mark.parametrize(
    "over", ["My rules:\n- {}", "# Rules of mine\n\n{}", "About the quay:\n\n{}", "Note: {}"]
)
async def test_what_a_tool_said_first_is_not_hers_under_a_heading_of_hers(over: str) -> None:
    typed = over.format(LINE)
    ledger, _ = await told(PAGE, typed, typed)
    assert endorsed(ledger, typed), "of another page"
    quoting, _ = await told(f"{OPENS} {LINE}", typed, typed)
    assert not endorsed(quoting, typed)
