"""kill -9 at every named point of the write path: the files afterwards, and the next start."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from proxy.settings.load import child_environment
from tests.evaluate.attacks import ATTACKS, Broken, Trial
from tests.evaluate.book import Book
from tests.evaluate.canary import files_below, found_in, new_canary
from tests.evaluate.crashing import REACHED, Served
from tests.evaluate.figures import share
from tests.evaluate.systems import ADMITTED, BY_NAME, at
from tests.evaluate.tables import Beyond
from tests.evaluate.wire import Write, headers_of

_START_S: Final = 60.0
_ANSWER_S: Final = 20.0
_ATTACKS: Final = ("A1", "A2", "A3", "A4")


class _Death(msgspec.Struct, frozen=True, kw_only=True):
    """The state of files and store after one kill."""

    point: str
    killed: bool
    formed: tuple[str, ...]
    honest_on_disk: bool
    problems: tuple[str, ...]
    answered_and_lost: bool


async def crash(book: Book) -> None:
    """Kill a process at each crash point several times, during four attacks and an honest write."""
    rounds = max(1, book.trials // 30)
    deaths: list[_Death] = []
    draw = book.progress("kill -9")
    for number in range(rounds):
        for point in REACHED:
            deaths.append(await _die(book, point, number))
            draw(len(deaths), rounds * len(REACHED))
    n = len(deaths) * len(_ATTACKS)
    formed = sum(len(death.formed) for death in deaths)
    figure = share(n - formed, n)
    book.beyond(Beyond(crash_nfr=figure))
    book.promise("beyond: crash_nfr", figure, 100.0)
    broken = [f"{death.point}: {death.problems}" for death in deaths if death.problems]
    lost = [death.point for death in deaths if death.answered_and_lost]
    book.holds(
        "kill -9: the store is sound afterwards, and nothing answered is lost",
        held=not broken and not lost,
        detail="; ".join((*broken, *lost)) or f"{len(deaths)} kills",
    )
    missed = sorted({death.point for death in deaths if not death.killed})
    book.control(
        "kill -9: each point was reached",
        fired=not missed,
        detail=f"{len(REACHED)} points" if not missed else f"never reached: {', '.join(missed)}",
    )
    book.control(
        "kill -9: the honest write is found by the same search once it lands",
        fired=all(death.honest_on_disk for death in deaths),
    )


async def _die(book: Book, point: str, number: int) -> _Death:
    trials = [
        ATTACKS[attack](number, book.draws(f"crash/{point}/{attack}", number))
        for attack in _ATTACKS
    ]
    honest = new_canary()
    with tempfile.TemporaryDirectory(prefix="mnemogate-evaluate-") as name:
        place = Path(name)
        process = await _started(place, point)
        try:
            served = msgspec.json.decode(await _line(process), type=Served)
            answered = await _attacked(process, served, trials, honest)
            killed = await _ended(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        canaries = [trial.canary for trial in trials]
        formed = set(found_in(files_below(place), canaries))
        async with at(BY_NAME["S4"], place) as bench:
            problems = bench.observed().problems
            listed = "\n".join(await bench.listed(bench.operator_key))
            lost = answered and honest not in listed
            formed |= {one for one in canaries if one in listed} | bench.on_disk(canaries)
            # The honest write is repeated, as its client would do: whether it was stored before or
            # not, it is stored once.
            body = Write(text=_honest(honest), nonce="honest")
            again = await bench.write(bench.operator_key, body)
            on_disk = honest in bench.on_disk([honest]) and again.status in ADMITTED
    for trial in trials:
        book.trial(
            "crash", point=point, attack=trial.attack, killed=killed, formed=trial.canary in formed
        )
    return _Death(
        point=point,
        killed=killed,
        formed=tuple(formed),
        honest_on_disk=on_disk,
        problems=problems,
        answered_and_lost=lost,
    )


def _honest(canary: str) -> str:
    return f"The shelf {canary} was counted."


async def _started(place: Path, point: str) -> Process:
    # This command line may be run without a check, because no part of it comes from outside.
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "tests.evaluate.crashing", str(place), point),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(),
    )


async def _line(process: Process) -> bytes:
    if process.stdout is None:
        raise Broken("a child has no stdout")
    async with asyncio.timeout(_START_S):
        line = await process.stdout.readline()
    if not line:
        raise Broken("the process that was to be killed did not start")
    return line


async def _told(process: Process, word: str) -> None:
    if process.stdin is None:
        raise Broken("a child has no stdin")
    with contextlib.suppress(ConnectionError):
        process.stdin.write(f"{word}\n".encode())
        await process.stdin.drain()


async def _attacked(process: Process, served: Served, trials: list[Trial], honest: str) -> bool:
    """Send all attacks and the honest write at once; True if the honest write was answered."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
    async with aiohttp.ClientSession(timeout=timeout) as client:

        async def write(key: str, body: Write) -> bool:
            url, data = f"{served.url}/v1/memories", msgspec.json.encode(body)
            try:
                async with client.post(url, data=data, headers=headers_of(key)) as answer:
                    await answer.read()
                    return answer.status in ADMITTED
            except (aiohttp.ClientError, TimeoutError):
                return False

        for trial in trials:
            if trial.before is not None and not await write(served.agent_key, trial.before):
                raise Broken("an honest write did not land")
        await _told(process, "arm")
        await _line(process)
        async with asyncio.TaskGroup() as group:
            for trial in trials:
                key = served.agent_key if trial.before is not None else served.vouched_key
                group.create_task(write(key, trial.body))
            landed = group.create_task(
                write(served.agent_key, Write(text=_honest(honest), nonce="honest"))
            )
    return landed.result()


async def _ended(process: Process) -> bool:
    """Ask the process to stop.

    True if it killed itself at its crash point before it had stopped.
    """
    await _told(process, "stop")
    async with asyncio.timeout(_START_S):
        return await process.wait() == -signal.SIGKILL
