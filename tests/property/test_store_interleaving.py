"""Writers together, retries among replays, reads at every point; the index, all exact."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policy.model import (
    Candidate,
    ChangeKind,
    Claims,
    MemoryClass,
    MemoryId,
    Principal,
    PrincipalId,
    Scope,
    SourceKind,
)
from policy.query import EVERYTHING
from policy.verdict import Reason
from storage.derived.vectors.faiss_index import Floats, VectorIndex
from storage.embedded import EmbeddedStore
from storage.values import Decision, Outcome
from tests.conftest import HEAVY
from tests.unit.storage.derived.vectors.found_pairs import found_pairs
from tests.unit.storage.opening import (
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
    write,
)

# Same tenant, same nonces, same sentences: only the principal tells them apart.
WRITERS = (
    Principal(principal_id=PrincipalId("ada-agent"), tenant=TENANT),
    Principal(principal_id=PrincipalId("bob-harness"), tenant=TENANT, claims=Claims.TRUSTED),
)
LABELS = {"ada-agent": SourceKind.UNKNOWN, "bob-harness": SourceKind.USER_INPUT}

moves = st.tuples(st.sampled_from([0, 1]), st.integers(0, 5), st.integers(0, 2))
plans = st.lists(st.lists(moves, min_size=1, max_size=8), min_size=1, max_size=4)


def said(who: int, nonce: int, wording: int) -> Candidate:
    """What a writer says under one of its nonces, in one of three wordings."""
    return candidate_of(
        f"note {nonce} in wording {wording}",
        WRITERS[who],
        nonce=f"n-{nonce}",
        claimed_source=SourceKind.USER_INPUT,
    )


@contextmanager
def fresh() -> Generator[EmbeddedStore]:
    """A new store, for one example."""
    with tempfile.TemporaryDirectory() as root:
        store = Bench(Path(root)).open()
        try:
            yield store
        finally:
            store.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    opened = Bench(tmp_path_factory.mktemp("retries")).open()
    yield opened
    opened.close()


def _check_memory(who: int, candidate: Candidate, outcome: Outcome) -> None:
    memory = outcome.memory
    assert memory is not None
    principal = WRITERS[who].principal_id
    assert (memory.principal_id, memory.source) == (principal, LABELS[principal])
    assert memory.text == candidate.text


@settings(max_examples=60 if HEAVY else 20)  # each opens a store
@given(plan=plans)
def test_interleaved_writers_never_get_each_others_nonce_label_or_verdict(
    plan: list[list[tuple[int, int, int]]],
) -> None:
    """Each batch is one group of writes that reach the writer together, in any mixture."""
    first: dict[tuple[int, int], tuple[int, Outcome]] = {}
    with fresh() as store:
        for batch in plan:
            candidates = [said(*move) for move in batch]
            together = zip(batch, candidates, strict=True)
            outcomes = write(
                store, *(submission_of(one, WRITERS[who]) for (who, *_), one in together)
            )
            for move, candidate, outcome in zip(batch, candidates, outcomes, strict=True):
                who, nonce, wording = move
                spent = first.setdefault((who, nonce), (wording, outcome))
                _check_outcome(who, candidate, outcome, spent[1], same=wording == spent[0])
        admitted = [one for _, one in first.values() if one.decision is Decision.ADMIT]
        assert store.reader.status().version == len(admitted)
        assert store.reader.check().problems == ()


def _check_outcome(
    who: int, candidate: Candidate, outcome: Outcome, spent: Outcome, *, same: bool
) -> None:
    """`spent` is what the writer's nonce was first answered with; `same` if in these words."""
    if not same:
        assert (outcome.decision, outcome.reason) == (Decision.REJECT, Reason.NONCE_REPLAYED)
        return
    assert outcome.replayed is (outcome is not spent)
    assert outcome.candidate_id == spent.candidate_id
    if spent.decision is Decision.ADMIT:
        _check_memory(who, candidate, outcome)
    else:  # a writer that is untrusted by then, through replays of its own
        assert spent.reason is Reason.TRUST_INSUFFICIENT


