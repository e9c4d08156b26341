"""`python -m tests.fault.backend_kills [--kills N] [--real N]`: kill -9 between intent and result.

The sidecar is killed in front of a recorder, and of the real servers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.fault.backend_kills.lives import Counts, kill_in_front
from tests.fault.crashstates.searching import memory_directory
from tests.integration.memory_servers.chroma import chroma_python, chroma_server
from tests.integration.memory_servers.kinds import KINDS
from tests.integration.memory_servers.langgraph import langgraph_python, langgraph_server
from tests.integration.memory_servers.recorder import recorder

SERVERS: Final[dict[str, Callable[[Path], AbstractContextManager[str]]]] = {
    "langgraph": lambda folder: langgraph_server(langgraph_python(), folder),
    "chroma": lambda folder: chroma_server(chroma_python(), folder),
}


def main() -> int:
    """Run the kills. Returns 0 if no outcome was wrong, and nothing was sent twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.backend_kills")
    parser.add_argument("--kills", type=int, default=1_000, help="at a recorder (default 1000)")
    parser.add_argument("--real", type=int, default=100, help="at each real server (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="for other moments")
    given = parser.parse_args()
    found = [asyncio.run(_at_recorder(given.kills, given.seed))] if given.kills else []
    if given.real:
        found += [_at_server(adapter, given.real, given.seed) for adapter in SERVERS]
    return 1 if any(one.wrong for one in found) else 0


async def _at_recorder(kills: int, seed: int) -> Counts:
    async with recorder() as (_, url):
        return await _killed("recorder", "langgraph", url, kills, seed)


def _at_server(adapter: str, kills: int, seed: int) -> Counts:
    with (
        tempfile.TemporaryDirectory(prefix="behind-") as folder,
        SERVERS[adapter](Path(folder) / "server") as url,
    ):
        return asyncio.run(_killed(adapter, adapter, url, kills, seed))


async def _killed(name: str, adapter: str, url: str, kills: int, seed: int) -> Counts:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-", dir=memory_directory()) as base:
        counts = await kill_in_front(KINDS[adapter], url, Path(base), kills, seed)
    by_moment = ", ".join(f"{moment.lower()} {count}" for moment, count in counts.kills.items())
    sys.stdout.write(
        f"{name}: {counts.kills.total()} kills in {time.monotonic() - began:.0f} s ({by_moment}); "
        f"{counts.answered} writes answered, {counts.in_flight} under way, {counts.done_in_flight} "
        f"of these done by the server; {counts.listed} listed; {len(counts.wrong)} wrong\n"
    )
    for problem in counts.wrong[:20]:
        sys.stdout.write(f"  {problem}\n")
    sys.stdout.flush()
    return counts


if __name__ == "__main__":
    sys.exit(main())
