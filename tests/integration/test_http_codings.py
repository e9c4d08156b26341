"""Compressed requests on every front: read as the plain ones are, and refused in each API's shape.

Whoever answers behind gets the plain body, with headers that fit it.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pytest
import zstandard
from aiohttp import web

from proxy.fronts import model
from proxy.model.histories import Room
from proxy.transport import listener
from proxy.transport.codings import plain_body
from tests.integration.mcp_bench import bench as mcp_bench
from tests.integration.mcp_bench import call, request
from tests.integration.mcp_server import Server, serving
from tests.integration.memory_servers.chroma_behind import records
from tests.integration.memory_servers.chroma_recorder import PATH, ChromaRecorder, chroma_recorder
from tests.integration.model_bench import APIS, PATHS, Bench, asking, fronted
from tests.integration.models.server import Fault
from tests.integration.passing_cases import CASES, EMBED
from tests.integration.running import AGENT_KEY, OPERATOR_KEY
from tests.integration.test_model_passing import carries, refuse
from tests.unit.proxy.guarded import STEERING
from tests.unit.proxy.transport.test_codings import PACKED

CODINGS: Final = tuple(PACKED)
FACT: Final = "Ada moved to Lisbon in March."
KINDS: Final = {"Content-Type": "application/json"}


class Front(msgspec.Struct, frozen=True):
    """A request that is answered with a status of its own, where its body is plain."""

    method: str
    path: str
    body: Any
    status: int
    key: tuple[str, str] = ("X-Api-Key", AGENT_KEY)
    admin: bool = False


MESSAGES: Final = [{"role": "user", "content": FACT}]
OPERATOR: Final = ("Authorization", f"Bearer {OPERATOR_KEY}")
FRONTS: Final[dict[str, Front]] = {
    "native": Front(
        "POST", "/v1/memories", {"text": FACT}, 201, ("Authorization", f"Bearer {AGENT_KEY}")
    ),
    "mem0 server": Front(
        "POST", "/memories", {"messages": MESSAGES, "user_id": "ada", "infer": False}, 200
    ),
    "mem0 platform": Front(
        "POST",
        "/v3/memories/add/",
        {"messages": MESSAGES, "user_id": "ada", "infer": False},
        200,
        ("Authorization", f"Token {AGENT_KEY}"),
    ),
    "langgraph": Front(
        "PUT", "/store/items", {"namespace": ["ada"], "key": "k", "value": {"text": FACT}}, 204
    ),
    "chroma": Front(
        "POST", f"{PATH}/add", records(0, 1, FACT, 0.0), 201, ("X-Chroma-Token", AGENT_KEY)
    ),
    **{api: Front("POST", PATHS[api], asking(api, "Hello"), 200) for api in APIS},
    "unjudged": Front("POST", EMBED, {"input": "tea"}, 200),
    "operator": Front(
        "POST", "/api/v1/blame", {"text": "x", "expect": "y"}, 422, OPERATOR, admin=True
    ),
}


class Everything(Bench):
    """A sidecar before a scripted model and a Chroma server."""

    chroma: ChromaRecorder

    async def sent(
        self, front: Front, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        url = (self.front.admin_url if front.admin else self.front.url) + front.path
        name, key = front.key
        async with self.front.client.request(
            front.method, url, data=io.BytesIO(body), headers={**KINDS, name: key, **headers}
        ) as got:
            return got.status, await got.read(), dict(got.headers)


@asynccontextmanager
async def everything(base: Path) -> AsyncGenerator[Everything]:
    async with chroma_recorder() as (server, url):
        table = f'[[backend]]\nname = "notes"\nadapter = "chroma"\nurl = "{url}"\n'
        async with fronted(base, beside=table) as made:
            whole = Everything(made.front, made.model)
            whole.chroma = server
            yield whole


def shape(raw: bytes) -> object:
    """The names in an answer, without its words."""

    def names(value: object) -> object:
        if isinstance(value, dict):
            return {key: names(one) for key, one in cast("dict[str, object]", value).items()}
        return None

    return names(json.loads(raw))


@pytest.mark.parametrize("name", FRONTS)
async def test_each_front_reads_each_coding_as_it_reads_the_plain_body(
    name: str, tmp_path: Path
) -> None:
    front = FRONTS[name]
    plain = json.dumps(front.body).encode()
    async with everything(tmp_path) as live:
        status, said, _ = await live.sent(front, plain, {})
        assert status == front.status, said
        asked = live.model.requests[-1:]
        for coding, pack in {**PACKED, "gzip, zstd": None}.items():
            packed = zstandard.compress(gzip.compress(plain)) if pack is None else pack(plain)
            before = len(live.model.requests)
            got, said, _ = await live.sent(front, packed, {"Content-Encoding": coding})
            assert got == status, (coding, said)
            for sent in live.model.requests[before:]:
                assert sent.raw == asked[0].raw
                assert "content-encoding" not in sent.headers
                assert sent.headers["content-length"] == str(len(sent.raw))
                assert sent.headers.keys() == asked[0].headers.keys()
            assert bool(live.model.requests[before:]) is bool(asked)


# Hosts of these APIs ask again after other statuses.
FOR_GOOD: Final = {"responses": {413: 400, 415: 400}, "anthropic": {415: 403}}


@pytest.mark.parametrize("name", FRONTS)
async def test_what_cannot_be_opened_is_refused_in_the_shape_of_the_api_and_changes_nothing(
    name: str, tmp_path: Path
) -> None:
    front = FRONTS[name]
    plain = json.dumps(front.body).encode()
    async with everything(tmp_path) as live:
        status, wanted, _ = await live.sent(front, b" " * 40_000_000, {})
        for_good = FOR_GOOD.get(name, {})
        assert status == for_good.get(413, 413)
        version = live.front.version()
        for coding, pack in PACKED.items():
            bad = {
                413: [pack(b" " * 40_000_000)],
                400: [pack(plain)[:-1], pack(plain) + b"x", plain],
                415: [],
            }
            bodies = [(status, body, coding) for status, found in bad.items() for body in found]
            bodies.append((415, pack(plain), f"{coding}, lz4"))
            for status, body, header in bodies:
                got, answer, _ = await live.sent(front, body, {"Content-Encoding": header})
                assert got == for_good.get(status, status), (coding, answer)
                assert shape(answer) == shape(wanted)
                assert FACT.encode() not in answer
        assert live.front.version() == version
        assert live.model.requests == []
        assert live.chroma.records == {}
        got, said, _ = await live.sent(front, plain, {})
        assert got == front.status, ("control", said)


async def test_random_bytes_under_a_coding_are_never_an_inner_error(tmp_path: Path) -> None:
    rng = random.Random(7)  # noqa: S311
    async with everything(tmp_path) as live:
        version = live.front.version()
        for at in range(300):
            front = FRONTS[rng.choice([*FRONTS])]
            coding = rng.choice(CODINGS)
            body = bytearray(PACKED[coding](json.dumps(front.body).encode()))
            for _ in range(rng.randrange(1, 6)):
                body[rng.randrange(len(body) - 9)] ^= 1 << rng.randrange(8)
            body = body if at % 2 else bytearray(rng.randbytes(rng.randrange(1, 300)))
            got, said, _ = await live.sent(front, bytes(body), {"Content-Encoding": coding})
            # A mend of a packed body may leave it what it was, or other JSON.
            assert got in {400, 413, front.status, 422}, said
            before, version = version, live.front.version()
            assert version == before or got == front.status


async def test_a_judged_write_is_judged_and_a_refused_one_forms_nowhere(tmp_path: Path) -> None:
    async with everything(tmp_path) as live:
        for name in ("native", "langgraph", "chroma", "mem0 server"):
            front = FRONTS[name]
            body = json.dumps(front.body).replace(FACT, STEERING).encode()
            for coding, pack in PACKED.items():
                got, said, _ = await live.sent(front, pack(body), {"Content-Encoding": coding})
                assert got in {200, 202, 403, 422}, said
                assert STEERING.encode() not in said
        assert STEERING not in await live.front.texts(AGENT_KEY)
        assert live.chroma.records == {}


async def test_a_refused_text_passes_compressed_on_no_route_that_is_not_judged(
    tmp_path: Path,
) -> None:
    async def ask(live: Everything, name: str, coding: str, times: int = 1) -> int:
        path, kind, body = CASES[name]
        for _ in range(times):
            body = PACKED[coding](body)
        head = {"Content-Type": kind, "Content-Encoding": coding}
        return (await live.sent(Front("POST", path, None, 200), body, head))[0]

    async with everything(tmp_path) as live:
        for name in ("a key", "text"):
            for coding in CODINGS:
                assert await ask(live, name, coding) == 200
                assert carries(live.model.requests[-1].raw), "control: before, it passes"
        await refuse(live)
        count = len(live.model.requests)
        for coding in CODINGS:
            assert await ask(live, "a key", coding) == 200
            assert await ask(live, "text", coding) == 403
            # What is packed once more cannot be searched.
            assert await ask(live, "text", coding, 2) == 403
        assert len(live.model.requests) == count + len(CODINGS)
        assert not any(carries(one.raw) for one in live.model.requests[count:])


@pytest.mark.parametrize("coding", CODINGS)
async def test_mcp_over_http_reads_a_coding_and_refuses_a_broken_one(coding: str) -> None:
    server, heads = Server(), list[dict[str, str]]()

    async def noted(request: web.Request, _body: dict[str, Any]) -> None:
        heads.append({name.lower(): value for name, value in request.headers.items()})

    server.script = noted
    async with serving(server), mcp_bench(server.url) as front:
        session = await front.initialize()
        told = json.dumps(call(7, "read_graph")).encode()
        packed = PACKED[coding](told)
        head = {"Content_Encoding": coding, "mcp_session_id": session}
        plain = await front.post(told, mcp_session_id=session)
        answer = await front.post(packed, **head)
        assert (answer.status, answer.messages) == (plain.status, plain.messages)
        assert plain.status == 200
        assert heads[-1] == heads[-2]
        assert "content-encoding" not in heads[-1]
        broken = await front.post(packed[:-1], **head)
        assert broken.status == 400
        assert broken.headers["content-type"] == "application/problem+json"
        unknown = await front.post(packed, **{**head, "Content_Encoding": "lz4"})
        assert unknown.status == 415
        assert (await front.post(request(8, "ping"), mcp_session_id=session)).status == 200


async def test_a_body_is_opened_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def opened(body: bytes, codings: tuple[str, ...], bytes_max: int) -> bytes:
        threads.append(threading.get_ident())
        return plain_body(body, codings, bytes_max)

    monkeypatch.setattr(listener, "plain_body", opened)
    async with everything(tmp_path) as live:
        front = FRONTS["unjudged"]
        plain = json.dumps(front.body).encode()
        assert (await live.sent(front, plain, {}))[0] == 200
        assert threads == [], "control: nothing is to be opened"
        head = {"Content-Encoding": "zstd"}
        assert (await live.sent(front, zstandard.compress(plain), head))[0] == 200
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_an_answer_under_way_keeps_room_for_its_body_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 32 * 1024 * 1024
    room = limit - 1
    monkeypatch.setattr(model, "Room", lambda: Room(room))
    front = FRONTS["anthropic"]
    packed = zstandard.compress(json.dumps(front.body).encode())
    head = {"Content-Encoding": "zstd"}
    async with everything(tmp_path) as live:
        got, said, _ = await live.sent(front, packed, head)
        assert (got, b"busy" in said) == (503, True), "control: a size is reserved that is unknown"
    (tmp_path / "more").mkdir()
    room = limit + len(packed) * 50
    async with everything(tmp_path / "more") as live:
        live.model.piece_len, live.model.pause_s = 10, 0.05
        streamed = json.dumps({**front.body, "stream": True}).encode()
        url = live.front.url + front.path
        sent = {**KINDS, "X-Api-Key": AGENT_KEY, **head}
        async with live.front.client.post(
            url, data=zstandard.compress(streamed), headers=sent
        ) as first:
            assert first.status == 200
            assert not first.content.at_eof()
            live.model.pause_s = 0.0
            assert (await live.sent(front, packed, head))[0] == 200


async def test_an_answer_of_several_parts_reaches_the_agent_whole(tmp_path: Path) -> None:
    parts = [gzip.compress(b'{"data": ['), gzip.compress(b'{"id": "m"}'), gzip.compress(b"]}")]
    async with everything(tmp_path) as live:
        front = Front("GET", "/openai/v1/models", None, 200)
        head = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        live.model.faults = [Fault(headers=head, body=b"".join(parts))]
        got, said, headers = await live.sent(front, b"", {})
        assert (got, json.loads(said)) == (200, {"data": [{"id": "m"}]})
        assert "Content-Encoding" not in headers
        live.model.faults = [Fault(headers=head, body=b"".join(parts)[:-1])]
        got, said, _ = await live.sent(front, b"", {})
        assert (got, b"data" in said) == (502, False)
