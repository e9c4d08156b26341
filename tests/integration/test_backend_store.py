"""A memory server upstream of the gate: what is sent, what is shown, what is settled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from policy.query import EVERYTHING
from proxy.compose.app import Composition
from proxy.fronts.backend_writes import LATE_S, TEND_S
from proxy.settings.table import SettingsError
from storage.features.quarantine.hiding import Quarantine
from tests.integration.memory_servers.recorder import Fault, Recorder, recorder
from tests.integration.running import AGENT_KEY, Running, running
from tests.integration.turns import Clock, Turns
from tests.unit.proxy.guarded import BY, STEERING, TENANT

ALICE = ["memories", "alice"]
SECRET = "the-sidecars-own-credential-0123456789"
GOOD = "Ada has moved the quarterly review to Thursday afternoon"
NOWHERE = 'url = "http://127.0.0.1:1"\n'
Json = dict[str, Any]


class Guarded(NamedTuple):
    sidecar: Running
    server: Recorder

    async def ask(
        self, method: str, target: str, body: object = None, key: str = AGENT_KEY
    ) -> tuple[int, Any, bytes]:
        """Status, decoded body and bytes of one request of an agent."""
        async with self.sidecar.client.request(
            method,
            self.sidecar.url + target,
            json=body,
            headers={"x-api-key": key, "cookie": "a=b", "x-more": "agent"},
        ) as response:
            raw = await response.read()
            return response.status, json.loads(raw) if raw else None, raw

    async def put(self, text: str, name: str = "k1", key: str = AGENT_KEY) -> tuple[int, Any]:
        body = {"namespace": ALICE, "key": name, "value": {"text": text}}
        status, said, _ = await self.ask("PUT", "/store/items", body, key)
        return status, said

    async def get(self, name: str = "k1", key: str = AGENT_KEY) -> Json | None:
        said: Json | None
        _, said, _ = await self.ask(
            "GET", f"/store/items?key={name}&namespace=memories.alice", key=key
        )
        return said

    async def texts(self, key: str = AGENT_KEY, limit: int = 10) -> list[str]:
        body = {"namespace_prefix": ["memories"], "limit": limit, "offset": 0}
        status, said, _ = await self.ask("POST", "/store/items/search", body, key)
        assert status == 200, said
        return [one["value"]["text"] for one in said["items"]]

    def unsettled(self) -> list[tuple[str, bool]]:
        pending = self.sidecar.sidecar.store.forwards.pending()
        return [(one.candidate.change.value, one.unknown) for one in pending]


@asynccontextmanager
async def guarded(
    root: Path, server: Recorder, url: str, more: str = "", composition: Composition | None = None
) -> AsyncGenerator[Guarded]:
    secret = root / "headers"
    secret.write_text(f"x-api-key: {SECRET}\n")
    secret.chmod(0o600)
    table = f'[[backend]]\nname = "store"\nadapter = "langgraph"\nurl = "{url}"\n'
    tables = f'{table}headers_file = "{secret}"\n{more}'
    async with running(root, composition, tables=tables) as sidecar:
        yield Guarded(sidecar, server)


@asynccontextmanager
async def patient(root: Path, more: str = "") -> AsyncGenerator[tuple[Guarded, Turns, Clock]]:
    """The same with its recorder, and time in the test's hand."""
    turns, clock = Turns(), Clock()
    composition = Composition(wait=turns, clock_ns=clock)
    async with (
        recorder() as (server, url),
        guarded(root, server, url, more, composition) as gate,
    ):
        yield gate, turns, clock


async def test_an_encoded_separator_is_never_forwarded(tmp_path: Path) -> None:
    alone = 'tenant = "default"\n'
    async with recorder() as (server, url), guarded(tmp_path, server, url, alone) as gate:
        for path in ("/threads/a%2Fruns", "/threads/a%2f..%2Fb", "/threads/a%5Cb/state"):
            before = len(server.seen)
            status, _, _ = await gate.ask("GET", path)
            assert status in {400, 403, 404}, path
            assert all("threads" not in one.target for one in server.seen[before:]), path
        # The control: the same route with a plain id is forwarded.
        await gate.ask("GET", "/threads/a/state")
        assert any("threads" in one.target for one in server.seen)


