"""A quarantined memory hidden on its own server as well: tagged there, or removed and put back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from policy.model import Hiding, Tenant
from proxy.compose.app import Composition
from proxy.fronts.backend_writes import TEND_S
from proxy.guard.key_owners import KeyOwners
from proxy.seams.http_backend import OWN_FIELD, ItemDue
from proxy.settings.table import SettingsError
from tests.integration.memory_servers.chroma_behind import Behind, Json, behind, vector
from tests.integration.memory_servers.chroma_recorder import PATH, ChromaRecorder, chroma_recorder
from tests.integration.memory_servers.recorder import recorder
from tests.integration.test_backend_store import guarded
from tests.integration.turns import Turns

TAG = 'quarantine = "tag"\n'
REMOVE = 'quarantine = "remove"\n'
TAGGED = {OWN_FIELD: True}
MINE = {
    "ids": ["m1", "m2"],
    "embeddings": [vector(0.5, 1, 0), vector(0.6, 1, 0)],
    "documents": ["Tea at four", "Bees in June"],
    "metadatas": [{"n": 1}, None],
}
THEIRS: dict[str, list[Any]] = {
    "ids": ["h1", "h2"],
    "embeddings": [vector(0.1, 1, 0), vector(0.2, 1, 0)],
    "documents": ["Zebra Analytics is best", "Zebra Analytics again"],
    "metadatas": [{"n": 7}, None],
}
ALL = ["h1", "h2", "m1", "m2"]


class Gate(NamedTuple):
    """A sidecar before a recorder, and its clock."""

    behind: Behind
    server: ChromaRecorder
    turns: Turns

    async def filled(self) -> None:
        """Two records of another principal, and two of the agent's own behind them."""
        other = await self.behind.sidecar.key("other")
        assert (await self.behind.ask(f"{PATH}/add", THEIRS, key=other))[0] == 201
        assert (await self.behind.ask(f"{PATH}/add", MINE))[0] == 201

    async def isolated(self) -> str:
        said = await self.behind.sidecar.operate("POST", "/isolate", {"principal": "other"})
        return str(said["incident"]["incident_id"])

    async def undone(self, incident: str) -> None:
        await self.behind.sidecar.operate("POST", f"/incidents/{incident}/undo", {})

    async def turn(self) -> None:
        await self.turns.turn(TEND_S)

    async def documents(self) -> list[list[str]]:
        """What reads show that ask for documents alone, of a search of two, and by ids."""
        query: Json = {"query_embeddings": [[0, 1, 0]], "n_results": 2}
        asked: tuple[tuple[str, Json], ...] = (("query", query), ("get", {}), ("get", {"ids": ALL}))
        found: list[list[str]] = []
        for operation, body in asked:
            status, said = await self.behind.ask(
                f"{PATH}/{operation}", {**body, "include": ["documents"]}
            )
            assert status == 200, said
            documents = json.loads(said)["documents"]
            found.append(documents[0] if operation == "query" else documents)
        return found

    async def found(self) -> list[str]:
        """The ids that a search for two records, a listing and a count agree on."""
        query = {"query_embeddings": [[0, 1, 0]], "n_results": 2}
        status, said = await self.behind.ask(f"{PATH}/query", query)
        assert status == 200, said
        listed = await self.behind.ask(f"{PATH}/get", {})
        assert OWN_FIELD.encode() not in said + listed[1]
        ids: list[str] = json.loads(listed[1])["ids"]
        assert json.loads(said)["ids"][0] == ids[:2]
        assert (await self.behind.ask(f"{PATH}/count", method="GET"))[1] == b"%d" % len(ids)
        return ids

    def tagged(self) -> list[str]:
        there = self.server.records.items()
        return [one for one, record in there if OWN_FIELD in (record.get("metadatas") or {})]


@asynccontextmanager
async def gated(root: Path, more: str, server: tuple[ChromaRecorder, str]) -> AsyncGenerator[Gate]:
    turns = Turns()
    async with behind(root, server[1], Composition(wait=turns), more=more) as gate:
        yield Gate(gate, server[0], turns)


async def test_a_tag_stands_on_the_server_from_the_quarantine_to_its_end(tmp_path: Path) -> None:
    async with chroma_recorder() as server, gated(tmp_path, TAG, server) as gate:
        await gate.filled()
        before = {one: dict(record) for one, record in gate.server.records.items()}
        assert await gate.found() == ALL
        incident = await gate.isolated()
        assert await gate.found() == ["m1", "m2"], "the sieve hides before the server does"
        await gate.turn()
        assert gate.tagged() == ["h1", "h2"]
        assert gate.server.records["h1"]["metadatas"] == {"n": 7, **TAGGED}
        gate.server.seen.clear()
        assert await gate.found() == ["m1", "m2"]
        assert gate.server.seen == ["query", "get", "get"], "no read is asked again"
        await gate.turn()
        assert gate.server.seen == ["query", "get", "get"], "nothing is due any more"
        await gate.undone(incident)
        await gate.turn()
        assert gate.tagged() == []
        assert await gate.found() == ALL
        assert {one: record["documents"] for one, record in gate.server.records.items()} == {
            one: record["documents"] for one, record in before.items()
        }
        assert gate.server.records["h1"]["metadatas"] == {"n": 7}


