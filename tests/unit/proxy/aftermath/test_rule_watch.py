"""What agents are shown is held against anchors, and canaries are asked, by nobody's request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from policy.after.closure import CaseSignal, CaseStep
from policy.after.matchers import Matcher
from policy.model import Principal, PrincipalId, SourceKind, Tenant
from policy.query import EVERYTHING
from proxy.aftermath.canaries import Canaries
from proxy.aftermath.rule_signals import RULE_DAY_MAX, WRITER_DAY_MAX, RuleSignals
from proxy.aftermath.rule_watch import LOOK_S, READS_MAX, RuleWatch
from proxy.compose.periodic import every, repeating
from proxy.seams.environment import Environment
from proxy.withhold.screens import KnownRules
from storage.embedded import EmbeddedStore
from storage.features.cases import Case
from storage.features.registered import PutAnchor
from storage.values import Anchor
from tests.unit.proxy.aftermath.test_blaming import (
    QUESTION,
    Told,
    blaming,
    found,
    lie,
    near,
    recalled,
    truth,
)
from tests.unit.storage.features.cases.test_wrong_answers import FETCHED
from tests.unit.storage.opening import (
    AGENT,
    BY,
    OPERATOR,
    TENANT,
    candidate_of,
    say,
    submission_of,
    write,
)

DAY_MS = 86_400_000
OTHER = Principal(principal_id=PrincipalId("agent-b"), tenant=TENANT)
STATEMENT = "The office door code is 11."


class Asks:
    """An embedder for which every question is the same one."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [QUESTION for _ in texts]


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_750_000_000_000


def anchor(anchor_id: str, statement: str, *must_not: str, at_ms: int = 1) -> Anchor:
    return Anchor(
        anchor_id=anchor_id,
        tenant=TENANT,
        statement=statement,
        questions=("Where?",),
        created_at_ms=at_ms,
        matcher=Matcher(must_not=must_not) if must_not else None,
    )


class Watched:
    def __init__(self, store: EmbeddedStore, watch: RuleWatch, canaries: Canaries) -> None:
        self.store = store
        self.watch = watch
        self.canaries = canaries

    async def read(self, limit: int = 10, *, kept: bool = True) -> None:
        recall_id = await recalled(self.store, limit) if kept else ""
        hits = self.store.reader.search(TENANT, QUESTION, EVERYTHING, limit, -1.0)
        self.watch.shown(TENANT, recall_id, tuple(hit.memory for hit in hits))

    async def ended(self, count: int) -> tuple[Case, ...]:
        """The cases, once there are so many and none is under way."""

        def done() -> bool:
            cases = self.store.cases.all()
            return len(cases) >= count and not any(one.under_way for one in cases)

        await until(done)
        return self.store.cases.all()


def halted() -> None:
    raise AssertionError("an invariant broke")


