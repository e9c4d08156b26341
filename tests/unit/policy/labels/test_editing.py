"""A call to another server kept in a candidate, and the result of an edit against a slow editor."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.canonical import canonical_bytes, decode_canonical
from policy.labels.effect import (
    NOTHING,
    Effect,
    EffectKind,
    changed_lines,
    keeps_half,
    text_after,
)
from policy.labels.forwarded_call import (
    MCP,
    ForwardedCall,
    NotForwardable,
    call_of,
    removes,
    target_of,
    texts_of,
)
from policy.model import METADATA_LEN_MAX, TEXT_LEN_MAX, Candidate, ChangeKind, PrincipalId, Tenant

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


ARGUMENTS = '{"entities":[{"entityType":1,"name":0,"observations":[2]}],"n":1e+21}'


def _call(*pieces: str, key: str = "Ada", arguments: str = ARGUMENTS) -> ForwardedCall:
    return ForwardedCall(tool="create_entities", arguments=arguments, key=key, pieces=pieces)


def _candidate(text: str | None, metadata_json: str | None) -> Candidate:
    return Candidate(
        change=ChangeKind.CREATE,
        principal_id=PrincipalId("agent"),
        tenant=Tenant("default"),
        nonce="n-1",
        target=target_of(MCP, "memory"),
        text=text,
        metadata_json=metadata_json,
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12)), st.text("ab\n"))
def test_a_call_comes_back_as_it_was(pieces: list[str], key: str) -> None:
    call = _call(*pieces, key=key)
    candidate = decode_canonical(canonical_bytes(_candidate(*texts_of(call))))
    if pieces:
        assert call_of(candidate) == call


def test_an_effect_comes_back_and_a_call_without_one_reads_as_before() -> None:
    call = msgspec.structs.replace(_call("a", "b"), effect=Effect(EffectKind.REPLACE, 1, 0))
    candidate = decode_canonical(canonical_bytes(_candidate(*texts_of(call))))
    assert call_of(candidate) == call
    assert "effect" not in texts_of(_call("a"))[1]


def test_a_piece_with_line_breaks_is_not_two() -> None:
    one, two = _call("a\nb"), _call("a", "b")
    assert texts_of(one)[0] == texts_of(two)[0]
    assert texts_of(one)[1] != texts_of(two)[1]
    assert call_of(_candidate(*texts_of(one))) == one


@pytest.mark.parametrize("arguments", ["", "[]", "1", "{", '{"a":', "null", "\udc80"])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    with pytest.raises(NotForwardable) as refused:
        texts_of(_call("a", arguments=arguments))
    assert not refused.value.oversize


@pytest.mark.parametrize(
    "call",
    [
        _call("x" * TEXT_LEN_MAX, "y"),
        _call("x", arguments=f'{{"a":"{"b" * METADATA_LEN_MAX}"}}'),
        _call("x", key="k" * METADATA_LEN_MAX),
    ],
)
def test_what_is_too_long_is_said_to_be(call: ForwardedCall) -> None:
    with pytest.raises(NotForwardable) as refused:
        texts_of(call)
    assert refused.value.oversize


@pytest.mark.parametrize(
    ("text", "metadata_json"),
    [
        (None, None),
        ("a", None),
        (None, texts_of(_call("a"))[1]),
        ("a", "{}"),
        ("ab", texts_of(_call("a"))[1]),
        ("a", texts_of(_call("ab"))[1]),
        ("a", '{"arguments":{},"key":"","lengths":[-1],"tool":"t"}'),
        ("a", "nothing"),
        ("a", texts_of(_call("a"))[1].replace('"tool"', '"note":"The quay is paid.","tool"')),
    ],
)
def test_what_stands_for_no_call_is_none(text: str | None, metadata_json: str | None) -> None:
    assert call_of(_candidate(text, metadata_json)) is None


def test_metadata_that_looks_like_a_call_is_none_where_no_server_is_behind() -> None:
    candidate = _candidate(*texts_of(_call("a")))
    assert call_of(candidate) is not None, "control"
    assert call_of(msgspec.structs.replace(candidate, target="memories")) is None


@pytest.mark.parametrize(
    ("deleted", "stored", "gone"),
    [
        ((), ("Ada", "person", "sings"), True),
        (("Ada",), ("Ada", "person", "sings"), True),
        (("Ada", "sings"), ("Ada", "sings"), True),
        (("sings", "plays"), ("Ada", "plays"), True),
        (("Ada", "sings"), ("Ada", "person", "sings"), False),
        (("Ada", "sings"), ("Ada", "plays"), False),
    ],
)
def test_a_deletion_takes_what_it_names(
    deleted: tuple[str, ...], stored: tuple[str, ...], *, gone: bool
) -> None:
    assert removes(_call(*deleted), _call(*stored)) is gone
