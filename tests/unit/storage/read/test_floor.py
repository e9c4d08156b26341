"""A floor for reads: what is below it is in no read, and of each memory the newest row above is."""

from __future__ import annotations

import asyncio
import random

import pytest

from policy.gate import GATE, UnsafeObservingGate
from policy.model import Basis, ChangeKind, Memory, MemoryId, Provenance, Reads, Scope, SourceKind
from policy.query import EVERYTHING, Compare, Field
from policy.query import Test as Condition
from storage.derived import catalogue
from storage.embedded import EmbeddedStore
from storage.features.confirm_memory import ConfirmMemory
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.interfaces import MemoryReader
from storage.values import Decision
from tests.unit.storage.opening import (
    BY,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
    write,
)

HERS, OPERATORS, NOBODYS = SourceKind.USER_INPUT, SourceKind.OPERATOR, SourceKind.UNKNOWN
ANY_TEXT = Condition(field=Field.TEXT, compare=Compare.NE, values=("no text",))
OBSERVING = UnsafeObservingGate(GATE)  # lets every change in


def put(
    store: EmbeddedStore,
    text: str | None,
    label: SourceKind,
    memory_id: MemoryId | None = None,
    change: ChangeKind = ChangeKind.CREATE,
) -> MemoryId:
    candidate = candidate_of(text, change=change, memory_id=memory_id, scope=Scope(user_id="ada"))
    proof = Provenance(source=label, basis=Basis.CHANNEL)
    (outcome,) = write(store, submission_of(candidate, provenance=proof))
    assert outcome.decision is Decision.ADMIT, outcome
    found = memory_id if outcome.memory is None else outcome.memory.memory_id
    assert found is not None
    return found


def read_by_all(reader: MemoryReader, memory_id: MemoryId) -> list[object]:
    """What each way of reading says of one memory: its text, a count, or that it is there."""
    near = reader.search(TENANT, vector_of("anything"), EVERYTHING, 100, -1.0)
    entities = reader.entities(TENANT).entities
    turnover = reader.turnover(TENANT, EVERYTHING, None, 100)
    assert turnover is not None
    one = reader.get(TENANT, memory_id)
    return [
        None if one is None else one.text,
        [hit.memory.text for hit in near],
        [memory.text for memory in reader.page(TENANT, EVERYTHING, 0, 100).memories],
        reader.page(TENANT, EVERYTHING, 0, 100).total,
        reader.page(TENANT, ANY_TEXT, 0, 100).total,
        [*reader.ids(TENANT, EVERYTHING, 100)],
        sum(entity.count for entity in entities),
        [memory.text for _, memory in turnover.came],
        [step.new_text for step in reader.history(TENANT, memory_id)],
        reader.source(TENANT, memory_id) is not None,
    ]


ABSENT: list[object] = [None, [], [], 0, 0, [], 0, [], [], False]


@pytest.mark.parametrize("reads", [Reads.USER_INPUT, Reads.OPERATOR])
@pytest.mark.parametrize("label", [*SourceKind])
def test_every_read_shows_a_row_at_the_floor_and_none_below(
    store: EmbeddedStore, label: SourceKind, reads: Reads
) -> None:
    memory_id = put(store, "Ada keeps bees.", label)
    text = "Ada keeps bees."
    there: list[object] = [text, [text], [text], 1, 1, [memory_id], 1, [text], [text], True]
    assert read_by_all(store.reader, memory_id) == there
    shown = label.trust >= reads.trust
    assert read_by_all(store.reader.at(reads), memory_id) == (there if shown else ABSENT)
    for_gate = store.reader.at(reads).stands_for(TENANT, memory_id)
    assert (for_gate == memory_id) is shown
    assert store.reader.get(TENANT, for_gate) is None or shown
    never = MemoryId("00000000-0000-4000-8000-000000000000")
    assert store.reader.at(reads).stands_for(TENANT, never) == never


def test_ten_thousand_rows_below_blind_no_search_above(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "MARKED_OVER", 0)
    hers = put(store, "Ada keeps bees.", HERS)
    floor = store.reader.at(Reads.USER_INPUT)
    before = read_by_all(floor, hers)
    proof = Provenance(source=NOBODYS, basis=Basis.UNPROVEN)
    for start in range(0, 10_000, 250):
        flood = [candidate_of(f"Ada keeps bee {start + at}.") for at in range(250)]
        vector = vector_of("anything")
        write(store, *(submission_of(one, provenance=proof, vector=vector) for one in flood))
    assert read_by_all(floor, hers) == before
    hits = store.reader.search(TENANT, vector_of("anything"), EVERYTHING, 100, -1.0)
    assert hers not in {hit.memory.memory_id for hit in hits}, "control: the flood blinds `all`"
    assert store.reader.page(TENANT, EVERYTHING, 0, 1).total == 10_001


