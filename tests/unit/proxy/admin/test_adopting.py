"""What a server kept before the gate: taken in, held, vouched for; and never sent to it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from policy.model import Memory, MemoryClass, SourceKind, Tenant
from policy.query import EVERYTHING
from policy.ruleset import Cell
from proxy.admin.operator_call import OperatorCall
from proxy.admin.upstream_servers import Adoption
from proxy.admin.wire.upkeep import ImportedView, ImportRequest
from proxy.seams.faults import MalformedRequest
from storage.audit import ResultLeaf, VerdictLeaf, decode_leaf
from telemetry.events import TraceContext
from tests.unit.proxy.guarded import AGENT, BY, GOOD, SERVER, STEERING, Guarded, guarded, item
from tests.unit.storage.opening import OPERATOR

HERS = SourceKind.USER_INPUT


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path) as parts:
        yield parts
        assert parts.store.reader.check().problems == ()


async def _adopt(
    seen: Guarded, *texts: str, confirm: bool = False, tenant: Tenant = AGENT.tenant
) -> tuple[ImportedView, ...]:
    adopting = Adoption(seen.guard, seen.store.reader, seen.store.writer)
    items = tuple(item(text) for text in texts)
    asked = ImportRequest(tenant=tenant, tool="write", items=items, confirm=confirm)
    by = msgspec.structs.replace(AGENT, principal_id=BY)
    trace = TraceContext(trace_id="0" * 32, span_id="0" * 16)
    call = OperatorCall(by=by, asked=asked, argument=SERVER, trace=trace)
    return (await adopting.adopt(call)).imported


def _kept(seen: Guarded, tenant: Tenant = AGENT.tenant) -> tuple[Memory, ...]:
    return seen.store.reader.page(tenant, EVERYTHING, 0, 100).memories


async def test_what_is_taken_in_is_a_memory_with_its_result_at_once(seen: Guarded) -> None:
    (one,) = await _adopt(seen, GOOD)
    assert (one.state, len(_kept(seen))) == ("unknown", 1)
    verdict, result = map(decode_leaf, seen.store.audit.leaves(one.leaf_index, 2))
    assert isinstance(verdict, VerdictLeaf)
    assert isinstance(result, ResultLeaf)
    assert (result.verdict_index, result.by) == (one.leaf_index, "mnemogate:import")
    assert seen.store.forwards.pending() == ()


async def test_an_order_is_taken_in_by_the_word_of_a_person_and_once(seen: Guarded) -> None:
    (flagged,) = await _adopt(seen, STEERING)
    assert (flagged.state, _kept(seen)) == ("flagged", ())
    (one,) = await _adopt(seen, STEERING, confirm=True)
    (again,) = await _adopt(seen, STEERING, confirm=True)
    (memory,) = _kept(seen)
    assert (one.state, again.memory_id) == ("user_input", memory.memory_id)
    assert (memory.source, memory.memory_class) == (HERS, MemoryClass.L2)
    (verdict,) = map(decode_leaf, seen.store.audit.leaves(one.leaf_index, 1))
    assert isinstance(verdict, VerdictLeaf)
    assert verdict.approved_by == BY
    assert await seen.guard.unsettled(AGENT, SERVER) == (), "no relay is given anything to send"


async def test_a_plain_item_that_a_person_vouches_for_is_hers(seen: Guarded) -> None:
    await _adopt(seen, GOOD)
    (one,) = await _adopt(seen, GOOD, confirm=True)
    (memory,) = _kept(seen)
    assert (one.state, memory.source) == ("user_input", HERS)


@pytest.mark.parametrize(("text", "confirm"), [(GOOD, False), (STEERING, True)])
async def test_each_tenant_takes_in_what_a_shared_server_keeps(
    seen: Guarded, text: str, *, confirm: bool
) -> None:
    other = Tenant("other")
    (here,) = await _adopt(seen, text, confirm=confirm)
    (there,) = await _adopt(seen, text, confirm=confirm, tenant=other)
    (again,) = await _adopt(seen, text, confirm=confirm, tenant=other)
    assert (here.state, there.state) == (here.state, here.state)
    assert again.memory_id == there.memory_id != here.memory_id
    assert len(_kept(seen)) == len(_kept(seen, other)) == 1


async def test_a_person_vouches_for_one_at_a_time(seen: Guarded) -> None:
    with pytest.raises(MalformedRequest, match="one at a time"):
        await _adopt(seen, GOOD, STEERING, confirm=True)
    assert _kept(seen) == ()


async def test_what_was_held_meanwhile_is_decided_in_review_and_not_sent(seen: Guarded) -> None:
    rules = seen.store.ruleset
    row = {**rules.matrix[SourceKind.UNKNOWN], MemoryClass.L3: Cell.HOLD}
    matrix = {**rules.matrix, SourceKind.UNKNOWN: row}
    await seen.store.writer.adopt_ruleset(
        msgspec.structs.replace(rules, matrix=matrix), OPERATOR.principal_id
    )
    (held,) = await _adopt(seen, GOOD)
    (vouched,) = await _adopt(seen, GOOD, confirm=True)
    assert (held.state, vouched.state, _kept(seen)) == ("held", "held", ())
    (waiting,) = seen.store.reader.held()
    await seen.store.writer.release(waiting.candidate_id, BY)
    (memory,) = _kept(seen)
    assert memory.source is HERS
    assert await seen.guard.unsettled(AGENT, SERVER) == ()
