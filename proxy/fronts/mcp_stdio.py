"""The stdio wrapper: relays between an MCP client and a server that it starts as its child.

The wrapper's stdin and stdout are connected to the client, the child's to the wrapper. The child
has the wrapper's working directory and stderr, its environment without the sidecar's secrets, and
gets the signals that the wrapper gets. When the child ends, the wrapper ends too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import IO, Final, Protocol

import msgspec

from proxy.dialects.mcp.message import Message, RequestId
from proxy.mcp.lines import Lines, TooLong
from proxy.mcp.relay import Deliver, Relay, Side
from proxy.mcp.store_server import StoreServer
from proxy.seams.waits import first

_LOG: Final = logging.getLogger("mnemogate.mcp")
_PIECE_BYTES: Final = 64 * 1024
# Seconds to read on after the server's process has ended, because a child of the process may keep
# the pipe open.
_LAST_WORDS_S: Final = 1.0
PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ByteSource(Protocol):
    """A stream that bytes are read from."""

    async def read(self, n: int, /) -> bytes:
        """Read up to `n` bytes; return b"" at the end of the stream."""
        ...


class ByteSink(Protocol):
    """A stream that bytes are written to."""

    def write(self, data: bytes, /) -> None:
        """Write or buffer all of `data`."""
        ...

    async def drain(self) -> None:
        """Wait until there is room for more. Raises `ConnectionError` if the reader has gone."""
        ...

    def close(self) -> None:
        """Close the stream; buffered bytes are still sent."""
        ...


class ServerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The server's command line and environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


class StdioFront:
    """Runs one server, and relays between the server and the client's two open files."""

    def __init__(self, command: ServerCommand, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._command = command
        self._stdin = stdin
        self._stdout = stdout
        # Whether the server has written anything by now.
        self.heard = False

    @property
    def word(self) -> str:
        """The server's program, as the user typed it, for messages."""
        return self._command.words[0]

    async def serve(
        self, open_relay: Callable[[Deliver], AbstractAsyncContextManager[Relay]]
    ) -> int:
        """Relay until the server has ended; return its exit status, negative for a signal.

        Raises:
            OSError: The command cannot be started.
        """
        child = _started(self._command)
        if child.stdin is None or child.stdout is None:
            raise OSError("the server has no pipes")
        async with AsyncExitStack() as stack:
            stack.callback(_end, child)
            stack.enter_context(_signals(child.send_signal))
            source = await stack.enter_async_context(source_of(self._stdin))
            sink = await stack.enter_async_context(sink_of(self._stdout))
            child_source = await stack.enter_async_context(source_of(child.stdout))
            child_sink = await stack.enter_async_context(sink_of(child.stdin))
            pipes = _Pipes({Side.CLIENT: sink, Side.SERVER: child_sink})
            relay = await stack.enter_async_context(open_relay(pipes.deliver))
            async with asyncio.TaskGroup() as group:
                up = group.create_task(_up(source, relay, child_sink))
                down = group.create_task(self._down(child_source, relay))
                await _ended(child)
                await asyncio.wait([down], timeout=_LAST_WORDS_S)
                up.cancel()
                down.cancel()
            await relay.lost()
        return child.wait()

    async def _down(self, stdout: ByteSource, relay: Relay) -> None:
        """Pass the server's lines to the relay; at the end of its output fail waiting requests."""

        async def take(line: bytes) -> None:
            self.heard = True
            await relay.from_server(line)

        await pass_on(stdout, Side.SERVER, take, relay.refused)
        await relay.flushed(Side.SERVER)
        await relay.lost()


def _started(command: ServerCommand) -> subprocess.Popen[bytes]:
    # This uses `subprocess`, because asyncio would count the server as running for as long as any
    # other process has the server's pipes open.
    return subprocess.Popen(  # noqa: S603 - the very command that the operator wrapped
        command.words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env=command.environment,
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the process if it still runs, and close its pipes."""
    if child.poll() is None:
        child.kill()
    child.wait()
    for file in (child.stdin, child.stdout):
        if file is not None:
            file.close()


async def _ended(child: subprocess.Popen[bytes]) -> None:
    """Wait for the process itself to end; its children may keep its pipes open."""
    handle = os.pidfd_open(child.pid)
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    try:
        loop.add_reader(handle, over.set)
        await over.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


class _Pipes:
    """Writes messages to client and server, one whole message at a time (`Deliver`).

    A message for a side that has gone is dropped.
    """

    def __init__(self, sinks: Mapping[Side, ByteSink]) -> None:
        self._sinks = sinks

    async def deliver(self, side: Side, raw: bytes, _message: Message, _via: object, /) -> None:
        """Write one line to the client or to the server."""
        sink = self._sinks[side]
        try:
            sink.write(raw + b"\n")
            await sink.drain()
        except OSError as error:
            _LOG.info(
                "peer gone",
                extra={"fields": {"side": side.value}, "error_type": type(error).__name__},
            )


async def _up(source: ByteSource, relay: Relay, stdin: ByteSink) -> None:
    """Pass each line that the client writes to the relay.

    At the end of the client's output, close the server's input once all messages are forwarded.
    """
    await pass_on(source, Side.CLIENT, relay.from_client, relay.refused)
    await relay.flushed(Side.CLIENT)
    stdin.close()


async def pass_on(
    source: ByteSource,
    side: Side,
    take: Callable[[bytes], Awaitable[None]],
    refuse: Callable[[Side, RequestId | None, str], Awaitable[None]],
) -> None:
    """Call `take` with each line of a stream, `refuse` for overlong ones, until the stream ends."""
    lines = Lines()
    while True:
        piece = await source.read(_PIECE_BYTES)
        for line in lines.feed(piece) if piece else lines.end():
            if isinstance(line, TooLong):
                await refuse(side, line.request_id, "message: too long")
            else:
                await take(line)
        if not piece:
            return


@contextmanager
def _signals(heed: Callable[[signal.Signals], object]) -> Generator[None]:
    """Call `heed` with each signal in `PASSED_ON`, in place of its usual effect, while open."""
    loop = asyncio.get_running_loop()
    for number in PASSED_ON:
        loop.add_signal_handler(number, heed, number)
    try:
        yield
    finally:
        for number in PASSED_ON:
            loop.remove_signal_handler(number)


@asynccontextmanager
async def source_of(file: IO[bytes]) -> AsyncGenerator[ByteSource]:
    """A source that reads from an open file, while the context is open."""
    if _is_file(file):
        yield _PlainFile(file)
        return
    reader = asyncio.StreamReader(limit=_PIECE_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield reader
    finally:
        transport.close()


@asynccontextmanager
async def sink_of(file: IO[bytes]) -> AsyncGenerator[ByteSink]:
    """A sink that writes to an open file, while the context is open."""
    if _is_file(file):
        yield _PlainFile(file)
        return
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        yield writer
    finally:
        # Closing flushes the buffered bytes that the pipe has room for; a client that does not read
        # loses the others.
        writer.close()


def _is_file(file: IO[bytes]) -> bool:
    """Whether the file is always ready, so that an event loop cannot wait for it.

    True of a plain file and of `/dev/null`.
    """
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(file.fileno()))


class _PlainFile:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    async def read(self, n: int, /) -> bytes:
        """Read up to `n` bytes of the file."""
        return os.read(self._file.fileno(), n)

    def write(self, data: bytes, /) -> None:
        """Write all of `data` to the file."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._file.fileno(), left) :]

    async def drain(self) -> None:
        """Return at once: a file has always room, or its write fails."""

    def close(self) -> None:
        """Do nothing: the file belongs to the caller, who closes it."""


async def serve_store(
    stdin: IO[bytes],
    stdout: IO[bytes],
    open_server: Callable[[Deliver], AbstractAsyncContextManager[StoreServer]],
) -> int:
    """Serve one client of store mode until it closes its output or a signal arrives.

    Calls that were accepted by then are finished. Returns 0, or minus the signal's number.
    """
    numbers: list[int] = []
    signalled = asyncio.Event()

    def heed(number: int) -> None:
        numbers.append(number)
        signalled.set()

    async with AsyncExitStack() as stack:
        stack.enter_context(_signals(heed))
        source = await stack.enter_async_context(source_of(stdin))
        sink = await stack.enter_async_context(sink_of(stdout))
        server = await stack.enter_async_context(open_server(_Pipes({Side.CLIENT: sink}).deliver))
        reading = pass_on(source, Side.CLIENT, server.from_client, server.refused)
        await first(reading, signalled.wait())
    return -numbers[0] if numbers else 0