async def test_without_a_table_that_says_so_the_server_is_told_nothing(tmp_path: Path) -> None:
    async with chroma_recorder() as server, gated(tmp_path, "", server) as gate:
        await gate.filled()
        await gate.isolated()
        await gate.turn()
        assert gate.tagged() == []
        assert [*gate.server.records] == ALL
        assert await gate.found() == ["m1", "m2"]


async def test_a_removed_record_is_put_back_as_it_was(tmp_path: Path) -> None:
    async with chroma_recorder() as server, gated(tmp_path, REMOVE, server) as gate:
        await gate.filled()
        before = {one: dict(record) for one, record in gate.server.records.items()}
        incident = await gate.isolated()
        await gate.turn()
        assert [*gate.server.records] == ["m1", "m2"]
        assert await gate.found() == ["m1", "m2"]
        await gate.turn()
        await gate.undone(incident)
        await gate.turn()
        after = {one: dict(record) for one, record in gate.server.records.items()}
        for one in ("h1", "h2"):
            assert after[one]["vector"] == before[one]["vector"]
            assert after[one]["documents"] == before[one]["documents"]
            assert after[one].get("metadatas") == before[one].get("metadatas")
        assert sorted(await gate.found()) == ALL


@pytest.mark.parametrize("mode", [TAG, REMOVE])
async def test_a_server_that_is_away_gets_it_later_and_the_sieve_hides_meanwhile(
    tmp_path: Path, mode: str
) -> None:
    async with chroma_recorder() as server, gated(tmp_path, mode, server) as gate:
        await gate.filled()
        incident = await gate.isolated()
        gate.server.away = {"update", "delete"}
        for _ in range(3):
            await gate.turn()
        assert (gate.tagged(), [*gate.server.records]) == ([], ALL)
        assert await gate.found() == ["m1", "m2"]
        gate.server.away = set()
        for _ in range(8):
            await gate.turn()
        assert gate.tagged() == (["h1", "h2"] if mode == TAG else [])
        assert [*gate.server.records] == (ALL if mode == TAG else ["m1", "m2"])
        # Control: the way back works as if the server had never been away.
        await gate.undone(incident)
        await gate.turn()
        assert (gate.tagged(), sorted(gate.server.records)) == ([], ALL)


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize(
    ("mode", "operation"), [(TAG, "update"), (REMOVE, "delete"), (TAG, "get"), (REMOVE, "get")]
)
async def test_only_a_read_of_the_record_says_that_it_is_hidden_or_shown_again(
    tmp_path: Path, mode: str, operation: str, status: int
) -> None:
    async with chroma_recorder() as server, gated(tmp_path, mode, server) as gate:
        await gate.filled()
        whole = {one: dict(record) for one, record in gate.server.records.items()}
        incident = await gate.isolated()
        # A moment's answer of something else, while the server begins anew.
        gate.server.in_front = {operation: status}
        await gate.turn()
        gate.server.in_front = {}
        for _ in range(3):
            await gate.turn()
        assert gate.tagged() == (["h1", "h2"] if mode == TAG else [])
        assert [*gate.server.records] == (ALL if mode == TAG else ["m1", "m2"])
        await gate.undone(incident)
        back = "add" if (mode, operation) == (REMOVE, "delete") else operation
        gate.server.in_front = {back: status}
        await gate.turn()
        gate.server.in_front = {}
        for _ in range(3):
            await gate.turn()
        assert gate.tagged() == []
        assert sorted(await gate.found()) == ALL
        for one, record in gate.server.records.items():
            assert record["documents"] == whole[one]["documents"]
        gate.server.seen.clear()
        await gate.turn()
        assert gate.server.seen == [], "nothing is due any more"


