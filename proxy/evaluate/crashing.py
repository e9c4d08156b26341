"""The process that dies: `python -P -m proxy.evaluate.crashing PLACE POINT`.

Serves what `run` serves, and kills itself at a named crash point once it was told to. Lines in:
`arm`, `stop`. Lines out: one JSON object with the address and the keys, then `armed`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from policy.model import Claims
from proxy.evaluate.systems import BY_NAME, Extras, at

# Without `snapshot_written`: a segment is full long after this. The fault tests reach it.
POINTS: Final = (
    "intercepted",
    "staged",
    "before_transaction",
    "decided",
    "before_put",
    "after_put",
    "before_commit",
    "after_commit",
    "key_destroyed",
    "index_swapped",
    "before_answer",
    "checkpoint_written",
)


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """Where the process can be reached, and as whom."""

    url: str
    agent_key: str
    vouched_key: str


class _Killer:
    def __init__(self, point: str) -> None:
        self._point = point
        self.armed = False

    def __call__(self, name: str) -> None:
        if self.armed and name == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


async def _serve(place: Path, point: str) -> None:
    killer = _Killer(point)
    async with at(BY_NAME["S4"], place, Extras(failpoint=killer)) as bench:
        vouched = await bench.key("vouched", claims=Claims.TRUSTED)
        served = Served(url=bench.url, agent_key=bench.agent_key, vouched_key=vouched)
        _say(msgspec.json.encode(served).decode())
        while (line := (await asyncio.to_thread(sys.stdin.readline)).strip()) != "stop":
            if line == "arm":
                killer.armed = True
                _say("armed")
            if not line:
                return


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2]))
