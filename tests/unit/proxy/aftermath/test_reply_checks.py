"""A wrong reply hides the memory behind it, and no memory that had no part in it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from policy.model import Principal, PrincipalId
from proxy.aftermath.reply_checks import ReplyChecks
from proxy.aftermath.rule_signals import RuleSignals
from proxy.aftermath.screening import KnownRules
from proxy.seams.surroundings import Surroundings
from storage.cases import CaseStep
from storage.recalls import InContext, Reply
from tests.unit.proxy.aftermath.test_blaming import blaming, found, lie, truth
from tests.unit.proxy.aftermath.test_screening import anchor
from tests.unit.storage.opening import BY, TENANT, Bench

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

    from policy.model import MemoryId
    from storage.embedded import EmbeddedStore

READER = Principal(principal_id=PrincipalId("reader"), tenant=TENANT)
LIE = "The office door code is 66."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    bench = Bench(tmp_path)
    opened = bench.open()
    yield opened
    bench.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine a case may take longer than a request waits."""
    monkeypatch.setattr("proxy.aftermath.reply_checks.SETTLED_S", 600.0)


@asynccontextmanager
async def checking(store: EmbeddedStore) -> AsyncGenerator[ReplyChecks]:
    numbers = iter(range(1, 1_000))
    out = Surroundings(
        clock_ns=lambda: 1_750_000_000_000_000_000,
        random_hex=lambda n: f"{next(numbers):0{2 * n}x}",
        record=lambda _event: None,
    )
    async with blaming(store) as cases:
        checks = ReplyChecks(
            reader=store.reader,
            rules=KnownRules(store.reader.anchors),
            signals=RuleSignals(failures=store.failures, cases=cases, surroundings=out),
            over=cases.over,
        )
        async with checks.checking():
            yield checks


def noted(store: EmbeddedStore, reply_id: str, memory_id: MemoryId) -> None:
    """A reply in the ledger whose request had one memory."""
    memory = store.reader.get(TENANT, memory_id)
    assert memory is not None
    stands = InContext(ordinal=memory.ordinal, memory_id=memory_id, recall_id="", spans=())
    store.recalls.note(
        Reply(
            reply_id=reply_id,
            at_ms=store.time_ms,
            tenant=TENANT,
            principal_id=READER.principal_id,
            model="model",
            session="",
            turn=1,
            memories=(stands,),
            calls=(),
            incomplete=False,
        )
    )


async def test_a_wrong_reply_hides_the_memory_that_says_so(
    store: EmbeddedStore,
) -> None:
    false = await asyncio.to_thread(lie, store, LIE)
    true = await asyncio.to_thread(truth, store, "The kitchen opens at nine.")
    async with checking(store) as checks:
        noted(store, "r1", false)
        checks.replied(READER, "r1", (LIE,), (false,))
        await checks.settled(READER)
        assert store.cases.all() == (), "control: there is no anchor yet"
        await store.writer.put_anchor(anchor(), BY)
        noted(store, "r2", true)
        checks.replied(READER, "r2", (LIE,), (true,))
        noted(store, "r3", false)
        checks.replied(READER, "r3", ("The kitchen opens at nine.",), (false,))
        await checks.settled(READER)
        assert store.cases.all() == (), "no memory of a wrong reply, and no wrong reply"
        noted(store, "r4", false)
        checks.replied(READER, "r4", (LIE,), (false, true))
        # The case has ended when the next request may go on.
        await checks.settled(READER)
        (case,) = store.cases.all()
    assert (case.step, case.anchor_id) == (CaseStep.HEALED, "code")
    assert found(store) == {"The kitchen opens at nine."}
