"""Store mode between two pipes: lines in, lines out, and an end in good order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import IO

from proxy.dialects.mcp.store.calls import StoreTools
from proxy.dialects.mcp.store.protocol import StoreProtocol
from proxy.fronts.mcp_store import StoreStdio
from proxy.mcp.relay import Deliver, RelayLimits
from proxy.mcp.store_server import StoreServer
from proxy.seams.operation import GraphOperation, GraphResult, Operation, Result
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.intercept.test_operations import Conversation, talking

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

    return await StoreStdio(stdin, stdout).serve(open_server)


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
