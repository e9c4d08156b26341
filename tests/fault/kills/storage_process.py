"""A store under load that is killed: forked from a process that has everything imported."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from policy.model import Candidate, MemoryClass, Principal, SourceKind
from policy.query import EVERYTHING
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.shipped import ShippedStore
from tests.fault.kills.ledger import Counts, Ledger, Told
from tests.shipped_stores import CopyOfTests
from tests.unit.storage.opening import AGENT, TENANT, VOUCHED, Bench, candidate_of, submission_of

OPTIONS: Final = EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26, segment_len=64)
_WORKERS: Final = 6
_SAMPLE: Final = 40
_LIVES: Final = 20
_LIFE_S: Final = (0.005, 0.08)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the process that will die."""

    sent: str = ""
    answered: str = ""
    told: Told | None = None
    replayed: bool = False
    ready: bool = False
    shown: bool = False
    texts: tuple[str, ...] = ()
    version: int = 0
    problems: tuple[str, ...] = ()
    read: bool = False  # a read was answered
    refused: str = ""


EVENT: Final = msgspec.json.Decoder(Event)


def _request(nonce: str) -> tuple[Candidate, Principal]:
    """The request of a nonce: most are admitted, some held, some refused."""
    kind = nonce.rsplit("-", 1)[1]
    if kind == "hold":
        return candidate_of(nonce, nonce=nonce, instructions=True), AGENT
    if kind == "reject":
        forbidden = candidate_of(
            nonce,
            VOUCHED,
            nonce=nonce,
            memory_class=MemoryClass.L1,
            class_named=True,
            claimed_source=SourceKind.TOOL_RESULT,
        )
        return forbidden, VOUCHED
    return candidate_of(nonce, nonce=nonce), AGENT


class Process:
    """A process that writes what is asked of it and prints what it was answered."""

    def __init__(self, store: EmbeddedStore, out: int, name: str) -> None:
        shared = isinstance(store.lmdb, ShippedStore) and not isinstance(store.lmdb, CopyOfTests)
        # A takeover refuses what waits for a person, whose keys are on the machine that died.
        self._kinds = {3: "reject"} if shared else {7: "hold", 3: "reject"}
        self._store = store
        self._out = out
        self._name = name

    def say(self, event: Event) -> None:
        # One write, so that a kill leaves a line or none.
        os.write(self._out, msgspec.json.encode(event) + b"\n")

    def report(self) -> None:
        """Print what the store holds, before the first request."""
        reader = self._store.reader
        page = reader.page(TENANT, EVERYTHING, 0, 1_000_000)
        texts = tuple(memory.text or "" for memory in page.memories)
        problems = reader.check().problems
        version = reader.status().version
        self.say(Event(shown=True, texts=texts, version=version, problems=problems))

    async def ask(self, nonce: str) -> None:
        outcome = await self._store.writer.submit(submission_of(*_request(nonce)))
        told = Told(outcome.decision.value, outcome.version)
        self.say(Event(answered=nonce, told=told, replayed=outcome.replayed))

    async def work(self, again: list[str]) -> None:
        """Ask again what is not known, and then for new things until the end."""
        await asyncio.gather(*(self.ask(nonce) for nonce in again))
        self.say(Event(ready=True))
        await asyncio.gather(*(self._load(worker) for worker in range(_WORKERS)))

    async def _load(self, worker: int) -> None:
        number = 0
        while True:
            number += 1
            kind = self._kinds.get(number % 9, "admit")
            nonce = f"{self._name}-{worker}-{number}-{kind}"
            self.say(Event(sent=nonce))
            await self.ask(nonce)


def reopened(root: Path, name: str) -> EmbeddedStore:
    """The store of the process that died, in its own directory."""
    del name
    return Bench(root).open(options=OPTIONS)


def kill_forked(
    base: Path,
    kills: int,
    seed: int,
    told: Callable[[Counts], None],
    opens: Callable[[Path, str], EmbeddedStore] = reopened,
) -> Counts:
    """Kill a loaded store so many times; a new store every few lives."""
    counts = Counts()
    rng = random.Random(seed)  # noqa: S311
    life = 0
    ledger, root = Ledger(counts), base
    while counts.kills < kills:
        if life % _LIVES == 0:
            ledger, root = Ledger(counts), base / f"store-{life}"
            root.mkdir()
        _one_life(root, ledger, f"life{life}", rng, opens)
        life += 1
        counts.kills += 1
        told(counts)
    return counts


def _one_life(
    root: Path,
    ledger: Ledger,
    name: str,
    rng: random.Random,
    opens: Callable[[Path, str], EmbeddedStore],
) -> None:
    known = sorted(ledger.told)
    again = sorted(ledger.pending) + rng.sample(known, min(_SAMPLE, len(known)))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            process = Process(opens(root, name), writing, name)
            process.report()
            asyncio.run(process.work(again))
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            event = EVENT.decode(line)
            take(event, ledger)
            if event.ready:
                break
        time.sleep(rng.uniform(*_LIFE_S))
        os.kill(child, signal.SIGKILL)
        for line in lines:
            take(EVENT.decode(line), ledger)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        ledger.counts.partial.append(f"{name} ended before it was killed")


def take(event: Event, ledger: Ledger) -> None:
    if event.shown:
        ledger.found(set(event.texts), event.version, event.problems)
    if event.sent:
        ledger.sent(event.sent, event.sent)
    if event.answered and event.told is not None:
        ledger.asked_again(event.answered, event.told, replayed=event.replayed)
