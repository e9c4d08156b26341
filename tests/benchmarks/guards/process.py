"""An implementation in a process of its own: JSON lines in, JSON lines out."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from typing import Final

import msgspec

from proxy.settings.load import child_environment
from tests.evaluate.attacks import Broken
from tests.evaluate.suite.protocol import Reply, Request

_ANSWER_S: Final = 180.0
_END_S: Final = 30.0
_LINE_MAX: Final = 1 << 26


class ProcessAdapter:
    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: Process | None = None

    async def do(self, request: Request) -> Reply:
        """One line out, one line in.

        Raises:
            Broken: The command ended, does not answer, or answers something else.
        """
        process = await self._started()
        if process.stdin is None or process.stdout is None:
            raise Broken("the implementation has no standard streams")
        try:
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            await process.stdin.drain()
            async with asyncio.timeout(_ANSWER_S):
                line = await process.stdout.readline()
            return msgspec.json.decode(line, type=Reply)
        except (OSError, TimeoutError, msgspec.DecodeError) as error:
            what = type(error).__name__
            raise Broken(f"{self._command[-1]}: {request.op} was not answered ({what})") from error

    async def close(self) -> None:
        """Close its input, which ends it; or end it."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _started(self) -> Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=child_environment(),
                limit=_LINE_MAX,
            )
        return self._process
