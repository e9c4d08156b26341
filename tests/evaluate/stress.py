"""Non-formation in conditions that the paper did not test.

They are many writers at once, slow or failing disks, and repeated requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Final

import aiohttp
import msgspec

from policy.model import Channel, Claims
from storage.ground.errors import TransactionFailed
from tests.evaluate.attacks import ATTACKS, Trial, statement
from tests.evaluate.book import Book
from tests.evaluate.canary import new_canary
from tests.evaluate.figures import Figure, share
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, Extras, running
from tests.evaluate.tables import Beyond
from tests.evaluate.wire import Write, headers_of

WRITERS: Final = 64
_HTTP: Final = ("A1", "A2", "A3", "A4")
_SLOW_S: Final = 0.03
_COPIES: Final = 5
_FAILED: Final = 503


class Disk:
    """A failpoint that makes the store's disk slow, or has it refuse."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.failing = False
        # Set while a commit waits for the slow disk.
        self.waiting = threading.Event()

    def __call__(self, name: str) -> None:
        """Slow down or fail here if that is wanted; the writer calls this at each failpoint."""
        if name != "before_commit":
            return
        if self.delay_s:
            self.waiting.set()
            time.sleep(self.delay_s)
        if self.failing:
            raise TransactionFailed("mdb_txn_commit: Input/output error")


async def stress(book: Book) -> None:
    """Run all stress experiments; their results go beyond the paper's tables."""
    found = Beyond(
        concurrent_nfr=await _concurrent(book),
        slow_disk_nfr=await _slow(book),
        failing_disk_nfr=await _failing(book),
        late_and_duplicate_nfr=await _duplicates(book),
    )
    book.beyond(found)
    for name, _, figure in found.figures():
        book.promise(f"beyond: {name}", figure, 100.0)


def _mixed(book: Book, name: str, count: int) -> list[Trial]:
    return [
        ATTACKS[attack](number, book.draws(f"{name}/{attack}", number))
        for number in range(count)
        for attack in _HTTP
    ]


async def _keyed(bench: Bench, trials: list[Trial]) -> list[tuple[str, Write]]:
    """Give each attack a key of its own, and send the earlier write that attack A4 needs."""
    vouched = await bench.keys(len(trials), claims=Claims.TRUSTED, channel=Channel.AGENT)
    agents = await bench.keys(len(trials), claims=Claims.IGNORED, channel=Channel.AGENT)
    keys = [
        one if trial.claims is Claims.TRUSTED else other
        for trial, one, other in zip(trials, vouched, agents, strict=True)
    ]
    await bench.written(
        [(key, t.before) for key, t in zip(keys, trials, strict=True) if t.before is not None]
    )
    return [(key, trial.body) for key, trial in zip(keys, trials, strict=True)]


