"""The origin of a text: found at any place of a long page, and bounded."""

from __future__ import annotations

import pytest

from policy.model import Origin, PrincipalId, SourceKind
from proxy.ledger.core import PRINCIPALS_MAX
from proxy.ledger.ring import PRINTS_MAX, SEGMENTS_MAX, Ring
from proxy.seams.guard import Segment
from tests.unit.proxy.ledgers import ADA, GRACE, Ledger

NOTE = "Customers of the harbour pay a lower rate for the archive"
TOOL = Origin(kind=SourceKind.TOOL_RESULT, tool="fetch")


def segment(*texts: str, tool: str = "search") -> Segment:
    return Segment(server="web", tool=tool, call_id="call-1", texts=texts)


def culprits(ledger: Ledger, text: str) -> tuple[Origin, ...]:
    return ledger.sessions.culprits(ADA.principal_id, text)


async def test_the_segment_is_named_that_a_text_came_from() -> None:
    ledger = Ledger()
    await ledger.sessions.saw(ADA.principal_id, segment("something about rivers and their names"))
    await ledger.sessions.saw(ADA.principal_id, segment(NOTE, tool="fetch"))
    (origin,) = culprits(ledger, NOTE)
    assert (origin.server, origin.tool, origin.call_id) == ("web", "fetch", "call-1")
    assert origin.kind is SourceKind.TOOL_RESULT
    assert ledger.sessions.culprits(GRACE.principal_id, NOTE) == ()
    assert culprits(ledger, "Ada sings in a choir on Mondays") == ()


async def test_a_note_at_any_place_of_a_long_page_is_found() -> None:
    page = " ".join(f"filler{number}" for number in range(9_000))
    for at in (0, 8_100, 50_000, len(page)):
        ledger = Ledger()
        await ledger.sessions.saw(ADA.principal_id, segment(f"{page[:at]} {NOTE} {page[at:]}"))
        assert culprits(ledger, NOTE), at


async def test_a_text_that_comes_again_is_kept_once_and_found_as_if_it_were_new() -> None:
    ledger = Ledger()
    saw, count = ledger.sessions.saw, 0
    await saw(ADA.principal_id, segment(NOTE))
    count = ledger.sessions.print_count
    await saw(ADA.principal_id, segment(NOTE))
    assert ledger.sessions.print_count == count
    await saw(ADA.principal_id, segment(NOTE, tool="fetch"))
    assert ledger.sessions.print_count == 2 * count, "control: another tool is another origin"
    for half in range(2):
        for number in range(SEGMENTS_MAX // 2 + 1):
            await saw(ADA.principal_id, segment(f"page {half} {number}"))
        if not half:
            await saw(ADA.principal_id, segment(NOTE))
    # The first copy had to make room by now.
    (origin,) = culprits(ledger, NOTE)
    assert origin.tool == "search"


async def test_what_came_before_a_principal_made_room_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.ledger.core.PRINCIPALS_MAX", 1)
    ledger = Ledger()
    await ledger.sessions.saw(ADA.principal_id, segment(NOTE))
    await ledger.sessions.saw(GRACE.principal_id, segment(NOTE))
    assert culprits(ledger, NOTE) == (), "control: it made room"
    for text in ("Something about rivers and their names", NOTE):
        await ledger.sessions.saw(ADA.principal_id, segment(text))
    assert culprits(ledger, NOTE)


async def test_a_text_that_has_no_words_does_not_stop_the_ledger() -> None:
    ledger = Ledger()
    await ledger.sessions.saw(ADA.principal_id, segment("", "...", "\n"))
    assert culprits(ledger, "...") == ()
    assert culprits(ledger, "") == ()


def test_the_oldest_text_makes_room() -> None:
    ring = Ring()
    ring.add(NOTE, (TOOL,), session="s")
    for number in range(SEGMENTS_MAX):
        ring.add(f"page {number} about something else", (TOOL,), session="t")
    assert ring.containing(NOTE, None) == []
    assert len(ring) == SEGMENTS_MAX


def test_a_session_is_only_found_its_own_texts_and_those_without_a_session() -> None:
    ring = Ring()
    ring.add(NOTE, (TOOL,), session="s")
    assert ring.containing(NOTE, "t") == []
    assert len(ring.containing(NOTE, "s")) == 1
    ring.add(NOTE, (TOOL,), session="")
    assert len(ring.containing(NOTE, "t")) == 1
    assert len(ring.containing(NOTE, None)) == 2


async def test_the_prints_of_all_and_the_number_of_principals_are_bounded() -> None:
    ledger = Ledger()
    for number in range(PRINCIPALS_MAX + 1):
        await ledger.sessions.saw(PrincipalId(f"p{number}"), segment(NOTE))
    assert ledger.sessions.culprits(PrincipalId("p0"), NOTE) == ()
    assert ledger.sessions.culprits(PrincipalId("p1"), NOTE)
    for number in range(60):
        page = " ".join(f"w{number}x{word}" for word in range(6_000))
        await ledger.sessions.saw(ADA.principal_id, segment(page))
    assert ledger.sessions.print_count <= PRINTS_MAX
    assert ledger.sessions.culprits(PrincipalId("p2"), NOTE), "who brings most makes room"
