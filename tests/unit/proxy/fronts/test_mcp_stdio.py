"""The stdio wrapper around a real process, and store mode between two pipes."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from proxy.dialects.mcp.store.calls import StoreTools
from proxy.dialects.mcp.store.protocol import StoreProtocol
from proxy.fronts.mcp_stdio import ServerCommand, StdioFront, serve_store
from proxy.mcp.relay import Deliver, Relay, RelayLimits, Server
from proxy.mcp.store_server import StoreServer
from proxy.seams.environment import Environment, RandomPool
from proxy.seams.operation import GraphOperation, GraphResult, Operation, Result
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.intercept.test_operations import Conversation, talking
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import AGENT, line, request

SERVER = (sys.executable, "-P", str(Path(__file__).with_name("mcp_server.py")))
MANY = 1_000


class Client:
    """The client's ends of the two pipes."""

    def __init__(self, read: int, write: int) -> None:
        self._read = read
        self._write: IO[bytes] = os.fdopen(write, "wb", buffering=0)
        self.reader = asyncio.StreamReader(limit=2**25)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self.reader)
        self._transport, _ = await loop.connect_read_pipe(
            lambda: protocol, os.fdopen(self._read, "rb", buffering=0)
        )

    async def say(self, *bodies: dict[str, Any] | bytes) -> None:
        for body in bodies:
            raw = body if isinstance(body, bytes) else line(body) + b"\n"
            await asyncio.to_thread(self._put, raw)

    def _put(self, raw: bytes) -> None:
        left = memoryview(raw)
        while left:
            left = left[self._write.write(left) or 0 :]

    async def hear(self) -> Any:  # noqa: ANN401 - tests look at everything, untyped
        raw = await asyncio.wait_for(self.reader.readline(), 20)
        return json.loads(raw) if raw else None

    async def ask(self, body: dict[str, Any]) -> Any:  # noqa: ANN401
        await self.say(body)
        return await self.hear()

    def leave(self) -> None:
        self._write.close()

    def close(self) -> None:
        self._write.close()
        self._transport.close()


@asynccontextmanager
async def wrapped(
    words: tuple[str, ...] = SERVER, environment: dict[str, str] | None = None
) -> AsyncGenerator[tuple[Client, asyncio.Task[int]]]:
    to_us, from_client = os.pipe()
    to_client, from_us = os.pipe()
    client = Client(to_client, from_client)
    await client.start()
    guard = MemoryGuard()
    surroundings = Environment(
        clock_ns=lambda: 1, random_hex=RandomPool(), record=lambda _event: None
    )

    def open_relay(deliver: Deliver) -> Relay:
        return Relay(
            guard,
            AGENT,
            Server(name="memory"),
            deliver,
            limits=RelayLimits(),
            surroundings=surroundings,
        )

    with os.fdopen(to_us, "rb", buffering=0) as stdin, os.fdopen(from_us, "wb", 0) as stdout:
        command = ServerCommand(words=words, environment=environment or {"PATH": os.defpath})
        async with asyncio.TaskGroup() as group:
            task = group.create_task(StdioFront(command, stdin, stdout).serve(open_relay))
            try:
                yield client, task
            finally:
                client.close()
                with suppress(OSError):
                    await asyncio.wait_for(task, 20)


async def test_the_child_lives_where_its_client_lives_and_its_end_is_ours() -> None:
    async with wrapped(environment={"PATH": os.defpath, "HERE": "x"}) as (client, task):
        got = (await client.ask(request(1, "x/env", name="HERE")))["result"]
        client.leave()  # the end of its input is the end of the child, which says 3
        assert await task == 3
    assert got["env"] == "x"
    assert got["cwd"] == str(Path.cwd())


async def test_a_client_that_is_no_pipe_has_an_end_as_well(tmp_path: Path) -> None:
    surroundings = Environment(
        clock_ns=lambda: 1, random_hex=RandomPool(), record=lambda _event: None
    )

    def open_relay(deliver: Deliver) -> Relay:
        server = Server(name="memory")
        limits = RelayLimits()
        return Relay(
            MemoryGuard(), AGENT, server, deliver, limits=limits, surroundings=surroundings
        )

    told = tmp_path / "told"
    command = ServerCommand(words=SERVER, environment={"PATH": os.defpath})
    with Path(os.devnull).open("rb") as stdin, told.open("wb") as stdout:  # noqa: ASYNC230 - small and local
        async with asyncio.timeout(20):
            assert await StdioFront(command, stdin, stdout).serve(open_relay) == 3
    (tmp_path / "asked").write_bytes(line(request(1, "x/echo", n=1)))
    with (tmp_path / "asked").open("rb") as stdin, told.open("wb") as stdout:
        async with asyncio.timeout(20):
            assert await StdioFront(command, stdin, stdout).serve(open_relay) == 3
    assert json.loads(told.read_bytes())["result"] == {"echo": {"n": 1}}


async def test_bytes_on_stderr_are_untouched(capfd: pytest.CaptureFixture[str]) -> None:
    odd = "\x1b[31m no newline \u00e9"
    async with wrapped() as (client, _):
        await client.ask(request(1, "x/stderr", hex=odd.encode().hex()))
    assert capfd.readouterr().err == odd


async def test_noise_that_is_no_message_does_not_end_the_session() -> None:
    async with wrapped() as (client, _):
        assert (await client.ask(request(1, "x/noise")))["id"] == 1
        assert (await client.ask(request(2, "x/echo", n=1)))["result"] == {"echo": {"n": 1}}