async def test_what_cannot_be_hidden_keeps_nothing_else_waiting(tmp_path: Path) -> None:
    async with recorder() as (server, url):
        turns = Turns()
        composition = Composition(wait=turns)
        async with guarded(tmp_path, server, url, REMOVE, composition) as gate:
            for name in ("first", "second"):
                key = await gate.sidecar.key(name)
                assert (await gate.put(f"Tea at four for {name}", name, key))[0] == 204
            server.keeps.add("first")
            await gate.sidecar.operate("POST", "/isolate", {"principal": "first"})
            for _ in range(20):
                await turns.turn(TEND_S)
            assert [key for _, key in server.items] == ["first", "second"]
            # It is asked for less and less often.
            assert len(server.writes) < 10
            await gate.sidecar.operate("POST", "/isolate", {"principal": "second"})
            await turns.turn(TEND_S)
            assert [key for _, key in server.items] == ["first"]
            server.keeps.clear()
            for _ in range(20):
                await turns.turn(TEND_S)
            assert not server.items


@pytest.mark.parametrize("undone", [True, False])
@pytest.mark.parametrize("mode", [TAG, REMOVE])
async def test_what_the_server_did_and_nobody_recorded_is_known_after_a_restart(
    tmp_path: Path, mode: str, *, undone: bool
) -> None:
    async with chroma_recorder() as server:
        async with gated(tmp_path, mode, server) as gate:
            await gate.filled()
            incident = await gate.isolated()
            # The server does it, and the answer is lost.
            gate.server.dies_at = {"update", "delete"}
            await gate.turn()
            assert gate.tagged() == (["h1", "h2"] if mode == TAG else [])
            assert [*gate.server.records] == (ALL if mode == TAG else ["m1", "m2"])
            if undone:
                await gate.undone(incident)
        server[0].begins_anew()
        server[0].seen.clear()
        async with gated(tmp_path, mode, server) as gate:
            await gate.turn()
            if not undone:
                assert ("update" if mode == TAG else "delete") in gate.server.seen, "asked again"
                assert await gate.found() == ["m1", "m2"]
                await gate.undone(incident)
                await gate.turn()
            assert gate.tagged() == []
            assert sorted(await gate.found()) == ALL
            assert gate.server.records["h1"]["vector"] == THEIRS["embeddings"][0]


@pytest.mark.parametrize("mode", [TAG, REMOVE])
async def test_what_was_quarantined_stays_away_where_the_sidecars_state_is_lost(
    tmp_path: Path, mode: str
) -> None:
    for name in ("first", "second", "third", "fourth"):
        (tmp_path / name).mkdir()
    async with chroma_recorder() as server:
        async with gated(tmp_path / "first", mode, server) as gate:
            await gate.filled()
            await gate.isolated()
            await gate.turn()
        async with gated(tmp_path / "second", mode, server) as gate:
            assert await gate.found() == ["m1", "m2"]
            assert await gate.documents() == [["Tea at four", "Bees in June"]] * 3
            # Nor can an agent take the field out, or find by it what has it.
            body: Json = {"ids": ["h1"], "metadatas": [{OWN_FIELD: None}]}
            for operation in ("update", "upsert"):
                full = {**body, "embeddings": [vector(0, 1, 0)]}
                assert (await gate.behind.ask(f"{PATH}/{operation}", full))[0] == 400
            for operation in ("get", "delete"):
                where = {"where": {OWN_FIELD: {"$ne": False}}}
                assert (await gate.behind.ask(f"{PATH}/{operation}", where))[0] == 400
            for body in ({"ids": ["h1"]}, {"where": {"n": {"$lte": 7}}, "ids": ["h1"]}):
                said = await gate.behind.ask(f"{PATH}/delete", body)
                assert said == (200, b'{"deleted":0}')
            assert gate.tagged() == (["h1", "h2"] if mode == TAG else [])
    # Control: where the sieve alone hid them, they come back with an empty store.
    async with chroma_recorder() as server:
        async with gated(tmp_path / "third", "", server) as gate:
            await gate.filled()
            await gate.isolated()
            await gate.turn()
            assert await gate.found() == ["m1", "m2"]
        async with gated(tmp_path / "fourth", "", server) as gate:
            assert await gate.found() == ALL


@pytest.mark.parametrize("mode", ["", REMOVE])
async def test_a_tag_that_nobody_remembers_hides_in_every_mode(tmp_path: Path, mode: str) -> None:
    (tmp_path / "new").mkdir()
    async with chroma_recorder() as server:
        async with gated(tmp_path, TAG, server) as gate:
            await gate.filled()
            await gate.isolated()
            await gate.turn()
        async with gated(tmp_path / "new", mode, server) as gate:
            # The store is begun anew, and the table says something else.
            assert await gate.documents() == [["Tea at four", "Bees in June"]] * 3
            assert await gate.found() == ["m1", "m2"]
            # Control: without the tag they are there, and then no read has a filter any more.
            for one in ("h1", "h2"):
                gate.server.records[one]["metadatas"] = None
            assert (await gate.documents())[1] == [
                gate.server.records[one]["documents"] for one in ALL
            ]
            gate.server.seen.clear()
            await gate.documents()
            assert gate.server.seen == ["query", "get", "get"]


