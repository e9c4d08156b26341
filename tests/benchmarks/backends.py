"""What the gate adds in front of a real memory server, against the direct path to the same one."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp
import numpy as np

from policy.labels.forwarded_call import HTTP, ForwardedCall, target_of, texts_of
from policy.model import Candidate, ChangeKind, PrincipalId, Tenant
from proxy.guard.live_texts import prints_of_pieces
from proxy.guard.sieve import Sieve
from storage.values import ForwardState, UpstreamChange, UpstreamChanges
from tests.benchmarks.bars import FAILURES, BarRow, Lines, at_least, at_most, not_measured
from tests.benchmarks.pairs import ratio_of
from tests.fault.backend_kills.__main__ import SERVERS
from tests.integration.memory_servers.kinds import KINDS, Asked, Kind
from tests.integration.running import AGENT_KEY, OPERATOR_KEY

ROOT: Final = Path(__file__).resolve().parents[2]
CALLS: Final = 200
WARM_UP: Final = 20
STANDING: Final = 50
CLIENTS: Final = 50
PLACES: Final = 10
LOAD_S: Final = 1.5
ROUNDS: Final = 4
MEMORIES: Final = 20_000
_BARS: Final = {
    ("chroma", "read of 50, the same"): at_most(1.6),
    ("chroma", "read of 50, one new"): at_most(2.5),
    ("chroma", "write"): at_most(2),
    ("langgraph", "write"): at_most(4),
    ("langgraph", f"{CLIENTS} clients"): at_least(0.25),
}


def run() -> Lines:
    """Medians of both ways, their ratio, and the writes a second of fifty clients."""
    lines: Lines = [
        "server, call                   | direct p50 ms | guarded p50 ms | added p50 ms | ratio"
    ]
    for adapter in SERVERS:
        try:
            lines += _compared(adapter)
        except FAILURES as failure:
            lines.append(not_measured(adapter, failure))
    return [*lines, _memory()]


def _compared(adapter: str) -> Lines:
    with tempfile.TemporaryDirectory(prefix="behind-") as place:
        base = Path(place)
        with SERVERS[adapter](base / "server") as server, _sidecar(base, adapter, server) as url:
            return asyncio.run(_Bench(KINDS[adapter], server, url).measured())


@contextmanager
def _sidecar(base: Path, adapter: str, server: str) -> Generator[str]:
    config = base / "mnemogate.toml"
    config.write_text(f'[[backend]]\nname = "b"\nadapter = "{adapter}"\nurl = "{server}"\n')
    command = (sys.executable, "-P", "-m", "proxy", "run", "--json", "--config", str(config))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(base),
        "PYTHONPATH": str(ROOT),
        "MNEMOGATE_LISTEN": "127.0.0.1:0",
        "MNEMOGATE_ADMIN": "127.0.0.1:0",
        "MNEMOGATE_STATE": str(base / "state"),
        "MNEMOGATE_CHECKPOINT": str(base / "checkpoint" / "checkpoint.txt"),
        "MNEMOGATE_AGENT_KEY": AGENT_KEY,
        "MNEMOGATE_OPERATOR_KEY": OPERATOR_KEY,
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd="/", env=environment, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        if process.stdout is None:
            raise RuntimeError("the sidecar has no standard output")
        try:
            yield json.loads(process.stdout.readline())["data"]
        finally:
            process.terminate()


class _Bench:
    def __init__(self, kind: Kind, server: str, sidecar: str) -> None:
        self._kind = kind
        self._ways = (server, sidecar)
        self._numbers = itertools.count()

    async def measured(self) -> Lines:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:
            places = [
                await self._kind.place(client, self._ways[0], f"bench-{number}")
                for number in range(PLACES)
            ]
            for number in range(STANDING):
                await self._ask(client, 1, self._kind.add(places[0], f"s{number}", _text(number)))
            read = self._kind.everything(places[0])

            async def changed(number: int) -> Asked:
                one = self._kind.change(places[0], f"s{number % STANDING}", _text(1_000 + number))
                await self._ask(client, 1, one)
                return read

            async def same(number: int) -> Asked:
                del number
                return read

            return [
                *await self._pairs(client, "read of 50, the same", same),
                *await self._pairs(client, "read of 50, one new", changed),
                *await self._pairs(client, "write", None, places[1]),
                *await self._load(client, places),
            ]

    async def _ask(self, client: aiohttp.ClientSession, way: int, asked: Asked) -> float:
        method, path, body = asked
        began = time.perf_counter()
        async with client.request(
            method,
            self._ways[way] + path,
            json=body,
            headers={self._kind.credential: AGENT_KEY},
        ) as response:
            said = await response.read()
            if response.status not in range(200, 300):
                raise RuntimeError(f"answered {response.status}: {said!r}")
        return time.perf_counter() - began

    def _new(self, place: str) -> Asked:
        number = next(self._numbers)
        return self._kind.add(place, f"n{number}", _text(number))

    async def _pairs(
        self,
        client: aiohttp.ClientSession,
        name: str,
        asked: Callable[[int], Awaitable[Asked]] | None,
        place: str = "",
    ) -> Lines:
        """Each call both ways, in turns; without `asked`, new writes to the place."""
        pairs: list[tuple[float, float]] = []
        for number in range(CALLS + WARM_UP):
            taken = [0.0, 0.0]
            one = None if asked is None else await asked(number)
            for way in (0, 1) if number % 2 else (1, 0):
                taken[way] = await self._ask(client, way, one or self._new(place))
            pairs.append((taken[0], taken[1]))
        measured = np.array(pairs[WARM_UP:]) * 1_000
        direct, guarded = np.percentile(measured, 50, axis=0)
        added = np.percentile(measured[:, 1] - measured[:, 0], 50)
        ratio = f"{ratio_of(measured):.2f}"
        kind = self._kind.adapter
        figures = f"{direct:8.2f} | {guarded:8.2f} | {added:8.2f} | {ratio}"
        return [f"{kind:9s} {name:20s} | {figures}", *self._row(name, ratio)]

    def _row(self, name: str, ratio: str) -> Lines:
        """The figure beside its bar, where it has one."""
        bar = _BARS.get((self._kind.adapter, name))
        return [] if bar is None else [BarRow(f"{self._kind.adapter}, {name}", ratio, bar)]

    async def _load(self, client: aiohttp.ClientSession, places: list[str]) -> Lines:
        """Writes a second of fifty clients, a stretch each way in turns."""
        done = [0, 0]
        for number in range(2 * ROUNDS):
            way = (number + number // 2) % 2
            until_s = time.monotonic() + LOAD_S
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._until(client, way, places[at % PLACES], until_s))
                    for at in range(CLIENTS)
                ]
            done[way] += sum(task.result() for task in tasks)
        seconds = ROUNDS * LOAD_S
        share = f"{done[1] / done[0]:.2f}"
        name, (direct, guarded) = f"{CLIENTS} clients", (one / seconds for one in done)
        figures = f"{direct:.0f} writes/s direct, {guarded:.0f} guarded, share {share}"
        return [f"{self._kind.adapter:9s} {name}: {figures}", *self._row(name, share)]

    async def _until(
        self, client: aiohttp.ClientSession, way: int, place: str, until_s: float
    ) -> int:
        count = 0
        while time.monotonic() < until_s:
            await self._ask(client, way, self._new(place))
            count += 1
        return count


def _memory() -> str:
    """One line: what a gate that runs keeps in memory of each live memory behind a server."""
    scope = (Tenant("default"), target_of(HTTP, "b"))
    known = tuple(_moved(number, *scope) for number in range(MEMORIES))
    sieve = Sieve(lambda _: UpstreamChanges(leaf_count=0, moved=known))
    prints = sum(len(prints_of_pieces((_text(number),))) for number in range(MEMORIES))
    tracemalloc.start()
    try:
        sieve.refresh()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return f"in memory: {taken / prints:.0f} bytes a print, {taken / MEMORIES:.0f} a memory"


def _moved(number: int, tenant: Tenant, target: str) -> UpstreamChange:
    key = f'["memories","bench","k{number}"]'
    call = ForwardedCall(tool="put", arguments="{}", key=key, pieces=(_text(number),))
    text, metadata_json = texts_of(call)
    candidate = Candidate(
        change=ChangeKind.CREATE,
        principal_id=PrincipalId("agent"),
        tenant=tenant,
        nonce="n",
        target=target,
        text=text,
        metadata_json=metadata_json,
    )
    name = f"{number:032x}"
    return UpstreamChange(
        name=name, stands=ForwardState.LIVE, tenant=tenant, candidate=candidate, key=key
    )


def _text(number: int) -> str:
    return f"Guest {number} of the house likes tea from garden {number * 7919 % 1_000}"
