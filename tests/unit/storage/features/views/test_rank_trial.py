"""A ranking by feedback is tried on newer questions, and only people's marks have a part in it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pytest

from policy.after.matchers import Grade, SignalKind
from policy.model import PrincipalId, Tenant
from policy.query import EVERYTHING
from storage.features.failures import FAILURES_MAX, Failure
from storage.features.recalls import Recall, RecalledMemory
from storage.features.views import RankTrial
from storage.features.views.rank_trial import READS_MAX, rank_trial
from tests.unit.storage.features.recalls.test_ledger import id_of, purge
from tests.unit.storage.opening import (
    AGENT,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
    write,
)

TOPICS = 60
QUESTIONS = 200
HELD_BACK = 60
KEYS = 10
SEEDS = 40
STEP_MS = 1_000
GAIN = (1 - 1 / np.log2(3)) / 2
"""Half of the questions have their right memory second, and it would be first."""


class World:
    """A store whose searches showed all memories, of which each topic has one that is right."""

    def __init__(self, bench: Bench) -> None:
        self.store = bench.open()
        self.numbers = itertools.count()
        self.began_ms = bench.clock() - (2 * QUESTIONS) * STEP_MS
        texts = [*(f"The answer to {topic}." for topic in range(TOPICS)), "No search shows it."]
        made = write(self.store, *(submission_of(candidate_of(text)) for text in texts))
        *self.ids, self.beside = map(id_of, made)
        drawn = np.random.default_rng(5).standard_normal((TOPICS + QUESTIONS, TOPICS + QUESTIONS))
        axes = np.linalg.qr(drawn)[0].T
        for number in range(QUESTIONS):
            # Questions of one topic have a cosine of 0.75, all others of 0.
            vector = np.sqrt(0.75) * axes[number % TOPICS] + 0.5 * axes[TOPICS + number]
            self.search(number, vector.astype("<f4").tobytes())
        self.reads = self.store.recalls.recalls(TENANT, limit=READS_MAX)

    def search(self, number: int, vector: bytes) -> str:
        """Note a search that shows all memories; return its id."""
        topic = number % TOPICS
        first = [topic, (topic + 1) % TOPICS]
        # In every other topic the right memory is second.
        order = first[::-1] if topic % 2 else first
        order += [one for one in range(TOPICS) if one not in first]
        scores = [0.6, 0.58, *(0.5 - 0.005 * at for at in range(TOPICS - 2))]
        hits = tuple(
            RecalledMemory(ordinal=-1, memory_id=self.ids[one], score=score)
            for one, score in zip(order, scores, strict=True)
        )
        return self.store.recalls.note(
            Recall(
                recall_id="",
                at_ms=self.began_ms + number * STEP_MS,
                tenant=TENANT,
                principal_id=AGENT.principal_id,
                front="native",
                operation="search_memory",
                session="",
                version=1,
                limit=TOPICS,
                hits=hits,
                vector=vector,
                where=EVERYTHING,
            )
        )

    def mark(self, number: int, **fields: object) -> Failure:
        """What one of ten people says after a search: by default that the right memory is good."""
        values: dict[str, object] = {
            "kind": SignalKind.PERSON,
            "grade": Grade.GOOD,
            "tenant": TENANT,
            "by": PrincipalId(f"person-{number % KEYS}"),
            "at_ms": self.began_ms + number * STEP_MS + STEP_MS // 2,
            "memory_id": self.ids[number % TOPICS],
        } | fields
        failure_id = f"{values['at_ms']:012x}{next(self.numbers):08x}"
        return Failure(failure_id=failure_id, **values)  # type: ignore[arg-type]

    def put(self, marks: Sequence[Failure]) -> None:
        """Store marks as the intake of feedback does, without the limit of a day."""

        async def all_of_them() -> None:
            for one in marks:
                assert await self.store.failures.record(one, of_principal_max=None)

        asyncio.run(all_of_them())

    def trial(self, tenant: Tenant = TENANT) -> RankTrial:
        """The trial of what is stored."""
        reads = self.store.recalls.recalls(tenant, limit=READS_MAX)
        return rank_trial(reads, self.store.failures.newest(tenant, FAILURES_MAX))

    def read(self) -> bytes:
        """All that a search and the trial answer."""
        found = self.store.reader.searched(TENANT, vector_of("what?"), EVERYTHING, 10, -1.0)
        return msgspec.json.encode((found.hits, found.nearest, self.trial()))


@pytest.fixture(scope="module")
def read_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world in which no test stores anything."""
    made = World(Bench(tmp_path_factory.mktemp("world")))
    yield made
    made.store.close()


@pytest.fixture
def world(bench: Bench) -> Iterator[World]:
    made = World(bench)
    yield made
    made.store.close()


def test_one_signal_less_than_two_hundred_says_nothing_and_two_hundred_clear_ones_win(
    world: World,
) -> None:
    marks = [world.mark(number) for number in range(QUESTIONS)]
    assert world.trial() == RankTrial(signals=0)
    world.put(marks[:-1])
    assert world.trial() == RankTrial(signals=QUESTIONS - 1)
    world.put(marks[-1:])
    found = world.trial()
    assert (found.signals, found.questions, found.worse) == (QUESTIONS, HELD_BACK, 0)
    assert found.moved == HELD_BACK // 2
    assert found.gain == pytest.approx(GAIN)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < GAIN < found.high
    assert found.wins
    assert world.trial() == found, "the same marks give the same trial"
    assert world.trial(Tenant("elsewhere")) == RankTrial(signals=0)