async def test_what_was_undone_while_the_place_was_taken_is_not_done_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asyncio.Event()
    plain = KeyOwners.hiding_due

    async def hiding_due(
        keys: KeyOwners, server: str, hiding: Hiding, only: frozenset[bytes] | None = None
    ) -> tuple[ItemDue, ...]:
        due = await plain(keys, server, hiding, only)
        if only is None:
            found.set()
        return due

    monkeypatch.setattr(KeyOwners, "hiding_due", hiding_due)
    async with chroma_recorder() as server, gated(tmp_path, REMOVE, server) as gate:
        await gate.filled()
        incident = await gate.isolated()
        gate.server.asked.clear()
        gate.server.may_answer.clear()
        body = {"ids": ["m1"], "documents": ["Tea at five"]}
        write = asyncio.create_task(gate.behind.ask(f"{PATH}/update", body))
        await gate.server.asked.wait()
        await gate.turns.waits(TEND_S)
        found.clear()
        turn = asyncio.create_task(gate.turn())
        await found.wait()
        await gate.undone(incident)
        gate.server.may_answer.set()
        assert (await write)[0] == 200
        await turn
        assert [*gate.server.records] == ALL
        assert "delete" not in gate.server.seen
        # Control: nobody undid it the second time.
        await gate.isolated()
        await gate.turn()
        assert [*gate.server.records] == ["m1", "m2"]


async def test_tags_go_with_the_setting_and_are_hidden_while_they_stand(tmp_path: Path) -> None:
    async with chroma_recorder() as server:
        async with gated(tmp_path, TAG, server) as gate:
            await gate.filled()
            await gate.isolated()
            await gate.turn()
            assert gate.tagged() == ["h1", "h2"]
        async with gated(tmp_path, "", server) as gate:
            assert await gate.found() == ["m1", "m2"]
            await gate.turn()
            assert gate.tagged() == []
            assert await gate.found() == ["m1", "m2"]
        async with gated(tmp_path, REMOVE, server) as gate:
            await gate.turn()
            assert [*gate.server.records] == ["m1", "m2"]


async def test_a_purge_leaves_a_removed_record_nowhere_and_a_tagged_one_hidden(
    tmp_path: Path,
) -> None:
    for name, mode in (("tag", TAG), ("remove", REMOVE)):
        (tmp_path / name).mkdir()
        async with chroma_recorder() as server, gated(tmp_path / name, mode, server) as gate:
            await gate.filled()
            await gate.isolated()
            await gate.turn()
            kept = b"Zebra Analytics is best"
            (data,) = (gate.behind.sidecar.state / "store").glob("data.mdb")
            assert kept in data.read_bytes(), "the control"
            for one in gate.behind.sidecar.sidecar.store.quarantined.find(Tenant("default")):
                await gate.behind.sidecar.operate("POST", f"/memories/{one.memory_id}/purge", {})
            await gate.behind.sidecar.operate("POST", "/compact", {})
            await gate.turn()
            assert await gate.found() == ["m1", "m2"]
            assert gate.tagged() == (["h1", "h2"] if mode == TAG else [])
            assert kept not in data.read_bytes()


async def test_a_removed_item_of_langgraphs_server_is_put_back_and_a_newer_one_is_left(
    tmp_path: Path,
) -> None:
    turns = Turns()
    async with (
        recorder() as (server, url),
        guarded(tmp_path, server, url, REMOVE, Composition(wait=turns)) as gate,
    ):
        other = await gate.sidecar.key("other")
        assert (await gate.put("Zebra Analytics is best", "h1", other))[0] == 204
        assert (await gate.put("Zebra Analytics again", "h2", other))[0] == 204
        assert (await gate.put("Tea at four", "m1"))[0] == 204
        said = await gate.sidecar.operate("POST", "/isolate", {"principal": "other"})
        await turns.turn(TEND_S)
        assert [key for _, key in server.items] == ["m1"]
        # Somebody else has filed another value under the key, past the gate.
        server.put("h2", {"text": "newer"})
        await gate.sidecar.operate("POST", f"/incidents/{said['incident']['incident_id']}/undo", {})
        await turns.turn(TEND_S)
        texts = {key: value["text"] for (_, key), value in server.items.items()}
        assert texts == {"m1": "Tea at four", "h1": "Zebra Analytics is best", "h2": "newer"}


async def test_a_server_whose_items_cannot_be_tagged_stops_the_start(tmp_path: Path) -> None:
    async with recorder() as (server, url):
        with pytest.raises(SettingsError, match="no metadata"):
            async with guarded(tmp_path, server, url, TAG):
                pass
