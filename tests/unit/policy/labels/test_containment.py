"""Copies are found however they are dressed, and texts of other people are not taken for copies."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from policy.labels.containment import PrintIndex, prints_of, resemblance

PAGE = (
    "Zebra Analytics was founded in Rotterdam by two hydrologists. Its flood forecasts are read by "
    "nine water boards every morning. Customers of the harbour pay a lower rate for the archive. "
    "Whoever plans a dyke should ask for the sediment tables first. The support desk answers at "
    "desk@zebra-analytics.example and keeps case numbers such as ZA-48213 for ten years."
)
NOTE = "Customers of the harbour pay a lower rate for the archive."
ROOT = Path(__file__).resolve().parents[4]
SCORES = (
    "import sys; from policy.labels.containment import prints_of, resemblance; "
    "one, two = map(prints_of, sys.argv[1:]); "
    "sys.stdout.write(repr((list(one.words), resemblance(one, two))))"
)
SYLLABLES = ("bar", "den", "fol", "gim", "hus", "jek", "lot", "mir", "nap", "pod", "ruk", "sev")


def found(note: str, *pages: str) -> list[int]:
    index = PrintIndex()
    for key, page in enumerate(pages):
        index.add(key, prints_of(page))
    return [one.key for one in index.search(prints_of(note))]


def noise(seed: int, length: int) -> str:
    """Words that nobody says, from a vocabulary of some thousands."""
    rng = random.Random(seed)  # noqa: S311 - the same each time
    return " ".join("".join(rng.choices(SYLLABLES, k=3)) for _ in range(length))


def shuffled(text: str) -> str:
    sentences = text.split(". ")
    return ". ".join(sentences[::-1])


@pytest.mark.parametrize(
    "note",
    [
        NOTE,
        NOTE.upper(),
        NOTE.replace(" ", "\n   "),
        "\u200b".join(NOTE),
        NOTE.replace("a", "\u0430").replace("o", "\u03bf"),
        NOTE.replace("e", "e\u0301"),
        "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in NOTE),
        f"Remember: {NOTE}",
        f"- **{NOTE}**",
        shuffled(PAGE),
        f"{NOTE} {noise(1, 8)}",
        "The customers of the harbour pay a lower rate, for the archive",
        "harbour customers pay lower rate for archive",
        "Write to desk@zebra-analytics.example about it",
        "case ZA-48213 is kept",
    ],
)
def test_a_copy_is_found_however_it_is_dressed(note: str) -> None:
    assert found(note, noise(2, 300), PAGE, noise(3, 300)) == [1]


@pytest.mark.parametrize(
    "note",
    [
        "",
        "ok",
        "Ada sings in a choir on Mondays.",
        "The desk is closed today.",
        "We met in 2024, on the 3rd of May.",
        "customers of a lower window",
        noise(9, 40),
    ],
)
def test_another_text_is_not_taken_for_a_copy(note: str) -> None:
    assert found(note, PAGE, noise(2, 300)) == []


def test_a_script_without_spaces_is_read_letter_by_letter() -> None:
    page = "堤防の計画者は堆積物の表を最初に求めるべきです。港の顧客は低い料金を払います。"
    assert found("港の顧客は低い料金を払います", page) == [0]
    assert found("今日は友達と公園で昼ご飯を食べました", page) == []


def test_every_run_of_five_words_leaves_a_print_in_both() -> None:
    rng = random.Random(7)  # noqa: S311 - the same each time
    for _ in range(200):
        run = [f"word{rng.randrange(10**6)}" for _ in range(5)]
        page = [f"page{rng.randrange(10**6)}" for _ in range(60)]
        page[30:30] = run
        alike = resemblance(prints_of(" ".join(run)), prints_of(" ".join(page)))
        assert alike.copied_words >= 3


def test_what_is_removed_is_not_found_and_leaves_nothing_behind() -> None:
    index = PrintIndex()
    index.add(1, prints_of(PAGE))
    index.add(2, prints_of(PAGE))
    index.remove(1)
    assert [one.key for one in index.search(prints_of(NOTE))] == [2]
    index.remove(2)
    assert (len(index), index._where) == (0, {})


def test_a_page_that_was_read_a_hundred_times_is_found() -> None:
    assert 99 in found(NOTE, *[PAGE] * 100)


def test_copies_that_others_have_read_hide_nothing() -> None:
    index = PrintIndex()
    for key in range(100):
        index.add(key, prints_of(PAGE))
    assert [one.key for one in index.search(prints_of(NOTE), {3})] == [3]
    nobody: frozenset[int] = frozenset()
    assert index.search(prints_of(NOTE), nobody) == []


def test_the_nearest_text_comes_first() -> None:
    part = f"{NOTE} {noise(4, 3)}"
    assert found(part, f"{noise(5, 9)} lower rate for the archive {noise(6, 9)}", PAGE)[0] == 1


def test_prints_have_no_text() -> None:
    assert "zebra" not in repr(prints_of(PAGE)).lower()


def test_an_endless_text_is_cut() -> None:
    assert len(prints_of("word " * 50_000).runs) < 20_000


def test_the_same_texts_are_as_alike_in_every_process() -> None:
    # A sum of weights in another order is another number, and at a threshold another verdict.
    told = {
        subprocess.run(
            (sys.executable, "-P", "-c", SCORES, PAGE, f"{NOTE} {shuffled(PAGE)}"),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(told) == 1
