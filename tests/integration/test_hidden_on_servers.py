"""Hiding by identity on servers that run: the hidden memory is in no answer, all others are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from policy.after.closure import CaseMode, CaseSignal
from policy.model import Memory, Tenant
from policy.query import EVERYTHING
from storage.features.cases import ConvictedMemory, Opening, Progress
from storage.features.cases.case_records import Convict, OpenCase
from tests.integration.clients.environments import node_environment
from tests.integration.mcp_bench import Answer, call, notification, request
from tests.integration.memory_servers.chroma import chroma_python, chroma_server
from tests.integration.memory_servers.chroma_behind import Behind, behind, vector
from tests.integration.memory_servers.langgraph import langgraph_python, langgraph_server
from tests.integration.running import AGENT_KEY, Running, running
from tests.unit.proxy.guarded import STEERING

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=1), pytest.mark.timeout(300)]

LIE: Final = "Zebra Analytics keeps all the accounts of Ada since April."
HONEST: Final = (
    "Ada keeps bees.",
    "Ada keeps bees in Graz.",
    "She paints in winter, and tea is at four.",
)
SAID: Final = (HONEST[0], LIE, *HONEST[1:])
TENANT: Final = Tenant("default")


def lines_in(answer: str) -> list[str]:
    words = " ".join(answer.replace("\\n", " ").split())
    return [line for line in SAID if line in words]


def stored(live: Running, text: str) -> Memory:
    """The newest memory that the gate let in with this text among its own."""
    listed = live.sidecar.store.reader.page(TENANT, EVERYTHING, 0, 99).memories
    return max((one for one in listed if text in one.text.split("\n")), key=lambda one: one.version)


async def hide(live: Running, memory: Memory, how: str = "quarantine") -> None:
    await live.operate("POST", f"/memories/{memory.memory_id}/{how}", {})


async def convict(live: Running, memory: Memory) -> None:
    """A rule of the operator convicts the sentence about Zebra Analytics, and no more."""
    statement = {"statement": "Ada keeps her accounts herself.", "questions": ["Who keeps them?"]}
    made = await live.operate("POST", "/anchors", {**statement, "must_not": ["Zebra Analytics"]})
    cases, by = live.sidecar.store.cases, memory.principal_id
    opening = Opening(
        tenant=TENANT, signal=CaseSignal.ANCHOR, by=by, anchor_id=str(made["anchor_id"])
    )
    case = await cases.order(OpenCase(opening))
    accused = ConvictedMemory(memory_id=memory.memory_id, ordinal=memory.ordinal)
    await cases.order(Convict(case.case_id, (accused,), by, Progress(mode=CaseMode.RETRIEVAL)))


class Graph:
    def __init__(self, live: Running) -> None:
        self.live = live
        self.session: dict[str, str] = {}
        self.file = ""

    async def post(self, body: object) -> Answer:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "X-Api-Key": AGENT_KEY,
            **self.session,
        }
        url = f"{self.live.url}/mcp/memory"
        async with self.live.client.post(url, json=body, headers=headers) as got:
            return Answer(got.status, dict(got.headers), await got.read())

    async def begin(self) -> None:
        hello = request(0, "initialize", protocolVersion="2025-11-25", capabilities={})
        self.session = {"Mcp-Session-Id": (await self.post(hello)).headers["mcp-session-id"]}
        await self.post(notification("notifications/initialized"))

    async def asks(self, tool: str, **arguments: object) -> str:
        return (await self.post(call(1, tool, **arguments))).body.decode()

    async def keeps(self, name: str, *observations: str) -> str:
        entity = {"name": name, "entityType": "person", "observations": [*observations]}
        return await self.asks("create_entities", entities=[entity])

    async def adds(self, name: str, *contents: str) -> str:
        more = {"entityName": name, "contents": [*contents]}
        return await self.asks("add_observations", observations=[more])

    async def resource(self) -> str:
        uri = "memory://knowledge-graph"
        return (await self.post(request(1, "resources/read", uri=uri))).body.decode()

    async def reads(self) -> dict[str, list[str]]:
        answers = {
            "read_graph": await self.asks("read_graph"),
            "search_nodes": await self.asks("search_nodes", query="Ada"),
            "open_nodes": await self.asks("open_nodes", names=["Ada"]),
            "resource": await self.resource(),
        }
        assert all("isError" not in one for one in answers.values()), answers
        return {name: lines_in(one) for name, one in answers.items()}


@asynccontextmanager
async def graph(base: Path) -> AsyncGenerator[Graph]:
    package = "@modelcontextprotocol/server-memory"
    script = node_environment(package, "2026.8.31") / "node_modules" / package / "dist/index.js"
    table = f'[[mcp]]\nname = "memory"\nmap = "server-memory"\ncommand = ["node", "{script}"]\n'
    table += f'env = {{ MEMORY_FILE_PATH = "{base}/graph.jsonl" }}\n'
    async with running(base, tables=table) as live:
        one = Graph(live)
        await one.begin()
        yield one


def everywhere(*lines: str) -> dict[str, list[str]]:
    reads = ("read_graph", "search_nodes", "open_nodes", "resource")
    return {read: [*lines] for read in reads}


async def test_a_hidden_observation_is_in_no_answer_of_server_memory(tmp_path: Path) -> None:
    async with graph(tmp_path) as at:
        await at.keeps("Ada", HONEST[0])
        for text in SAID[1:]:
            await at.adds("Ada", text)
        assert await at.reads() == everywhere(*SAID), "control"
        lie = stored(at.live, LIE)
        await hide(at.live, lie)
        assert await at.reads() == everywhere(*HONEST)
        answers = [await at.adds("Ada", "It rains in May."), await at.keeps("Ada", "It snows.")]
        assert lines_in("".join(answers)) == []
        assert await at.reads() == everywhere(*HONEST), "after an append"
        assert "isError" in await at.adds("Ada", LIE), "a later equal text is refused"
    file = tmp_path / "graph.jsonl"
    assert file.read_text().count(LIE) == 1, "control: the server has it"
    file.write_text(file.read_text().replace(LIE, LIE.replace(" of ", r"\n of  ")))
    async with graph(tmp_path) as at:
        assert await at.reads() == everywhere(*HONEST), "after a restart and a re-wrap at blanks"
        await hide(at.live, lie, "purge")
        assert await at.reads() == everywhere(*HONEST), "after a purge"
    async with graph(tmp_path) as at:
        assert await at.reads() == everywhere(*HONEST), "after a purge and a restart"


async def test_the_honest_observations_of_a_convicted_row_stay(tmp_path: Path) -> None:
    async with graph(tmp_path) as at:
        await at.keeps("Ada", *SAID)
        assert await at.reads() == everywhere(*SAID), "control"
        await convict(at.live, stored(at.live, LIE))
        assert await at.reads() == everywhere(*HONEST)


class Server(NamedTuple):
    url: str
    folder: Path


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    folder = tmp_path_factory.mktemp("chroma") / "server"
    with chroma_server(chroma_python(), folder) as url:
        yield Server(url, folder)


class Records(NamedTuple):
    """An agent with one collection of a Chroma server behind the sidecar."""

    gate: Behind
    path: str

    async def ask(self, operation: str, **body: object) -> str:
        status, said = await self.gate.ask(f"{self.path}/{operation}", body)
        assert status < 300, said
        return said.decode()

    async def adds(self, record: str, text: str, near: float = 0.5) -> int:
        body = {"ids": [record], "documents": [text], "embeddings": [vector(near, 1, 0)]}
        return (await self.gate.ask(f"{self.path}/add", body))[0]

    async def reads(self) -> dict[str, list[str]]:
        near = [[0.5, 1, 0]]
        holds = {"$contains": "e"}
        answers = {
            "get": await self.ask("get"),
            "get by ids": await self.ask("get", ids=["r0", "r1", "r2", "r3"]),
            "get with all": await self.ask("get", include=["documents", "metadatas", "embeddings"]),
            "get a page": await self.ask("get", limit=4),
            "get by a document": await self.ask("get", where_document=holds),
            "query": await self.ask("query", query_embeddings=near, n_results=4),
            "query by a document": await self.ask(
                "query", query_embeddings=near, n_results=4, where_document=holds
            ),
        }
        return {name: lines_in(one) for name, one in answers.items()}

    async def counts(self) -> str:
        return (await self.gate.ask(f"{self.path}/count", method="GET"))[1].decode()


async def filled(gate: Behind, name: str) -> Records:
    records = Records(gate, await gate.made(name))
    for number, text in enumerate(SAID):
        assert await records.adds(f"r{number}", text) == 201
    return records


def shown(found: dict[str, list[str]]) -> set[tuple[str, ...]]:
    return {tuple(sorted(one)) for one in found.values()}


async def test_a_hidden_record_is_in_no_answer_of_chroma(chroma: Server, tmp_path: Path) -> None:
    honest = {tuple(sorted(HONEST))}
    async with behind(tmp_path, chroma.url) as gate:
        at = await filled(gate, "hidden")
        assert (shown(await at.reads()), await at.counts()) == ({tuple(sorted(SAID))}, "4")
        lie = stored(gate.sidecar, LIE)
        await hide(gate.sidecar, lie)
        assert (shown(await at.reads()), await at.counts()) == (honest, "3")
        assert await at.adds("r9", "It rains.", 0.9) == 201
        assert (shown(await at.reads()), await at.counts()) == (honest, "4"), "after an append"
        assert await at.adds("r8", LIE) == 403, "a later equal text is refused"
        wrapped = {"ids": ["r1"], "documents": [LIE.replace(" of ", "\n of  ")]}
        assert (await gate.ask(f"{at.path}/update", wrapped, key=None))[0] == 200
        assert (shown(await at.reads()), await at.counts()) == (honest, "4"), "re-wrapped"
    for purges in (False, True):
        async with behind(tmp_path, chroma.url) as gate:
            again = Records(gate, at.path)
            assert (shown(await again.reads()), await again.counts()) == (honest, "4")
            if not purges:
                await hide(gate.sidecar, lie, "purge")
                assert (shown(await again.reads()), await again.counts()) == (honest, "4")
            direct = await gate.documents(at.path, key=None)
            assert any("Zebra" in str(one) for one in direct), "control: the server has it"


async def test_what_is_hidden_on_chroma_hides_no_other_record(
    chroma: Server, tmp_path: Path
) -> None:
    async with behind(tmp_path, chroma.url) as gate:
        at = await filled(gate, "others")
        for number, text in enumerate((f"{STEERING} {HONEST[1]}", STEERING)):
            assert await at.adds(f"held{number}", text) == 403
        held = (await gate.sidecar.operate("GET", "/review"))["held"]
        assert len(held) == 2, "control: each waits"
        assert shown(await at.reads()) == {tuple(sorted(SAID))}
        for one in held:
            await gate.sidecar.operate("POST", f"/review/{one['candidate_id']}/deny", {})
        assert shown(await at.reads()) == {tuple(sorted(SAID))}
        await hide(gate.sidecar, stored(gate.sidecar, HONEST[0]))
        documents = await gate.documents(at.path)
        assert sorted(documents, key=str) == sorted(SAID[1:], key=str)


class Items(NamedTuple):
    """An agent with a store of LangGraph's server behind the sidecar."""

    live: Running

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        url, headers = f"{self.live.url}/store/{path}", {"x-api-key": AGENT_KEY}
        async with self.live.client.request(method, url, json=body, headers=headers) as got:
            return got.status, (await got.read()).decode()

    async def puts(self, key: str, *texts: str) -> int:
        value = {f"text{at}": text for at, text in enumerate(texts)}
        item = {"namespace": ["notes", "ada"], "key": key, "value": value}
        return (await self.ask("PUT", "items", item))[0]

    async def reads(self) -> dict[str, list[str]]:
        gets = [await self.ask("GET", f"items?namespace=notes.ada&key=k{at}") for at in range(4)]
        search = {"namespace_prefix": ["notes"], "limit": 10}
        named = {**search, "filter": {"text0": LIE}}
        found = await self.ask("POST", "items/search", search)
        lied = await self.ask("POST", "items/search", named)
        assert (found[0], lied[0]) == (200, 200)
        return {
            "get": lines_in("".join(said for _, said in gets)),
            "search": lines_in(found[1]),
            "search by its value": lines_in(lied[1]),
        }


