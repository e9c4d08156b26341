"""The same answer of a memory server, read again: looked through once, until something hides."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.labels.forwarded_call import HTTP, target_of
from policy.model import Tenant
from proxy.backends.langgraph.langgraph import LangGraph
from proxy.seams.http_backend import ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest
from storage.features.upstream.intents import CloseKeys
from tests.integration.memory_servers.recorder import recorder
from tests.integration.operator_line import line
from tests.integration.running import AGENT_KEY
from tests.integration.test_backend_store import guarded

BEES = "Ada keeps bees in the garden behind her house"
TRAIN = "The night train to Porto leaves at nine"


class Looked:
    """Counts the answers that were looked through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = LangGraph.shown

        def shown(
            adapter: LangGraph, request: HttpRequest, reply: HttpReply
        ) -> tuple[ShownMemory, ...]:
            self.count += 1
            return real(adapter, request, reply)

        monkeypatch.setattr(LangGraph, "shown", shown)


async def test_the_same_answer_is_looked_through_once_and_counts_as_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Looked(monkeypatch)
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        await gate.put(BEES)
        other = await gate.sidecar.key("other", tenant="other")
        looked.count = 0
        assert [await gate.texts() for _ in range(3)] == [[BEES]] * 3
        assert looked.count == 1
        # Another reader, another question and another answer are others.
        assert await gate.texts(other) == []
        assert await gate.texts(limit=9) == [BEES]
        server.put("k2", {"text": TRAIN})
        assert await gate.texts() == [BEES, TRAIN]
        assert looked.count == 4
        recalls = gate.sidecar.sidecar.store.recalls.recalls(Tenant("default"))
        assert len(recalls) == 5, "each read that showed the memory is a recall of it"


async def test_an_answer_is_looked_through_again_once_anything_hides_or_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Looked(monkeypatch)
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        server.put("k2", {"text": TRAIN})
        await gate.put(BEES)
        (found,) = (await gate.operate("GET", "/memories"))["memories"]
        place = f"/memories/{found['memory_id']}"

        async def read(key: str = AGENT_KEY) -> list[str]:
            """What two reads of the same answer show; the second is not looked through."""
            first, count = await gate.texts(key), looked.count
            assert await gate.texts(key) == first
            assert looked.count == count
            return first

        assert await read() == [TRAIN, BEES]
        assert await read(other) == [TRAIN]
        await gate.operate("POST", f"{place}/quarantine", {"reason": "a lie"})
        assert await read() == [TRAIN]
        await gate.operate("POST", f"{place}/parole", {})
        assert await read() == [TRAIN, BEES]
        await gate.operate("POST", f"{place}/quarantine", {"reason": "a lie"})
        assert await read() == [TRAIN]
        await gate.operate("POST", f"{place}/purge", {})
        assert await read() == await read(other) == [TRAIN]
        # Now what stood there before is another tenant's, and the server's answer is the same.
        done = await line(gate.sidecar, "backend", "adopt", "store", "--tenant", "other")
        assert done.code == 0
        assert await read() == []
        assert await read(other) == [TRAIN]


async def test_an_answer_is_looked_through_again_once_its_key_is_closed(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        server.put("k2", {"text": TRAIN})
        assert await gate.texts() == [TRAIN]
        store = gate.sidecar.sidecar.store
        key = '["memories","alice","k2"]'
        await store.forwards.order(CloseKeys(Tenant("other"), target_of(HTTP, "store"), (key,)))
        assert await gate.texts() == []


async def test_a_memory_beyond_the_page_is_no_recall(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        await gate.put(BEES, "b1")
        await gate.put(TRAIN, "b2")
        assert len(await gate.texts(limit=2)) == 2
        body = {"namespace_prefix": ["memories"], "limit": 1, "offset": 1}
        _, said, _ = await gate.ask("POST", "/store/items/search", body)
        (one,) = said["items"]
        last, *_ = gate.sidecar.sidecar.store.recalls.recalls(Tenant("default"))
        assert len(last.hits) == 1
        assert one["key"] == "b2"
