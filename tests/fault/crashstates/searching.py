"""Walks every boundary of a recorded run, makes states, and has them checked in child processes."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from tests.fault.crashstates.checking import Checker, Journal
from tests.fault.crashstates.disk import (
    EVERYTHING,
    NOTHING,
    Choice,
    Disk,
    Operation,
    Said,
    State,
    Write,
)
from tests.fault.crashstates.recording import record
from tests.fault.crashstates.workload import Script

CANARY: Final = "cnry7f3a9d1e5b2c8064aa17"
_BATCH_LEN: Final = 400
_SHARES: Final = (0.1, 0.5, 0.9, 1.0)


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A broken promise, and how to make that state again."""

    boundary: int
    choice: str
    problem: str


class Result(msgspec.Struct, kw_only=True):
    """The result of a search. `states` counts distinct states."""

    operations: int = 0
    states: int = 0
    seconds: float = 0.0
    broken_states: int = 0
    violations: list[Violation] = []

    def kinds(self) -> Counter[str]:
        return Counter(one.problem.split(":")[0][:60] for one in self.violations)


class Recorded(msgspec.Struct, frozen=True):
    """A run to search: its directory, its operations, and what it promised."""

    root: str
    operations: list[Operation]
    script: Script
    journal: Journal


def recorded(base: Path, bug: str = "") -> Recorded:
    root = base / "run"
    root.mkdir()
    script = Script(CANARY)
    operations = record(root, base / "trace", CANARY, *([bug] if bug else []))
    return Recorded(str(root), operations, script, Journal(operations, script))


def search(
    run: Recorded, wanted: int, seed: int, told: Callable[[Result], None] = lambda result: None
) -> Result:
    """Check about `wanted` distinct states, spread over every boundary.

    Each batch runs in a child of its own: whatever a state does to the process that opens it, the
    search goes on and names the state.
    """
    result = Result(operations=len(run.operations))
    started = time.monotonic()
    boundaries = len(run.operations) + 1
    # Fewer states than boundaries: evenly spread ones, other ones under another seed.
    stride = max(1, boundaries * 3 // wanted)
    chosen = range(seed % stride, boundaries, stride)
    at = 0
    while at < len(chosen):
        # A moment with little unsynced data has few states. Its unused share goes to later moments.
        each = max(4, -(-(wanted - result.states) // (len(chosen) - at)))
        batch = list(chosen[at : at + max(1, _BATCH_LEN // each)])
        at += len(batch)
        result = _joined((result, _in_child(run, batch, each, seed)))
        result.operations = len(run.operations)
        result.seconds = time.monotonic() - started
        told(result)
    return result


def _in_child(run: Recorded, boundaries: list[int], each: int, seed: int) -> Result:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            # A damaged map may end this process; the parent says so, and no trace of it is news.
            faulthandler.disable()
            gc.disable()  # a batch is short, and most of what it makes it drops
            part = _check(run, boundaries, each, seed)
            with os.fdopen(writing, "wb") as out:
                out.write(msgspec.msgpack.encode(part))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as inward:
        data = inward.read()
    _, status = os.waitpid(child, 0)
    if status != 0 and len(boundaries) > 1:
        # Which of them it was, and what the others have to say.
        return _joined(_in_child(run, [one], each, seed) for one in boundaries)
    if status != 0:
        died = Violation(
            boundary=boundaries[0],
            choice="unknown",
            problem=f"the process that opened it died: status {status}",
        )
        return Result(states=1, broken_states=1, violations=[died])
    return msgspec.msgpack.decode(data, type=Result)


def _joined(parts: Iterable[Result]) -> Result:
    whole = Result()
    for part in parts:
        whole.states += part.states
        whole.broken_states += part.broken_states
        whole.violations.extend(part.violations)
    return whole


def _check(run: Recorded, boundaries: list[int], each: int, seed: int) -> Result:
    result = Result()
    disk, at, said = Disk(run.root), 0, 0
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory_directory()) as directory:
        checker = Checker(Path(directory) / "state", run.script, run.journal)
        for boundary in boundaries:
            for operation in run.operations[at:boundary]:
                disk.apply(operation)
                said += isinstance(operation, Said)
            at = boundary
            promised = run.journal.after(said)
            upcoming = run.operations[boundary] if boundary < len(run.operations) else None
            rng = random.Random(f"{seed}:{boundary}")  # noqa: S311 - it must be repeatable
            for choice, state in _states(disk, upcoming, each, rng):
                result.states += 1
                found = checker.problems(state, promised, run.root)
                result.broken_states += bool(found)
                result.violations.extend(
                    Violation(boundary=boundary, choice=choice, problem=problem)
                    for problem in found
                )
    return result


def _states(
    disk: Disk, upcoming: Operation | None, each: int, rng: random.Random
) -> Iterator[tuple[str, State]]:
    """Distinct states of one boundary: the least, the most, and random ones between them."""
    seen: set[bytes] = set()
    torn = upcoming if isinstance(upcoming, Write) else None
    for number in range(each * 3):
        if number == 0:
            choice, tearing = NOTHING, None
        elif number == 1:
            choice, tearing = EVERYTHING, None
        else:
            choice = Choice(contents=rng.choice((0.0, *_SHARES)), names=rng.choice(_SHARES))
            tearing = torn if number % 2 else None
        state = disk.state(choice, rng, tearing)
        name = _digest(state)
        if name in seen:
            continue
        seen.add(name)
        yield f"{choice}{', torn' if tearing else ''}", state
        if len(seen) == each:
            return


def _digest(state: State) -> bytes:
    digest = blake2b("\0".join(state.directories).encode())
    for path, data in state.files.items():
        digest.update(path.encode())
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def memory_directory() -> str | None:
    """A file system in memory where there is one: states are many, and none needs to last."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - made private
