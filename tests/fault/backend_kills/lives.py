"""Sidecars in front of one server, killed one after the other; what holds after each."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from policy.model import ForwardStatus
from policy.query import EVERYTHING
from storage.audit import ResultLeaf, decode_leaf
from tests.fault.backend_kills.between import Between, Moment, between
from tests.fault.backend_kills.sidecars import Serving, Wanted
from tests.integration.memory_servers.kinds import Asked, Kind
from tests.integration.running import AGENT_KEY
from tests.unit.proxy.guarded import STEERING
from tests.unit.storage.opening import TENANT, Bench

ROOT: Final = Path(__file__).resolve().parents[3]
# What the writer passes for a verdict or a result; the first pass after arming is a verdict's.
_POINTS: Final = ("before_commit", "after_commit", "index_swapped", "before_answer")
_PLACES: Final = 3
_PAUSE_S: Final = 0.02
_HANGS_S: Final = 120.0


class Counts(msgspec.Struct, kw_only=True):
    kills: Counter[str] = msgspec.field(default_factory=Counter[str])
    answered: int = 0
    # Writes without an answer, and those of them that the server had done.
    in_flight: int = 0
    done_in_flight: int = 0
    # Items that no look-up settled; each is listed, and no read shows it.
    listed: int = 0
    wrong: list[str] = []


class _Write(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    key: str
    asked: Asked
    # The text under the key afterwards; None if nothing stands there then.
    after: str | None
    refused: bool = False


class _Lives:
    """The memories of one server: what each key may have, and what it has. Event loop only."""

    def __init__(self, kind: Kind, places: list[str], rng: random.Random, counts: Counts) -> None:
        self.kind, self.places, self.counts = kind, places, counts
        self._rng = rng
        self._number = 0
        self.stands: dict[tuple[str, str], str] = {}
        # Every text that was there after a life.
        self.stood: set[str] = set()

    def writes(self) -> list[_Write]:
        """One write for each place: most new, some over an old memory, a deletion, an order."""
        return [self._write(place) for place in self.places]

    def _write(self, place: str) -> _Write:
        self._number += 1
        text = f"The meeting of case {self._number} has moved to Thursday afternoon"
        known = sorted(key for one, key in self.stands if one == place)
        act = self._rng.choice(("add", "add", "change", "remove", "order"))
        if act == "order":
            key = f"k{self._number}"
            asked = self.kind.add(place, key, f"{STEERING} Case {self._number}.")
            return _Write(place=place, key=key, asked=asked, after=None, refused=True)
        if act == "add" or not known:
            key = f"k{self._number}"
            asked = self.kind.add(place, key, text)
            return _Write(place=place, key=key, asked=asked, after=text)
        key = self._rng.choice(known)
        if act == "remove":
            return _Write(place=place, key=key, asked=self.kind.remove(place, key), after=None)
        return _Write(place=place, key=key, asked=self.kind.change(place, key, text), after=text)

    def look(self, sent: list[tuple[_Write, int | None]], has: dict[tuple[str, str], str]) -> None:
        """Compare what the server has with what was sent and answered."""
        counts = self.counts
        expected = dict(self.stands)
        for one, status in sent:
            place = (one.place, one.key)
            arrived = has.get(place) == one.after
            before = self.stands.get(place)
            if status is None or status >= 500:
                counts.in_flight += 1
                counts.done_in_flight += arrived
                if not arrived and has.get(place) != before:
                    counts.wrong.append(f"{one}: neither as before nor as sent: {has.get(place)}")
                expected[place] = has.get(place, "")
            elif status < 300 and not one.refused:
                counts.answered += 1
                expected[place] = one.after or ""
            else:
                counts.answered += 1
                if not one.refused:
                    counts.wrong.append(f"{one}: refused, {status}")
        expected = {place: text for place, text in expected.items() if text}
        if has != expected:
            odd = set(has.items()) ^ set(expected.items())
            counts.wrong.append(f"the server has what nobody may have sent, or lost it: {odd}")
        self.stands = dict(has)
        self.stood |= {*has.values()}


class _Sidecars:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def start(self, wanted: Wanted) -> Serving:
        """The next sidecar, which has settled what the last one left."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(msgspec.json.encode(wanted) + b"\n")
        await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), _HANGS_S)
        return msgspec.json.decode(line, type=Serving)