def test_a_thousand_signals_of_agents_change_no_byte(world: World) -> None:
    world.put([world.mark(number) for number in range(QUESTIONS)])
    before = world.read()
    grades = (Grade.GOOD, Grade.IRRELEVANT, Grade.WRONG)
    forged = [
        world.mark(
            number % QUESTIONS,
            memory_id=world.ids[number % 7],
            by=PrincipalId("steered"),
            grade=grades[number % 3],
            kind=SignalKind.AGENT,
        )
        for number in range(1_000)
    ]
    world.put(forged)
    assert world.read() == before
    theirs = [msgspec.structs.replace(one, kind=SignalKind.PERSON) for one in forged]
    world.put(theirs)
    assert world.read() != before, "control: the same words of a person change the trial"


def test_shuffled_labels_and_noise_do_not_win(read_alone: World) -> None:
    right = [number % TOPICS for number in range(QUESTIONS)]
    held = QUESTIONS - HELD_BACK

    def wins(labels: Sequence[int]) -> bool:
        marks = [
            read_alone.mark(number, memory_id=read_alone.ids[one])
            for number, one in enumerate(labels)
        ]
        found = rank_trial(read_alone.reads, marks)
        assert (found.signals, found.questions) == (QUESTIONS, HELD_BACK)
        return found.wins

    assert wins(right), "control"
    shuffled, noisy = 0, 0
    for seed in range(SEEDS):
        drawn = np.random.default_rng(seed)
        shuffled += wins(drawn.permutation(right).tolist())
        # Boosts of 7.5 % for one of the two first memories of each topic, which a coin names.
        coins = drawn.integers(2, size=TOPICS).tolist()
        noise = [(one + coins[one]) % TOPICS for one in right[:held]]
        noisy += wins([*noise, *right[held:]])
    assert shuffled <= SEEDS // 20
    assert noisy <= SEEDS // 20


def test_one_key_has_at_most_a_fifth_of_all_signals(read_alone: World) -> None:
    def trial(keys: Sequence[int]) -> RankTrial:
        marks = [read_alone.mark(at, by=PrincipalId(f"key-{key}")) for at, key in enumerate(keys)]
        return rank_trial(read_alone.reads, marks)

    assert trial([at % 5 for at in range(QUESTIONS)]).wins, "control: five people, a fifth each"
    assert trial([0] * QUESTIONS) == RankTrial(signals=0)
    half = [0 if at % 2 else 1 + at % 9 for at in range(QUESTIONS)]
    assert trial(half) == RankTrial(signals=125)
    said_again = [read_alone.mark(at // 2) for at in range(2 * QUESTIONS)]
    assert rank_trial(read_alone.reads, said_again).signals == QUESTIONS, "each once"


def test_irrelevant_takes_back_what_anyone_approved(world: World) -> None:
    world.put([world.mark(number) for number in range(QUESTIONS)])
    assert world.trial().wins, "control"
    late = world.mark(QUESTIONS - 1, by=PrincipalId("person-x"), grade=Grade.IRRELEVANT)
    world.put([msgspec.structs.replace(late, at_ms=late.at_ms + 1)])
    assert world.trial() == RankTrial(signals=QUESTIONS - 1)


def test_a_purge_takes_the_questions_that_showed_the_memory(world: World) -> None:
    world.put([world.mark(number) for number in range(QUESTIONS)])
    purge(world.store, world.beside)
    assert world.trial().wins, "control: no search showed that memory"
    purge(world.store, world.ids[3])
    assert world.trial() == RankTrial(signals=0)


def test_a_mark_is_about_the_last_search_before_it_or_the_read_it_names(read_alone: World) -> None:
    people = [PrincipalId(f"person-{number}") for number in range(KEYS)]

    def signals(read: Sequence[Recall], **fields: object) -> int:
        return rank_trial(read, [read_alone.mark(7, by=by, **fields) for by in people]).signals

    assert signals(read_alone.reads) == KEYS, "control"
    assert signals(read_alone.reads, grade=Grade.WRONG) == 0
    assert signals(read_alone.reads, memory_id=read_alone.beside) == 0
    assert signals(read_alone.reads, at_ms=read_alone.began_ms - 1) == 0
    assert signals(read_alone.reads, memory_id="", reply_id="msg_01") == 0
    named = read_alone.reads[0].recall_id
    assert signals(read_alone.reads, memory_id="", recall_id=named, at_ms=10**15) == KEYS * TOPICS
    # A note of what rules left out has a question, and showed nothing.
    unranked = tuple(msgspec.structs.replace(one, score=None) for one in read_alone.reads[0].hits)
    left_out = [msgspec.structs.replace(one, hits=unranked) for one in read_alone.reads]
    assert signals(left_out) == 0
    nothing = [msgspec.structs.replace(one, hits=()) for one in read_alone.reads]
    assert signals(nothing) == 0


def test_vectors_of_an_earlier_embedder_are_compared_with_no_others(world: World) -> None:
    world.put([world.mark(number) for number in range(QUESTIONS)])
    world.search(QUESTIONS, vector_of("a question of eight dimensions"))
    world.put([world.mark(QUESTIONS, by=PrincipalId(f"person-{one}")) for one in range(KEYS)])
    assert world.trial() == RankTrial(signals=KEYS)


def test_the_trial_is_of_the_store_that_is_opened(world: World, bench: Bench) -> None:
    world.put([world.mark(number) for number in range(QUESTIONS)])
    found = world.trial()
    world.store.close()
    world.store = bench.open()
    assert world.trial() == found
    assert found.wins
