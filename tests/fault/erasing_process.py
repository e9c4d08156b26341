"""One life of a sidecar that erases a person: it is killed at a commit, or prints the receipt.

`python -m tests.fault.erasing_process ROOT TABLES PRINCIPAL NUMBER`: it is killed after the commit
with this number since it went on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from proxy.admin.erasure_runner import ErasureRunner
from proxy.admin.wire.upkeep import ErasureView
from proxy.compose.app import Composition
from storage.features.erasures import Erasure
from tests.integration.running import running

# A second of the test is so many seconds of the sidecar, which waits for what may arrive late.
FASTER = 60
BEGAN_NS, STARTED_NS = time.time_ns(), time.monotonic_ns()


class Killer:
    """Kills this process after so many commits while an erasure is carried out."""

    def __init__(self, left: int) -> None:
        self._left = left
        self.armed = False

    def __call__(self, name: str) -> None:
        self._left -= self.armed and name == "after_commit"
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def clock_ns() -> int:
    return BEGAN_NS + (time.monotonic_ns() - STARTED_NS) * FASTER


async def main() -> None:
    root, tables, principal, number = sys.argv[1:]
    known = await asyncio.to_thread(Path(tables).read_text)
    killer = Killer(int(number))
    continued = ErasureRunner._continued  # pyright: ignore[reportPrivateUsage]

    async def armed(self: ErasureRunner, begun: Erasure) -> ErasureView:
        killer.armed = True
        return await continued(self, begun)

    ErasureRunner._continued = armed  # type: ignore[method-assign]
    composition = Composition(
        failpoint=killer,
        clock_ns=clock_ns,
        monotonic_ns=clock_ns,
        wait=lambda seconds: asyncio.sleep(seconds / FASTER),
    )
    async with running(Path(root), composition, tables=known) as sidecar:
        while True:
            done = await sidecar.operate("POST", "/erasures", {"principal": principal})
            if done["receipt"]:
                break
            await asyncio.sleep(0.1)
    sys.stdout.write(done["receipt"])


if __name__ == "__main__":
    asyncio.run(main())
