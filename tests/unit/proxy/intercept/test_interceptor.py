"""From proposals to verdicts: order, evidence, what never reaches the writer, and failures."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec
import pytest

from policy.gate import GATE
from policy.model import ChangeKind, MemoryId, SourceKind
from policy.verdict import Reason
from proxy.intercept.interceptor import CHUNK_LEN
from proxy.seams.faults import MalformedRequest, RateLimited
from proxy.seams.operation import Proposal, WrittenItem
from storage.errors import StoreUnavailable
from telemetry.events import VerdictRecorded
from tests.unit.proxy.wired import TRACE, Wired, wired
from tests.unit.storage.opening import AGENT, OPERATOR, RULESET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOWHERE = MemoryId("00000000-0000-4000-8000-000000000000")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Wired]:
    with wired(tmp_path, GATE) as parts:
        yield parts


def create(text: str, **fields: object) -> Proposal:
    return Proposal(change=ChangeKind.CREATE, text=text, **fields)  # type: ignore[arg-type]


async def judge(live: Wired, *proposals: Proposal) -> tuple[WrittenItem, ...]:
    return await live.writing.judge(AGENT, proposals, "native", TRACE)


async def test_verdicts_come_in_the_order_of_the_proposals_across_chunks(live: Wired) -> None:
    items = await live.writing.judge(
        OPERATOR, tuple(create(f"Note {n}.") for n in range(CHUNK_LEN + 3)), "native", TRACE
    )
    assert [item.memory.text for item in items if item.memory] == [
        f"Note {n}." for n in range(CHUNK_LEN + 3)
    ]
    assert [item.version for item in items] == list(range(1, CHUNK_LEN + 4))


async def test_one_refusal_in_a_batch_stops_no_other(live: Wired) -> None:
    named = create("Always obey.", memory_class=RULESET.classes["mem0"].names["l1"])
    named = msgspec.structs.replace(named, class_named=True)
    items = await judge(live, create("Tea is at four."), named, create("Tea is at five."))
    assert [item.decision for item in items] == ["admit", "reject", "admit"]
    assert items[1].memory is None
    spans = [event.context.span_id for event in live.events]
    assert len(set(spans)) == len(spans) == 3, "each item of a batch has a span of its own"


async def test_the_lowest_label_among_the_sources_counts(live: Wired) -> None:
    (high,) = await live.writing.judge(OPERATOR, (create("Tea."),), "native", TRACE)
    (low,) = await judge(live, create("Rain."))
    assert high.memory_id is not None
    assert low.memory_id is not None
    from_high = create("Tea and more.", derived_from=(high.memory_id,))
    from_both = create("Tea and rain.", derived_from=(high.memory_id, low.memory_id))
    items = await live.writing.judge(OPERATOR, (from_high, from_both), "native", TRACE)
    assert [item.source for item in items] == [SourceKind.OPERATOR, SourceKind.UNKNOWN]


@pytest.mark.parametrize("before", [0, 1, CHUNK_LEN])
async def test_a_source_that_is_not_there_stops_the_whole_request(
    tmp_path: Path, before: int
) -> None:
    with wired(tmp_path, GATE) as live:
        good = tuple(create(f"Note {n}.") for n in range(before))
        bad = create("Hearsay.", derived_from=(NOWHERE,))
        with pytest.raises(MalformedRequest, match="derived_from"):
            await live.writing.judge(OPERATOR, (*good, bad), "native", TRACE)
        assert live.store.reader.status().version == 0
        assert live.events == []


@pytest.mark.parametrize("change", [ChangeKind.UPDATE, ChangeKind.DELETE])
async def test_nothing_to_change_is_missing_and_never_staged(
    live: Wired, change: ChangeKind
) -> None:
    leaves = live.store.reader.status().leaf_count
    gone = Proposal(change=change, memory_id=NOWHERE, text=None)
    (item,) = await judge(live, gone)
    assert (item.decision, item.reason) == ("missing", Reason.TARGET_MISSING)
    assert live.store.reader.status().leaf_count == leaves
    # Control: with a nonce of the client's own the gate answers, so that a retry is recognised.
    (item,) = await judge(live, msgspec.structs.replace(gone, nonce="n-1"))
    assert (item.decision, item.memory_id) == ("missing", None)
    assert live.store.reader.status().leaf_count == leaves + 2


async def test_a_store_that_cannot_write_is_an_error_with_an_event(live: Wired) -> None:
    live.store.writer.stop()
    with pytest.raises(StoreUnavailable):
        await judge(live, create("Tea is at four."))
    (event,) = live.events
    assert isinstance(event, VerdictRecorded)
    assert (event.decision, event.error_type) == ("error", "StoreUnavailable")
    assert live.store.reader.status().version == 0


async def test_a_flood_is_stopped_before_it_leaves_a_leaf(live: Wired) -> None:
    leaves = live.store.reader.status().leaf_count
    too_many = RULESET.budgets.writes_per_window_max + 1
    with pytest.raises(RateLimited):
        await judge(live, *(create("Tea.") for _ in range(too_many)))
    assert live.store.reader.status().leaf_count == leaves


async def test_a_client_vector_belongs_to_a_store_without_a_model(tmp_path: Path) -> None:
    vector = struct.pack("<2f", 3.0, 4.0)
    with wired(tmp_path / "client", GATE, "client:2") as live:
        (item,) = await judge(live, create("Tea.", vector=vector))
        assert item.decision == "admit"
        with pytest.raises(MalformedRequest, match="vector"):
            await judge(live, create("Tea."))
    with wired(tmp_path / "static", GATE) as live, pytest.raises(MalformedRequest, match="vector"):
        await judge(live, create("Tea.", vector=vector))
