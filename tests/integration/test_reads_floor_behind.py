"""A floor for reads on a memory server behind the gate: what is below it does not exist."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest

from policy.model import Channel, PrincipalId, Reads
from policy.query import EVERYTHING
from storage.features.confirm_memory import ConfirmMemory
from tests.integration.memory_servers.chroma import chroma_python, chroma_server
from tests.integration.memory_servers.chroma_behind import DEFAULT, vector
from tests.integration.memory_servers.chroma_recorder import PATH, chroma_recorder
from tests.integration.memory_servers.langgraph import langgraph_python, langgraph_server
from tests.integration.memory_servers.recorder import recorder
from tests.integration.running import AGENT_KEY, Running, running
from tests.integration.test_reads_floor import HERS, LIE, NAMES, keyed
from tests.unit.proxy.guarded import TENANT

Json = dict[str, Any]
Asked = tuple[str, str, Json | None]

FEW: Final = 120
FLOOD: Final = 10_000
_REAL: Final = [pytest.mark.heavy, pytest.mark.timeout(900)]
_KINDS: Final = (
    "chroma",
    "langgraph",
    pytest.param("chroma's own", marks=_REAL),
    pytest.param("langgraph's own", marks=_REAL),
)
_PORT: Final = re.compile(r"127\.0\.0\.1:\d+")
_NEAR: Final = vector(0, 1, 0)


class Bench(NamedTuple):
    """A sidecar with a server behind it, and how its memories are asked for."""

    live: Running
    server: str
    at: str  # of the collection; "" on LangGraph's server

    async def ask(self, key: str | None, method: str, path: str, body: Json | None) -> Answer:
        """Status and body, ids and times left out; without a key, of the server itself."""
        headers = {} if key is None else {"x-chroma-token" if self.at else "x-api-key": key}
        url = (self.server if key is None else self.live.url) + path
        async with self.live.client.request(method, url, json=body, headers=headers) as answer:
            return answer.status, _PORT.sub("-", NAMES.sub("-", await answer.text()))

    async def asked(self, key: str, those: list[Asked]) -> list[Answer]:
        return [await self.ask(key, *one) for one in those]

    async def write(self, key: str | None, names: list[str], text: str, number: int) -> None:
        """Memories of these names, with a text, a number to filter by, and a place of their own."""
        if self.at:
            body: Json = {
                "ids": names,
                "documents": [f"{text} {name}" for name in names],
                "metadatas": [{"n": number} for _ in names],
                "embeddings": [vector(number, 1, at / 10_000) for at, _ in enumerate(names)],
            }
            assert (await self.ask(key, "POST", f"{self.at}/add", body))[0] == 201
            return
        puts = [item(name, f"{text} {name}", number) for name in names]
        at_once = 50 if key is None else 1
        for begin in range(0, len(puts), at_once):
            some = puts[begin : begin + at_once]
            done = await asyncio.gather(
                *(self.ask(key, "PUT", "/store/items", one) for one in some)
            )
            assert {status for status, _ in done} == {204}


Answer = tuple[int, str]


def item(name: str, text: str, number: int = 0) -> Json:
    # Each floor of a house is a namespace of its own, so that a list of them tells.
    label = "hers" if name.startswith("hers") else "others"
    return {"namespace": ["notes", label], "key": name, "value": {"text": text, "n": number}}


@asynccontextmanager
async def behind(kind: str, folder: Path) -> AsyncGenerator[tuple[str, str]]:
    await asyncio.to_thread(folder.mkdir)
    match kind:
        case "chroma":
            async with chroma_recorder() as (_, url):
                yield kind, url
        case "langgraph":
            async with recorder() as (_, url):
                yield kind, url
        case "chroma's own":
            with chroma_server(chroma_python(), folder / "server") as url:
                yield "chroma", url
        case _:
            with langgraph_server(langgraph_python(), folder / "server") as url:
                yield "langgraph", url


@asynccontextmanager
async def bench(
    folder: Path, adapter: str, url: str, at: str = "", *, more: str = ""
) -> AsyncGenerator[Bench]:
    tables = f'[[backend]]\nname = "one"\nadapter = "{adapter}"\nurl = "{url}"\n{more}'
    async with running(folder, tables=tables) as live:
        yield Bench(live, url, at)


async def collection(kind: str, url: str) -> str:
    """Where the collection is; "" for a server that has none."""
    if kind != "chroma's own":
        return PATH if kind == "chroma" else ""
    async with (
        aiohttp.ClientSession() as client,
        client.post(url + DEFAULT, json={"name": "notes"}) as answer,
    ):
        return f"{DEFAULT}/{(await answer.json())['id']}"


def reads(at: str) -> list[Asked]:
    """Every read of the server that names, finds or counts what is below the floor."""
    if at:
        bodies: list[tuple[str, Json]] = [
            ("get", {"include": ["documents"]}),
            ("get", {"ids": ["lie0"]}),
            ("get", {"ids": ["hers0", "lie0", "nobody's"]}),
            ("get", {"where": {"n": {"$lte": 5}}}),
            ("get", {"where_document": {"$contains": "cellar"}}),
            ("get", {"limit": 2, "offset": 1}),
            ("get", {"limit": 2, "offset": 3}),
            ("query", {"query_embeddings": [[0, 1, 0]], "n_results": 5}),
            ("query", {"query_embeddings": [[0, 1, 0]] * 2, "where": {"n": {"$lte": 0}}}),
        ]
        asked: list[Asked] = [("POST", f"{at}/{name}", body) for name, body in bodies]
        return [*asked, ("GET", f"{at}/count", None)]
    searches: list[Json] = [
        {"namespace_prefix": ["notes"], "limit": 100},
        {"namespace_prefix": [], "limit": 2, "offset": 1},
        {"namespace_prefix": [], "limit": 2, "offset": 3},
        {"namespace_prefix": ["notes", "others"]},
        {"namespace_prefix": ["notes"], "filter": {"n": {"$lte": 5}}},
    ]
    return [
        ("GET", "/store/items?namespace=notes.others&key=lie0", None),
        ("GET", "/store/items?namespace=notes.hers&key=hers0", None),
        *(("POST", "/store/items/search", one) for one in searches),
        ("POST", "/store/namespaces", {}),
        ("POST", "/store/namespaces", {"limit": 1, "offset": 1}),
        ("POST", "/store/namespaces", {"prefix": ["notes"], "max_depth": 1}),
    ]


def changes(at: str, name: str) -> list[Asked]:
    """Changes that name what is below the floor, or would find it."""
    if at:
        written: Json = {"ids": [name], "documents": ["Ada has no bees."], "embeddings": [_NEAR]}
        both: Json = {
            "ids": ["hers0", name],
            "documents": ["Ada's bees are well."] * 2,
            "embeddings": [_NEAR] * 2,
        }
        bodies: list[tuple[str, Json]] = [
            ("update", written),
            ("add", written),
            ("upsert", written),
            ("upsert", both),
            ("update", both),
            ("delete", {"ids": [name]}),
            ("delete", {"ids": [name], "where": {"n": {"$lte": 0}}}),
            ("delete", {"where": {"n": {"$lte": 0}}}),
            ("delete", {"where_document": {"$contains": "cellar"}}),
            ("delete", {"where": {"n": {"$lte": 5}}, "limit": 2}),
        ]
        return [("POST", f"{at}/{operation}", body) for operation, body in bodies]
    gone = {"namespace": ["notes", "others"], "key": name}
    return [
        ("PUT", "/store/items", item(name, "Ada has no bees.")),
        ("DELETE", "/store/items", gone),
        ("PUT", "/store/items", item(name, "Ada has no bees.")),
        ("PUT", "/store/items", item("hers0", "Ada's bees are well.", 1)),
        ("DELETE", "/store/items", {"namespace": ["notes", "hers"], "key": "hers1"}),
    ]


async def world(one: Bench, flood: int) -> dict[str, list[Answer]]:
    """What readers of a floor are answered, beside so much below it, or beside nothing."""
    person = await one.live.key("ann", channel=Channel.USER)
    floored = await keyed(one.live, "reader", Reads.USER_INPUT)
    her = await keyed(one.live, "ann", Reads.USER_INPUT, Channel.USER)
    everything = await keyed(one.live, "other", Reads.ALL)
    if flood:
        await one.write(AGENT_KEY, ["lie0", "lie1"], LIE, 0)
        through = flood if one.at else FEW
        for begin in range(0, through, 500):
            names = [f"lie of {begin + at}" for at in range(min(500, through - begin))]
            await one.write(AGENT_KEY, names, LIE, 0)
        # What no verdict let in has no label, and is below every floor.
        await one.write(None, [f"past {number}" for number in range(flood - through)], LIE, 0)
    await one.write(person, ["hers0", "hers1", "hers2"], HERS, 1)
    if flood:
        control = await one.asked(everything, reads(one.at))
        assert {status for status, _ in control} == {200}
        assert sum("cellar" in body or "others" in body for _, body in control) >= 6, control
    answers = {
        "reads of an agent": await one.asked(floored, reads(one.at)),
        "reads of hers": await one.asked(her, reads(one.at)),
        "changes of an agent": await one.asked(floored, changes(one.at, "lie0")),
        "changes of hers": await one.asked(her, changes(one.at, "lie0")),
        "reads after": await one.asked(her, reads(one.at)),
    }
    # A key that nobody has is answered as one with something below the floor.
    assert answers["changes of hers"][:3] == await one.asked(her, changes(one.at, "no one's")[:3])
    if flood:
        kept = await one.asked(everything, reads(one.at))
        assert all(LIE in body for _, body in kept[:1]), "what is below was changed by nobody"
        assert LIE in (await one.ask(None, *reads(one.at)[0]))[1]
    return answers


@pytest.mark.parametrize("kind", _KINDS)
async def test_no_status_count_or_text_tells_what_a_server_has_below_the_floor(
    tmp_path: Path, kind: str
) -> None:
    found: list[dict[str, list[Answer]]] = []
    at = ""
    for name, flood in (("without", 0), ("with", FLOOD if "own" in kind else FEW)):
        folder = tmp_path / name
        async with behind(kind, folder) as (adapter, url):
            at = await collection(kind, url)
            async with bench(folder, adapter, url, at) as one:
                found.append(await world(one, flood))
    without, with_them = found
    for part, answers in without.items():
        asked = changes(at, "lie0") if part.startswith("changes") else reads(at)
        for request, plain, other in zip(asked, answers, with_them[part], strict=True):
            assert plain == other, (part, request)
        assert "cellar" not in str(with_them[part])
    assert any(HERS in body for _, body in without["reads of an agent"]), "control: hers is shown"
    assert {status for status, _ in without["reads of an agent"]} == {200}
    # What is shown is hers to change, and nothing is created.
    told = [status for status, _ in without["changes of hers"]]
    created = [403, 403, 403] if at else [403, 403]
    assert [told[at] for at in ((1, 2, 3) if at else (0, 2))] == created
    assert told[-1] in {200, 204}
    assert without["reads after"] != without["reads of hers"]


@pytest.mark.parametrize("kind", ["chroma", "langgraph"])
async def test_the_stricter_floor_of_key_and_table_counts(tmp_path: Path, kind: str) -> None:
    async with behind(kind, tmp_path / "server") as (adapter, url):
        at = await collection(kind, url)
        async with bench(tmp_path, adapter, url, at) as one:
            person = await one.live.key("ann", channel=Channel.USER)
            await one.write(person, ["hers0"], HERS, 1)
            await one.write(AGENT_KEY, ["lie0"], LIE, 0)
            (_, plain) = await one.ask(AGENT_KEY, *reads(at)[0 if at else 2])
            assert (HERS in plain, LIE in plain) == (True, True)
        async with bench(tmp_path, adapter, url, at, more='reads = "user_input"\n') as one:
            strict = await keyed(one.live, "strict", Reads.OPERATOR)
            for key, hers in ((AGENT_KEY, True), (strict, False)):
                status, said = await one.ask(key, *reads(at)[0 if at else 2])
                assert (status, HERS in said, LIE in said) == (200, hers, False)
            # An agent changes what is hers only with a person's word, and makes nothing.
            status, said = await one.ask(AGENT_KEY, *changes(at, "new")[2])
            assert status == 403
            assert "nothing is created" in said


async def test_a_label_that_a_person_raised_counts_at_once(tmp_path: Path) -> None:
    async with (
        behind("langgraph", tmp_path / "server") as (adapter, url),
        bench(tmp_path, adapter, url) as one,
    ):
        floored = await keyed(one.live, "reader", Reads.USER_INPUT)
        await one.write(AGENT_KEY, ["note"], "The boiler is serviced in May.", 1)
        get = ("GET", "/store/items?namespace=notes.others&key=note", None)
        assert await one.ask(floored, *get) == (200, "null")
        store = one.live.sidecar.store
        (memory,) = store.reader.page(TENANT, EVERYTHING, 0, 9).memories
        await store.writer.order(
            ConfirmMemory(memory.memory_id, TENANT, PrincipalId("ann"), memory.version)
        )
        status, said = await one.ask(floored, *get)
        assert (status, "boiler" in said) == (200, True)


@pytest.mark.parametrize("floor", [Reads.ALL, Reads.USER_INPUT])
async def test_an_answer_of_which_no_part_can_be_left_out_is_not_served_with_a_floor(
    tmp_path: Path, floor: Reads
) -> None:
    async with (
        behind("langgraph", tmp_path / "server") as (adapter, url),
        bench(tmp_path, adapter, url, more='tenant = "default"\n') as one,
    ):
        await one.write(AGENT_KEY, ["note"], "The boiler is serviced in May.", 1)
        key = await keyed(one.live, "reader", floor)
        run = {"assistant_id": "agent", "input": {"text": "hello there"}}
        status, said = await one.ask(key, "POST", "/runs/wait", run)
        assert (status, "boiler" in said) == ((200, True) if floor is Reads.ALL else (403, False))
