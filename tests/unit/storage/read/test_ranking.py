"""Searches by words and likeness: what a hidden row or another tenant may change, and may not."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import numpy as np
import pytest

from policy.model import (
    Basis,
    ChangeKind,
    Hit,
    Memory,
    MemoryId,
    MemoryStatus,
    Principal,
    PrincipalId,
    Provenance,
    Reads,
    Scope,
    SourceKind,
    Tenant,
)
from policy.query import EVERYTHING
from storage.derived.vectors import segment_files
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.features.quarantine.hiding import Quarantine
from storage.questions import AnsweredQuestion, Question, WeighedText
from storage.values import (
    Decision,
)
from tests.unit.storage.opening import (
    AGENT,
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
    write,
)

FAR = vector_of("nothing like any other text")
BESIDE = Principal(principal_id=PrincipalId("agent-9"), tenant=Tenant("beside"))
SHORT = EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26, segment_len=4)
FACTS = ("Ada keeps bees in Lyon.", "INC-48213 was a full disk.", "Bees like clover.", "It rained.")


def say(store: EmbeddedStore, text: str, by: Principal = AGENT) -> MemoryId:
    candidate = candidate_of(text, by, scope=Scope(user_id="ada"))
    (outcome,) = write(store, submission_of(candidate, by))
    assert outcome.decision is Decision.ADMIT, outcome
    assert outcome.memory is not None
    return outcome.memory.memory_id


def find(store: EmbeddedStore, text: str, reads: Reads = Reads.ALL) -> tuple[Hit, ...]:
    reader = store.reader.at(reads)
    words = reader.words(TENANT, text)
    return reader.search(TENANT, FAR, EVERYTHING, 50, -1.0, words=words)


def shown(hits: tuple[Hit, ...]) -> list[tuple[str, bytes]]:
    return [(hit.memory.text, msgspec.json.encode((hit.score, hit.ranking))) for hit in hits]


def test_an_identifier_is_found_first_by_its_words(store: EmbeddedStore) -> None:
    for text in FACTS:
        say(store, text)
    assert find(store, "what was inc-48213?")[0].memory.text == FACTS[1]
    # Control: by the vector alone another text is first.
    assert store.reader.search(TENANT, FAR, EVERYTHING, 1, -1.0)[0].memory.text != FACTS[1]


def test_what_another_tenant_writes_changes_no_byte(store: EmbeddedStore) -> None:
    for text in FACTS:
        say(store, text)
    before = shown(find(store, "bees in Lyon"))
    for number in range(30):
        say(store, f"bees bees Lyon {number}", BESIDE)
    assert shown(find(store, "bees in Lyon")) == before
    say(store, "bees bees Lyon")  # control: the tenant's own words count
    assert shown(find(store, "bees in Lyon")) != before


def test_hidden_copies_change_no_byte(store: EmbeddedStore) -> None:
    for text in FACTS:
        say(store, text)
    before = shown(find(store, "bees in Lyon"))
    liar = Principal(principal_id=PrincipalId("agent-8"), tenant=TENANT)
    copies = [say(store, f"bees in Lyon {number}", liar) for number in range(20)]
    assert shown(find(store, "bees in Lyon")) != before  # control
    for copy in copies:
        asyncio.run(store.writer.order(Quarantine(copy, TENANT, BY, "a lie")))
    assert shown(find(store, "bees in Lyon")) == before


def test_a_hidden_row_that_is_asked_for_is_found_by_its_words_too(store: EmbeddedStore) -> None:
    lie = say(store, "Cars in Lyon need a CQ-7711 permit.")
    for text in FACTS:
        say(store, text)
    words = store.reader.words(TENANT, "CQ-7711")
    asyncio.run(store.writer.order(Quarantine(lie, TENANT, BY, "a lie")))

    def first(among: range | None) -> Hit:
        return store.reader.searched(
            TENANT, FAR, EVERYTHING, 9, -1.0, words=words, among=among
        ).hits[0]

    found = first(range(len(FACTS) + 1))
    assert (found.memory.memory_id, found.memory.status) == (lie, MemoryStatus.QUARANTINED)
    assert found.ranking is not None
    assert found.ranking.words > 0.5
    assert shown((first(range(1, len(FACTS) + 1)),)) == shown((first(None),))  # control


def test_a_reader_with_a_floor_gets_the_statistics_above_it(store: EmbeddedStore) -> None:
    for text in FACTS:
        say(store, text, OPERATOR)
    before = shown(find(store, "bees in Lyon", Reads.OPERATOR))
    for number in range(20):
        say(store, f"bees in Lyon {number}")
    assert shown(find(store, "bees in Lyon", Reads.OPERATOR)) == before
    assert len(find(store, "bees in Lyon")) == len(FACTS) + 20  # control


def is_other(left_out: MemoryId, memory: Memory) -> bool:
    return memory.memory_id != left_out


def test_a_memory_left_out_moves_no_other(store: EmbeddedStore) -> None:
    ids = [say(store, f"bees {'in Lyon ' * (n % 3)}and {n} hives") for n in range(12)]
    words = store.reader.words(TENANT, "bees in Lyon")
    whole = store.reader.searched(TENANT, FAR, EVERYTHING, 50, -1.0, words=words).hits
    for one in ids:
        rest = store.reader.searched(
            TENANT, FAR, EVERYTHING, 50, -1.0, words=words, shows=partial(is_other, one)
        ).hits
        expected = [hit for hit in whole if hit.memory.memory_id != one]
        assert shown(rest) == shown(tuple(expected))


def test_the_threshold_is_on_the_cosine_and_the_scores_descend(store: EmbeddedStore) -> None:
    for text in FACTS:
        say(store, text)
    question = "Bees like clover."
    words = store.reader.words(TENANT, question)
    vector = vector_of(question)
    hits = store.reader.search(TENANT, vector, EVERYTHING, 10, -1.0, words=words)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    above = store.reader.search(TENANT, vector, EVERYTHING, 10, 0.9, words=words)
    assert [hit.memory.text for hit in above] == [question]
    assert above[0].ranking is not None
    assert above[0].ranking.cosine == pytest.approx(1.0)


def test_words_of_another_version_of_the_analysis_find_nothing(store: EmbeddedStore) -> None:
    for text in FACTS:
        say(store, text)
    words = store.reader.words(TENANT, "bees in Lyon")
    other = bytes(byte ^ 1 for byte in words[:4]) + words[4:]
    by_vector = store.reader.search(TENANT, FAR, EVERYTHING, 10, -1.0)
    stale = store.reader.search(TENANT, FAR, EVERYTHING, 10, -1.0, words=other)
    assert shown(stale) == shown(by_vector)
    assert shown(find(store, "bees in Lyon")) != shown(by_vector)  # control


def test_a_store_answers_alike_after_a_restart_and_after_a_kill(bench: Bench) -> None:
    store = bench.open(options=SHORT)
    for number in range(11):
        say(store, f"bees {number} in Lyon " + "clover " * (number % 4))
    before = shown(find(store, "clover in Lyon"))
    bench.close()
    assert shown(find(bench.open(options=SHORT), "clover in Lyon")) == before
    bench.close()
    for file in (bench.state / "segments").iterdir():
        file.unlink()
    assert shown(find(bench.open(options=SHORT), "clover in Lyon")) == before


@pytest.mark.parametrize("harm", ["torn", "another analysis"])
def test_a_segment_that_does_not_fit_is_made_again_and_counted(
    bench: Bench, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open(options=SHORT)
    for number in range(11):
        say(store, f"bees {number} in Lyon " + "clover " * (number % 4))
    before = shown(find(store, "clover in Lyon"))
    bench.close()
    whole = bench.open(options=SHORT)
    assert whole.reader.status().reason is None  # control: whole files fit
    bench.close()
    first, *others = sorted((bench.state / "segments").iterdir())
    if harm == "torn":
        first.write_bytes(first.read_bytes()[:-7])
        found = "1 (digest)"
    else:
        monkeypatch.setattr(segment_files, "ANALYSIS_ID", b"next")
        found = f"{1 + len(others)} (store, model or version)"
    again = bench.open(options=SHORT)
    assert shown(find(again, "clover in Lyon")) == before
    assert f"did not fit the store: {found}" in str(again.reader.status().reason)


def test_a_purge_leaves_no_hash_in_a_file_and_no_word_in_plain(bench: Bench) -> None:
    store = bench.open(options=SHORT)
    said = say(store, "zanzibar is the canary word")
    for number in range(5):
        say(store, f"bees {number}")
    store._engine.parts.derived.save()
    word = np.uint64(store._engine.parts.derived.words.of(TENANT, "zanzibar")[0])
    packed = word.tobytes()

    def files() -> list[bytes]:
        return [path.read_bytes() for path in bench.state.rglob("*") if path.is_file()]

    assert any(packed in data for data in files())  # control
    saved = [path.read_bytes() for path in (bench.state / "segments").iterdir()]
    assert not any(b"zanzibar" in data or b"canari" in data for data in saved)
    gone = candidate_of(None, change=ChangeKind.PURGE, memory_id=said)
    proof = Provenance(source=SourceKind.OPERATOR, basis=Basis.CHANNEL)
    (outcome,) = write(store, submission_of(gone, provenance=proof))
    assert outcome.decision is Decision.ADMIT
    assert not any(packed in data for data in files())
    for part in store._engine.parts.derived.index.row_words():
        assert word not in part.words.entries().words
    assert not store._engine.parts.derived.words._kept


def test_a_text_scored_by_itself_scores_as_its_memory_does(store: EmbeddedStore) -> None:
    for text in FACTS:
        say(store, text)
    question = Question(vector=FAR, words=store.reader.words(TENANT, "bees in Lyon"))
    hits = find(store, "bees in Lyon")
    texts = [
        WeighedText(text=one.text, vector=vector_of(one.text), source=one.source)
        for one in (hit.memory for hit in hits)
    ]
    scores = store.reader.scores(TENANT, question, texts)
    assert scores == pytest.approx([hit.score for hit in hits])


def test_a_contest_counts_words_and_gives_an_equal_text_an_equal_score(
    store: EmbeddedStore,
) -> None:
    for text in FACTS:
        say(store, text)
    answer, question = "Refunds are paid within 14 days.", "how long does a refund take"
    contest = store.reader.contest(
        TENANT,
        [
            AnsweredQuestion(
                question=question,
                question_vector=FAR,
                answer=answer,
                answer_vector=vector_of(answer),
            )
        ],
    )
    own, other = contest.scores(answer, vector_of(answer))
    assert own == other
    stuffed = f"{question}? Never, refunds take forever."
    (own_score,), (stuffed_score,) = contest.scores(stuffed, vector_of(answer))
    assert stuffed_score > own_score
