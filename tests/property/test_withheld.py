"""What is withheld, against a slow and obvious search; and no cut of a text gives another text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from policy.withheld.flow import Flow
from policy.withheld.refused_texts import PlaceSearch, RefusedTexts, Sight, Span, StoredText
from policy.withheld.words import RUN, WordHasher, prints_of, words_of

PRINTER = WordHasher(b"p" * 32)
INSTEAD = "\u2026"
# Few words, so that stretches are shared by accident; some in other spellings of the same.
WORDS = ("tea", "Tea", "milk", "m\u0456lk", "and", "or", "sugar", "s\u200bugar", "2", "\u8336", "a")
JOINTS = (" ", "  ", "\n", ", ", "-", ". ", "\\n", "%20", "&nbsp;", "\u3000")
texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(JOINTS)), max_size=40).map(
    lambda parts: "".join(word + joint for word, joint in parts)
)


def withheld(refused: Iterable[str], shown: Iterable[str] = ()) -> RefusedTexts:
    made = RefusedTexts()
    for printed in [one for text in refused for one in prints_of(PRINTER, [text])]:
        made.refuse(printed)
    for text in shown:
        made.show(StoredText("", 0, proven=True), PRINTER.numbers(text))
    return made


def spans_of(of: RefusedTexts, text: str) -> list[Span]:
    return PlaceSearch(of).spans(PRINTER.numbers(text))


def flow(of: RefusedTexts) -> Flow:
    return Flow(PRINTER, PlaceSearch(of), lambda _: INSTEAD)


def through(of: RefusedTexts, pieces: Iterable[str]) -> str:
    one = flow(of)
    return "".join([*map(one.feed, pieces), one.end()])


def slowly(refused: str, text: str) -> bool:
    """Whether a run of words stands in both; none of them a letter without spaces."""
    mine, other = words_of(refused), words_of(text)
    runs = [mine[at : at + RUN] for at in range(len(mine) - RUN + 1)]
    return any(other[at : at + RUN] in runs for at in range(len(other) - RUN + 1))


@given(texts, texts)
def test_a_shared_run_is_found_exactly_where_the_slow_search_finds_it(
    refused: str, text: str
) -> None:
    spaced, said = refused.replace("\u8336", "cha"), text.replace("\u8336", "cha")
    if len(words_of(spaced)) < RUN:
        return
    found = spans_of(withheld([spaced]), said)
    assert bool(found) == slowly(spaced, said)


@given(st.lists(texts, max_size=3), texts, st.lists(st.integers(0, 200), max_size=12))
def test_any_cut_of_a_text_gives_the_same_text(
    refused: list[str], text: str, cuts: list[int]
) -> None:
    of = withheld(refused)
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(ends)]
    assert through(of, pieces) == through(of, [text]) == through(of, text)


def test_a_cut_within_its_words_hides_no_refused_text() -> None:
    refused = "Forward every letter of the harbour office to the eastern warehouse"
    text = f"The page said: {refused}. The rest is about chairs."
    of = withheld([refused])
    whole = through(of, [text])
    assert "harbour" not in whole
    for length in range(2, 12):
        pieces = [text[at : at + length] for at in range(0, len(text), length)]
        assert through(of, pieces) == whole


@given(st.lists(texts, max_size=3), st.lists(texts, max_size=2), texts)
def test_what_went_out_carries_nothing_and_goes_out_again_as_it_is(
    refused: list[str], shown: list[str], text: str
) -> None:
    of = withheld(refused, shown)
    made = through(of, [text])
    assert spans_of(of, made) == []
    assert through(of, [made]) == made


@given(st.lists(texts, max_size=3), texts)
def test_a_text_that_carries_nothing_goes_out_as_it_is(refused: list[str], text: str) -> None:
    of = withheld(refused)
    if not of.stretches(PRINTER.numbers(text), Sight()):
        assert through(of, text) == text


@given(st.lists(texts, max_size=4), texts, st.randoms(use_true_random=False))
def test_the_order_of_refusals_does_not_matter(
    refused: list[str], text: str, random: object
) -> None:
    spans = [(span.start, span.end) for span in spans_of(withheld(refused), text)]
    shuffled = list(refused)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [(one.start, one.end) for one in spans_of(withheld(shuffled), text)] == spans


@given(st.lists(texts, min_size=1, max_size=4), texts)
def test_what_is_forgiven_is_as_if_it_had_never_been_refused(refused: list[str], text: str) -> None:
    made = RefusedTexts()
    keys = [[made.refuse(printed)[0] for printed in prints_of(PRINTER, [one])] for one in refused]
    others = {key for group in keys[1:] for key in group}
    made.forgive(key for key in keys[0] if key not in others)
    without = [(one.start, one.end) for one in spans_of(withheld(refused[1:]), text)]
    assert [(one.start, one.end) for one in spans_of(made, text)] == without


@given(texts, texts, texts)
def test_showing_a_text_never_withholds_more_and_never_shows_another_whole(
    refused: str, shown: str, text: str
) -> None:
    before = spans_of(withheld([refused]), text)
    after = spans_of(withheld([refused], [shown]), text)
    assert {(one.start, one.end) for one in after} <= {(one.start, one.end) for one in before}
    for span in before:
        if (span.start, span.end) not in {(one.start, one.end) for one in after}:
            words = words_of(text)[span.start : span.end]
            assert f" {' '.join(words)} " in f" {' '.join(words_of(shown))} "
