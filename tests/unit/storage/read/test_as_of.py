"""Searches of the past, for replays: the rows of a version, without the memories left out."""

from __future__ import annotations

import asyncio

import numpy as np

from policy.model import ChangeKind, MemoryId
from policy.query import EVERYTHING
from storage.embedded import EmbeddedStore
from storage.features.quarantine.hiding import Quarantine
from storage.features.recalls import NEAREST_MAX
from storage.values import Outcome
from tests.unit.storage.opening import (
    BY,
    DIMENSION,
    OPERATOR,
    TENANT,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)


def id_of(outcome: Outcome) -> MemoryId:
    assert outcome.memory is not None
    return outcome.memory.memory_id


def texts(store: EmbeddedStore, as_of: int | None = None, *left_out: MemoryId) -> set[str]:
    found = store.reader.searched(
        TENANT, vector_of("x"), EVERYTHING, 100, -1.0, as_of=as_of, without=frozenset(left_out)
    )
    return {one.memory.text for one in found.hits}


def change(store: EmbeddedStore, kind: ChangeKind, memory_id: MemoryId, text: str | None) -> int:
    by = OPERATOR
    candidate = candidate_of(text, by, change=kind, memory_id=memory_id)
    if text is None:
        (outcome,) = write(store, submission_of(candidate, by, vector=b"", embedder_id=""))
    else:
        (outcome,) = write(store, submission_of(candidate, by))
    return outcome.version


def test_each_version_of_the_past_is_what_readers_were_shown_then(store: EmbeddedStore) -> None:
    tea, train = say(store, "tea at four"), say(store, "the train is late")
    shown = {train.version: texts(store)}
    version = change(store, ChangeKind.UPDATE, id_of(tea), "tea at five")
    shown[version] = texts(store)
    version = change(store, ChangeKind.DELETE, id_of(train), None)
    shown[version] = texts(store)
    bell = say(store, "the bell rings")
    shown[bell.version] = texts(store)
    version = change(store, ChangeKind.UPDATE, id_of(tea), "tea at six")
    shown[version] = texts(store)
    assert len(set(map(frozenset, shown.values()))) == 5
    for version, then in shown.items():
        assert texts(store, version) == then, version
    assert texts(store, tea.version) == {"tea at four"}
    assert texts(store, 0) == set()


def test_what_is_quarantined_or_purged_today_is_in_no_past(store: EmbeddedStore) -> None:
    tea, train = say(store, "tea at four"), say(store, "the train is late")
    bell = say(store, "the bell rings")
    assert texts(store, bell.version) == {"tea at four", "the train is late", "the bell rings"}
    change(store, ChangeKind.PURGE, id_of(tea), None)
    # Its row of that version is no longer the newest: the past alone would show it.
    change(store, ChangeKind.UPDATE, id_of(train), "the train is on time")
    assert texts(store, bell.version) == {"the train is late", "the bell rings"}
    asyncio.run(store.writer.order(Quarantine(id_of(train), TENANT, BY)))
    assert texts(store, bell.version) == {"the bell rings"}


def test_the_places_of_memories_left_out_are_filled_by_others(store: EmbeddedStore) -> None:
    said = [say(store, f"fact {number}") for number in range(8)]
    vector = vector_of("fact 3")

    def found(*left_out: MemoryId) -> list[MemoryId]:
        hits = store.reader.searched(
            TENANT, vector, EVERYTHING, 3, -1.0, without=frozenset(left_out)
        ).hits
        return [one.memory.memory_id for one in hits]

    nearest = found()
    assert nearest[0] == id_of(said[3])
    left = found(nearest[0])
    assert len(left) == 3
    assert left[:2] == nearest[1:]
    assert found(*nearest)[0] == left[2]
    # A state of an updated memory is that memory, in the past too.
    version = said[-1].version
    change(store, ChangeKind.UPDATE, id_of(said[3]), "fact three")
    assert "fact 3" in texts(store, version)
    assert "fact 3" not in texts(store, version, id_of(said[3]))


def test_a_search_names_the_nearest_rows_behind_the_shown_ones(store: EmbeddedStore) -> None:
    for number in range(NEAREST_MAX + 10):
        say(store, f"fact {number}")
    vector = vector_of("fact 3")
    found = store.reader.searched(TENANT, vector, EVERYTHING, 2, -1.0)
    right = store.reader.search(TENANT, vector, EVERYTHING, 100, -1.0, exact=True)
    by_score = sorted(right, key=lambda one: (-one.score, one.memory.ordinal))
    assert found.nearest == tuple(one.memory.ordinal for one in by_score[:NEAREST_MAX])
    assert len(found.hits) == 2
    assert found.version == store.reader.status().version


def test_of_two_equal_scores_the_older_memory_stands_first(store: EmbeddedStore) -> None:
    """A lie of the same words, told later, must not stand before the truth."""
    unit = np.zeros(DIMENSION, dtype="<f4")
    unit[0] = 1.0
    truth, lie = "The office opens at nine.", "The office opens at noon."
    for text in (truth, lie):
        write(store, submission_of(candidate_of(text), vector=unit.tobytes()))
    hits = store.reader.search(TENANT, unit.tobytes(), EVERYTHING, 2, -1.0)
    assert [one.memory.text for one in hits] == [truth, lie]
    assert hits[0].score == hits[1].score
    (first,) = store.reader.search(TENANT, unit.tobytes(), EVERYTHING, 1, -1.0)
    assert first.memory.text == truth
