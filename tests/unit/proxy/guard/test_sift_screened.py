"""What a server keeps and an anchor contradicts: its answers are without it, and it is told of."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from policy.model import MemoryId, PrincipalId, Tenant
from proxy.aftermath.screens import KnownRules, ScreenMaker
from proxy.guard.sieve import Sieve
from proxy.seams.guard import Forwarded
from storage.features.registered import PutAnchor
from storage.values import Anchor
from tests.unit.proxy.guarded import AGENT, SERVER, call, guard_of, guarded, item

LIE = "The office door code is 6611."
HONEST = "The office opens at nine."


async def test_a_server_shows_no_memory_that_contradicts_an_anchor(tmp_path: Path) -> None:
    heard: list[tuple[Tenant, MemoryId]] = []
    with guarded(tmp_path) as seen:
        store = seen.store
        sieve = Sieve(store.followed.since, ScreenMaker(KnownRules(store.reader.anchors)))
        guard = guard_of(
            seen.wired,
            seen.clock,
            sieve=sieve,
            left_out=lambda tenant, memory_id: heard.append((tenant, memory_id)),
        )
        for text in (LIE, HONEST):
            (one,) = await guard.judge(AGENT, call(item(text, key=text)))
            assert one.candidate_id is not None
            await guard.settle(AGENT, SERVER, ((one.candidate_id, Forwarded.DONE),))
        asked = (LIE, HONEST, f"Two notes. {LIE} {HONEST}")
        assert await guard.sift(AGENT, SERVER, asked) == (False, False, False), "control"
        anchor = Anchor(
            anchor_id="code",
            tenant=AGENT.tenant,
            statement="The office door code is 1166.",
            questions=("Which code?",),
            created_at_ms=1,
        )
        await store.writer.order(PutAnchor(anchor, PrincipalId("ops")))
        assert await guard.sift(AGENT, SERVER, asked) == (True, False, True)
        ((tenant, memory_id),) = heard
        memory = store.reader.get(tenant, memory_id)
        assert memory is not None
        assert LIE in memory.text
        await store.writer.order(PutAnchor(replace(anchor, statement=LIE), PrincipalId("ops")))
        assert await guard.sift(AGENT, SERVER, asked) == (False, False, False)
