"""The guard of a protocol that is not MCP, beside that of MCP, on one store."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.labels import forwarded_call
from policy.labels.forwarded_call import MCP, PREFIXES
from policy.model import ChangeKind, MemoryClass
from policy.verdict import InvariantBroken, Reason
from proxy.guard import local_guard
from proxy.guard.sieve import Sieve
from proxy.seams.guard import Forwarded, Item, ItemVerdict, Unsettled
from telemetry.events import VerdictRecorded
from tests.unit.proxy.guarded import AGENT, GOOD, SERVER, STEERING, call, guard_of, guarded, item

RACK = "rack/"


@pytest.fixture
def rack_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy knows one protocol more."""
    for module in (forwarded_call, local_guard):
        monkeypatch.setattr(module, "PREFIXES", (*PREFIXES, RACK))


@pytest.mark.usefixtures("rack_is_known")
async def test_servers_of_one_name_and_two_protocols_are_two(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        sieve = Sieve(seen.store.followed.since)
        of_mcp = guard_of(seen.wired, seen.clock, sieve=sieve)
        of_rack = guard_of(seen.wired, seen.clock, dialect="rack", target_prefix=RACK, sieve=sieve)
        (mine,) = await of_rack.judge(AGENT, call(item(GOOD)))
        (theirs,) = await of_mcp.judge(AGENT, call(item(GOOD)))
        assert mine.candidate_id is not None
        assert theirs.candidate_id is not None
        assert {one.candidate.target for one in seen.store.forwards.pending()} == {
            "rack/memory",
            "mcp/memory",
        }
        told = {one.dialect for one in seen.wired.events if isinstance(one, VerdictRecorded)}
        assert told == {"rack", "mcp"}
        # A relay of one protocol cannot settle what a relay of another one sent.
        await of_mcp.settle(AGENT, SERVER, ((mine.candidate_id, Forwarded.DONE),))
        assert len(seen.store.forwards.pending()) == 2
        await of_rack.settle(AGENT, SERVER, ((mine.candidate_id, Forwarded.DONE),))
        (left,) = seen.store.forwards.pending()
        assert left.candidate_id == theirs.candidate_id
        # Not settled, so withheld; and behind its own server alone.
        assert await of_mcp.sift(AGENT, SERVER, (GOOD,)) == (True,)
        assert await of_rack.sift(AGENT, SERVER, (GOOD,)) == (False,)
        of_mcp.abandon((theirs.candidate_id,))
        seen.clock.now_s += local_guard.GONE_S + 1
        assert await of_rack.unsettled(AGENT, SERVER) == ()
        given: tuple[Unsettled, ...] = await of_mcp.unsettled(AGENT, SERVER)
        assert [one.candidate_id for one in given] == [theirs.candidate_id]
        assert seen.store.reader.check().problems == ()


@pytest.mark.usefixtures("rack_is_known")
@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (item(GOOD), None),
        (item(STEERING), Reason.CLASS_FLOOR),
        (
            item(STEERING, memory_class=MemoryClass.L1, class_named=True),
            Reason.SOURCE_CLASS_FORBIDDEN,
        ),
        # What it replaces may be the user's own.
        (item(GOOD, change=ChangeKind.UPDATE), Reason.PERSON_REQUIRED),
    ],
)
async def test_a_call_is_judged_alike_behind_either(
    tmp_path: Path, one: Item, reason: Reason | None
) -> None:
    judged: list[ItemVerdict] = []
    for dialect, prefix in (("mcp", MCP), ("rack", RACK)):
        with guarded(tmp_path / dialect) as seen:
            guard = guard_of(seen.wired, seen.clock, dialect=dialect, target_prefix=prefix)
            judged += await guard.judge(AGENT, call(one))
            assert await guard.sift(AGENT, SERVER, one.pieces[-1:]) == (reason is None,)
    assert judged[0] == judged[1]
    assert judged[0].reason == reason


def test_a_protocol_that_the_policy_does_not_know_gets_no_guard(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        with pytest.raises(InvariantBroken):
            guard_of(seen.wired, seen.clock, dialect="rack", target_prefix=RACK)
        guard_of(seen.wired, seen.clock, dialect="rack", target_prefix=MCP)  # control
