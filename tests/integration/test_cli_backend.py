"""An operator's commands about a memory server behind the gate: approve, check, adopt."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.admin.wire.upkeep import ComparedView, ImportedView
from proxy.cli import backend_check, backend_import
from proxy.cli.backend_walk import compared
from proxy.cli.client import Operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.seams.http_backend import ListedMemory
from tests.integration.memory_servers.chroma_behind import behind, vector
from tests.integration.memory_servers.chroma_recorder import PATH, chroma_recorder
from tests.integration.memory_servers.recorder import recorder
from tests.integration.operator_line import Line, line
from tests.integration.running import AGENT_KEY, running
from tests.integration.test_backend_store import ALICE, GOOD, Guarded, guarded
from tests.unit.proxy.guarded import STEERING

BEFORE = "Grace keeps the spare key of the shed under the third flower pot"
COUNTED = ("same", "hidden", "unsettled", "foreign", "different", "missing")


async def check(gate: Guarded, *more: str) -> Line:
    return await line(gate.sidecar, "backend", "check", "store", "--json", *more)


async def adopt(gate: Guarded, *more: str) -> Line:
    return await line(gate.sidecar, "backend", "import", "store", "--json", *more)


def counts(done: Line) -> dict[str, int]:
    """The counts of a check that are not zero."""
    return {name: done.data[name] for name in COUNTED if done.data[name]}


async def test_writes_to_a_server_of_an_unknown_version_go_on_once_an_operator_approves(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        early = await line(gate.sidecar, "backend", "approve", "store")
        assert (early.code, "no write to a server 'store'" in early.out) == (4, True)
        server.version = "9.9.9"
        # Control: nobody approved it.
        assert (await gate.put(GOOD))[0] == 403
        done = await line(gate.sidecar, "backend", "approve", "store")
        assert (done.code, "writes to store go on" in done.out) == (0, True)
        assert (await gate.put(GOOD))[0] == 204
        other = await line(gate.sidecar, "backend", "approve", "elsewhere")
        assert other.code == 4


async def test_a_check_tells_what_came_past_the_gate_what_was_changed_and_what_is_gone(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        for number in range(3):
            assert (await gate.put(f"{GOOD} {number}", f"k{number}"))[0] == 204
        assert (await gate.put(f"{GOOD} 0, and then again", "k0"))[0] == 204
        # Control: nobody wrote past the gate.
        clean = await check(gate)
        assert (clean.code, counts(clean)) == (0, {"same": 3})
        place = tuple(ALICE)
        server.items[place, "k1"] = {"text": f"{GOOD} 1", "approved": True}
        del server.items[place, "k2"]
        server.put("theirs", {"text": STEERING})
        server.put(f"{STEERING} in a key", {"text": BEFORE})
        done = await check(gate)
        assert done.code == 1
        assert counts(done) == {"same": 1, "foreign": 2, "different": 1, "missing": 1}
        # No text, and no key with room for one.
        for text in (STEERING, BEFORE, GOOD):
            assert text not in done.out
        found = {(one["what"], one["key"]): one for one in done.data["differences"]}
        assert ("foreign", '["memories","alice","theirs"]') in found
        assert found["different", '["memories","alice","k1"]']["memory_id"]
        assert found["missing", '["memories","alice","k2"]']["memory_id"]
        said = await line(gate.sidecar, "backend", "check", "store")
        assert "mnemogate backend import store --quarantine" in said.out
        assert STEERING not in said.out


async def test_a_running_sidecar_lends_its_table_to_the_commands(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        assert (await gate.put(GOOD, "k0"))[0] == 204
        server.put("theirs", {"text": BEFORE})

        async def asked(*words: str) -> Line:
            return await line(gate.sidecar, "backend", *words, "--json", knows_settings=False)

        done = await asked("check", "store")
        assert (done.code, counts(done)) == (1, {"same": 1, "foreign": 1})
        adopted = await asked("import", "store")
        assert (adopted.code, adopted.data["states"]) == (0, {"unknown": 1})
        assert counts(await asked("check", "store")) == {"same": 2}
        # The controls: a name of no table, and a credential that this user has no longer.
        missing = await asked("check", "elsewhere")
        assert missing.code == Exit.NOT_FOUND
        assert "no [[backend]] table" in missing.out
        (tmp_path / "headers").unlink()
        unread = await asked("check", "store")
        assert unread.code == Exit.USAGE
        assert "headers_file" in unread.out


async def test_what_an_agent_changes_during_a_check_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        for name in ("gone", "changed", "stays"):
            assert (await gate.put(f"{GOOD} for {name}", name))[0] == 204
        asked: list[str] = []

        async def meanwhile(
            api: Operator, backend: str, memories: tuple[ListedMemory, ...]
        ) -> tuple[ComparedView, ...]:
            if not asked:
                asked.append(backend)
                body = {"namespace": ALICE, "key": "gone"}
                assert (await gate.ask("DELETE", "/store/items", body))[0] == 204
                assert (await gate.put(f"{GOOD} as it is now", "changed"))[0] == 204
                assert (await gate.put(f"{GOOD} and more", "new"))[0] == 204
            return await compared(api, backend, memories)

        monkeypatch.setattr(backend_check, "compared", meanwhile)
        done = await check(gate)
        assert (done.code, counts(done)) == (0, {"same": 3})


async def test_deletions_during_a_check_move_nothing_out_of_its_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        for number in range(20):
            assert (await gate.put(f"{GOOD} {number}", f"k{number}"))[0] == 204
        for number in range(430):
            server.put(f"old{number}", {"text": f"{BEFORE} {number}"})
        left = iter(range(20))

        async def meanwhile(
            api: Operator, backend: str, memories: tuple[ListedMemory, ...]
        ) -> tuple[ComparedView, ...]:
            for number in [*left][:10] if len(memories) > 1 else []:
                body = {"namespace": ALICE, "key": f"k{number}"}
                assert (await gate.ask("DELETE", "/store/items", body))[0] == 204
            return await compared(api, backend, memories)

        monkeypatch.setattr(backend_check, "compared", meanwhile)
        done = await check(gate)
        assert (done.code, done.data["foreign"]) == (1, 430)
        # What was written meanwhile moves entries the other way, and none counts twice.
        assert counts(await check(gate)) == {"same": 10, "foreign": 430}


async def test_a_server_whose_pages_have_no_end_ends_a_check_that_says_so(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        for number in range(250):
            server.put(f"old{number}", {"text": f"{BEFORE} {number}"})
        server.repeats = True
        for words in (("check",), ("import", "--dry-run")):
            server.seen.clear()
            done = await line(gate.sidecar, "backend", words[0], "store", *words[1:])
            assert (done.code, "page after page" in done.out) == (3, True)
            assert len(server.seen) < 50
        # Control: this is about the pages.
        server.repeats = False
        assert counts(await check(gate)) == {"foreign": 250}


async def test_what_an_adapter_of_another_kind_kept_ends_a_check_that_says_so(
    tmp_path: Path,
) -> None:
    async with chroma_recorder() as (_, chroma), behind(tmp_path, chroma) as notes:
        body = {"ids": ["r1"], "embeddings": [vector(0, 1, 0)], "documents": [GOOD]}
        assert (await notes.ask(f"{PATH}/add", body))[0] == 201
    # Control: under another name the store has nothing of that server.
    for name, code in (("other", 0), ("notes", 3)):
        async with recorder() as (_, url):
            table = f'[[backend]]\nname = "{name}"\nadapter = "langgraph"\nurl = "{url}"\n'
            async with running(tmp_path, tables=table) as sidecar:
                done = await line(sidecar, "backend", "check", name)
                assert (done.code, "nothing is known" in done.out) == (code, code == 3)


async def test_a_check_prints_a_bounded_part_and_its_file_has_everything(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        for number in range(450):
            server.put(f"old{number}", {"text": f"{BEFORE} {number}"})
        # Too long for the gate: nothing that went through it.
        server.put("long", {"text": "much " * 20_000})
        file = tmp_path / "differences"
        done = await check(gate, "--to", str(file))
        assert (done.code, counts(done)) == (1, {"foreign": 451})
        assert (len(done.data["differences"]), done.data["left_out"]) == (20, 431)
        lines = [json.loads(one) for one in file.read_text().splitlines()]
        assert len({one["digest"] for one in lines}) == 451
        assert [one["importable"] for one in lines].count(False) == 1
        assert BEFORE not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        # No page is longer than the walk asks for.
        asked = [json.loads(one.body) for one in server.seen if one.target.endswith("/search")]
        assert {one["limit"] for one in asked} == {200}
        assert {one["offset"] for one in asked} == {0, 199, 398}
        assert not any(one["refresh_ttl"] for one in asked)
        # A file that is there already is not written over.
        assert (await check(gate, "--to", str(file))).code == 2


async def test_one_odd_item_on_the_server_is_counted_and_the_others_are_compared(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        assert (await gate.put(GOOD))[0] == 204
        seen: list[bool] = []
        # Of the last one all but its size could have come through the gate.
        for key, rest in (("k" * 2_000, 0), ("a\x1bb", 0), ("", 0), ("long", 20_000)):
            server.put(key, {"text": BEFORE, "numbers": [0] * rest})
            done = await check(gate)
            assert (done.code, counts(done)) == (1, {"same": 1, "foreign": 1})
            taken = (await adopt(gate)).data
            assert (taken["states"], taken["unreadable"], taken["known"]) == ({}, 1, 1)
            listed = (await adopt(gate, "--quarantine", "--dry-run")).data
            assert listed["states"] == {"not taken in": 1}
            seen.append(BEFORE in await gate.texts())
            hidden = (await adopt(gate, "--quarantine")).data
            assert (hidden["states"], hidden["unreadable"]) == ({"hidden": 1}, 0)
            assert hidden["imported"][0]["memory_id"] is None
            assert await gate.texts() == [GOOD], key[:9]
            done = await check(gate)
            assert (done.code, counts(done)) == (0, {"same": 1, "hidden": 1})
            del server.items[tuple(ALICE), key]
        # Control: what was hidden here was shown before, unless the adapter cannot read it at all.
        assert any(seen)
        # Control: under a plain key it is taken in.
        server.put("plain", {"text": BEFORE})
        assert (await adopt(gate)).data["states"] == {"unknown": 1}


async def test_a_check_that_cannot_read_the_server_is_no_check(tmp_path: Path) -> None:
    async with recorder() as (server, url):
        async with guarded(tmp_path, server, url) as gate:
            assert (await line(gate.sidecar, "backend", "check", "elsewhere")).code == 4
            server.items[tuple(ALICE), "broken"] = []  # type: ignore[assignment]
            assert (await check(gate)).code == 1
        async with guarded(tmp_path, server, "http://127.0.0.1:1") as gate:
            unread = await check(gate)
            assert unread.code == 3
            assert "store at http://127.0.0.1:1: " in unread.out
            assert "Connect call failed" in unread.out


async def test_what_was_there_before_is_taken_in_as_of_unknown_origin_once(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        server.put("before", {"text": BEFORE})
        server.put("order", {"text": STEERING})
        assert (await gate.put(GOOD))[0] == 204
        # Control: agents see the order.
        assert STEERING in await gate.texts()
        writes = len(server.writes)
        listed = await adopt(gate, "--dry-run")
        assert (listed.data["states"], listed.data["known"]) == ({"not taken in": 2}, 1)
        assert await memories(gate) == {GOOD}
        done = await adopt(gate)
        assert done.data["states"] == {"flagged": 1, "unknown": 1}
        assert STEERING not in done.out
        assert BEFORE not in done.out
        kept = await line(gate.sidecar, "memory", "list", "--json")
        (taken,) = [one for one in kept.data["memories"] if BEFORE in one["text"]]
        assert taken["source"] == "unknown"
        # Once more: nothing is taken in twice, and no leaf is left.
        leaves = await leaf_count(gate)
        again = await adopt(gate)
        assert (again.data["states"], again.data["known"]) == ({}, 3)
        assert await leaf_count(gate) == leaves
        # What was taken in is not foreign any more, and the server was only read.
        assert counts(await check(gate)) == {"same": 2, "hidden": 1}
        assert len(server.writes) == writes
        assert await gate.get("before") is not None
        # The order is hidden from every tenant, until its place is written anew.
        other = await gate.sidecar.key("other", tenant="other")
        for key in (AGENT_KEY, other):
            assert await gate.get("order", key) is None
            assert STEERING not in await gate.texts(key)


async def test_what_was_taken_in_is_recalled_by_its_id_and_can_be_hidden(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        server.put("before", {"text": BEFORE})
        (one,) = (await adopt(gate)).data["imported"]
        assert await gate.texts() == [BEFORE]
        recalls = await line(gate.sidecar, "recall", "list", "--memory", one["memory_id"], "--json")
        assert recalls.data["recalls"], "a read that shows it names it"
        hidden = await line(gate.sidecar, "memory", "quarantine", one["memory_id"])
        assert hidden.code == 0
        assert await gate.texts() == []
        assert counts(await check(gate)) == {"hidden": 1}
        assert (await check(gate)).code == 0
        # Once it is purged, it is in no read either, and no news.
        purged = await line(gate.sidecar, "memory", "purge", one["memory_id"], "--yes")
        assert purged.code == 0, purged.out
        assert counts(await check(gate)) == {"hidden": 1}
        assert await gate.texts() == []


async def test_what_somebody_wrote_past_the_gate_is_hidden_by_one_command(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        server.put("one", {"text": f"{BEFORE} and one"})
        server.put("two", {"text": f"{BEFORE} and two"})
        first = next(
            one for one in (await check(gate)).data["differences"] if one["key"].endswith('"one"]')
        )
        # Control: agents see both.
        assert len(await gate.texts()) == 2
        told = await line(gate.sidecar, "backend", "check", "store")
        named = f" --config {gate.sidecar.state.parent / 'mnemogate.toml'}"
        assert f"backend import store --quarantine{named}\n" in told.out
        done = await adopt(gate, "--quarantine", "--item", first["digest"][:16])
        assert done.data["states"] == {"hidden": 1}
        assert await gate.texts() == [f"{BEFORE} and two"]
        # The server says something else by now: nothing is taken in under that digest.
        server.put("two", {"text": f"{BEFORE} and three"})
        gone = await adopt(gate, "--quarantine", "--item", "0" * 16)
        assert gone.code == 4
        assert (await adopt(gate, "--quarantine")).data["states"] == {"hidden": 1}
        assert await gate.texts() == []


async def test_however_much_came_past_the_gate_one_command_hides_all_of_it(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        for number in range(150):
            server.put(f"old{number}", {"text": f"{BEFORE} {number}"})
        # Control: agents see them.
        assert len(await gate.texts(limit=200)) == 150
        assert (await adopt(gate, "--quarantine")).data["states"] == {"hidden": 150}
        assert await gate.texts() == []
        assert counts(await check(gate)) == {"hidden": 150}


async def memories(gate: Guarded) -> set[str]:
    kept = await line(gate.sidecar, "memory", "list", "--json")
    return {one["text"] for one in kept.data["memories"]}


async def leaf_count(gate: Guarded) -> int:
    status = await gate.sidecar.operate("GET", "/status")
    count: int = status["leaf_count"]
    return count


async def test_an_interrupted_run_that_hides_leaves_no_more_than_one_memory_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = backend_import._hidden
    hidden = 0

    async def interrupted(api: Operator, one: ImportedView, tenant: str) -> str:
        nonlocal hidden
        hidden += 1
        if hidden == 3:
            raise CommandFailed(Exit.UNREACHABLE, "interrupted")
        return await real(api, one, tenant)

    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        for number in range(6):
            server.put(f"before{number}", {"text": f"{BEFORE}, number {number}"})
        monkeypatch.setattr(backend_import, "_hidden", interrupted)
        assert (await adopt(gate, "--quarantine")).code == Exit.UNREACHABLE
        assert len(await gate.texts()) == 4, "the control: nothing of these is hidden yet"
        assert (await adopt(gate, "--quarantine")).code == 0
        assert len(await gate.texts()) == 1


async def test_what_became_another_tenants_meanwhile_is_not_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(
        api: Operator, name: str, items: tuple[ListedMemory, ...]
    ) -> tuple[ComparedView, ...]:
        del api, name
        return tuple(ComparedView(state="foreign") for _ in items)

    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        assert (await gate.put(GOOD))[0] == 204
        monkeypatch.setattr(backend_import, "compared", before)
        done = await adopt(gate, "--tenant", "other")
        assert (done.code, "another tenant's memory by now" in done.out) == (Exit.REFUSED, True)
        assert await gate.texts() == [GOOD]
        assert await gate.get(key=other) is None
        # Control: what is nobody's is taken in.
        server.items = {(tuple(ALICE), "before"): {"text": BEFORE}}
        assert (await adopt(gate, "--tenant", "other")).code == 0
        assert await gate.texts(other) == [BEFORE]
