"""An instruction about future behaviour is read as a directive; talk between people is not."""

from __future__ import annotations

import pytest

from policy.labels.derive import read_text
from tests.unit.policy import attack_texts


@pytest.mark.parametrize("text", attack_texts.DIRECTIVES)
def test_a_directive_is_read_as_one(text: str) -> None:
    assert read_text(text, None).directive
    assert read_text(f"Notes of the day.\n{text}", None).directive


@pytest.mark.parametrize("text", attack_texts.HONEST)
def test_an_honest_text_is_none(text: str) -> None:
    assert not read_text(text, None).directive