async def until(done: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if done():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


@asynccontextmanager
async def watching(
    store: EmbeddedStore, clock: Clock | None = None, canary_seconds: float = 0.0
) -> AsyncGenerator[Watched]:
    numbers = iter(range(1, 1_000_000))
    clock = clock or Clock()

    async def soon(_seconds: float) -> None:
        await asyncio.sleep(0.001)

    out = Environment(
        clock_ns=lambda: clock.now_ms * 1_000_000,
        random_hex=lambda n: f"{next(numbers):0{2 * n}x}",
        record=Told().append,
        wait=soon,
    )
    async with blaming(store) as cases:
        signals = RuleSignals(failures=store.failures, open_case=cases.open_case, surroundings=out)
        canaries = Canaries(
            reader=store.reader,
            embedder=Asks(),  # type: ignore[arg-type]
            recalls=store.recalls,
            signals=signals,
            surroundings=out,
        )
        watch = RuleWatch(
            reader=store.reader,
            rules=KnownRules(store.reader.anchors),
            signals=signals,
            canaries=canaries,
            surroundings=out,
            canary_seconds=canary_seconds,
        )
        jobs = (every(LOOK_S, watch.ask_canaries, "canaries"),) if canary_seconds else ()
        async with watch.watching(), repeating(jobs, wait=soon, halt=halted):
            yield Watched(store, watch, canaries)


async def test_a_lie_that_is_shown_opens_a_case_and_goes_with_its_copies(
    store: EmbeddedStore,
) -> None:
    for number in range(4):
        await asyncio.to_thread(lie, store, f"Note {number}: the office door code is 66.")
    await asyncio.to_thread(truth, store, "The office is in Lisbon.")
    await store.writer.order(PutAnchor(anchor("code", STATEMENT), BY))
    async with watching(store) as watched:
        await watched.read(2)
        (case,) = await watched.ended(1)
    assert (case.signal, case.step, case.anchor_id) == (CaseSignal.ANCHOR, CaseStep.HEALED, "code")
    assert found(store) == {"The office is in Lisbon."}
    (kept,) = store.failures.newest(TENANT, 10)
    assert (kept.case_id, kept.rule_id) == (case.case_id, "code")


async def test_honest_texts_and_what_is_as_trusted_open_nothing(store: EmbeddedStore) -> None:
    said = await asyncio.to_thread(say, store, "The office door code is 67.", OPERATOR)
    assert said.memory is not None
    assert said.memory.source is SourceKind.OPERATOR
    for text in ("The office is in Lisbon.", "The kitchen opens at nine."):
        await asyncio.to_thread(truth, store, text)
    await asyncio.to_thread(lie, store, "The boat is in Porto.")
    await store.writer.order(PutAnchor(anchor("code", STATEMENT), BY))
    # Two words of content: its denial would be any text that speaks of a boat.
    await store.writer.order(PutAnchor(anchor("chatty", "The boat is in Lisbon."), BY))
    async with watching(store) as watched:
        await watched.read()
        await asyncio.to_thread(lie, store, "The office door code is 66.")
        await watched.read()
        (case,) = await watched.ended(1)
    assert case.anchor_id == "code", "control: a lie is seen, after all that was shown before it"
    # The operator's own memory denies the anchor too, so nobody is blamed without a person.
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "trusted_memory")


async def test_what_waits_for_a_person_opens_no_second_case(store: EmbeddedStore) -> None:
    await asyncio.to_thread(say, store, "The office door code is 68.", OPERATOR)
    await asyncio.to_thread(lie, store, "The office door code is 66.")
    await store.writer.order(PutAnchor(anchor("code", STATEMENT), BY))
    async with watching(store) as watched:
        for _ in range(3):
            await watched.read()
        (case,) = await watched.ended(1)
        assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "trusted_memory")
        await asyncio.to_thread(lie, store, "The office door code is 99.")
        await watched.read()
        await watched.ended(2)
    assert len(found(store)) == 3, "control: what is new opened another one"


def lies_of(store: EmbeddedStore, writer: Principal, count: int) -> None:
    """So many different lies of one writer."""
    for number in range(count):
        text = f"Note {number} of {writer.principal_id}: the office door code is 66."
        candidate = candidate_of(text, writer)
        write(store, submission_of(candidate, writer, provenance=FETCHED, vector=near(text)))


@pytest.mark.parametrize("others", [0, 1])
async def test_one_writer_leaves_room_in_a_rules_day_for_others(
    store: EmbeddedStore, others: int
) -> None:
    await asyncio.to_thread(lies_of, store, AGENT, WRITER_DAY_MAX + 1)
    await asyncio.to_thread(lies_of, store, OTHER, others)
    await store.writer.order(PutAnchor(anchor("code", STATEMENT), BY))
    async with watching(store) as watched:
        for number in range(WRITER_DAY_MAX + 3):
            await watched.read(50, kept=False)
            await watched.ended(min(number + 1, WRITER_DAY_MAX + others))
        await until(lambda: not watched.watch.waiting)
    assert len(store.cases.all()) == WRITER_DAY_MAX + others
    assert len(found(store)) == 1, "a lie of the first writer is left, and no other"