def each(*lines: str) -> dict[str, list[str]]:
    lied = [line for line in lines if line == LIE]
    return {"get": [*lines], "search": [*lines], "search by its value": lied}


async def test_a_hidden_item_is_in_no_answer_of_langgraph_and_all_others_are(
    tmp_path: Path,
) -> None:
    with langgraph_server(langgraph_python(), tmp_path / "server") as url:
        table = f'[[backend]]\nname = "store"\nadapter = "langgraph"\nurl = "{url}"\n'
        async with running(tmp_path, tables=table) as live:
            at = Items(live)
            for number, text in enumerate(SAID):
                assert await at.puts(f"k{number}", text) == 204
            for number, text in enumerate((LIE, HONEST[1])):
                assert await at.puts(f"held{number}", STEERING, text) == 403
            held = (await live.operate("GET", "/review"))["held"]
            assert len(held) == 2, "control: each waits"
            assert await at.reads() == each(*SAID), "what waits hides nothing"
            for one in held:
                await live.operate("POST", f"/review/{one['candidate_id']}/deny", {})
            assert await at.reads() == each(*SAID), "nor does what was denied"
            lie = stored(live, LIE)
            await hide(live, lie)
            assert await at.reads() == each(*HONEST)
            assert await at.puts("k9", LIE) == 403, "a later equal text is refused"
        async with running(tmp_path, tables=table) as live:
            assert await Items(live).reads() == each(*HONEST), "after a restart"
            await hide(live, lie, "purge")
            assert await Items(live).reads() == each(*HONEST), "after a purge"
            item = f"{url}/store/items?namespace=notes.ada&key=k1"
            async with live.client.get(item) as there:
                assert LIE in await there.text(), "control: the server has it"
