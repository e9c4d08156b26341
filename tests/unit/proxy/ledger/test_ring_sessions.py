"""The ring of a principal: whose copy a text is, session by session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.model import Origin, SourceKind
from proxy.ledger.ring import SEGMENTS_MAX, Ring

if TYPE_CHECKING:
    from proxy.ledger.ring import RingText

PAGE = Origin(kind=SourceKind.TOOL_RESULT, server="web", tool="fetch")
MODEL = Origin(kind=SourceKind.MODEL_INFERENCE)
NOTE = "Customers of the harbour pay a lower rate for the archive"


def sessions_of(found: list[RingText]) -> set[str]:
    return {kept.session for kept in found}


def test_a_text_is_found_in_its_session_however_many_others_have_read_it() -> None:
    ring = Ring(lambda _kept: None)
    ring.add(NOTE, PAGE, session="first", digest=1)
    for number in range(60):
        ring.add(NOTE, PAGE, session=f"other-{number}", digest=1)
    assert sessions_of(ring.containing(NOTE, "first")) == {"first"}
    assert ring.containing(NOTE, "nobody") == []
    assert len(ring.containing(NOTE, None)) > 1


def test_only_a_text_that_brings_more_than_was_known_is_found_behind_an_edit() -> None:
    ring = Ring(lambda _kept: None)
    added = "Boats longer than nine metres moor at quay seven"
    for number in range(20):
        ring.add(f"{number}\t{NOTE}", PAGE, session="one", digest=number)
    ring.add(added, PAGE, session="other", digest=1)
    assert ring.bringing(f"{NOTE}. {added}.", NOTE, "one") == []
    ring.add(f"{NOTE}. {added}.", PAGE, session="one", digest=99)
    # The many that say only what was known do not hide it.
    assert [kept.digest for kept in ring.bringing(f"{NOTE}. {added}.", NOTE, "one")] == [99]


def test_behind_what_the_model_said_is_looked_for_what_it_was_made_of() -> None:
    ring = Ring(lambda _kept: None)
    added = "Boats longer than nine metres moor at quay seven"
    ring.add(NOTE, PAGE, session="one", digest=1)
    said = f"{NOTE}, painted in blue."
    ring.add(said, MODEL, session="one", digest=2, derived=(PAGE,))
    # It said again what was in the note: nothing of a page.
    assert all(not kept.derived for kept in ring.bringing(said, NOTE, "one"))
    ring.add(f"A page: {added}", PAGE, session="one", digest=3)
    far = "vessels of that length tie up on the far side of the harbour"
    ring.add(f"{added}, so {far}.", MODEL, session="one", digest=4, derived=(PAGE,))
    assert {kept.digest for kept in ring.containing(far, "one")} == {4}
    found = ring.bringing(far, NOTE, "one")
    assert {kept.digest for kept in found if kept.derived is None} == {3}


def test_what_no_front_could_place_is_in_every_session() -> None:
    ring = Ring(lambda _kept: None)
    ring.add(NOTE, PAGE, session="", digest=0)
    assert sessions_of(ring.containing(NOTE, "any")) == {""}


def test_what_entered_a_session_is_found_in_the_one_that_it_became_a_part_of() -> None:
    lost: list[RingText] = []
    ring = Ring(lost.append)
    ring.add(NOTE, PAGE, session="one", digest=1)
    ring.merged("one", "two")
    ring.merged("two", "three")
    ring.merged("nobody", "three")
    assert sessions_of(ring.containing(NOTE, "three")) == {"three"}
    assert ring.containing(NOTE, "one") == []
    for number in range(SEGMENTS_MAX):
        ring.add(f"filler {number}", PAGE, session="four", digest=2)
    assert [kept.session for kept in lost] == ["three"]
    assert ring.containing(NOTE, "three") == []
