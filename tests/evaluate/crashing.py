"""The process that is killed: `python -P -m tests.evaluate.crashing PLACE POINT`.

It serves what `mnemogate run` serves. After the line `arm` on standard input it kills itself at the
named crash point; after `stop` it ends. On standard output it writes one JSON object with its
address and keys, and then `armed`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import msgspec

from policy.model import Claims
from tests.evaluate.points import POINTS, Killer
from tests.evaluate.systems import BY_NAME, Extras, at

# The crash points that this process reaches. "snapshot_written" needs a full segment of the log,
# which takes longer; the fault tests reach it.
REACHED: Final = tuple(point for point in POINTS if point != "snapshot_written")


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the process, and its keys."""

    url: str
    agent_key: str
    vouched_key: str


async def _serve(place: Path, point: str) -> None:
    killer = Killer(point)
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
