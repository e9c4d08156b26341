"""The store of another checkout against this tree's, in turns: a page, a search, a write, a start.

`python -P -m tests.benchmarks.stored DIR [--count N]`: each tree's store is filled and served by a
process of its own, without HTTP. Figures are processor time; of each pair now one and now the other
comes first.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from policy.query import EVERYTHING
from proxy.embed.embedding import resolve_embedder
from storage.embedded import EmbeddedStore
from tests.benchmarks.filling import PRINCIPAL, submission
from tests.benchmarks.pairs import ratio_of
from tests.benchmarks.servers import ROOT
from tests.benchmarks.startup import _fill, _open

COUNT: Final = 100_000
PAIRS: Final = 10
_OPERATIONS: Final = {"page": 40, "search": 20, "write": 40}
_ROUNDS: Final = 8  # rounds of an operation in one pair
_PAGE_LEN: Final = 50


def compared(before: Path, count: int, pairs: int) -> list[str]:
    """The median ratios of processor time, this tree's to the other's."""
    roots = [before.resolve(), ROOT]
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        states = [Path(scratch) / name for name in ("before", "now")]
        lines = [f"{count:,} memories, {pairs} pairs"]
        lines.append(_starts(roots, states, count, pairs))
        workers = [_worker(*one, 0) for one in zip(roots, states, strict=True)]
        for one in workers:
            stack.callback(_end, one)
            _read(one)
        lines += [_ratio(name, workers, pairs * _ROUNDS) for name in _OPERATIONS]
    return lines


def _starts(roots: list[Path], states: list[Path], count: int, pairs: int) -> str:
    for root, state in zip(roots, states, strict=True):
        _end(_worker(root, state, count))

    def once(at: int) -> float:
        worker = _worker(roots[at], states[at], 0)
        seconds = _read(worker)
        _end(worker)
        return seconds

    return _line("start", _turns(once, pairs))


def _ratio(name: str, workers: list[subprocess.Popen[str]], rounds: int) -> str:
    return _line(name, _turns(lambda at: _asked(workers[at], name), rounds))


def _turns(once: Callable[[int], float], rounds: int) -> list[tuple[float, float]]:
    taken: list[tuple[float, float]] = []
    for number in range(-2, rounds):
        order = (0, 1) if number % 2 else (1, 0)
        seconds = {at: once(at) for at in order}
        if number >= 0:
            taken.append((seconds[0], seconds[1]))
    return taken


def _line(name: str, taken: list[tuple[float, float]]) -> str:
    figures = np.array(taken)
    before, now = np.median(figures, axis=0) * 1e6
    ratio = ratio_of(figures)
    return f"{name}: before {before:.0f} us, now {now:.0f} us, ratio {ratio:.3f}"


def _worker(root: Path, state: Path, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", str(Path(__file__)), "--serve", str(state), str(count)]
    return subprocess.Popen(
        command,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(root), "HOME": str(state.parent)},
        cwd=root,
    )


def _asked(worker: subprocess.Popen[str], name: str) -> float:
    assert worker.stdin is not None
    worker.stdin.write(f"{name}\n")
    worker.stdin.flush()
    return _read(worker)


def _read(worker: subprocess.Popen[str]) -> float:
    assert worker.stdout is not None
    return float(worker.stdout.readline())


def _end(worker: subprocess.Popen[str]) -> None:
    worker.communicate()


def _serve(state: Path, count: int) -> None:
    """Fill or open a store, and print the seconds of processor time of that and of each request."""
    embedder = resolve_embedder("static")
    started = time.process_time()
    store = _open(state, embedder)
    store._engine.parts.derived.wait(600)
    sys.stdout.write(f"{time.process_time() - started}\n")
    if count:
        asyncio.run(_fill(store, embedder, count))
    sys.stdout.flush()
    texts = [f"The lighthouse of island {number} is open on day {number}." for number in range(40)]
    vectors = embedder.embed(texts)
    for line in sys.stdin:
        started = time.process_time()
        asyncio.run(_done(store, line.strip(), texts, vectors, embedder.embedder_id))
        sys.stdout.write(f"{time.process_time() - started}\n")
        sys.stdout.flush()
    store.close()


async def _done(
    store: EmbeddedStore, name: str, texts: list[str], vectors: list[bytes], embedder_id: str
) -> None:
    tenant = PRINCIPAL.tenant
    for number in range(_OPERATIONS[name]):
        if name == "page":
            store.reader.page(tenant, EVERYTHING, 97 * number, _PAGE_LEN)
        elif name == "search":
            store.reader.search(tenant, vectors[number], EVERYTHING, 10, -1.0)
        else:
            incarnation = store.reader.status().incarnation
            await store.writer.submit(
                submission(texts[number], vectors[number], embedder_id, incarnation)
            )


def main() -> int:
    if sys.argv[1] == "--serve":
        _serve(Path(sys.argv[2]), int(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(prog="python -P -m tests.benchmarks.stored")
    parser.add_argument("before", type=Path, help="another checkout")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    asked = parser.parse_args()
    sys.stdout.write("\n".join(compared(asked.before, asked.count, asked.pairs)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
