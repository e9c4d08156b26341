"""What a person pastes is not hers, nor is what stands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from policy.labels.who_writes import UserTurns
from proxy.dialects.model.openai import chat
from proxy.ledger.reading import Reader
from proxy.ledger.records import Began, Entry, Typed, decode
from proxy.ledger.sentences import packed
from proxy.ledger.splices import shipped_rules
from proxy.ledger.state import State
from proxy.seams.guard import Join
from storage.session_log.log import prints_key
from tests.unit.proxy.ledgers import (
    ADA,
    KEY,
    TOOL,
    USER,
    Ledger,
    assistant,
    call,
    reply,
    result,
    user,
)

if TYPE_CHECKING:
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.ledger.turn_values import TurnRead

LINE = "Bills of the firm are paid at the quay office."
PAGE = "The bills of the firm are paid at the quay office before noon on every second Monday."
OPENS = "The harbour opens at nine."
SAID = "Ada Bryn never eats meat."


async def told(
    read: str, typed: str, text: str, user_turns: UserTurns | None = UserTurns.PERSON
) -> tuple[Ledger, TurnRead]:
    """A session in which a tool said `read`, then a person `typed`, and a model writes `text`."""
    ledger = Ledger(user_turns=user_turns)
    first = await ledger.ask(user("Read the file."))
    fetch = call("toolu_read_1", "Read", file="desk.md")
    await ledger.answer(first, reply("", fetch))
    turns = (user("Read the file."), assistant("", fetch), result("toolu_read_1", read))
    await ledger.answer(await ledger.ask(*turns), reply("It is read."))
    last = await ledger.ask(*turns, assistant("It is read."), user(typed))
    await ledger.answer(last, reply("", call("toolu_save_1", text=text)))
    return ledger, last.turns[-1]


def endorsed(ledger: Ledger, text: str) -> bool:
    return ledger.seen(text, join=Join(tool_use_id="toolu_save_1")).endorsed


@pytest.mark.parametrize(
    "page",
    [
        LINE,
        f"     1\u2192{LINE}\n     2\u2192Open from nine.",
        f"desk.md:12:{LINE}",
        f"note: {LINE}",
        "Bills of the firm\nare paid at the\nquay office.",
        f"Shall I note: {LINE[:-1]}?",
    ],
)
@pytest.mark.parametrize("typed", ["{}", "Please remember: {}", "{} Is that so?", "By the way, {}"])
async def test_what_a_tool_said_first_is_not_hers(page: str, typed: str) -> None:
    whole = typed.format(LINE)
    for text in (whole, LINE):
        ledger, _ = await told(page, whole, text)
        assert not endorsed(ledger, text)


async def hers(typed: str, text: str) -> bool:
    """Whether the same words are hers without the page."""
    ledger, turn = await told(OPENS, typed, text)
    assert turn.label is USER
    return endorsed(ledger, text)


@pytest.mark.parametrize("typed", ["{}", "Please remember: {}", "Hello there, {}"])
async def test_control_without_the_page_the_same_words_are_hers(typed: str) -> None:
    whole = typed.format(LINE)
    assert await hers(whole, whole)
    assert await hers(whole, LINE) is (typed != "Hello there, {}"), "only what is asked to be kept"


async def test_what_is_nearly_a_copy_endorses_nothing() -> None:
    typed = PAGE.replace("are paid", "are to be paid")
    copied, turn = await told(PAGE, typed, typed)
    assert turn.label is TOOL
    assert not endorsed(copied, typed)
    assert await hers(typed, typed)


@pytest.mark.parametrize("read", [OPENS, PAGE, f"note: {OPENS}"])
async def test_beside_a_quotation_nothing_of_a_turn_is_hers(read: str) -> None:
    bare = read.removeprefix("note: ")
    for typed in (f"{bare} {SAID}", f"{SAID} {bare}"):
        for text in (typed, SAID, bare):
            ledger, turn = await told(read, typed, text)
            assert turn.label is TOOL
            assert not endorsed(ledger, text)
        other, _ = await told("The market is on Friday.", typed, typed)
        assert endorsed(other, typed)


@pytest.mark.parametrize("first", ["Thanks!", "You're welcome. Sounds good!", "OK"])
async def test_what_is_nobody_s_may_be_said_first_by_anybody(first: str) -> None:
    typed = f"{first} {SAID}"
    ledger, turn = await told(first, typed, typed)
    assert turn.label is USER
    assert endorsed(ledger, typed)
    quoting, _ = await told(f"{first} {SAID}", typed, typed)
    assert not endorsed(quoting, typed)


async def test_what_a_tool_says_later_takes_nothing_from_her() -> None:
    ledger, _ = await told(OPENS, SAID, SAID)
    read = call("toolu_read_2", "Read", file="other.md")
    turns = (user("Read the file."), assistant("", read), result("toolu_read_2", SAID))
    first = await ledger.ask(user("Read the file."))
    await ledger.answer(first, reply("", read))
    await ledger.ask(*turns)
    assert endorsed(ledger, SAID)


@pytest.mark.parametrize(
    ("user_turns", "whole", "asked"),
    [(UserTurns.PERSON, True, True), (None, False, True), (UserTurns.PROGRAM, False, False)],
)
async def test_an_operator_says_who_types_and_until_then_only_a_request_counts(
    user_turns: UserTurns | None,
    whole: bool,  # noqa: FBT001
    asked: bool,  # noqa: FBT001
) -> None:
    for typed, fine in ((SAID, whole), (f"Remember that {SAID}", asked)):
        ledger, _ = await told(OPENS, typed, SAID, user_turns=user_turns)
        seen = ledger.seen(SAID, join=Join(tool_use_id="toolu_save_1"))
        assert seen.endorsed is fine
        assert seen.by_person is (user_turns is UserTurns.PERSON)


@pytest.mark.parametrize(
    "typed",
    [
        (f"<ide_selection>{OPENS}</ide_selection>{SAID}",),
        (SAID, "And this."),
        (f"{SAID}\n\nAnd this.",),
    ],
)
async def test_a_turn_of_several_texts_or_with_a_splice_in_it_endorses_nothing(
    typed: tuple[str, ...],
) -> None:
    ledger = Ledger()
    asked = await ledger.ask(user(*typed))
    await ledger.answer(asked, reply("", call("toolu_save_1", text=SAID)))
    assert not endorsed(ledger, SAID)


async def test_a_reminder_beside_her_words_is_no_part_of_them() -> None:
    reminder = "<system-reminder>Today is Monday.</system-reminder>"
    for said, fine in ((reminder, True), (f"<ide_selection>{SAID}</ide_selection>", False)):
        ledger = Ledger()
        asked = await ledger.ask(user(said, SAID))
        await ledger.answer(asked, reply("", call("toolu_save_1", text=SAID)))
        assert endorsed(ledger, SAID) is fine


@pytest.mark.parametrize("others", [(), ("Ada",), ("Bob",), ("",)])
async def test_where_several_speak_nobody_s_words_are_taken(others: tuple[str, ...]) -> None:
    ledger = Ledger()
    turns: list[Json] = []
    for name, text in (("Ada", SAID), *((one, "Good morning.") for one in others)):
        turns.append({"role": "user", "name": name, "content": text})
    request = chat.read_request({"messages": turns})
    entered = await ledger.sessions.entered(ADA, request, user_turns=UserTurns.PERSON)
    await ledger.answer(entered, reply("", call("toolu_save_1", text=SAID)))
    assert endorsed(ledger, SAID) is (others in {(), ("Ada",)})


@pytest.mark.parametrize(
    ("texts", "fine"),
    [((SAID,), True), ((SAID, SAID), True), ((SAID, OPENS), False), ((OPENS,), False)],
)
async def test_every_text_of_a_call_is_the_whole_turn(
    texts: tuple[str, ...],
    fine: bool,  # noqa: FBT001
) -> None:
    ledger = Ledger()
    asked = await ledger.ask(user(SAID))
    saved = call("toolu_save_1", texts=[*texts])
    await ledger.answer(asked, reply("", saved))
    assert ledger.seen(*texts, join=Join(tool_use_id="toolu_save_1")).endorsed is fine


async def test_prints_of_sentences_in_a_log_of_before_open_and_endorse_nothing() -> None:
    """There three fields stood for a turn: what its sentences endorsed, pairs of them, and all."""
    ledger = Ledger()
    asked = await ledger.ask(user("Good morning."))
    reader = Reader(prints_key(KEY), shipped_rules())
    said = packed([reader.print("ada bryn never eats meat")])
    before = msgspec.msgpack.encode(
        [asked.session, 1, 1, "user_input", 1, "", [], [[said, b"", said]]]
    )
    entry = decode(b"\x05" + before)
    assert isinstance(entry, Entry)
    assert entry.typed == (Typed(said, b"", said),)
    state = State()
    state.apply(Began("key:ada", asked.session, 1))
    state.apply(entry)
    (typed,) = state.sessions[asked.session].typed
    assert typed.parts
    assert not typed.whole
