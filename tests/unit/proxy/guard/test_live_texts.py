"""Live memories of a server are found again in its answers, by the words of their pieces."""

from __future__ import annotations

import json
import random

import pytest

from proxy.guard.live_texts import FOUND_MAX, LiveTexts, prints_of_pieces

TEA = "Ada drinks green tea at four."
TRAIN = "The last train leaves at half past nine."


def live(**memories: tuple[str, ...]) -> LiveTexts:
    found = LiveTexts()
    for name, pieces in memories.items():
        found.add(name, prints_of_pieces(pieces))
    return found


@pytest.mark.parametrize(
    "answer",
    [
        TEA,
        f"Notes: {TEA.upper()} -- {TRAIN[:20]}",
        json.dumps({"entities": [{"name": "Ada", "observations": [TEA]}]}),
        "ada   drinks\tgreen tea, at four",
    ],
)
def test_a_piece_is_found_in_whatever_stands_around_it(answer: str) -> None:
    assert live(tea=("Ada", TEA), train=(TRAIN,)).found_in((answer,)) == ("tea",)


@pytest.mark.parametrize("answer", ["", "Ada", TEA[:-6], "xAda drinks green tea at four", "four"])
def test_what_is_no_whole_piece_shows_nothing(answer: str) -> None:
    assert live(tea=("Ada", TEA), train=(TRAIN,)).found_in((answer,)) == ()


def test_names_alone_are_found_where_all_of_them_stand() -> None:
    known = live(ada=("Ada", "person"), bob=("Bob", "person"))
    assert known.found_in(("person", "Bob")) == ("bob",)
    assert known.found_in(("person",)) == ()
    assert known.found_in(("person", "Bob and Ada")) == ()


def test_a_name_that_hundreds_share_shows_none_of_them() -> None:
    names = {f"m{number}": ("person",) for number in range(300)}
    assert live(**names).found_in(("person",)) == ()
    assert live(**dict([*names.items()][:200])).found_in(("person",)) != (), "control: few do"


def test_what_is_gone_is_found_no_more_and_its_twin_is() -> None:
    known = live(one=(TEA,), two=(TEA,), three=("Ada drinks black tea.",))
    assert known.found_in((TEA,)) == ("one", "two")
    known.drop("one")
    assert known.found_in((TEA,)) == ("two",)
    known.drop("two")
    known.drop("never")
    assert known.found_in((TEA, "Ada drinks black tea.")) == ("three",)
    known.drop("three")
    assert (len(known), known.found_in(("Ada drinks black tea.",))) == (0, ())
    known.add("four", prints_of_pieces((TEA,)))
    assert known.found_in((TEA,)) == known.found_in((TEA,)) == ("four",)
    known.drop("four")
    bare = {"_lock", "_changes"}
    leaks = {name: value for name, value in vars(known).items() if name not in bare and value}
    assert leaks == {}


def test_what_one_answer_names_is_bounded() -> None:
    names = {f"m{number}": (f"Note {number} of the year",) for number in range(FOUND_MAX + 10)}
    answer = tuple(text for (text,) in names.values())
    assert len(live(**names).found_in(answer)) == FOUND_MAX


def test_the_index_finds_what_a_search_of_each_piece_finds() -> None:
    draws = random.Random(5)  # noqa: S311 - any texts
    words = ["ada", "drinks", "green", "tea", "at", "four", "the", "train"]

    def drawn(most: int) -> str:
        return " ".join(draws.choices(words, k=draws.randint(1, most)))

    for _ in range(300):
        texts = {f"m{number}": drawn(5) for number in range(6)}
        answer = drawn(24)
        telling = {one: text for one, text in texts.items() if len(text) >= 8 and " " in text}
        known = live(**{one: (text,) for one, text in telling.items()})
        expected = {one for one, text in telling.items() if f" {text} " in f" {answer} "}
        assert set(known.found_in((answer,))) == expected
