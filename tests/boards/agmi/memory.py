"""Agmi's six attacks on what a memory serves, against real sidecars and a bare Mem0.

Each row is a composition of its own with its keys; the client is an unmodified `mem0ai`, in a
process of its own. The harness decides each cell; nothing here does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from aiohttp import web

from policy.model import Channel, Principal, PrincipalId, Reads, Tenant
from tests.embedder import shared_embedder
from tests.evaluate.attacks import Broken
from tests.evaluate.free_port import on_free_port
from tests.integration.clients.environments import overlay
from tests.integration.clients.process import run_client
from tests.integration.mem0_environment import mem0_python
from tests.integration.model_bench import fronted
from tests.integration.running import AGENT_KEY, Running, running

PACKAGE: Final = "agent-memory-integrity==0.6.3"
DRIVE: Final = Path(__file__).with_name("drive.py")
LIMIT_S: Final = 1_800.0
FIXTURES: Final = 5


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One attack against one row, as agmi's runner decided it."""

    attack: str
    status: str
    detail: str = ""
    channels: dict[str, list[bool | None]] = {}

    @property
    def surfaced(self) -> int:
        """The most fixtures that the attacker won on one channel."""
        return max((sum(one is True for one in each) for each in self.channels.values()), default=0)

    @property
    def controls(self) -> tuple[int, int]:
        """How many fixtures, over all channels, had a positive control, and how many there are."""
        each = [one for channel in self.channels.values() for one in channel]
        return sum(one is not None for one in each), len(each)

    def __str__(self) -> str:
        said = {"safe": "kept out", "VULNERABLE": f"{self.surfaced}/{FIXTURES}"}
        return said.get(self.status, "no verdict" if self.channels else f"n/a: {self.detail}")


class MemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: six cells, and how many writes were refused or wait."""

    cells: tuple[Cell, ...]
    not_stored: dict[str, int] = {}

    @property
    def controls(self) -> tuple[int, int]:
        """The positive controls of all cells, and how many fixtures there are."""
        each = [one.controls for one in self.cells]
        return sum(read for read, _ in each), sum(of for _, of in each)

    @property
    def kept_out(self) -> int:
        """In how many cells the attacker won nothing on any channel."""
        return sum(one.status == "safe" for one in self.cells)


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Which credentials a row has beside the agent's own."""

    person: bool = False
    floor: bool = False
    front: bool = False


ROWS: Final[Mapping[str, Keys]] = {
    "one key": Keys(),
    "two keys": Keys(person=True),
    "two keys, floor for reads": Keys(person=True, floor=True),
    "model front, one key": Keys(front=True),
    "model front, one key, floor for reads": Keys(front=True, floor=True),
}


async def measured(keys: Keys, place: Path) -> MemoryRow:
    """One row of a sidecar that is started for it and ends with it."""
    if not keys.front:
        async with running(place) as sidecar:
            return await _driven(sidecar, keys, place)
    async with fronted(place) as bench:
        return await _driven(bench.front, keys, place)


async def bare(place: Path) -> MemoryRow:
    """The row of Mem0 alone, with the vectors of the sidecar's embedder."""
    embedder = shared_embedder("static")

    async def embed(request: web.Request) -> web.Response:
        (vector,) = embedder.embed([(await request.json())["text"]])
        return web.json_response(np.frombuffer(vector, "<f4").tolist())

    served = web.Application()
    served.router.add_post("/embed", embed)
    async with on_free_port(served) as url:
        return await _row("bare", f"{url}/embed", place=place)


async def _driven(sidecar: Running, keys: Keys, place: Path) -> MemoryRow:
    person = await sidecar.key("person", channel=Channel.USER) if keys.person else AGENT_KEY
    reader = AGENT_KEY
    if keys.floor:
        reader = await sidecar.key_for(
            Principal(
                principal_id=PrincipalId("reader"),
                tenant=Tenant("default"),
                channel=Channel.AGENT,
                reads=Reads.USER_INPUT,
            )
        )
    way = "front" if keys.front else "direct"
    return await _row("sidecar", sidecar.url, AGENT_KEY, person, reader, way, place=place)


async def _row(*arguments: str, place: Path) -> MemoryRow:
    agmi = overlay(Path(sys.executable), PACKAGE)
    code, out, errors = await run_client(
        mem0_python(),
        "-W",
        "ignore",
        DRIVE,
        *arguments,
        home=place / "home",
        environment={"PYTHONPATH": str(agmi)},
        limit_s=LIMIT_S,
    )
    if code != 0:
        raise Broken(f"agmi's runner ended with {code}: {errors[-1_500:]}")
    return msgspec.json.decode(out.splitlines()[-1], type=MemoryRow)