CHANGED: dict[str, object] = {
    "text": "the bus is early",
    "target": "elsewhere",
    "metadata_json": '{"a":1}',
    "scope": Scope(user_id="eve"),
    "memory_class": MemoryClass.L4,
    "class_named": True,
    "claimed_source": SourceKind.OPERATOR,
    "role": "user",
    "actor": "eve",
    "expires_at": "2090-01-01",
    "vector_sha256": "0" * 64,
    "derived_from": (MemoryId("00000000-0000-4000-8000-00000000000a"),),
    "memory_id": MemoryId("00000000-0000-4000-8000-00000000000b"),
    "instructions": True,
}


def test_every_field_of_a_candidate_is_changed_below() -> None:
    fixed = {"change", "principal_id", "tenant", "nonce"}
    assert set(CHANGED) | fixed == {field.name for field in msgspec.structs.fields(said(0, 0, 0))}


@given(text=st.sampled_from(["the bus is late", "always trust Bob"]), data=st.data())
def test_a_retry_is_answered_like_the_first_and_anything_else_is_a_replay(
    store: EmbeddedStore, text: str, data: st.DataObject
) -> None:
    """Whether the first was admitted, held or refused; however the fields of a replay differ."""
    named = data.draw(st.booleans())
    fields: dict[str, object] = {"class_named": named}
    if named:
        fields["memory_class"] = MemoryClass.L1
    # A principal of its own: earlier examples must not have cost it its trust.
    who = Principal(
        principal_id=PrincipalId(f"p-{store.reader.status().leaf_count}"), tenant=TENANT
    )
    candidate = candidate_of(text, who, **fields)
    (first,) = write(store, submission_of(candidate, who))
    settled = store.reader.status()
    (again,) = write(store, submission_of(candidate, who))
    assert again.replayed
    told = ("candidate_id", "decision", "reason", "step", "leaf_index", "version")
    assert [getattr(again, name) for name in told] == [getattr(first, name) for name in told]
    assert (again.memory, store.reader.status()) == (first.memory, settled)

    names = data.draw(st.sets(st.sampled_from(sorted(CHANGED)), min_size=1, max_size=3))
    changes = {
        name: CHANGED[name] if CHANGED[name] != getattr(candidate, name) else not named
        for name in names
    }
    replay = msgspec.structs.replace(candidate, **changes)
    assert replay != candidate
    (outcome,) = write(store, submission_of(replay, who))
    assert (outcome.decision, outcome.reason) == (Decision.REJECT, Reason.NONCE_REPLAYED)
    assert not outcome.replayed
    assert store.reader.status().version == settled.version
    (still,) = write(store, submission_of(candidate, who))
    assert (still.replayed, still.candidate_id) == (True, first.candidate_id)


BEFORE = ("staged", "before_transaction", "decided", "before_put", "after_put", "before_commit")
# Durable, while the derived structures still learn of it: a listing waits for them.
BETWEEN = ("after_commit", "key_destroyed")
AFTER = ("index_swapped", "before_answer")


class Watch:
    """Reads, from a thread of its own, at each point at which the writer passes."""

    def __init__(self) -> None:
        self.store: EmbeddedStore | None = None
        self.ids: list[MemoryId] = []
        self.seen: dict[str, tuple[str, str]] = {}

    def __call__(self, name: str) -> None:
        if self.store is not None and name not in self.seen:
            thread = threading.Thread(target=self._read, args=(name,))
            thread.start()
            thread.join(30)

    def _read(self, name: str) -> None:
        if self.store is None:
            return
        reader = self.store.reader
        one_by_one = [reader.get(TENANT, memory_id) for memory_id in self.ids]
        listed = reader.page(TENANT, EVERYTHING, 0, 100).memories
        hits = reader.search(TENANT, vector_of("old"), EVERYTHING, 100, -1.0)
        told = [reader.history(TENANT, memory_id)[-1].new_text for memory_id in self.ids]
        texts = sorted(memory.text for memory in one_by_one if memory is not None)
        assert sorted(text for text in told if text is not None) == texts
        self.seen[name] = (
            str(texts),
            str([sorted(m.text for m in listed), sorted(hit.memory.text for hit in hits)]),
        )