@asynccontextmanager
async def _sidecars() -> AsyncGenerator[_Sidecars]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tests.fault.backend_kills.sidecars"),
        cwd=ROOT,
        # A process that has threads of OpenMP cannot be forked.
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield _Sidecars(process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def kill_in_front(kind: Kind, server: str, base: Path, kills: int, seed: int) -> Counts:
    """Kill a sidecar in front of `server` so many times, always with the same state directory."""
    counts, rng = Counts(), random.Random(seed)  # noqa: S311
    async with (
        aiohttp.ClientSession() as client,
        between(server) as (middle, url),
        _sidecars() as sidecars,
    ):
        places = [
            await kind.place(client, server, f"kills{number}-{seed}") for number in range(_PLACES)
        ]
        lives = _Lives(kind, places, rng, counts)
        wanted = Wanted(root=str(base), adapter=kind.adapter, server=url)
        sent: list[tuple[_Write, int | None]] = []
        for number in range(kills + 1):
            moment, point, passes = _moment(rng, number)
            serving = await sidecars.start(
                msgspec.structs.replace(wanted, point=point, passes=passes)
            )
            has = await _read(kind, client, server, places, None)
            lives.look(sent, has)
            await _agree(lives, client, serving, has)
            if number == kills:
                os.kill(serving.pid, signal.SIGKILL)
                break
            middle.aim(serving.pid, moment, rng.randrange(2 * _PLACES), rng.uniform(0, _PAUSE_S))
            sent = await _life(lives, client, serving, middle, moment)
            counts.kills[moment.name if moment is not Moment.STORE else point] += 1
    twice = [name for name, times in middle.passed.items() if times > 1]
    counts.wrong.extend(f"sent twice: {one}" for one in twice)
    _check_log(base, lives)
    return counts


def _moment(rng: random.Random, number: int) -> tuple[Moment, str, int]:
    moment = (*Moment,)[number % len(Moment)]
    if moment is not Moment.STORE:
        return moment, "", 0
    return moment, rng.choice(_POINTS), rng.randrange(4)


async def _life(
    lives: _Lives,
    client: aiohttp.ClientSession,
    serving: Serving,
    middle: Between,
    moment: Moment,
) -> list[tuple[_Write, int | None]]:
    """Write until the sidecar is dead; each write with the status of its answer, None for none."""
    sent: list[tuple[_Write, int | None]] = []
    if moment is Moment.STORE:
        os.kill(serving.pid, signal.SIGUSR1)
    dead = False
    busy = set[tuple[str, str]]()
    while not dead:
        # One write of a key in each life: what its key may have afterwards stays plain.
        writes = [one for one in lives.writes() if (one.place, one.key) not in busy]
        busy |= {(one.place, one.key) for one in writes}
        statuses = await asyncio.gather(*(_write(lives.kind, client, serving, w) for w in writes))
        sent += zip(writes, statuses, strict=True)
        dead = None in statuses
    middle.kill()
    return sent


async def _write(
    kind: Kind, client: aiohttp.ClientSession, serving: Serving, write: _Write
) -> int | None:
    method, path, body = write.asked
    headers = {kind.credential: AGENT_KEY}
    try:
        async with client.request(
            method, serving.url + path, json=body, headers=headers
        ) as response:
            await response.read()
            return response.status
    except (aiohttp.ClientError, OSError):
        return None


async def _read(
    kind: Kind,
    client: aiohttp.ClientSession,
    url: str,
    places: list[str],
    key: str | None,
) -> dict[tuple[str, str], str]:
    """All that a server, or with a key a sidecar, shows of these places."""
    found: dict[tuple[str, str], str] = {}
    headers = {} if key is None else {kind.credential: key}
    for place in places:
        method, path, body = kind.everything(place)
        async with client.request(method, url + path, json=body, headers=headers) as response:
            said = await response.read()
            if response.status != 200:
                raise RuntimeError(f"a read was answered {response.status}: {said!r}")
        found |= {(place, one): text for one, text in kind.texts(said).items()}
    return found


async def _agree(
    lives: _Lives,
    client: aiohttp.ClientSession,
    serving: Serving,
    has: dict[tuple[str, str], str],
) -> None:
    """What the sidecar shows is what the server has, but for what it lists as not settled."""
    counts = lives.counts
    counts.listed += serving.unsettled
    shown = await _read(lives.kind, client, serving.url, lives.places, AGENT_KEY)
    if not shown.items() <= has.items() or len(has) - len(shown) > serving.unsettled:
        counts.wrong.append(f"shown is not what is there: {shown.items() ^ has.items()}")


def _check_log(base: Path, lives: _Lives) -> None:
    """The log says of each write what became of it, once."""
    counts = lives.counts
    bench = Bench(base)
    bench.checkpoint = base / "checkpoint.txt"
    store = bench.open()
    try:
        counts.wrong.extend(store.reader.check().problems)
        page = store.reader.page(TENANT, EVERYTHING, 0, 100_000)
        kept = {memory.text or "" for memory in page.memories}
        has = {*lives.stands.values()}
        # Beside what stands there, what a write has replaced is known still.
        if counts.listed == 0 and not has <= kept <= lives.stood:
            odd = f"{has - kept} are missing, {kept - lives.stood} never stood there"
            counts.wrong.append(f"the store has other texts than the server: {odd}")
        ends = Counter[str]()
        for data in store.audit.leaves(0, 1_000_000):
            leaf = decode_leaf(data)
            if isinstance(leaf, ResultLeaf) and leaf.result is not ForwardStatus.UNKNOWN:
                ends[leaf.candidate_id] += 1
        counts.wrong.extend(f"settled twice: {one}" for one, times in ends.items() if times > 1)
    finally:
        store.close()
