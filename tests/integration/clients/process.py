"""Runs a client as a process with an environment and a home of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

PATH = "/usr/local/bin:/usr/bin:/bin"
# Port 9 is "discard": what a client wants from the internet fails at once and is never sent.
OFFLINE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}


async def run_client(
    *command: str | Path,
    home: Path,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 240.0,
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error. Nothing of our environment is passed on.

    The working directory is a project below the home, as a person would have it.
    """
    project = home / "project"
    await asyncio.to_thread(project.mkdir, parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *(str(part) for part in command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=project,
        env={"PATH": PATH, "HOME": str(home), **OFFLINE, **(environment or {})},
    )
    try:
        async with asyncio.timeout(limit_s):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out.decode(), errors.decode()


class Conversed:
    """A client that is told something, and answers, line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr

    def write(self, line: bytes) -> None:
        self._in.write(line)

    async def lines(self) -> AsyncGenerator[bytes]:
        while line := await self._out.readline():
            yield line

    async def complaints(self) -> str:
        """The end of its standard error, once it has ended."""
        return (await self._err.read()).decode()[-2_000:]


@asynccontextmanager
async def conversing(
    *command: str | Path, home: Path, environment: Mapping[str, str], limit_s: float = 240.0
) -> AsyncGenerator[Conversed]:
    """A client as a process that is told what comes; it is ended when nothing more does."""
    project = home / "project"
    await asyncio.to_thread(project.mkdir, parents=True, exist_ok=True)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(str(part) for part in command),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=project,
        env={"PATH": PATH, "HOME": str(home), **OFFLINE, **environment},
        limit=1 << 24,
    )
    try:
        async with asyncio.timeout(limit_s):
            yield Conversed(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def drive_client(
    *command: str | Path, home: Path, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What each step of a driver saw: the JSON object it prints."""
    code, out, errors = await run_client(*command, home=home, environment=environment)
    assert code == 0, errors[-2_000:]
    return msgspec.json.decode(out, type=dict[str, Any])
