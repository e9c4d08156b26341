"""The sidecars that are killed: `python -m tests.fault.backend_kills.sidecars`.

It imports everything once. Each line on standard input describes one sidecar, which it forks; the
sidecar says on standard output where it serves and what it could not settle, and goes on until it
is killed. After SIGUSR1 it kills itself at the named point of its store.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from proxy.compose.app import Composition
from proxy.fronts.backend_writes import TEND_S
from tests.integration.running import running

SETTLING_S = 60.0
_POLL_S = 0.01
_HASTE = 1_000


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One sidecar: its directory, the server behind it, and where it kills itself, if anywhere."""

    root: str
    adapter: str
    server: str
    point: str = ""
    # How often it passes the point before.
    passes: int = 0


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """The process, its address, and the items that no look-up has settled."""

    pid: int
    url: str
    unsettled: int


class _Killer:
    """A failpoint of the store that ends the process without a word, once armed."""

    def __init__(self, point: str, passes: int) -> None:
        self._point = point
        self._passes = passes
        self.armed = False

    def arm(self) -> None:
        self.armed = True

    def __call__(self, name: str) -> None:
        """Kill the process if this is the chosen point and time."""
        if not self.armed or name != self._point:
            return
        if self._passes == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._passes -= 1


def _hasty_ns() -> int:
    """A clock on which the minutes pass in which a write that is not there may still arrive."""
    return time.monotonic_ns() * _HASTE


async def _wait(seconds: float) -> None:
    await asyncio.sleep(_POLL_S if seconds == TEND_S else seconds)


async def _warm() -> None:
    """Start one sidecar and end it, so that what is imported and compiled late is there.

    The weights of the embedder are read here, once, and every fork has them.
    """
    with tempfile.TemporaryDirectory() as root:
        async with running(Path(root)):
            return


async def _serve(wanted: Wanted) -> None:
    killer = _Killer(wanted.point, wanted.passes)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, killer.arm)
    table = f'[[backend]]\nname = "store"\nadapter = "{wanted.adapter}"\nurl = "{wanted.server}"\n'
    composition = Composition(failpoint=killer, wait=_wait, monotonic_ns=_hasty_ns)
    async with running(Path(wanted.root), composition, tables=table) as sidecar:
        store = sidecar.sidecar.store
        until_s = time.monotonic() + SETTLING_S
        # Nobody tells a test that the first round of look-ups is over.
        while store.forwards.pending() and time.monotonic() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        unsettled = len(store.forwards.pending())
        told = Serving(pid=os.getpid(), url=sidecar.url, unsettled=unsettled)
        os.write(1, msgspec.json.encode(told) + b"\n")
        await asyncio.Event().wait()


def main() -> None:
    """Fork a sidecar for every line. The last one is dead by then, and its id is free from then."""
    asyncio.run(_warm())
    child = 0
    for line in sys.stdin.buffer:
        wanted = msgspec.json.decode(line, type=Wanted)
        if child:
            os.waitpid(child, 0)
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(_serve(wanted))
            finally:
                os._exit(1)


if __name__ == "__main__":
    main()
