"""What a tenant takes is counted, survives restarts, and ends at its share; others go on."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from policy.model import ChangeKind, MemoryClass, MemoryId, Principal, PrincipalId, Tenant
from policy.verdict import Reason
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.ground.errors import QuotaReached
from storage.tables.usage import VERDICT_BYTES
from storage.values import Decision, Outcome, Submission
from tests.unit.storage.opening import (
    AGENT,
    DIMENSION,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

QUOTA = 1 << 22
QUOTA_SMALL = 1 << 20
QUOTA_TIGHT = 1 << 19
SHARED = EmbeddedOptions(quota_bytes=QUOTA, staging_quota_bytes=1 << 26, tenant_share=0.1)
UNSHARED = msgspec.structs.replace(SHARED, quota_bytes=QUOTA // 2, tenant_share=1.0)
OTHER = Principal(principal_id=PrincipalId("agent-2"), tenant=Tenant("other"))
TEXT = "x" * 8_000


def _flood(bench: Bench, options: EmbeddedOptions, count: int) -> tuple[list[Outcome], int]:
    """What one tenant is answered, and how many writes found no verdict at all."""
    store = bench.open(options=options)
    outcomes: list[Outcome] = []
    for number in range(count):
        with contextlib.suppress(ExceptionGroup):
            outcomes.append(say(store, f"{number} {TEXT}"))
    store.close()
    return outcomes, count - len(outcomes)


def test_one_tenant_fills_its_share_and_another_still_writes(bench: Bench) -> None:
    outcomes, unjudged = _flood(bench, SHARED, 200)
    admitted = [one for one in outcomes if one.decision is Decision.ADMIT]
    refused = {one.reason for one in outcomes if one.decision is Decision.REJECT}
    assert 30 < len(admitted) < 60, "0.1 of 4 MiB"
    assert refused == {Reason.QUOTA_EXCEEDED}
    assert unjudged > 0, "refusals leave leaves, and must end as well"
    store = bench.open(options=SHARED)
    used = {one.tenant: one.bytes_used for one in store.reader.usage()}
    assert QUOTA * 0.1 <= used[TENANT] < QUOTA * 0.12
    assert say(store, TEXT, OTHER).decision is Decision.ADMIT
    assert store.reader.check().problems == ()
    store.close()


def test_the_control_without_a_share_one_tenant_takes_the_room_of_all(bench: Bench) -> None:
    outcomes, unjudged = _flood(bench, UNSHARED, 300)
    assert {one.decision for one in outcomes} == {Decision.ADMIT}
    assert unjudged > 0
    store = bench.open(options=UNSHARED)
    with pytest.raises(ExceptionGroup) as raised:
        say(store, TEXT, OTHER)
    assert [type(error) for error in raised.value.exceptions] == [QuotaReached]
    store.close()


def test_a_purge_gives_the_tenant_its_room_back(bench: Bench) -> None:
    outcomes, _ = _flood(bench, SHARED, 60)
    store = bench.open(options=SHARED)
    before = store.reader.usage()[0].bytes_used
    assert say(store, TEXT).reason is Reason.QUOTA_EXCEEDED
    for outcome in outcomes[:5]:
        assert outcome.memory is not None
        purge = candidate_of(
            None, OPERATOR, change=ChangeKind.PURGE, memory_id=outcome.memory.memory_id
        )
        assert write(store, submission_of(purge, OPERATOR))[0].decision is Decision.ADMIT
    assert store.reader.usage()[0].bytes_used < before - 5 * len(TEXT) + 6 * 2 * VERDICT_BYTES
    assert say(store, TEXT).decision is Decision.ADMIT
    store.close()


def test_the_count_is_the_same_after_a_restart(bench: Bench) -> None:
    store = bench.open(options=SHARED)
    for number in range(20):
        say(store, f"{number} {TEXT}")
    say(store, "no", memory_class=MemoryClass.L1, class_named=True)
    counted = store.reader.usage()
    assert [one.tenant for one in counted] == [TENANT]
    assert counted[0].bytes_used > 20 * (len(TEXT) + 4 * DIMENSION + VERDICT_BYTES)
    store.close()
    store = bench.open(options=SHARED)
    assert store.reader.usage() == counted
    say(store, "one more", AGENT)
    after = store.reader.usage()
    store.close()
    store = bench.open(options=SHARED)
    assert store.reader.usage() == after
    store.close()


def _delete_of(memory_id: str, principal: Principal = AGENT) -> Submission:
    gone = candidate_of(None, principal, change=ChangeKind.DELETE, memory_id=MemoryId(memory_id))
    return submission_of(gone, principal)


def _of_nothing(number: int, principal: Principal = AGENT) -> Submission:
    return _delete_of(f"00000000-0000-4000-8000-{number:012x}", principal)


def _answered(store: EmbeddedStore, *submissions: Submission) -> list[str]:
    """What each is told by itself: a decision, or the failure."""
    answers: list[str] = []
    for one in submissions:
        try:
            answers.append(write(store, one)[0].decision.value)
        except ExceptionGroup as group:
            answers += [type(error).__name__ for error in group.exceptions]
    return answers


def _size(store: EmbeddedStore) -> tuple[int, int]:
    status = store.reader.status()
    return status.leaf_count, status.bytes_used


@pytest.mark.parametrize("share", [0.1, 1.0], ids=["shared", "unshared"])
def test_deletes_of_nothing_end_where_their_tenant_or_the_store_is_full(
    bench: Bench, share: float
) -> None:
    options = msgspec.structs.replace(SHARED, quota_bytes=QUOTA_SMALL, tenant_share=share)
    store = bench.open(options=options)
    kept = say(store, "kept", OTHER).memory
    assert kept is not None
    for start in range(0, 5_000, 100):
        with contextlib.suppress(ExceptionGroup):
            write(store, *(_of_nothing(start + one) for one in range(100)))
    leaves, used = _size(store)
    assert used < QUOTA_SMALL * (0.5 if share < 1 else 1.1)
    assert _answered(store, _of_nothing(10_000)) == ["QuotaReached"]
    assert _size(store) == (leaves, used), "it left nothing"
    told = _answered(store, _of_nothing(10_001, OTHER))
    assert told == (["reject"] if share < 1 else ["QuotaReached"])
    # The control: what takes something away goes on, also after a restart.
    store.close()
    store = bench.open(options=options)
    assert _answered(store, _delete_of(kept.memory_id, OTHER)) == ["admit"]
    assert store.reader.check().problems == ()
    store.close()


def test_one_that_frees_nothing_takes_no_other_of_its_batch_back(bench: Bench) -> None:
    outcomes, _ = _flood(bench, UNSHARED, 300)
    memories = [one.memory for one in outcomes if one.memory is not None]
    store = bench.open(options=UNSHARED)
    batch = [
        _of_nothing(1),
        _delete_of(memories[0].memory_id),
        _of_nothing(2),
        _delete_of(memories[1].memory_id),
    ]
    with pytest.raises(ExceptionGroup) as raised:
        write(store, *batch)
    assert [type(error) for error in raised.value.exceptions] == [QuotaReached, QuotaReached]
    assert store.reader.get(TENANT, memories[0].memory_id) is None
    assert store.reader.get(TENANT, memories[1].memory_id) is None
    assert store.reader.check().problems == ()
    store.close()


def test_a_batch_leaves_deletions_what_is_theirs(bench: Bench) -> None:
    """Written at once, what would take three times the store ends at its quota."""
    tight = msgspec.structs.replace(UNSHARED, quota_bytes=QUOTA_TIGHT)
    store = bench.open(options=tight)
    flood = [submission_of(candidate_of(f"{one}", AGENT), AGENT) for one in range(600)]
    with pytest.raises(ExceptionGroup):
        write(store, *flood)
    _, used = _size(store)
    assert 0.75 * QUOTA_TIGHT < used < 1.05 * QUOTA_TIGHT
    assert store.reader.check().problems == ()
    store.close()


def test_a_store_that_deletes_filled_is_emptied_by_purges(bench: Bench) -> None:
    """Of small memories: their deletions take more room than there is for deletions."""
    small = msgspec.structs.replace(UNSHARED, quota_bytes=QUOTA_SMALL)
    store = bench.open(options=small)
    memory_ids: list[MemoryId] = []
    while True:
        batch = [
            submission_of(candidate_of(f"{len(memory_ids)}-{one}", AGENT), AGENT)
            for one in range(100)
        ]
        with contextlib.suppress(ExceptionGroup):
            told = write(store, *batch)
            memory_ids += [one.memory.memory_id for one in told if one.memory is not None]
            continue
        break
    deleted = _answered(store, *(_delete_of(memory_id) for memory_id in memory_ids))
    assert deleted[0] == "admit"
    assert deleted[-1] == "QuotaReached", "deletes used up what is theirs"
    purges = [
        candidate_of(None, OPERATOR, change=ChangeKind.PURGE, memory_id=memory_id)
        for memory_id in memory_ids
    ]
    purged = write(store, *(submission_of(purge, OPERATOR) for purge in purges))
    assert {one.decision for one in purged} == {Decision.ADMIT}
    assert _size(store)[1] > 1.3 * QUOTA_SMALL, "what deletes may use is not enough for it"
    assert store.reader.check().problems == ()
    store.close()