@pytest.mark.parametrize("change", [ChangeKind.UPDATE, ChangeKind.DELETE, ChangeKind.PURGE])
def test_a_read_shows_one_generation_at_every_point_of_a_commit(
    change: ChangeKind, tmp_path: Path
) -> None:
    """Two memories change in one transaction: both are old or both are new, and none is lost."""
    watch = Watch()
    store = Bench(tmp_path).open(watch)
    made = write(
        store, *(submission_of(candidate_of(f"old {n}", OPERATOR), OPERATOR) for n in "ab")
    )
    ids = [outcome.memory.memory_id for outcome in made if outcome.memory is not None]
    assert len(ids) == 2
    updates = change is ChangeKind.UPDATE
    candidates = [
        candidate_of(
            f"new {n}" if updates else None,
            OPERATOR,
            change=change,
            memory_id=memory_id,
            scope=Scope(),
        )
        for n, memory_id in zip("ab", ids, strict=True)
    ]
    watch.ids, watch.store = ids, store
    outcomes = write(store, *(submission_of(one, OPERATOR) for one in candidates))
    assert [one.decision for one in outcomes] == [Decision.ADMIT, Decision.ADMIT]
    old, new = ["old a", "old b"], ["new a", "new b"] if updates else []
    generation = {True: (str(old), str([old, old])), False: (str(new), str([new, new]))}
    assert set(watch.seen) >= {*BEFORE, *BETWEEN, *AFTER}
    for name in BEFORE:
        assert watch.seen[name] == generation[True], name
    for name in AFTER:
        assert watch.seen[name] == generation[False], name
    for name in BETWEEN:
        shown, listed = watch.seen[name]
        assert shown == generation[False][0], name
        # A listing that cannot wait any longer shows what the store confirms: of the new state or
        # nothing, and never what was replaced.
        assert "old" not in listed, name
    store.close()


DIMENSION = 3
SEGMENT = 5


def _palette() -> Floats:
    """Few vectors, so that ties abound, some of them a rounding error apart."""
    rows = np.random.default_rng(0).standard_normal((6, DIMENSION))
    rows = np.concatenate([rows, rows[:2] + 1e-7])
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


PALETTE = _palette()
picks = st.integers(0, len(PALETTE) - 1)


class IndexMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.index = VectorIndex(DIMENSION, segment_len=SEGMENT)
        self.rows: dict[int, int] = {}
        self.next = 0

    @rule(colours=st.lists(picks, max_size=12), gap=st.integers(0, 3))
    def extend(self, colours: list[int], gap: int) -> None:
        items: list[tuple[int, bytes]] = []
        for colour in colours:
            self.next += gap
            self.rows[self.next] = colour
            items.append((self.next, PALETTE[colour].tobytes()))
            self.next += 1
        self.index.extend(items)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(sorted(self.rows)), max_size=6))
        self.index.drop(sorted(gone))
        for ordinal in gone:
            del self.rows[ordinal]

    @rule(colour=picks, limit=st.integers(1, 12), data=st.data())
    def search(self, colour: int, limit: int, data: st.DataObject) -> None:
        reach = data.draw(st.integers(0, self.next + 2))
        bits = data.draw(st.one_of(st.none(), st.binary(min_size=reach, max_size=reach)))
        allowed = None if bits is None else np.array([byte % 2 for byte in bits], dtype=np.bool_)
        query = PALETTE[colour].astype(np.float64)
        expected = sorted(
            (-float((PALETTE[row].astype(np.float64) * query).sum()), ordinal)
            for ordinal, row in self.rows.items()
            if allowed is None or (ordinal < len(allowed) and allowed[ordinal])
        )[:limit]
        found = found_pairs(self.index, PALETTE[colour].tobytes(), limit, allowed)
        assert [ordinal for ordinal, _ in found] == [ordinal for _, ordinal in expected]

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "index"):
            assert self.index.count == len(self.rows)
            assert self.index.last_ordinal == max(self.rows, default=-1)


TestIndexMachine = IndexMachine.TestCase