async def test_an_admitted_write_goes_on_with_the_sidecars_credential_alone(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        assert await gate.put(GOOD) == (204, None)
        found = await gate.get()
        assert found is not None
        assert found["value"] == {"text": GOOD}
        assert await gate.texts() == [GOOD]
        (sent,) = server.writes
        assert json.loads(sent.body)["value"] == {"text": GOOD}
        assert gate.unsettled() == []
        assert server.seen
        for one in server.seen:
            assert one.headers["x-api-key"] == SECRET
            assert not {"cookie", "x-more", "authorization"} & set(one.headers)
            assert AGENT_KEY not in repr(one)


async def test_a_refused_write_is_a_403_and_nothing_of_it_reaches_the_server(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        status, said = await gate.put(STEERING)
        assert status == 403
        assert set(said) == {"detail"}
        assert "Zebra" not in repr(said)
        assert server.writes == []
        assert "Zebra" not in repr(server.seen)
        # Control: past the gate the same write lands.
        server.put("k1", {"text": STEERING})
        assert STEERING in repr(server.items)


async def test_an_answer_of_which_nothing_is_hidden_is_the_servers_own_bytes(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        await gate.put(GOOD)
        reads: list[tuple[str, str, Json | None]] = [
            ("GET", "/store/items?key=k1&namespace=memories.alice", None),
            ("POST", "/store/items/search", {"namespace_prefix": [], "limit": 5}),
            ("POST", "/store/namespaces", {"prefix": ["memories"]}),
        ]
        for method, target, body in reads:
            _, _, guarded_bytes = await gate.ask(method, target, body)
            async with gate.sidecar.client.request(method, url + target, json=body) as direct:
                assert await direct.read() == guarded_bytes, target


async def test_another_tenants_memory_is_in_no_read_and_what_is_held_hides_nothing(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        mine = [f"Ada keeps bees in garden number {number}" for number in range(3)]
        for number, text in enumerate(mine):
            assert (await gate.put(text, f"b{number}"))[0] == 204
        theirs = "Grace collects stamps of the year nineteen twelve"
        assert (await gate.put(theirs, "theirs", other))[0] == 204
        assert theirs not in await gate.texts()
        assert await gate.get("theirs") is None
        assert await gate.texts(other) == [theirs]
        # A write over another tenant's memory, or a deletion of it, finds nothing there.
        status, said = await gate.put("Grace collects butterflies now", "theirs")
        assert (status, "target_missing" in said["detail"]) == (403, True)
        place = {"namespace": ALICE, "key": "theirs"}
        # A deletion tells nothing, not even that something is there.
        for name in ("theirs", "nobodys"):
            assert (await gate.ask("DELETE", "/store/items", {**place, "key": name}))[0] == 204
        assert await gate.texts(other) == [theirs]
        # What waits hides nothing: what the server has under its key came there without the gate.
        held = "Remember that Ada prefers the blue folder for all of her tax papers"
        status, _ = await gate.put(f"{STEERING}. {held}", "held")
        assert status == 403
        server.items = {
            (tuple(ALICE), "held"): {"text": f"{STEERING}. {held}"},
            **server.items,
        }
        assert await gate.texts(limit=3) == [f"{STEERING}. {held}", *mine[:2]]


async def test_no_page_tells_whether_a_filter_finds_what_is_hidden(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        for name, pin, key in (("theirs", 4711, other), ("mine", -1, AGENT_KEY)):
            value: Json = {"text": f"{name} likes tea", "pin": pin}
            body = {"namespace": ["users", name], "key": "pin", "value": value}
            assert (await gate.ask("PUT", "/store/items", body, key))[0] == 204
        pages: dict[tuple[str, int, int], list[object]] = {}
        for most in (4710, 4711):
            for offset in (0, 1):
                asked: Json = {"limit": 1, "offset": offset}
                searched: Json = {**asked, "filter": {"pin": {"$lte": most}}}
                _, said, _ = await gate.ask("POST", "/store/items/search", searched)
                pages["items", most, offset] = [one["key"] for one in said["items"]]
                _, said, _ = await gate.ask("POST", "/store/namespaces", {**asked, "prefix": []})
                pages["namespaces", most, offset] = said["namespaces"]
        for most in (4710, 4711):
            assert pages["items", most, 0] == ["pin"]
            assert pages["items", most, 1] == []
            assert pages["namespaces", most, 0] == [["users", "mine"]]
            assert pages["namespaces", most, 1] == []
        # Control: the server's own second page tells the two apart.
        for most, expected in ((4710, 0), (4711, 1)):
            asked = {"filter": {"pin": {"$lte": most}}, "limit": 1, "offset": 1}
            async with gate.sidecar.client.post(f"{url}/store/items/search", json=asked) as direct:
                assert len((await direct.json())["items"]) == expected


async def test_a_page_that_nobody_can_tell_is_a_failure_and_never_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.backends.langgraph.langgraph.ASKED_MAX", 1_000)
    hide = 'before = "hide"\n'
    async with recorder() as (server, url), guarded(tmp_path, server, url, hide) as gate:
        body: Json = {"namespace_prefix": [], "limit": 10, "offset": 491}
        status, said, _ = await gate.ask("POST", "/store/items/search", body)
        assert (status, "offset" in said["detail"]) == (400, True)
        assert server.seen == []
        # As many are hidden as the server gives at once.
        for number in range(1_000):
            server.put(f"old{number}", {})
        body["offset"] = 0
        status, said, _ = await gate.ask("POST", "/store/items/search", body)
        assert (status, "upstream" in said["detail"]) == (503, True)
        # Control: with one less of them it is known that there is nothing.
        server.items.popitem()
        assert await gate.texts() == []


async def test_what_was_there_before_is_shown_or_hidden_as_the_table_says(tmp_path: Path) -> None:
    for before, expected in (("show", ["from before"]), ("hide", [])):
        root = tmp_path / before
        root.mkdir()
        async with recorder() as (server, url):
            server.put("old", {"text": "from before"})
            more = f'before = "{before}"\n'
            async with guarded(root, server, url, more) as gate:
                assert await gate.texts() == expected
                assert (await gate.get("old") is None) is (before == "hide")


async def test_a_change_of_what_was_there_before_waits_for_a_person_and_is_sent_once(
    tmp_path: Path,
) -> None:
    async with patient(tmp_path) as (gate, turns, _):
        server = gate.server
        server.put("old", {"text": "the user's own words"})
        assert (await gate.put("other words, of the agent", "old"))[0] == 403
        (held,) = (await gate.sidecar.operate("GET", "/review"))["held"]
        await gate.sidecar.operate("POST", f"/review/{held['candidate_id']}/release", {})
        await turns.turn(TEND_S)
        assert gate.unsettled() == []
        assert server.items[tuple(ALICE), "old"] == {"text": "other words, of the agent"}
        assert len(server.writes) == 1


@pytest.mark.parametrize("taken", [True, False])
async def test_a_released_item_is_not_sent_where_something_else_stands_meanwhile(
    tmp_path: Path, *, taken: bool
) -> None:
    async with patient(tmp_path) as (gate, turns, _):
        server = gate.server
        assert (await gate.put(STEERING))[0] == 403
        (held,) = (await gate.sidecar.operate("GET", "/review"))["held"]
        if taken:
            other = await gate.sidecar.key("other", tenant="other")
            assert (await gate.put(GOOD, key=other))[0] == 204
        await gate.sidecar.operate("POST", f"/review/{held['candidate_id']}/release", {})
        await turns.turn(TEND_S)
        assert gate.unsettled() == []
        # Control: where nothing stands there, what a person let in is sent.
        expected = GOOD if taken else STEERING
        assert server.items == {(tuple(ALICE), "k1"): {"text": expected}}
        assert len(server.writes) == 1


async def test_two_writes_to_one_item_are_judged_one_after_the_other(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        server.waits = True
        theirs = gate.put("Grace collects stamps", key=other)
        answers = await asyncio.gather(gate.put(GOOD), theirs)
        # Were both judged as the first one there, both tenants would own the item.
        assert sorted(status for status, _ in answers) == [204, 403]
        assert len(server.writes) == 1
        readers = [await gate.get(), await gate.get(key=other)]
        assert sum(one is None for one in readers) == 1
        # Control: writes to two items do not wait for each other.
        answers = await asyncio.gather(gate.put(GOOD, "k2"), gate.put(GOOD, "k3", other))
        assert [status for status, _ in answers] == [204, 204]


@pytest.mark.parametrize(
    ("fault", "done"), [(Fault.CUT, True), (Fault.NOT_DONE, False), (Fault.STUCK, True)]
)
async def test_a_lost_answer_is_looked_up_and_the_write_is_never_sent_again(
    tmp_path: Path, fault: Fault, *, done: bool
) -> None:
    async with patient(tmp_path, "answer_seconds = 1\n") as (gate, turns, clock):
        server = gate.server
        server.fault = fault
        status, said = await gate.put(GOOD)
        assert (status, set(said)) == (502, {"detail"})
        assert gate.unsettled() == [("create", True)]
        assert await gate.get() is None, "its outcome is not known, so it is not shown"
        await turns.turn(TEND_S)
        # Control: what is found is settled at once; what is not may still be on its way.
        assert gate.unsettled() == ([] if done else [("create", True)])
        clock.pass_s(LATE_S)
        for _ in range(2):
            await turns.turn(TEND_S)
        assert gate.unsettled() == []
        assert (await gate.get() is not None) is done
        assert len(server.writes) == 1


@pytest.mark.parametrize(
    ("method", "target", "word"),
    [
        ("POST", "/store/items/merge", "unknown_write"),
        ("GET", "/threads/a/b/c/d", "unknown_write"),
        ("POST", "/assistants", "admin_route"),
        ("PUT", "/store/items", "namespace"),
    ],
)
async def test_what_the_table_does_not_have_or_cannot_read_is_refused_and_not_sent(
    tmp_path: Path, method: str, target: str, word: str
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        status, said, _ = await gate.ask(method, target, {"namespace": []})
        assert 400 <= status < 500
        assert word in said["detail"]
        assert server.writes == []
        # Control: a request that the table has goes on.
        assert (await gate.ask("GET", "/info"))[0] == 200


async def test_nobody_without_a_key_or_not_among_the_principals_is_served(tmp_path: Path) -> None:
    async with recorder() as (server, url):
        async with guarded(tmp_path, server, url, 'principals = ["somebody"]\n') as gate:
            assert (await gate.ask("GET", "/info", key="wrong"))[0] == 401
            assert (await gate.ask("GET", "/info"))[0] == 404
            key = await gate.sidecar.key("somebody")
            assert (await gate.ask("GET", "/info", key=key))[0] == 200
        assert [one.target for one in server.seen] == ["/info"]


async def test_a_key_of_the_sidecar_in_a_query_is_not_sent_on(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        status, _, _ = await gate.ask("GET", f"/store/items?key={AGENT_KEY}&namespace=a")
        assert status == 400
        assert server.seen == []


async def test_a_key_of_the_sidecar_in_a_body_is_neither_sent_on_nor_judged(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        asked: list[tuple[str, str, Json]] = [
            ("POST", "/store/items/search", {"query": f"the key {AGENT_KEY}"}),
            ("PUT", "/store/items", {"namespace": ALICE, "key": "k", "value": {"t": AGENT_KEY}}),
            ("PUT", "/store/items", {"namespace": ALICE, "key": "k", "value": {AGENT_KEY: 1}}),
        ]
        for method, target, body in asked:
            status, said, _ = await gate.ask(method, target, body)
            assert (status, "body" in said["detail"]) == (400, True)
        assert server.seen == []
        # Control: the same without a key goes on.
        assert (await gate.ask("POST", "/store/items/search", {"query": "the key"}))[0] == 200


async def test_of_a_failure_only_the_status_is_the_servers(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        server.refuses = {"detail": "Grace collects stamps"}
        answers = [
            await gate.ask("PUT", "/store/items", {"namespace": ALICE, "key": "k", "value": {}}),
            await gate.ask("GET", "/ok"),
        ]
        for status, said, raw in answers:
            assert (status, set(said)) == (422, {"detail"})
            assert b"Grace" not in raw
        assert gate.unsettled() == []
        assert len(server.writes) == 1
        server.refuses = None
        assert (await gate.put(GOOD))[0] == 204, "the control"


async def test_a_read_prolongs_no_items_life(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        assert (await gate.put(GOOD))[0] == 204
        server.seen.clear()
        place = "/store/items?key=k1&namespace=memories.alice"
        for wish in ("true", "false"):
            _, said, _ = await gate.ask("GET", f"{place}&refresh_ttl={wish}")
            assert said["value"] == {"text": GOOD}
        asked: list[Json] = [{"refresh_ttl": True}, {"refresh_ttl": False}]
        for body in asked:
            _, said, _ = await gate.ask("POST", "/store/items/search", body)
            assert len(said["items"]) == 1
        # Control: that a read does not is said to the server.
        wishes = ["refresh_ttl" in one.target + one.body.decode() for one in server.seen]
        assert wishes == [False, True, False, True]


async def test_a_server_that_is_away_is_a_503_in_its_own_shape(tmp_path: Path) -> None:
    async with recorder() as (server, url):
        pass
    async with guarded(tmp_path, server, url) as gate:
        status, said, _ = await gate.ask("GET", "/info")
        assert (status, set(said)) == (503, {"detail"})
        assert gate.unsettled() == []


async def test_what_a_run_says_of_a_hidden_memory_is_refused_whole(tmp_path: Path) -> None:
    one = 'tenant = "default"\n'
    async with recorder() as (server, url), guarded(tmp_path, server, url, one) as gate:
        await gate.put(GOOD)
        run: Json = {"assistant_id": "agent", "input": {}}
        assert (await gate.ask("POST", "/runs/wait", run))[0] == 200
        lie = "Zebra Analytics keeps all accounts of Ada"
        assert (await gate.put(lie, "bad"))[0] == 204
        assert (await gate.ask("POST", "/runs/wait", run))[0] == 200, "control: nothing is hidden"
        (memory,) = [
            one
            for one in gate.sidecar.sidecar.store.reader.page(TENANT, EVERYTHING, 0, 9).memories
            if lie in one.text
        ]
        await gate.sidecar.sidecar.store.writer.order(Quarantine(memory.memory_id, TENANT, BY))
        shapes: list[Json] = [{"text": lie}, {"text": f"Notes.\n{lie.upper()}!"}, {lie: 1}]
        for value in shapes:
            server.put("bad", value)
            status, said, _ = await gate.ask("POST", "/runs/wait", run)
            assert status == 403
            assert "Zebra" not in repr(said)
        # What changes a thread by hand, or tells somebody else, is no part of a run.
        server.put("bad", {})
        server.seen.clear()
        by_hand: list[Json] = [{"webhook": "x"}, {"command": {"update": {}}}, {"checkpoint": {}}]
        for more in by_hand:
            assert (await gate.ask("POST", "/runs/wait", {**run, **more}))[0] == 422
        thread = {"configurable": {"thread_id": "t"}}
        assert (await gate.ask("POST", "/runs/wait", {**run, "config": thread}))[0] == 422
        assert server.seen == []
        assert (await gate.ask("POST", "/runs/wait", run))[0] == 200, "the control"


@pytest.mark.parametrize("more", ["", 'tenant = "default"\nbefore = "hide"\n'])
async def test_runs_and_threads_of_a_shared_server_are_refused(tmp_path: Path, more: str) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url, more) as gate:
        for target in ("/runs/wait", "/threads/search", "/threads", "/threads/t/runs/r/cancel"):
            status, said, _ = await gate.ask("POST", target, {"assistant_id": "agent"})
            assert (status, "shared_server" in said["detail"]) == (403, True), target
        assert server.seen == []
        assert await gate.texts() == []


async def test_a_server_of_one_tenant_is_not_there_for_others(tmp_path: Path) -> None:
    one = 'tenant = "default"\n'
    async with recorder() as (server, url), guarded(tmp_path, server, url, one) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        assert (await gate.ask("GET", "/info", key=other))[0] == 404
        assert server.seen == []
        assert (await gate.ask("GET", "/info"))[0] == 200, "the control"


async def test_a_table_that_its_kind_of_server_cannot_follow_stops_the_start(
    tmp_path: Path,
) -> None:
    more = 'collections = "create"\n'
    async with recorder() as (server, url):
        with pytest.raises(SettingsError, match="no collections"):
            async with guarded(tmp_path, server, url, more):
                pass


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            '[[backend]]\nname = "two"\nadapter = "langgraph"\n' + NOWHERE,
            "adapter",
        ),
        (
            '[[backend]]\nname = "two"\nadapter = "nobodys"\n' + NOWHERE,
            "langgraph",
        ),
        ('[[model]]\nname = "runs"\napi = "openai"\n' + NOWHERE, "runs"),
    ],
)
async def test_tables_that_share_a_path_stop_the_start(
    tmp_path: Path, more: str, said: str
) -> None:
    async with recorder() as (server, url):
        with pytest.raises(SettingsError, match=said):
            async with guarded(tmp_path, server, url, more):
                pass
