"""The score of one memory depends on no other hit, and words are bounded by the label."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.model import SourceKind, Tenant
from storage.derived.lexical.analysis import WordHashes, unpacked
from storage.derived.lexical.postings import Postings, entries_of, joined, sealed
from storage.derived.lexical.scoring import TRUSTS, AskedWords, Mask, RowWords, score
from storage.derived.vectors.faiss_index import VectorIndex
from storage.tables.keys import KeyedNames

HERS = Tenant("hers")
WORDS = WordHashes(KeyedNames(b"k" * 32))
DIMENSION = 4
UNIT = np.array([1, 0, 0, 0], dtype="<f4").tobytes()
NOUNS = ("bee", "hive", "honey", "clover", "wax", "queen", "smoker", "frame")
TEXTS = st.lists(st.sampled_from(NOUNS), max_size=12).map(" ".join)


def _index(texts: list[str], segment_len: int = 4) -> VectorIndex:
    index = VectorIndex(DIMENSION, segment_len=segment_len)
    for ordinal, text in enumerate(texts):
        index.extend([(ordinal, UNIT)], [WORDS.of(HERS, text)])
    return index


def _asked(index: VectorIndex, question: str, live: Mask) -> AskedWords:
    hashes = unpacked(WORDS.packed(HERS, question))
    assert hashes is not None
    return AskedWords(index.row_words(), hashes, live)


def _all(count: int) -> Mask:
    return np.ones(count, dtype=np.bool_)


def test_words_of_a_row_are_the_share_of_what_was_asked() -> None:
    texts = ["honey and wax", "wax", "smoke", *["clover"] * 6]
    found = _asked(_index(texts), "honey wax", _all(9)).of_rows(_all(9))
    assert found[0] > found[1] > found[2] == 0
    assert found[0] == pytest.approx(1.0)
    assert not _asked(_index(texts), "drone", _all(9)).of_rows(_all(9)).any()


@given(texts=st.lists(TEXTS, min_size=1, max_size=14), question=TEXTS, data=st.data())
def test_a_row_left_out_changes_no_other_row(
    texts: list[str], question: str, data: st.DataObject
) -> None:
    asked = _asked(_index(texts), question or "bee", _all(len(texts)))
    out = data.draw(st.integers(0, len(texts) - 1))
    allowed = _all(len(texts))
    allowed[out] = False
    before, after = asked.of_rows(_all(len(texts))), asked.of_rows(allowed)
    assert after[out] == 0
    assert np.delete(before, out).tolist() == np.delete(after, out).tolist()


@given(texts=st.lists(TEXTS, min_size=1, max_size=14), question=TEXTS)
def test_rows_in_segments_and_in_the_tail_score_alike(texts: list[str], question: str) -> None:
    live, asked = _all(len(texts)), question or "bee"
    short = _asked(_index(texts, 2), asked, live)
    long = _asked(_index(texts, 100), asked, live)
    assert short.of_rows(live).tolist() == long.of_rows(live).tolist()
    each = [long.of_text(WORDS.of(HERS, text)) for text in texts]
    assert each == pytest.approx(long.of_rows(live).tolist())


@given(
    texts=st.lists(TEXTS, min_size=2, max_size=14),
    question=TEXTS,
    copies=st.lists(TEXTS, min_size=1, max_size=20),
)
def test_rows_that_are_not_live_count_in_no_statistics(
    texts: list[str], question: str, copies: list[str]
) -> None:
    alone = _asked(_index(texts), question or "bee", _all(len(texts)))
    live = np.zeros(len(texts) + len(copies), dtype=np.bool_)
    live[: len(texts)] = True
    among = _asked(_index([*texts, *copies]), question or "bee", live)
    assert among.of_rows(live)[: len(texts)].tolist() == alone.of_rows(_all(len(texts))).tolist()


def test_a_word_counts_at_most_as_often_as_its_count_has_room() -> None:
    texts = ["bee " * 300, "bee " * 255, "hive"]
    for index in (_index(texts, 2), _index(texts, 100)):
        counts = np.concatenate([part.words.entries().counts for part in index.row_words()])
        assert sorted(counts.tolist()) == [1, 255, 255]
        assert _asked(index, "bee", _all(3)).of_rows(_all(3)).tolist()[2] == 0


def _arrays(postings: Postings) -> list[list[int]]:
    return [getattr(postings, name).tolist() for name in postings.__struct_fields__]


@given(texts=st.lists(TEXTS, min_size=2, max_size=12), data=st.data())
def test_a_segment_without_a_purged_row_equals_one_that_never_had_it(
    texts: list[str], data: st.DataObject
) -> None:
    hashes = [WORDS.of(HERS, text) for text in texts]
    gone = data.draw(st.integers(0, len(texts) - 1))
    keep = _all(len(texts))
    keep[gone] = False
    cut = sealed(sealed(entries_of(hashes)).entries().kept(keep))
    never = sealed(entries_of([one for at, one in enumerate(hashes) if at != gone]))
    assert _arrays(cut) == _arrays(never)


def _whole(index: VectorIndex) -> list[list[int]]:
    parts = index.row_words()
    words = sealed(joined([part.words.entries() for part in parts]))
    return [np.concatenate([part.ordinals for part in parts]).tolist(), *_arrays(words)]


def test_an_index_after_a_purge_equals_array_by_array_one_that_never_had_the_row() -> None:
    texts = ["bee hive", "canary honey", "wax queen", "clover", "frame canary", "bee"]
    index, never = _index(texts), VectorIndex(DIMENSION, segment_len=4)
    for ordinal in (0, 2, 3, 5):
        never.extend([(ordinal, UNIT)], [WORDS.of(HERS, texts[ordinal])])
    assert _whole(index) != _whole(never)  # control
    index.drop([1, 4])
    assert _whole(index) == _whole(never)


def test_a_purge_leaves_no_hash_of_the_row_in_any_part() -> None:
    texts = ["bee hive", "canary honey", "wax queen", "clover", "frame canary", "bee"]
    index = _index(texts, 4)
    (word,) = WORDS.of(HERS, "canary")
    assert word in index.segments[0].postings.words  # control
    index.drop([1, 4])
    held = [part.words for part in index.row_words()]
    assert all(word not in one.entries().words for one in held)
    found = _asked(index, "canary bee", _all(6)).of_rows(_all(6))
    assert np.flatnonzero(found).tolist() == [0, 5]


def test_merged_segments_equal_one_that_was_made_at_once() -> None:
    parts = [["bee hive", "honey"], ["wax", "bee bee"]]
    each = [sealed(entries_of([WORDS.of(HERS, text) for text in part])) for part in parts]
    whole = sealed(joined([one.entries() for one in each]))
    at_once = sealed(entries_of([WORDS.of(HERS, text) for part in parts for text in part]))
    assert _arrays(whole) == _arrays(at_once)


RANKS = np.array([kind.trust for kind in SourceKind], dtype=np.int8)


@given(
    cosines=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    words=st.lists(st.floats(0, 3), min_size=6, max_size=6),
)
def test_a_score_lies_in_0_and_1_and_rises_with_the_label(
    cosines: list[float], words: list[float]
) -> None:
    scores = score(np.array(cosines), np.array(words), RANKS, TRUSTS[RANKS])
    assert ((scores >= 0) & (scores <= 1)).all()
    level = score(np.full(6, 0.4), np.full(6, 0.9), RANKS, TRUSTS[RANKS])
    by_rank = sorted(zip(RANKS.tolist(), level.tolist(), strict=True))
    assert [one for _, one in by_rank] == sorted(level.tolist())


def test_stuffed_words_gain_an_unproven_text_half_of_what_they_gain_a_person() -> None:
    ranks = np.array([SourceKind.UNKNOWN.trust, SourceKind.USER_INPUT.trust], dtype=np.int8)
    same = np.array([0.3, 0.3])
    bare = score(np.zeros(2), np.zeros(2), ranks, same)
    stuffed = score(np.zeros(2), np.full(2, 9.0), ranks, same)
    assert bare.tolist() == [0, 0]
    assert stuffed[1] == pytest.approx(2 * stuffed[0])


def test_a_part_without_rows_and_an_empty_index_find_nothing() -> None:
    index = VectorIndex(DIMENSION)
    asked = _asked(index, "bee", _all(0))
    assert asked.of_rows(_all(0)).tolist() == []
    assert asked.of_text(WORDS.of(HERS, "bee")) == 0
    part = RowWords(np.empty(0, np.int64), sealed(entries_of([])))
    hashes = unpacked(WORDS.packed(HERS, "bee"))
    assert hashes is not None
    assert AskedWords([part], hashes, _all(3)).of_rows(_all(3)).tolist() == [0, 0, 0]
