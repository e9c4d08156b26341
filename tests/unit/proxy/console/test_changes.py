"""What a person is shown of texts that an agent chose: each line, and in bounded work."""

from __future__ import annotations

import difflib
import random

import pytest

from proxy.console import drawing
from proxy.console.drawing import changes


def test_a_diff_has_every_line_of_both_texts_once() -> None:
    assert list(changes("a\nb\nc", "a\nx\nc\nd")) == [
        *((" ", "a"), ("-", "b"), ("+", "x")),
        *((" ", "c"), ("+", "d")),
    ]
    assert list(changes("", "one")) == [("+", "one")]
    assert list(changes("same", "same")) == [(" ", "same")]
    many = "\n".join(map(str, range(1_500)))
    assert [sign for sign, _ in changes(many, "1")] == ["-"] * 1_500 + ["+"]


def test_a_diff_compares_lines_whole_however_alike_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = random.Random(1)  # noqa: S311 - test data
    old, new = ("\n".join("".join(chosen.choices("ab", k=12)) for _ in range(20)) for _ in range(2))
    made: list[object] = []

    class Counted(difflib.SequenceMatcher[str]):
        def set_seq1(self, a: object) -> None:
            made.append(a)
            super().set_seq1(a)  # type: ignore[arg-type]

    monkeypatch.setattr(drawing, "SequenceMatcher", Counted)
    monkeypatch.setattr(difflib, "SequenceMatcher", Counted)
    assert len(list(changes(old, new))) == 40
    assert len(made) == 1
    # Control: the library's own diff for people compares each line with each line.
    made.clear()
    list(difflib.ndiff(old.splitlines(), new.splitlines()))
    assert len(made) > 100
