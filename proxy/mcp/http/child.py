"""An MCP server that the sidecar runs as a child process, with one message per line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio import subprocess
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from errno import errorcode
from typing import IO, Final, Self

import msgspec

from proxy.mcp.lines import Lines, TooLong

_LOG: Final = logging.getLogger("mnemogate.mcp")
_PIECE_BYTES: Final = 64 * 1024
WRITE_SECONDS: Final = 30.0
# Seconds that a server has to end after its input was closed, and as many again after SIGTERM.
END_SECONDS: Final = 2.0


class ChildGone(Exception):  # noqa: N818 - a state, not a fault of ours
    """The error for a process that ended, or no longer reads; its text, if any, is the cause."""


class ServerCommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of a server, and its whole environment.

    While this process does not hold the store, nothing is written to the server.
    """

    words: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    holds: Callable[[], bool] = lambda: True  # false: another process may hold the store


class Child:
    """One running server process. Event loop only."""

    def __init__(self, process: Process, name: str, holds: Callable[[], bool]) -> None:
        self._process = process
        self._name = name
        self._holds = holds
        self._writing = asyncio.Lock()

    @classmethod
    async def start(
        cls, command: ServerCommandLine, name: str, stderr: int | IO[bytes] = subprocess.PIPE
    ) -> Self:
        """Start a server in a process session of its own, so that its children end with it.

        A pipe as `stderr` is read by `silence`.

        Raises:
            ChildGone: The server cannot be started.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command.words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                cwd=command.directory,
                env=command.environment,
                limit=_PIECE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            _LOG.error(
                "mcp server not started",
                extra={"fields": {"server": name}, "error_type": type(error).__name__},
            )
            code = errorcode.get(error.errno or 0, "OSError")
            raise ChildGone(f"{code}: {os.strerror(error.errno or 0)}") from None
        return cls(process, name, command.holds)

    async def lines(self) -> AsyncIterator[bytes | TooLong]:
        """Yield the lines of the server's standard output until it ends."""
        source = self._process.stdout
        if source is None:
            return
        lines = Lines()
        while piece := await source.read(_PIECE_BYTES):
            for line in lines.feed(piece):
                yield line
        for line in lines.end():
            yield line

    async def silence(self) -> None:
        """Read the server's standard error to the end, and drop its text: it may quote memories."""
        source, count = self._process.stderr, 0
        while source is not None and (piece := await source.read(_PIECE_BYTES)):
            count += len(piece)
        if count:
            _LOG.info(
                "mcp server wrote to stderr",
                extra={"fields": {"server": self._name, "bytes": count}},
            )

    async def write(self, line: bytes) -> None:
        """Write one line to the server.

        Raises:
            ChildGone: The server does not read, or nothing may be written to it.
        """
        sink = self._process.stdin
        if sink is None or self._process.returncode is not None or not self._holds():
            raise ChildGone
        try:
            async with self._writing, asyncio.timeout(WRITE_SECONDS):
                sink.write(line + b"\n")
                await sink.drain()
        except (OSError, TimeoutError):
            raise ChildGone from None

    def close_input(self) -> None:
        """Close the server's input; a server that follows the protocol then ends."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def end(self) -> None:
        """Close the server's input, and end it by force if it does not end."""
        self.close_input()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self._process.wait()
                break
            self._signal(number)
        code = await self._process.wait()
        # The server's children may live on in its process group, so the whole group is ended.
        self._signal(signal.SIGKILL)
        _LOG.info("mcp server ended", extra={"fields": {"server": self._name, "code": code}})

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
