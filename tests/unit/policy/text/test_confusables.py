"""The table of lookalikes is generated, and folds nothing that is ASCII already."""

from __future__ import annotations

from pathlib import Path

from policy.text.confusables import ASCII_LOOKALIKES
from tests.unit.policy import generate_confusables


def test_the_table_of_lookalikes_is_what_its_generator_prints() -> None:
    path = Path(__file__).resolve().parents[4] / "policy" / "text" / "confusables.py"
    assert path.read_text() == generate_confusables.source()


def test_no_ascii_character_is_folded_into_another() -> None:
    assert min(ASCII_LOOKALIKES) > 0x7F
    assert all(plain.isascii() and plain.isalnum() for plain in ASCII_LOOKALIKES.values())
