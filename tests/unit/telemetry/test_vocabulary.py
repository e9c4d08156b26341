"""What a label or an attribute may hold, whatever somebody tried to put in it."""

from __future__ import annotations

import pytest

from policy.model import Basis, MemoryClass, SourceKind
from policy.verdict import Reason
from telemetry import vocabulary

CANARY = "my locker is number nine"


def test_a_closed_list_answers_with_its_own_words_alone() -> None:
    assert vocabulary.known("admit", vocabulary.DECISIONS) == "admit"
    assert vocabulary.known("", vocabulary.DECISIONS) == "none"
    assert vocabulary.known(CANARY, vocabulary.DECISIONS) == "other"


def test_the_lists_have_every_word_that_the_policy_has() -> None:
    assert {reason.value for reason in Reason} == vocabulary.REASONS
    assert {kind.value for kind in SourceKind} == vocabulary.SOURCE_KINDS
    assert {memory_class.value for memory_class in MemoryClass} == vocabulary.MEMORY_CLASSES
    assert {basis.value for basis in Basis} == vocabulary.BASES


@pytest.mark.parametrize("given", ["", "9lives", CANARY, "é", "a" * 65, "a\n", "StoreÜnavailable"])
def test_what_is_not_a_name_of_our_code_becomes_other(given: str) -> None:
    assert vocabulary.name("StoreUnavailable") == "StoreUnavailable"
    assert vocabulary.name(given) == "other"


@pytest.mark.parametrize("given", ["", "locker-nine", "0" * 65, "\uff10\uff11", "ab\n"])
def test_an_id_that_could_spell_content_becomes_other(given: str) -> None:
    minted = "6f2c1c1e-6c7f-4d1e-9a63-0b9a1f0c2d3e"
    assert vocabulary.hex_id(minted) == minted
    assert vocabulary.hex_id(given) == "other"


def test_hidden_and_unencodable_characters_become_escapes() -> None:
    assert vocabulary.printable("plain, naïve") == "plain, naïve"
    assert vocabulary.printable("a\u202eb\x1b\ud800") == "a\\u202eb\\u001b\\ud800"
    assert vocabulary.printable("\U000e0041") == "\\U000e0041"


@pytest.mark.parametrize("character", ["x", "\u202e", "\U000e0041"])
@pytest.mark.parametrize("count", [25, 26, 255, 256, 257, 100_000])
def test_no_value_is_longer_than_256_and_a_cut_shows(character: str, count: int) -> None:
    shown = vocabulary.printable(character * count)
    whole = count * len(vocabulary.printable(character))
    assert len(shown) == min(whole, vocabulary.PRINTABLE_LEN_MAX)
    assert shown.isprintable()
    assert shown.endswith("…") is (whole > vocabulary.PRINTABLE_LEN_MAX)
