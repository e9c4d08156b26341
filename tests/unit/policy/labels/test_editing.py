"""The result of an edit, compared with a slow and obvious editor of lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.labels.editing import (
    NOBODY_KNOWS,
    NOTHING,
    Edit,
    Effect,
    How,
    TextStanding,
    edit_of,
    text_after,
)
from policy.model import TEXT_LEN_MAX, ChangeKind, MemoryClass, SourceKind

TEXT = "The pump is old.\nThe valve is new."
SHORT = st.text("ab\n ", max_size=6)
NUMBERS = st.integers(-3, 4)
EFFECTS = st.builds(Effect, st.sampled_from(How), NUMBERS, NUMBERS, NUMBERS)


def edit(before: str, after: str) -> Edit:
    return Edit(
        before=before,
        after=after,
        source=SourceKind.MODEL_INFERENCE,
        ceiling=SourceKind.MODEL_INFERENCE,
        memory_class=MemoryClass.L3,
    )


@pytest.mark.parametrize(
    ("effect", "after"),
    [
        (Effect(How.SET, 0), "very"),
        (Effect(How.SET, NOTHING), ""),
        (Effect(How.APPEND, 0), f"{TEXT}\nvery"),
        (Effect(How.INSERT, 0, line=0), f"very\n{TEXT}"),
        (Effect(How.INSERT, 0, line=1), "The pump is old.\nvery\nThe valve is new."),
        (Effect(How.INSERT, 0, line=2), f"{TEXT}\nvery"),
        (Effect(How.REPLACE, 0, 1), "The very is old.\nThe valve is new."),
        (Effect(How.REPLACE, NOTHING, 1), "The  is old.\nThe valve is new."),
        # Edits whose result is unknown: the text stands at two places or at none, the search text
        # is empty, or the line or the piece does not exist.
        (Effect(How.REPLACE, 0, 2), None),
        (Effect(How.REPLACE, 0, 3), None),
        (Effect(How.REPLACE, 0), None),
        (Effect(How.INSERT, 0, line=3), None),
        (Effect(How.INSERT, 0), None),
        (Effect(How.SET, 9), None),
        (None, None),
    ],
)
def test_the_text_after_a_call(effect: Effect | None, after: str | None) -> None:
    assert text_after(TEXT, ("very", "pump", "The", "boat"), effect) == after


def test_places_that_overlap_are_two() -> None:
    assert text_after("aaa", ("b", "aa"), Effect(How.REPLACE, 0, 1)) is None
    assert text_after("aab", ("b", "aa"), Effect(How.REPLACE, 0, 1)) == "bb"


def test_a_text_that_no_candidate_could_hold_is_known_to_nobody() -> None:
    assert text_after("a" * TEXT_LEN_MAX, ("b",), Effect(How.APPEND, 0)) is None


@given(SHORT, st.lists(SHORT, max_size=3), EFFECTS)
def test_only_a_whole_new_text_follows_from_one_that_nobody_knows(
    before: str, pieces: list[str], effect: Effect
) -> None:
    unknown = text_after(None, pieces, effect)
    assert (unknown is not None) == (effect.how is How.SET and -1 <= effect.text < len(pieces))
    known = text_after(before, pieces, effect)
    if known is not None and effect.how is not How.SET:
        # Everything that stood there is still there, except for what was replaced.
        gone = pieces[effect.old] if effect.how is How.REPLACE else ""
        assert len(known) >= len(before) - len(gone)


KNOWN = TextStanding(
    text=TEXT, mine=True, source=SourceKind.MODEL_INFERENCE, memory_class=MemoryClass.L3
)
PIECES = ("very", "pump")
REPLACES = Effect(How.REPLACE, 0, 1)


@pytest.mark.parametrize(
    ("standing", "effect", "change"),
    [
        (NOBODY_KNOWS, REPLACES, ChangeKind.UPDATE),
        (TextStanding(text=TEXT, memory_class=MemoryClass.L3), REPLACES, ChangeKind.UPDATE),
        (TextStanding(text=TEXT, mine=True), REPLACES, ChangeKind.UPDATE),
        (KNOWN, None, ChangeKind.UPDATE),
        (KNOWN, Effect(How.REPLACE, 1, 0), ChangeKind.UPDATE),
        (KNOWN, REPLACES, ChangeKind.DELETE),
        (KNOWN, REPLACES, ChangeKind.CREATE),
        # Setting a whole text is no edit of one that is unknown.
        (NOBODY_KNOWS, Effect(How.SET, 0), ChangeKind.UPDATE),
    ],
)
def test_it_is_no_edit_unless_all_of_it_is_known(
    standing: TextStanding, effect: Effect | None, change: ChangeKind
) -> None:
    assert edit_of(KNOWN, PIECES, REPLACES, ChangeKind.UPDATE) is not None
    assert edit_of(standing, PIECES, effect, change) is None


@pytest.mark.parametrize(
    ("after", "more"),
    [
        ("", False),
        ("The pump is old.", False),
        ("The valve is old.\nThe pump is new.", False),
        ("THE PUMP is\u200b old!\nThe valve is new.", False),
        (f"{TEXT}\n-- ** --", False),
        ("The pump is not old.\nThe valve is new.", True),
    ],
)
def test_an_edit_after_which_no_word_is_new_is_a_removal(after: str, *, more: bool) -> None:
    assert edit(TEXT, after).says_more is more


def test_a_changed_word_is_looked_for_in_its_line() -> None:
    looked = edit(TEXT, TEXT.replace("old", "broken")).looked("/notes.md")
    assert looked.fresh == "The pump is broken."
    assert looked.known == f"/notes.md\n{TEXT}"
