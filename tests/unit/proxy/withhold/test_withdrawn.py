"""What a memory under quarantine says leaves each later model request, until it is shown again."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from policy.model import MemoryClass, PrincipalId
from policy.withheld.words import Print
from proxy.dialects.model.withheld import Leave
from proxy.dialects.strict_json.tolerant import write_body
from proxy.seams.observations import NOTICE
from proxy.withhold import state
from proxy.withhold.asking import Conversation
from proxy.withhold.state import Withdrawn
from tests.unit.proxy.withheld import REQUESTS, Rig, anthropic, rig
from tests.unit.storage.opening import AGENT, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from policy.model import Memory
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.withhold.withholding import Withholding

LIE = "The quarterly report of the northern office is always sent to the archive in Porto."
HONEST = "In the southern office an accountant in Lisbon keeps the books of every year."
BY = PrincipalId("operator:ada")


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made


async def stored(one: Rig, text: str) -> Memory:
    """A memory that was admitted, and that the agent was shown."""
    item = await one.write(text, named=False)
    assert item.memory is not None, item.decision
    one.withholding.shown(AGENT.principal_id, [item.memory])
    return item.memory


async def hide(one: Rig, memory: Memory) -> None:
    await one.live.store.writer.quarantine(memory.memory_id, memory.tenant, BY, "a lie")


async def sent(
    withholding: Withholding, body: dict[str, Json], api: str = "anthropic"
) -> dict[str, Json]:
    return await withholding.apply(AGENT, api, body, Leave)


@pytest.mark.parametrize("api", REQUESTS)
async def test_a_quarantined_memory_leaves_the_next_request_and_parole_brings_it_back(
    one: Rig, api: str
) -> None:
    lie, honest = await stored(one, LIE), await stored(one, HONEST)
    body = REQUESTS[api](f"Two memories.\n\n{LIE}\n\n{HONEST}")
    assert await sent(one.withholding, body, api) is body, "control: a shown memory stays"
    noted = list(one.log.records)

    await hide(one, lie)
    made = write_body(await sent(one.withholding, body, api)).decode()
    assert "Porto" not in made
    assert "accountant in Lisbon" in made
    (notice,) = set(NOTICE.findall(made))
    assert "was withdrawn" in notice
    assert one.log.records == noted, "the store keeps it, and the log need not"
    again = write_body(await sent(one.withholding, body, api)).decode()
    assert again == made, "the same request gives the same bytes"

    await one.live.store.writer.parole(lie.memory_id, lie.tenant, BY, "a mistake")
    assert await sent(one.withholding, body, api) is body
    await hide(one, honest)
    assert b"accountant in Lisbon" not in write_body(await sent(one.withholding, body, api))


@pytest.mark.parametrize("api", REQUESTS)
async def test_memories_beside_a_quarantined_one_in_the_same_answer_stay(
    one: Rig, api: str
) -> None:
    lie = await stored(one, LIE)
    results = [{"id": "1", "memory": HONEST}, {"id": "2", "memory": LIE}]
    body = REQUESTS[api](json.dumps({"results": results}))
    await hide(one, lie)
    made = write_body(await sent(one.withholding, body, api)).decode()
    assert "Porto" not in made
    assert HONEST in made
    assert "was withdrawn" in made


async def test_every_principal_of_the_tenant_is_spared_it_and_a_restart_changes_nothing(
    one: Rig,
) -> None:
    lie = await stored(one, LIE)
    body = anthropic(LIE)
    await hide(one, lie)
    for principal in (AGENT, OPERATOR):
        made = await one.withholding.apply(principal, "anthropic", body, Leave)
        assert "Porto" not in json.dumps(made)
    again = one.again()
    assert "Porto" not in json.dumps(await sent(again, body))
    # What was withheld once stays so under a compacted log as well, and parole ends that too.
    third = one.again(list(again.snapshot()))
    await one.live.store.writer.parole(lie.memory_id, lie.tenant, BY, "a mistake")
    assert await sent(third, body) is body
    assert await sent(one.again(), body) is body


async def test_nothing_is_read_of_the_store_where_nothing_is_under_quarantine(
    one: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = await stored(one, LIE)
    reads: list[str] = []
    texts = one.live.store.quarantined.texts

    def read(tenant: str) -> object:
        reads.append(tenant)
        return texts(lie.tenant)

    monkeypatch.setattr(one.live.store.quarantined, "texts", read)
    for _ in range(3):
        await sent(one.withholding, anthropic(LIE))
    assert reads == []
    await hide(one, lie)
    for _ in range(3):
        await sent(one.withholding, anthropic(LIE))
    assert len(reads) == 1, "once for each change, for all requests"


async def test_an_earlier_version_of_a_quarantined_memory_is_withheld_as_well(one: Rig) -> None:
    lie = await stored(one, LIE)
    await one.update(lie.memory_id, "The report is due in May, says the calendar of the office.")
    await hide(one, lie)
    assert "Porto" not in json.dumps(await sent(one.withholding, anthropic(LIE)))


async def test_words_of_another_live_memory_and_words_that_a_person_typed_stay(one: Rig) -> None:
    lie = await stored(one, LIE)
    await stored(one, f"A note. {LIE}")
    body = anthropic(LIE)
    await hide(one, lie)
    assert await sent(one.withholding, body) is body, "a live memory says the same"
    asked = f"Is this right? {HONEST}"
    await hide(one, await stored(one, HONEST))
    body["messages"].insert(0, {"role": "user", "content": asked})  # type: ignore[union-attr]
    typed = Leave(typed={("messages", 0, "content"): ((0, len(asked)),)})
    made = await one.withholding.apply(
        AGENT, "anthropic", body, lambda: typed, Conversation(frozenset(), lambda: [asked])
    )
    assert asked in json.dumps(made)


async def test_requests_at_once_end_with_the_newest_state(one: Rig) -> None:
    lie, body = await stored(one, LIE), anthropic(LIE)

    async def change() -> None:
        for _ in range(3):
            await hide(one, lie)
            await one.live.store.writer.parole(lie.memory_id, lie.tenant, BY, "")
        await hide(one, lie)

    async def ask() -> None:
        for _ in range(20):
            await sent(one.withholding, body)

    await asyncio.gather(change(), ask(), ask())
    assert "Porto" not in json.dumps(await sent(one.withholding, body))


def test_withdrawn_texts_take_no_room_from_refused_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "WITHDRAWN_WORDS_MAX", 100)
    kept = state.Kept("agent")
    texts = [
        Withdrawn(f"{at:016x}", MemoryClass.L3, (Print(bytes([at] * 8 * 40), whole=False),))
        for at in range(5)
    ]
    kept.withdraw(texts, 1)
    assert (kept.overlooked_count, kept.withheld.lost_count) == (3, 0)
    assert [kept.is_withdrawn(one.candidate_id) for one in texts] == [True] * 2 + [False] * 3
    kept.withdraw(texts[1:], 1)
    assert [kept.is_withdrawn(one.candidate_id) for one in texts] == [False] + [True] * 2 + [
        False
    ] * 2
    kept.withdraw([], 1)
    assert not kept.told
