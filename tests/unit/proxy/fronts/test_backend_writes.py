"""What becomes of a write to a memory server whose answer nobody got."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from policy.model import ChangeKind
from proxy.backends.kept_request import kept_request
from proxy.backends.langgraph import LangGraph
from proxy.backends.langgraph.store_items import ITEMS, known_key
from proxy.dialects.strict_json.strict import JsonValue
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.fronts.backend_writes import LATE_S, BackendPlaces, HttpSettling
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.seams.guard import Forwarded, GuardedCall, Item, Unsettled
from proxy.settings.backend import backend_servers
from proxy.transport.upstream import Upstream
from tests.integration.memory_servers.recorder import Recorder, recorder
from tests.unit.proxy.guard.test_keyed import hides, http, shown
from tests.unit.proxy.guarded import AGENT, GOOD, OTHER, SERVER, Clock, guarded

KEY = known_key(("memories", "alice"), "k1")


def anything(place: str, texts: Iterable[str]) -> None:
    """Lets everything go on."""
    del place, texts


class Lost(NamedTuple):
    """A write that was sent before a crash: an intent, of which no record says any more."""

    item: Unsettled
    settling: HttpSettling
    guard: LocalGuard
    keys: KeyOwners
    server: Recorder
    clock: Clock

    async def settle(self, state: Forwarded) -> None:
        await self.guard.settle(AGENT, SERVER, ((self.item.candidate_id, state),))


@asynccontextmanager
async def lost(root: Path) -> AsyncGenerator[Lost]:
    with guarded(root) as seen:
        before, _ = http(seen)
        body: JsonValue = {"namespace": ["memories", "alice"], "key": "k1", "value": {"text": GOOD}}
        kept = kept_request("PUT", ITEMS, body, texts=("value",), key=KEY)
        one = Item(change=ChangeKind.CREATE, arguments=kept.arguments, pieces=kept.pieces, key=KEY)
        await before.judge(AGENT, GuardedCall(server=SERVER, tool="put", items=(one,)))
        guard, keys = http(seen)
        (item,) = await guard.unsettled(AGENT, SERVER)
        clock = Clock()
        async with recorder() as (server, url):
            table = {"name": SERVER, "adapter": "langgraph", "url": url}
            (settings,) = backend_servers([table])
            async with Upstream(url) as upstream:
                behind = BackendServerFront(
                    settings, LangGraph(), upstream, clock, check_sent_on=anything
                )
                places = BackendPlaces(behind, keys)
                settling = HttpSettling(behind, guard, places, keys, AGENT)
                yield Lost(item, settling, guard, keys, server, clock)


async def test_a_write_that_is_not_there_counts_as_failed_after_some_minutes_and_is_hidden(
    tmp_path: Path,
) -> None:
    async with lost(tmp_path) as one:
        assert await one.settling.look_up(one.item) is None
        one.clock.now_s += LATE_S - 1
        assert await one.settling.look_up(one.item) is None
        one.clock.now_s += 1
        state = await one.settling.look_up(one.item)
        assert state is Forwarded.FAILED
        await one.settle(state)
        for reader in (AGENT, OTHER):
            assert await hides(one.keys, reader, shown(KEY, GOOD))
        assert await one.keys.belongs_to_others(OTHER, SERVER, (shown(KEY),)) == (True,)
        # The tenant may write there again, as where nothing is.
        assert await one.keys.belongs_to(AGENT, SERVER, (shown(KEY),)) == (False,)


async def test_a_write_that_is_there_is_done_at_once(tmp_path: Path) -> None:
    async with lost(tmp_path) as one:
        assert await one.settling.look_up(one.item) is None
        one.server.put("k1", {"text": GOOD})
        assert await one.settling.look_up(one.item) is Forwarded.DONE


async def test_a_write_that_its_server_refused_leaves_the_key_free(tmp_path: Path) -> None:
    async with lost(tmp_path) as one:
        await one.settle(Forwarded.FAILED)
        assert not await hides(one.keys, OTHER, shown(KEY, GOOD))