async def test_an_exit_code_is_relayed_and_whoever_waits_is_told() -> None:
    async with wrapped() as (client, task):
        await client.say(request("a", "x/silent"))
        await client.say(request("b", "x/exit", code=42))
        said = [await client.hear(), await client.hear()]
        assert await task == 42
        assert await client.hear() is None
    assert [(body["id"], body["error"]["code"]) for body in said] == [("a", -32000), ("b", -32000)]


async def test_a_server_killed_in_a_call_is_told_as_that_signal() -> None:
    async with wrapped() as (client, task):
        answer = await client.ask(request(1, "x/kill"))
        assert await task == -signal.SIGKILL
    assert answer["error"]["code"] == -32000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_end_reaches_the_child(number: signal.Signals) -> None:
    async with wrapped() as (client, task):
        await client.ask(request(1, "x/echo"))
        os.kill(os.getpid(), number)
        code = await task
    assert code in (-number, 1)  # Python makes a failure of SIGINT


async def test_a_hangup_reaches_the_child_and_ends_nothing() -> None:
    async with wrapped() as (client, _):
        await client.ask(request(1, "x/echo"))
        os.kill(os.getpid(), signal.SIGHUP)
        assert (await client.hear())["method"] == "x/hup"
        assert (await client.ask(request(2, "x/echo")))["id"] == 2


async def test_a_grandchild_that_keeps_the_pipe_does_not_keep_us() -> None:
    async with wrapped() as (client, task):
        await client.ask(request(1, "x/child"))
        assert await task == 7


async def test_a_command_that_is_not_there_is_said() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with wrapped(("/nonexistent/server",)):
            pass
    assert isinstance(caught.value.exceptions[0], FileNotFoundError)


async def test_a_line_of_100_megabytes_is_refused_in_constant_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head = b'{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"arguments":{"x":"'
    piece = b"y" * 1_000_000
    async with wrapped() as (client, _):
        await client.say(head)
        for _ in range(100):
            await client.say(piece)
        await client.say(b'"}}}\n')
        refusal = await client.hear()
        # The session goes on.
        assert (await client.ask(request(2, "x/echo")))["id"] == 2
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert (refusal["id"], refusal["error"]["code"]) == ("big", -32600)
    assert grown_mb < 64


async def test_an_answer_too_long_to_relay_does_not_leave_its_client_waiting() -> None:
    async with wrapped() as (client, _):
        answer = await client.ask(request(1, "x/long", len=17 * 1024 * 1024))
        assert (await client.ask(request(2, "x/echo")))["id"] == 2
    assert answer["id"] == 1
    assert answer["error"]["code"] == -32600


async def test_a_thousand_calls_keep_their_order_while_nobody_reads() -> None:
    def asked(n: int) -> dict[str, Any]:
        return request(n // 2 if n % 2 else str(n // 2), "x/echo", n=n, pad="p" * 1_000)

    async with wrapped() as (client, _), asyncio.TaskGroup() as group:
        # More than all pipes hold: each end has to be held back until the next one reads.
        group.create_task(client.say(*(asked(n) for n in range(MANY))))
        got = [await client.hear() for _ in range(MANY)]
    assert [body["id"] for body in got] == [asked(n)["id"] for n in range(MANY)]
    assert [body["result"]["echo"]["n"] for body in got] == list(range(MANY))


CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "create_memory", "arguments": {"text": "The ferry leaves at nine."}},
}


def pipe() -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return os.fdopen(read, "rb", buffering=0), os.fdopen(write, "wb", buffering=0)


async def served(talk: Conversation, stdin: IO[bytes], stdout: IO[bytes]) -> int:
    async def perform(
        operation: Operation | GraphOperation, _traceparent: str | None, /
    ) -> Result | GraphResult:
        return await talk.serve(operation)

    def open_server(deliver: Deliver) -> StoreServer:
        tool_map = shipped_map("server-memory")
        assert tool_map is not None
        protocol = StoreProtocol(StoreTools(tool_map), "0")
        limits = RelayLimits(message_bytes_max=1_000)
        return StoreServer(protocol, perform, deliver, limits)

    return await serve_store(stdin, stdout, open_server)


async def test_what_was_asked_before_the_end_is_answered(tmp_path: Path) -> None:
    stdin, client_out = pipe()
    client_in, stdout = pipe()
    with talking(tmp_path) as talk, client_in:
        with client_out:
            client_out.write(json.dumps(CALL).encode() + b"\r\n\n")
            # Without a line end, and after something that is no message.
            client_out.write(b'{"no":1}\n{"jsonrpc":"2.0","id":2,"method":"ping"}')
        assert await served(talk, stdin, stdout) == 0
        heard = await asyncio.to_thread(client_in.read)
        lines = [json.loads(line) for line in heard.splitlines()]
        by_id = {line["id"]: line for line in lines}
        assert by_id[2]["result"] == {}
        assert by_id[None]["error"]["code"] == -32600
        assert by_id[1]["result"]["structuredContent"]["text"] == "The ferry leaves at nine."
        assert talk.live.store.reader.status().version == 1


async def test_a_signal_ends_it_and_is_what_it_returns(tmp_path: Path) -> None:
    stdin, client_out = pipe()
    client_in, stdout = pipe()
    with talking(tmp_path) as talk, client_in, client_out:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(served(talk, stdin, stdout))
            client_out.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
            assert await asyncio.to_thread(client_in.read, 10)
            os.kill(os.getpid(), signal.SIGTERM)
            assert await serving == -signal.SIGTERM
