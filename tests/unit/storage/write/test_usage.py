"""What a tenant takes is counted, survives restarts, and ends at its share; others go on."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from policy.model import ChangeKind, MemoryClass, Principal, PrincipalId, Tenant
from policy.verdict import Reason
from storage.embedded import EmbeddedOptions
from storage.errors import QuotaReached
from storage.tables.lmdb_store import META
from storage.values import Decision, Outcome
from storage.write.usage import VERDICT_BYTES
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
SHARED = EmbeddedOptions(quota_bytes=QUOTA, staging_quota_bytes=1 << 26, tenant_share=0.1)
UNSHARED = msgspec.structs.replace(SHARED, tenant_share=1.0)
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
    outcomes, unjudged = _flood(bench, UNSHARED, 600)
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


def test_the_count_is_the_same_after_a_restart_and_is_made_up_where_it_was_never_kept(
    bench: Bench,
) -> None:
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
    env = store.lmdb.begin()
    env.delete(META, next(key for key in env.keys(META) if key.startswith(b"\x01")))
    env.commit()
    store.close()
    store = bench.open(options=SHARED)
    (made_up,) = store.reader.usage()
    # What a refusal took is not in the rows any more.
    assert made_up.bytes_used == counted[0].bytes_used - VERDICT_BYTES
    say(store, "one more", AGENT)
    after = store.reader.usage()
    store.close()
    store = bench.open(options=SHARED)
    assert store.reader.usage() == after
    store.close()