async def test_a_rule_opens_so_many_cases_a_day_and_no_more(store: EmbeddedStore) -> None:
    clock = Clock()
    for writer in (AGENT, OTHER):
        await asyncio.to_thread(lies_of, store, writer, RULE_DAY_MAX // 2 + 1)
    await store.writer.order(PutAnchor(anchor("code", STATEMENT), BY))
    async with watching(store, clock) as watched:
        # A read that the ledger did not keep accuses one memory alone.
        for number in range(RULE_DAY_MAX + 2):
            await watched.read(50, kept=False)
            await watched.ended(min(number + 1, RULE_DAY_MAX))
        await until(lambda: not watched.watch.waiting)
        assert len(store.cases.all()) == RULE_DAY_MAX
        clock.now_ms += DAY_MS
        await watched.read(50, kept=False)
        await watched.ended(RULE_DAY_MAX + 1)
    assert len(store.cases.all()) == RULE_DAY_MAX + 1, "the next day had room again"
    assert len(found(store)) == 1


async def test_a_full_queue_leaves_reads_out_and_a_fault_ends_nothing(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(lie, store, "The office door code is 66.")
    await store.writer.order(PutAnchor(anchor("code", STATEMENT), BY))
    anchors, broken = store.reader.anchors, [LookupError("a fault")]

    def failing(tenant: Tenant) -> tuple[Anchor, ...]:
        if broken:
            raise broken.pop()
        return anchors(tenant)

    monkeypatch.setattr(store.reader, "anchors", failing)
    async with watching(store) as watched:
        hits = store.reader.search(TENANT, QUESTION, EVERYTHING, 1, -1.0)
        for _ in range(READS_MAX + 5):
            watched.watch.shown(TENANT, "", tuple(hit.memory for hit in hits))
        assert watched.watch.waiting == READS_MAX
        (case,) = await watched.ended(1)
        await until(lambda: not watched.watch.waiting)
    assert (case.step, len(store.cases.all())) == (CaseStep.HEALED, 1)
    said = [one.message for one in caplog.records if one.name == "mnemogate.aftermath"]
    assert said == ["a rule could not be tried"]


async def test_a_canary_is_asked_after_a_commit_that_it_finds_and_hides_the_lie(
    store: EmbeddedStore,
) -> None:
    await store.writer.order(PutAnchor(anchor("office", "", "Porto"), BY))
    await asyncio.to_thread(truth, store, "The office is in Lisbon.")
    async with watching(store, canary_seconds=3_600.0) as watched:
        await asyncio.to_thread(lie, store, "The office is in Porto.")
        (case,) = await watched.ended(1)
        assert (case.signal, case.anchor_id) == (CaseSignal.CANARY, "office")
        assert found(store) == {"The office is in Lisbon."}
        await asyncio.to_thread(lie, store, "Now it is in Porto.")
        await watched.ended(2)
    assert found(store) == {"The office is in Lisbon."}


async def test_a_canary_that_a_person_has_to_decide_on_opens_one_case(store: EmbeddedStore) -> None:
    await store.writer.order(PutAnchor(anchor("office", "", "Porto"), BY))
    trusted = submission_of(candidate_of("Parcels go to Porto.", OPERATOR), OPERATOR)
    await asyncio.to_thread(write, store, trusted)
    await asyncio.to_thread(lie, store, "The office is in Porto.")
    canary = store.reader.canaries()[0]
    async with watching(store) as watched:
        for _ in range(3):
            await watched.canaries.watched(canary, BY)
        (case,) = await watched.ended(1)
        assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "trusted_memory")
        await asyncio.to_thread(lie, store, "Everybody is in Porto now.")
        await watched.canaries.watched(canary, BY)
        await watched.ended(2)


async def test_only_by_hand_asks_no_canary(store: EmbeddedStore) -> None:
    await store.writer.order(PutAnchor(anchor("office", "", "Porto"), BY))
    await asyncio.to_thread(lie, store, "The office is in Porto.")
    async with watching(store, canary_seconds=0.0) as watched:
        (outcome,) = await watched.canaries.run(TENANT, BY)
        (case,) = await watched.ended(1)
    assert (outcome.case_id, case.by) == (case.case_id, BY), "control: an operator asked it"
