"""The result of an edit, compared with a slow and obvious editor of lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.labels.effect import (
    NOTHING,
    Effect,
    EffectKind,
    changed_lines,
    keeps_half,
    text_after,
)
from policy.model import TEXT_LEN_MAX

TEXT = "The pump is old.\nThe valve is new."
SHORT = st.text("ab\n ", max_size=6)
NUMBERS = st.integers(-3, 4)
EFFECTS = st.builds(Effect, st.sampled_from(EffectKind), NUMBERS, NUMBERS, NUMBERS)


@pytest.mark.parametrize(
    ("effect", "after"),
    [
        (Effect(EffectKind.SET, 0), "very"),
        (Effect(EffectKind.SET, NOTHING), ""),
        (Effect(EffectKind.APPEND, 0), f"{TEXT}\nvery"),
        (Effect(EffectKind.INSERT, 0, line=0), f"very\n{TEXT}"),
        (Effect(EffectKind.INSERT, 0, line=1), "The pump is old.\nvery\nThe valve is new."),
        (Effect(EffectKind.INSERT, 0, line=2), f"{TEXT}\nvery"),
        (Effect(EffectKind.REPLACE, 0, 1), "The very is old.\nThe valve is new."),
        (Effect(EffectKind.REPLACE, NOTHING, 1), "The  is old.\nThe valve is new."),
        # Edits whose result is unknown: the text stands at two places or at none, the search text
        # is empty, or the line or the piece does not exist.
        (Effect(EffectKind.REPLACE, 0, 2), None),
        (Effect(EffectKind.REPLACE, 0, 3), None),
        (Effect(EffectKind.REPLACE, 0), None),
        (Effect(EffectKind.INSERT, 0, line=3), None),
        (Effect(EffectKind.INSERT, 0), None),
        (Effect(EffectKind.SET, 9), None),
        (None, None),
    ],
)
def test_the_text_after_a_call(effect: Effect | None, after: str | None) -> None:
    assert text_after(TEXT, ("very", "pump", "The", "boat"), effect) == after


def test_places_that_overlap_are_two() -> None:
    assert text_after("aaa", ("b", "aa"), Effect(EffectKind.REPLACE, 0, 1)) is None
    assert text_after("aab", ("b", "aa"), Effect(EffectKind.REPLACE, 0, 1)) == "bb"


def test_a_text_that_no_candidate_could_hold_is_known_to_nobody() -> None:
    assert text_after("a" * TEXT_LEN_MAX, ("b",), Effect(EffectKind.APPEND, 0)) is None


@given(SHORT, st.lists(SHORT, max_size=3), EFFECTS)
def test_only_a_whole_new_text_follows_from_one_that_nobody_knows(
    before: str, pieces: list[str], effect: Effect
) -> None:
    unknown = text_after(None, pieces, effect)
    assert (unknown is not None) == (
        effect.how is EffectKind.SET and -1 <= effect.text < len(pieces)
    )
    known = text_after(before, pieces, effect)
    if known is not None and effect.how is not EffectKind.SET:
        # Everything that stood there is still there, except for what was replaced.
        gone = pieces[effect.old] if effect.how is EffectKind.REPLACE else ""
        assert len(known) >= len(before) - len(gone)


SETS = Effect(EffectKind.SET, 0)
PIECES = ("very", "pump", "The valve is new.")


@pytest.mark.parametrize(
    ("before", "effect", "gone", "new"),
    [
        (TEXT, Effect(EffectKind.REPLACE, 0, 1), {"the pump is old."}, {"the very is old."}),
        (TEXT, Effect(EffectKind.REPLACE, NOTHING, 2), {"the valve is new."}, set[str]()),
        (TEXT, Effect(EffectKind.APPEND, 0), set[str](), {"very"}),
        (TEXT, Effect(EffectKind.SET, 2), {"the pump is old."}, set[str]()),
        # Where no one knows the text before, the strings of the call have to do.
        (None, Effect(EffectKind.REPLACE, 0, 1), {"pump"}, {"very"}),
        (None, Effect(EffectKind.APPEND, 0), set[str](), {"very"}),
    ],
)
def test_the_lines_that_a_call_takes_and_brings(
    before: str | None, effect: Effect, gone: set[str], new: set[str]
) -> None:
    lines = changed_lines(before, PIECES, effect)
    assert lines is not None
    assert (lines.gone, lines.new) == (frozenset(gone), frozenset(new))


@pytest.mark.parametrize("effect", [None, Effect(EffectKind.SET, 0)])
def test_no_one_can_tell_what_a_call_leaves_of_an_unknown_text(effect: Effect | None) -> None:
    assert changed_lines(None, PIECES, effect) is None
    assert changed_lines(TEXT, PIECES, None) is None


@pytest.mark.parametrize(
    ("after", "keeps"),
    [
        ("", False),
        ("n/a", False),
        ("The pump is old.", True),
        ("THE PUMP is\u200b old!\nThe valve is new.", True),
        ("The boat is blue.", False),
    ],
)
def test_a_change_that_keeps_fewer_than_half_of_the_words_is_told_from_one_that_keeps_more(
    after: str, *, keeps: bool
) -> None:
    assert keeps_half(TEXT, after) is keeps


def test_a_line_that_goes_is_a_removal_however_much_else_is_kept() -> None:
    kept = changed_lines(TEXT, ("The pump is old.",), Effect(EffectKind.SET, 0))
    assert kept is not None
    assert not kept.keeps_half
    reworded = changed_lines(TEXT, ("The pump is old.\nThe valve is still new.",), SETS)
    assert reworded is not None
    assert reworded.keeps_half
