"""One word has one hash however it is written, and no hash shows a word or serves two tenants."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import unicodedata

import pytest

from policy.model import Tenant
from storage.derived.lexical.analysis import (
    ANALYSIS_ID,
    WORDS_MAX,
    WordHashes,
    terms_of,
    unpacked,
)
from storage.tables.keys import KeyedNames

HERS = Tenant("hers")
WORDS = WordHashes(KeyedNames(b"k" * 32))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "CAFE\N{COMBINING ACUTE ACCENT}"),
        ("ＡＢＣ", "abc"),  # noqa: RUF001 - full width
        ("Straße", "STRASSE"),
        ("running", "Runs"),
        ("Ada's", "ada"),
        ("ﬁne", "fine"),
        (unicodedata.normalize("NFD", "한국어"), "한국어"),
        ("ｶﾀｶﾅ", "カタカナ"),
    ],
)
def test_one_word_has_one_hash_however_it_is_written(one: str, other: str) -> None:
    found = WORDS.of(HERS, one)
    assert found
    assert found == WORDS.of(HERS, other)


def test_another_word_has_another_hash() -> None:
    assert WORDS.of(HERS, "bees") != WORDS.of(HERS, "beets")


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("INC-48213", ("inc-48213", "inc", "48213")),
        (
            "src/ledger/flush_quota.py",
            ("src/ledger/flush_quota.py", "src", "ledger", "flush", "quota", "py"),
        ),
        ("retryInvoice", ("retryinvoice", "retri", "invoic")),
        ("10.0.0.7", ("10.0.0.7", "10", "0", "0", "7")),
        ("赵晓峰", ("赵晓", "晓峰")),
        ("田", ("田",)),
        ("the", ()),
    ],
)
def test_compounds_are_found_whole_and_in_parts(word: str, terms: tuple[str, ...]) -> None:
    assert terms_of(word)[: len(terms)] == terms


def test_a_tenant_has_hashes_of_its_own_and_a_store_too() -> None:
    mine = WORDS.of(HERS, "the key is under the mat")
    assert set(mine).isdisjoint(WORDS.of(Tenant("his"), "the key is under the mat"))
    assert set(mine).isdisjoint(WordHashes(KeyedNames(b"j" * 32)).of(HERS, "the key is under"))


def test_a_long_text_counts_its_first_words_and_a_long_word_is_one() -> None:
    assert len(WORDS.of(HERS, "bee hive " * 32_768)) == WORDS_MAX
    assert len(WORDS.of(HERS, "x" * 65_536)) == 1
    assert len(WORDS.of(HERS, "ab-" * 21_000)) == WORDS_MAX


def test_the_cache_is_bounded_and_a_purge_empties_it() -> None:
    words = WordHashes(KeyedNames(b"k" * 32))
    for start in range(0, 140_000, 1_000):
        words.of(HERS, " ".join(f"w{start + at}" for at in range(1_000)))
    assert sum(map(len, words._kept.values())) <= 65_536
    words.forget()
    assert not words._kept
    assert words.of(HERS, "w7") == WORDS.of(HERS, "w7")


def test_a_question_has_each_word_once_with_the_version_of_the_analysis() -> None:
    packed = WORDS.packed(HERS, "bees and bees")
    hashes = unpacked(packed)
    assert hashes is not None
    assert hashes.tolist() == WORDS.of(HERS, "bee")
    assert WORDS.packed(HERS, "who is it?") == b""  # stop words alone
    other = bytes(byte ^ 1 for byte in ANALYSIS_ID) + packed[len(ANALYSIS_ID) :]
    assert unpacked(other) is None
