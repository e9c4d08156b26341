"""A floor for reads, over the wire: what is below it is as if it had never been written."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from policy.model import Channel, Principal, PrincipalId, Reads, Tenant
from proxy.dialects.mcp.store.graph import ENTITIES, EntityMark, marked
from proxy.guard.client import GuardClient
from proxy.guard.wire import SOCKET
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import ReadGraph, ShownGraph
from proxy.settings.table import SettingsError
from storage.ground.errors import StorageError
from tests.integration.model_bench import APIS, asking, call, fronted
from tests.integration.running import AGENT_KEY, Running, running
from tests.integration.test_model_coupling import answered
from tests.integration.test_recalls_of_replies import reply_id_in
from tests.unit.storage.opening import AGENT

Json = dict[str, Any]

FLOOD: Final = 10_000
NEVER: Final = "00000000-0000-4000-8000-000000000000"
HERS: Final = "Ada keeps her bees behind the house."
LIE: Final = "Ada keeps her bees in the cellar of the bank."
NAMES: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{16}"
    r"|\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)?"
)


async def keyed(live: Running, name: str, reads: Reads, channel: Channel = Channel.AGENT) -> str:
    return await live.key_for(
        Principal(
            principal_id=PrincipalId(name), tenant=Tenant("default"), channel=channel, reads=reads
        )
    )


async def ask(
    live: Running, key: str, method: str, path: str, body: Json | None
) -> tuple[int, str]:
    """Status and body, in which every id and time is a dash."""
    scheme = "Bearer" if path.startswith("/v1/") and not path.endswith("/") else "Token"
    headers = {"Authorization": f"{scheme} {key}"}
    if path.startswith(("/store", "/memories", "/search", "/entities")):
        headers = {"x-api-key": key}
    async with live.client.request(method, live.url + path, json=body, headers=headers) as answer:
        return answer.status, NAMES.sub("-", await answer.text())


async def put(live: Running, key: str, path: str, body: Json, method: str = "POST") -> str:
    """The id of what was written, "" where the answer names none."""
    headers = {"Authorization": f"Bearer {key}"}
    if path.startswith(("/store", "/memories")):
        headers = {"x-api-key": key}
    async with live.client.request(method, live.url + path, json=body, headers=headers) as answer:
        assert answer.status in {200, 201, 204}, await answer.text()
        raw = await answer.read()
    found: Json = json.loads(raw) if raw else {}
    results: list[Json] | None = found.get("results")
    return str(found.get("id") or (results[0]["id"] if results else ""))


def item(key: str, text: str, *labels: str) -> Json:
    return {"namespace": list(labels or ("notes",)), "key": key, "value": {"text": text}}


async def written(live: Running, key: str, text: str, user: str) -> tuple[str, str]:
    """The same text through every dialect; the ids of the memories."""
    message = {"messages": [{"role": "user", "content": text}], "user_id": user, "infer": False}
    ids = (
        await put(live, key, "/v1/memories", {"text": text, "user_id": user}),
        await put(live, key, "/memories", message),
    )
    await put(live, key, "/store/items", item(f"of {user}", text), "PUT")
    await put(live, key, "/store/items", item("k", text, "of", user), "PUT")
    return ids


async def flooded(live: Running) -> None:
    for start in range(0, FLOOD, 500):
        operations = [
            {"op": "create", "text": f"Bees, bees behind house {start + at}.", "user_id": "ada"}
            for at in range(500)
        ]
        _, answer = await live.call(
            "POST", "/v1/memories/batch", AGENT_KEY, {"operations": operations}
        )
        assert answer["admitted"] == 500, answer["results"][:1]


def reads(ids: tuple[str, str]) -> list[tuple[str, str, Json | None]]:
    """Every read of every dialect; `ids` are of two memories below the floor, or of none."""
    native, mem0 = ids
    return [
        ("GET", "/v1/memories?limit=1000", None),
        ("GET", "/v1/memories?user_id=mallory", None),
        ("GET", f"/v1/memories/{native}", None),
        ("GET", f"/v1/memories/{native}/history", None),
        ("POST", "/v1/search", {"query": "Bees, bees behind house", "limit": 100}),
        ("POST", "/v1/search", {"query": LIE, "filters": {"user_id": "mallory"}}),
        ("GET", "/v1/entities", None),
        ("POST", "/v1/feedback", {"memory_id": native, "verdict": "good"}),
        ("GET", "/memories?user_id=mallory", None),
        ("GET", "/memories?user_id=ada", None),
        ("GET", f"/memories/{mem0}", None),
        ("GET", f"/memories/{mem0}/history", None),
        ("POST", "/search", {"query": LIE, "filters": {"user_id": "ada"}, "top_k": 100}),
        ("GET", "/entities", None),
        ("POST", "/v3/memories/search/", {"query": LIE, "filters": {"user_id": "ada"}}),
        ("POST", "/v3/memories/?page=1&page_size=100", {"filters": {"user_id": "ada"}}),
        ("GET", "/v1/entities/", None),
        ("GET", "/store/items?namespace=notes&key=of%20mallory", None),
        ("GET", "/store/items?namespace=notes&key=of%20ada", None),
        ("POST", "/store/items/search", {"namespace_prefix": ["notes"], "limit": 100}),
        ("POST", "/store/items/search", {"namespace_prefix": [], "query": LIE, "limit": 100}),
        ("POST", "/store/namespaces", {}),
    ]


def changes(ids: tuple[str, str]) -> list[tuple[str, str, Json | None]]:
    native, mem0 = ids
    return [
        ("PATCH", f"/v1/memories/{native}", {"text": "Ada has no bees."}),
        ("PATCH", f"/v1/memories/{native}", {"metadata": {"read": True}}),
        ("PATCH", f"/v1/memories/{native}", {"text": "Ada has no bees.", "nonce": "mine"}),
        ("POST", "/v1/memories", {"text": "Of bees.", "derived_from": [native]}),
        ("DELETE", f"/v1/memories/{native}", None),
        ("DELETE", "/v1/memories?user_id=mallory", None),
        ("PUT", f"/memories/{mem0}", {"text": "Ada has no bees."}),
        ("DELETE", f"/memories/{mem0}", None),
        ("DELETE", "/memories?user_id=mallory", None),
        ("DELETE", "/entities/user/mallory", None),
        ("DELETE", "/store/items", {"namespace": ["notes"], "key": "of mallory"}),
        ("PUT", "/store/items", item("of mallory", "Ada sold her bees in May.")),
        ("GET", "/store/items?namespace=notes&key=of%20mallory", None),
        ("POST", "/store/items/search", {"namespace_prefix": ["notes"], "limit": 100}),
        ("PUT", "/store/items", item("of mallory", "Ada sold her bees in June.")),
        ("GET", "/store/items?namespace=notes&key=of%20mallory", None),
        ("DELETE", "/store/items", {"namespace": ["notes"], "key": "of mallory"}),
        ("GET", "/store/items?namespace=notes&key=of%20mallory", None),
    ]


async def world(live: Running, *, below: bool) -> dict[str, list[tuple[int, str]]]:
    """What readers of a floor are answered, in a store that has something below it, or nothing."""
    person = await live.key("ann", channel=Channel.USER)
    her = await keyed(live, "ann", Reads.USER_INPUT, Channel.USER)
    floored = await keyed(live, "reader", Reads.USER_INPUT)
    everything = await keyed(live, "other", Reads.ALL)
    await written(live, person, HERS, "ada")
    ids = (NEVER, NEVER)
    if below:
        await flooded(live)
        ids = await written(live, AGENT_KEY, LIE, "mallory")
        control = [await ask(live, everything, *one) for one in reads(ids)]
        assert sum(LIE in body or "mallory" in body for _, body in control) >= 15, control
        assert {status for status, _ in control} == {200}
        assert HERS not in control[4][1], "control: the flood blinds a search of everything"
    before = live.version()
    answers = {
        "reads of an agent": [await ask(live, floored, *one) for one in reads(ids)],
        "reads of hers": [await ask(live, her, *one) for one in reads(ids)],
    }
    assert live.version() == before
    answers["changes of an agent"] = [await ask(live, floored, *one) for one in changes(ids)]
    answers["changes of hers"] = [await ask(live, her, *one) for one in changes(ids)]
    # A put over what is below is a put of something new, and a person's is hers from then on.
    gets = [answers["changes of hers"][at][1] for at in (12, 15, 17)]
    assert [("May" in one, "June" in one) for one in gets[:2]] == [(True, False), (False, True)]
    assert gets[2] == answers["changes of an agent"][12][1] == "null"
    if below:
        kept = [await ask(live, everything, *one) for one in reads(ids)]
        assert LIE in kept[2][1], "what is below was changed by nobody"
        assert LIE in kept[10][1]
    return answers


@pytest.mark.timeout(900)
async def test_no_status_count_or_text_tells_what_is_below_the_floor(tmp_path: Path) -> None:
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
    async with running(tmp_path / "without") as live:
        without = await world(live, below=False)
    async with running(tmp_path / "with") as live:
        with_them = await world(live, below=True)
    for part, answers in without.items():
        asked = (changes if part.startswith("changes") else reads)(("-", "-"))
        for request, one, other in zip(asked, answers, with_them[part], strict=True):
            assert one == other, (part, request)
        assert LIE not in str(with_them[part])
        assert any(HERS in body for _, body in answers), "control: what is hers is shown"


async def test_a_put_over_what_is_below_stands_beside_it(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        her = await keyed(live, "ann", Reads.USER_INPUT, Channel.USER)
        everything = await keyed(live, "other", Reads.ALL)
        await put(live, AGENT_KEY, "/store/items", item("k", LIE), "PUT")
        get = ("GET", "/store/items?namespace=notes&key=k", None)
        assert await ask(live, her, *get) == (200, "null")
        assert LIE in (await ask(live, everything, *get))[1]
        await put(live, her, "/store/items", item("k", HERS), "PUT")
        for key in (her, everything):
            status, body = await ask(live, key, *get)
            assert (status, HERS in body, '"source_kind":"user_input"' in body) == (200, True, True)
        search = ("POST", "/store/items/search", {"namespace_prefix": ["notes"]})
        assert [LIE in (await ask(live, key, *search))[1] for key in (her, everything)] == [
            False,
            True,
        ]
        # The agent changes what is hers only with a person's word; nothing of this is below.
        status, _ = await ask(live, AGENT_KEY, "PUT", "/store/items", item("k", LIE))
        assert status == 403
        status, body = await ask(
            live, her, "DELETE", "/store/items", {"namespace": ["notes"], "key": "k"}
        )
        assert status == 204
        assert await ask(live, her, *get) == (200, "null")
        assert LIE in (await ask(live, everything, *get))[1]


@pytest.mark.parametrize(
    ("table", "adapter", "why"),
    [
        ("mcp", 'url = "https://mcp.example"', "a floor is not kept at a server that ranks"),
        (
            "backend",
            'adapter = "mem0_server"\nurl = "https://memory.example"',
            "this server lists 1000 memories at most",
        ),
    ],
)
async def test_a_server_that_cannot_have_a_floor_is_refused_one_and_the_start_says_why(
    tmp_path: Path, table: str, adapter: str, why: str
) -> None:
    plain = f'[[{table}]]\nname = "one"\n{adapter}\n'
    with pytest.raises(SettingsError, match=f"reads: {why}"):
        async with running(tmp_path, tables=f'{plain}reads = "user_input"\n'):
            pass
    async with running(tmp_path, tables=plain) as live:  # control
        floored = await keyed(live, "reader", Reads.USER_INPUT)
        everything = await keyed(live, "other", Reads.ALL)
        at = "/mcp/one" if table == "mcp" else "/memories"
        method = "POST" if table == "mcp" else "GET"
        for key, said in ((floored, True), (everything, False)):
            headers = {"x-api-key": key}
            async with live.client.request(method, live.url + at, headers=headers, json={}) as one:
                assert (one.status == 403 and why in await one.text()) is said


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("floor", ["all", "user_input"])
async def test_what_was_served_below_the_floor_of_a_model_is_in_no_request_to_it(
    tmp_path: Path, api: str, floor: str
) -> None:
    async with fronted(tmp_path, more=f'reads = "{floor}"') as bench:
        person = await bench.front.key("ann", channel=Channel.USER)
        for key, text in ((AGENT_KEY, LIE), (person, HERS)):
            assert (await bench.front.write(key, {"text": text}))[0] == 201
        _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, {"query": "bees"})
        assert len(found["results"]) == 2
        body = asking(api, f"Where are they? {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask(api, body)).status == 200
        result = json.dumps({"results": found["results"]})
        reply = await bench.ask(api, answered(api, body, "call_0000", result))
        assert reply.status == 200
        sent = bench.model.requests[-1].raw
        recalls = bench.front.sidecar.store.recalls
        noted = await asyncio.to_thread(recalls.reply, AGENT.tenant, reply_id_in(reply.raw))
    assert noted is not None
    assert len(noted.memories) == (2 if floor == "all" else 1)
    assert HERS.encode() in sent
    assert (b"the cellar of the bank" in sent) is (floor == "all")


@pytest.mark.parametrize("floor", [*Reads])
async def test_store_mode_keeps_the_floor_of_its_principal_and_a_relay_is_refused_one(
    tmp_path: Path, floor: Reads
) -> None:
    bound = f'[[principals]]\nid = "me"\ntenant = "default"\nuid = {os.geteuid()}\n'
    tables = f'{bound}reads = "{floor.value}"\n'
    async with (
        running(tmp_path, tables=tables) as live,
        GuardClient(live.state / SOCKET) as client,
    ):
        person = await live.key("ann", channel=Channel.USER)
        for key, name in ((person, "Ada"), (AGENT_KEY, "Bank")):
            mark = marked(EntityMark(name=name, entity_type="person"))
            body = {"text": name, "metadata": json.loads(mark), "target": ENTITIES}
            assert (await live.write(key, body))[0] == 201
        found = await client.perform(ReadGraph(), None)
        assert isinstance(found, ShownGraph)
        names = [one.name for one in found.entities]
        assert names == {Reads.ALL: ["Ada", "Bank"], Reads.USER_INPUT: ["Ada"]}.get(floor, [])
        if floor is Reads.ALL:
            assert await client.sift(AGENT, "memory", ("else",)) == (False,)
        else:
            with pytest.raises((StorageError, MalformedRequest)):
                await client.sift(AGENT, "memory", ("else",))
