"""Store mode on stdin and stdout: this process itself is the memory server."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import IO, Final

from proxy.dialects.mcp.message import Message
from proxy.fronts.mcp_stdio import PASSED_ON, ByteSink, pass_on, sink_of, source_of
from proxy.mcp.relay import Deliver, Side
from proxy.mcp.store_server import StoreServer

_LOG: Final = logging.getLogger("mnemogate.mcp")


class StoreStdio:
    """Serves one client between two open files."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin = stdin
        self._stdout = stdout

    async def serve(
        self, open_server: Callable[[Deliver], AbstractAsyncContextManager[StoreServer]]
    ) -> int:
        """Serve until the client ends its input or a signal arrives.

        Accepted messages are finished. Returns 0, or minus the number of the signal.
        """
        ended = _Ended()
        async with AsyncExitStack() as stack:
            stack.enter_context(ended)
            source = await stack.enter_async_context(source_of(self._stdin))
            sink = await stack.enter_async_context(sink_of(self._stdout))
            server = await stack.enter_async_context(open_server(_Pipe(sink).deliver))
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(
                    pass_on(source, Side.CLIENT, server.from_client, server.refused)
                )
                stopped = group.create_task(ended.wait())
                await asyncio.wait([reading, stopped], return_when=asyncio.FIRST_COMPLETED)
                reading.cancel()
                stopped.cancel()
        return -ended.number


class _Pipe:
    """Delivers messages to the client, each written whole.

    Messages for a client that has gone are dropped.
    """

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink

    async def deliver(self, _side: Side, raw: bytes, _message: Message, _via: object, /) -> None:
        """Write one line to the client."""
        try:
            self._sink.write(raw + b"\n")
            await self._sink.drain()
        except OSError as error:
            _LOG.info("client gone", extra={"error_type": type(error).__name__})


class _Ended:
    """Remembers a signal to end, so that accepted messages can be finished first."""

    def __init__(self) -> None:
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()

    def __enter__(self) -> None:
        for number in PASSED_ON:
            self._loop.add_signal_handler(number, self._end, number)

    def __exit__(self, *_: object) -> None:
        for number in PASSED_ON:
            self._loop.remove_signal_handler(number)

    async def wait(self) -> None:
        """Wait for the first signal to end."""
        await self._over.wait()

    def _end(self, number: signal.Signals) -> None:
        self.number = self.number or int(number)
        self._over.set()