def test_of_a_memory_with_rows_of_both_kinds_the_newest_above_is_shown(bench: Bench) -> None:
    store = bench.open(gate=OBSERVING)
    memory_id = put(store, "first, hers", HERS)
    put(store, "second, a page's", NOBODYS, memory_id, ChangeKind.UPDATE)
    for opened in (store, None):
        if opened is None:
            store.close()
            store = bench.open(gate=OBSERVING)
        assert read_by_all(store.reader, memory_id)[1] == ["second, a page's"]
        text = "first, hers"
        there = [text, [text], [text], 1, 1, [memory_id], 1, [text], [text], True]
        assert read_by_all(store.reader.at(Reads.USER_INPUT), memory_id) == there
        assert read_by_all(store.reader.at(Reads.OPERATOR), memory_id) == ABSENT
    put(store, None, HERS, memory_id, ChangeKind.DELETE)
    put(store, "third, a page's", NOBODYS, memory_id)
    floor = store.reader.at(Reads.USER_INPUT)
    assert read_by_all(floor, memory_id)[:8] == ABSENT[:8]
    steps = [(one.change, one.old_text, one.new_text) for one in floor.history(TENANT, memory_id)]
    assert steps == [
        (ChangeKind.CREATE, None, "first, hers"),
        (ChangeKind.DELETE, "first, hers", None),
    ]


def test_the_end_of_what_was_below_is_no_step_of_a_history(bench: Bench) -> None:
    store = bench.open(gate=OBSERVING)
    memory_id = put(store, "a page's", NOBODYS)
    put(store, None, HERS, memory_id, ChangeKind.DELETE)
    put(store, "hers", HERS, memory_id)
    steps = store.reader.at(Reads.USER_INPUT).history(TENANT, memory_id)
    assert [one.new_text for one in steps] == ["hers"]
    assert len(store.reader.history(TENANT, memory_id)) == 3


def test_a_key_of_a_client_that_has_something_below_is_free(store: EmbeddedStore) -> None:
    floor, mine = store.reader.at(Reads.USER_INPUT), candidate_of().principal_id
    key = '["store",["a"],"k"]'
    below = store.reader.id_of(TENANT, key)
    put(store, "a page's", NOBODYS, below)
    assert store.reader.id_of(TENANT, key) == below
    beside = floor.id_of(TENANT, key)
    assert beside != below
    assert floor.id_of(TENANT, key, mine) == below, "what a principal wrote itself it replaces"
    put(store, "hers", HERS, beside)
    for reader in (floor, store.reader):
        found = reader.get(TENANT, reader.id_of(TENANT, key))
        assert found is not None
        assert (found.text, found.created_at_ms) == ("hers", found.updated_at_ms)
    assert len(floor.history(TENANT, beside)) == 1


def expected(store: EmbeddedStore, known: set[MemoryId], reads: Reads) -> dict[MemoryId, str]:
    """What a floor shows, found by the slowest way: from every step of every memory."""
    found: dict[MemoryId, str] = {}
    for memory_id in known:
        if store.reader.get(TENANT, memory_id) is None:
            continue
        steps = store.reader.history(TENANT, memory_id)
        ends = [at for at, step in enumerate(steps) if step.change is ChangeKind.DELETE]
        life = steps[ends[-1] + 1 if ends else 0 :]
        above = [step.new_text or "" for step in life if step.source.trust >= reads.trust]
        if above:
            found[memory_id] = above[-1]
    return found


def shown(reader: MemoryReader) -> tuple[dict[MemoryId, str], ...]:
    def by_id(memories: tuple[Memory, ...]) -> dict[MemoryId, str]:
        assert len({one.memory_id for one in memories}) == len(memories)
        return {one.memory_id: one.text for one in memories}

    hits = reader.search(TENANT, vector_of("anything"), EVERYTHING, 100, -1.0)
    paged = reader.page(TENANT, EVERYTHING, 0, 1_000).memories
    return by_id(tuple(hit.memory for hit in hits)), by_id(paged)


def act(store: EmbeddedStore, chance: random.Random, known: list[MemoryId], text: str) -> None:
    """Do one thing to one of the last memories, or add another one to them."""
    one, label = chance.choice(known[-6:]), chance.choice((HERS, OPERATORS, NOBODYS))
    live = store.reader.get(TENANT, one)
    kind = 0 if live is None else chance.randrange(8)
    if live is None or kind == 0:
        known.append(put(store, text, label))
    elif kind < 4:
        put(store, text, label, one, ChangeKind.UPDATE)
    elif kind == 4:
        put(store, None, label, one, ChangeKind.DELETE)
        put(store, text, chance.choice((HERS, NOBODYS)), one)
    elif kind == 5:
        asyncio.run(store.writer.order(Quarantine(one, TENANT, BY)))
        assert [reader.get(TENANT, one) for reader in map(store.reader.at, Reads)] == [None] * 3
        for change in range(chance.randrange(3)):
            put(store, f"{text}, hidden {change}", label, one)
        if chance.random() < 0.8:
            asyncio.run(store.writer.order(EndQuarantine(one, TENANT, BY)))
    else:
        asyncio.run(store.writer.order(ConfirmMemory(one, TENANT, BY, live.version)))


@pytest.mark.parametrize("seed", range(6))
def test_any_life_of_a_store_shows_at_each_floor_what_its_rows_say(bench: Bench, seed: int) -> None:
    store = bench.open(gate=OBSERVING)
    chance = random.Random(seed)  # noqa: S311 - the same lives in every run
    known: list[MemoryId] = [put(store, "begin", HERS)]
    for step in range(60):
        if step % 20 == 19:
            store.close()
            store = bench.open(gate=OBSERVING)
        act(store, chance, known, f"text {step}")
        for reads in Reads:
            reader = store.reader.at(reads)
            wanted = expected(store, set(known), reads)
            for found in shown(reader):
                assert found == wanted, (seed, step, reads)
            for name in known:
                one_read = reader.get(TENANT, name)
                assert (one_read is not None) is (name in wanted)
    assert store.reader.check().problems == ()