async def _concurrent(book: Book) -> Figure:
    """Measure attacks and honest writes from 64 writers at once: each must get its own verdict."""
    trials = _mixed(book, "concurrent", max(WRITERS // len(_HTTP), 2 * book.trials))
    honest = [new_canary() for _ in trials]
    async with running(BY_NAME["S4"]) as bench:
        attacks = await _keyed(bench, trials)
        writer = await bench.key("honest-writer")
        before = bench.observed().version
        mixed: list[tuple[str, Write]] = []
        for attack, canary in zip(attacks, honest, strict=True):
            mixed += [attack, (writer, Write(text=f"The shelf {canary} was counted."))]
        answers = await bench.written(mixed, at_once=WRITERS)
        found = bench.on_disk([*honest, *(trial.canary for trial in trials)])
        after = bench.observed()
    landed = [answer.status in ADMITTED for answer in answers[1::2]]
    refused = [
        answer.body.reason == trial.reason and trial.canary not in found
        for trial, answer in zip(trials, answers[::2], strict=True)
    ]
    book.control(
        "64 writers: every honest write beside the attacks landed",
        fired=all(landed) and found >= set(honest),
        detail=f"{sum(landed)} of {len(landed)}",
    )
    book.holds(
        "64 writers: the version moved once for each memory",
        held=after.version - before == sum(landed) and after.problems == (),
        detail=f"{after.version - before} steps, {sum(landed)} memories",
    )
    for trial, ok in zip(trials, refused, strict=True):
        book.trial("concurrent", attack=trial.attack, number=trial.number, nothing_formed=ok)
    return share(sum(refused), len(refused))


async def _slow(book: Book) -> Figure:
    """Measure that no client sees a refused candidate, while the disk is slow or later."""
    trials = _mixed(book, "slow", max(1, book.trials // 4))
    disk, seen, looks = Disk(), set[str](), 0
    async with running(BY_NAME["S4"], Extras(failpoint=disk)) as bench:
        attacks = await _keyed(bench, trials)
        disk.delay_s = _SLOW_S
        canaries = [trial.canary for trial in trials]
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(bench.written(attacks, at_once=4))
            while not writing.done():
                if disk.waiting.is_set():
                    looks += 1
                    disk.waiting.clear()
                    listed = "\n".join(await bench.listed(bench.operator_key))
                    seen |= bench.on_disk(canaries) | {one for one in canaries if one in listed}
                await asyncio.sleep(_SLOW_S / 4)
        answers = writing.result()
        seen |= bench.on_disk(canaries)
    book.control("slow disk: looked while a commit waited", fired=looks > 0, detail=f"{looks}")
    fine = [
        answer.body.reason == trial.reason and trial.canary not in seen
        for trial, answer in zip(trials, answers, strict=True)
    ]
    return share(sum(fine), len(fine))


async def _failing(book: Book) -> Figure:
    """Measure that a gate which cannot write its log refuses every write without a trace."""
    canaries = [new_canary(book.draws("failing", number)) for number in range(book.trials)]
    disk = Disk()
    async with running(BY_NAME["S4"], Extras(failpoint=disk)) as bench:
        key = await bench.key("honest-writer")
        bodies = [
            Write(text=statement(number, canary), nonce=f"n-{number}")
            for number, canary in enumerate(canaries)
        ]
        disk.failing = True
        failed = await bench.written([(key, body) for body in bodies], at_once=4)
        formed = bench.on_disk(canaries)
        listed = "\n".join(await bench.listed(key))
        disk.failing = False
        again = await bench.written([(key, body) for body in bodies], at_once=4)
    fine = [
        answer.status == _FAILED and canary not in formed and canary not in listed
        for answer, canary in zip(failed, canaries, strict=True)
    ]
    landed = sum(answer.status in ADMITTED for answer in again)
    book.control(
        "failing disk: the same requests land once it is well",
        fired=landed == len(bodies),
        detail=f"{landed} of {len(bodies)}",
    )
    return share(sum(fine), len(fine))


class _Told(msgspec.Struct, frozen=True):
    statuses: set[int]
    candidates: set[str]


async def _copies(bench: Bench, key: str, body: Write, disk: Disk) -> _Told:
    """Send one request from a client that goes away, and then several times at once."""
    disk.waiting.clear()
    hasty = aiohttp.ClientTimeout(total=_SLOW_S / 2)
    url, data = f"{bench.url}/v1/memories", msgspec.json.encode(body)
    async with aiohttp.ClientSession(timeout=hasty) as client:
        with contextlib.suppress(TimeoutError):
            await client.post(url, data=data, headers=headers_of(key))
    answers = await bench.written([(key, body)] * _COPIES, at_once=_COPIES)
    return _Told(
        {answer.status for answer in answers},
        {str(answer.body.candidate_id) for answer in answers},
    )


async def _duplicates(book: Book) -> Figure:
    """Measure that a repeated request gets the first verdict again, and is stored at most once."""
    trials = [
        trial for trial in _mixed(book, "late", max(2, book.trials // 6)) if trial.attack != "A4"
    ]
    disk = Disk()
    fine: list[bool] = []
    async with running(BY_NAME["S4"], Extras(failpoint=disk)) as bench:
        attacks = await _keyed(bench, trials)
        writer = await bench.key("honest-writer")
        honest = new_canary()
        before = bench.observed().version
        disk.delay_s = _SLOW_S
        for number, (trial, (key, body)) in enumerate(zip(trials, attacks, strict=True)):
            late = msgspec.structs.replace(body, nonce=f"late-{number}")
            told = await _copies(bench, key, late, disk)
            fine.append(told.statuses == {trial.status} and len(told.candidates) == 1)
        once = await _copies(
            bench, writer, Write(text=f"The shelf {honest} is empty.", nonce="late-honest"), disk
        )
        found = bench.on_disk([honest, *(trial.canary for trial in trials)])
        steps = bench.observed().version - before
        listed = [text for text in await bench.listed(writer) if honest in text]
    book.control(
        "late and duplicate: an honest write that came six times landed once",
        fired=steps == 1 and len(listed) == 1 and honest in found and len(once.candidates) == 1,
        detail=f"{steps} version steps, {len(listed)} memories",
    )
    clean = [ok and trial.canary not in found for ok, trial in zip(fine, trials, strict=True)]
    return share(sum(clean), len(clean))
