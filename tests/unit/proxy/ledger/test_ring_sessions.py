"""The ring of a principal: whose copy a text is, session by session."""

from __future__ import annotations

from policy.model import Origin, SourceKind
from proxy.ledger.ring import SEGMENTS_MAX, Ring, RingText

PAGE = Origin(kind=SourceKind.TOOL_RESULT, server="web", tool="fetch")
NOTE = "Customers of the harbour pay a lower rate for the archive"


def sessions_of(found: list[RingText]) -> set[str]:
    return {kept.session for kept in found}


def test_a_text_is_found_in_its_session_however_many_others_have_read_it() -> None:
    ring = Ring()
    ring.add(NOTE, (PAGE,), session="first")
    for number in range(60):
        ring.add(NOTE, (PAGE,), session=f"other-{number}")
    assert sessions_of(ring.containing(NOTE, "first")) == {"first"}
    assert ring.containing(NOTE, "nobody") == []
    assert len(ring.containing(NOTE, None)) > 1


def test_what_no_front_could_place_is_in_every_session() -> None:
    ring = Ring()
    ring.add(NOTE, (PAGE,), session="")
    assert sessions_of(ring.containing(NOTE, "any")) == {""}


def test_what_entered_a_session_is_found_in_the_one_that_it_became_a_part_of() -> None:
    ring = Ring()
    ring.add(NOTE, (PAGE,), session="one")
    ring.merged("one", "two")
    ring.merged("two", "three")
    ring.merged("nobody", "three")
    assert sessions_of(ring.containing(NOTE, "three")) == {"three"}
    assert ring.containing(NOTE, "one") == []
    for number in range(SEGMENTS_MAX):
        ring.add(f"filler {number}", (PAGE,), session="four")
    assert ring.containing(NOTE, "three") == []
