"""SQLite, WAL, synchronous=FULL, ten writing processes on one file, against the sidecar.

Each write does what one of ours does, in one transaction: nonce, two leaves of a log, row with its
vector, version. No gate, no embedding, no HTTP: that is all in SQLite's favour.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from tests.benchmarks.load import request_body
from tests.benchmarks.servers import load, sidecar

PROCESSES = 10
ROUNDS = 3
SECONDS = 4.0
_BUSY_S = 30.0
_SCHEMA = """
PRAGMA journal_mode=WAL;
CREATE TABLE rows(ordinal INTEGER PRIMARY KEY, header BLOB, text TEXT, vector BLOB);
CREATE TABLE ids(id BLOB PRIMARY KEY, ordinal INTEGER) WITHOUT ROWID;
CREATE TABLE nonces(nonce BLOB PRIMARY KEY, outcome BLOB) WITHOUT ROWID;
CREATE TABLE leaves(leaf INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE meta(version INTEGER);
INSERT INTO meta VALUES (0);
"""


def run() -> list[str]:
    """Writes per second, p50 and p99 of both, in turns, and their ratios."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        with sidecar(base / "gated") as gated:
            load(gated, PROCESSES, 1.0, 99)
            for number in range(ROUNDS):
                theirs.append(_sqlite(base / f"{number}.sqlite"))
                ours.append(load(gated, PROCESSES, SECONDS, number))
    rate, slow = "writes_per_s", "p99_ms"
    ratios = [a[rate] / b[rate] for a, b in zip(ours, theirs, strict=True)]
    tails = [b[slow] / a[slow] for a, b in zip(ours, theirs, strict=True)]
    return [
        "                  | writes/s | p50 ms | p99 ms",
        _line("SQLite WAL FULL", theirs),
        _line("sidecar, gated", ours),
        _ratio("writes/s against SQLite", ratios, bar=1),
        _ratio("its p99 against ours", tails, bar=5),
    ]


def _ratio(name: str, pairs: list[float], *, bar: int) -> str:
    low, high = min(pairs), max(pairs)
    return f"{name}: {statistics.median(pairs):.2f} ({low:.2f}-{high:.2f} of pairs; bar {bar})"


def _line(name: str, results: list[dict[str, float]]) -> str:
    rate, half, slow = (
        statistics.median(one[figure] for one in results)
        for figure in ("writes_per_s", "p50_ms", "p99_ms")
    )
    return f"{name:17s} | {rate:8.0f} | {half:6.2f} | {slow:6.2f}"


def _sqlite(path: Path) -> dict[str, float]:
    made = sqlite3.connect(path)
    made.executescript(_SCHEMA)
    made.close()
    context = multiprocessing.get_context("spawn")
    starting = context.Barrier(PROCESSES)
    with context.Pool(PROCESSES, initializer=_meet, initargs=(starting,)) as pool:
        measured = pool.map(_write, [(str(path), seed) for seed in range(PROCESSES)], chunksize=1)
    latencies = sorted(latency for one in measured for latency in one)
    return {
        "writes_per_s": len(latencies) / SECONDS,
        "p50_ms": latencies[len(latencies) // 2] * 1e3,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
    }


def _meet(starting: object) -> None:
    # Everybody begins when the slowest interpreter has started.
    getattr(starting, "wait")()  # noqa: B009 - the type of a spawned barrier has no name


def _write(job: tuple[str, int]) -> list[float]:
    path, seed = job
    rng = random.Random(seed)  # noqa: S311 - the same load every time
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    latencies: list[float] = []
    deadline = time.perf_counter() + SECONDS
    number = seed * 10**7
    while time.perf_counter() < deadline:
        number += 1
        text = json.loads(request_body(rng, number))["text"]
        vector, header = rng.randbytes(1_024), rng.randbytes(160)
        started = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO nonces VALUES (?, ?)", (rng.randbytes(16), header[:60]))
        connection.execute("INSERT INTO leaves(data) VALUES (?)", (header,))
        connection.execute("INSERT INTO leaves(data) VALUES (?)", (header,))
        row = connection.execute(
            "INSERT INTO rows(header, text, vector) VALUES (?, ?, ?)", (header, text, vector)
        )
        connection.execute("INSERT INTO ids VALUES (?, ?)", (rng.randbytes(16), row.lastrowid))
        connection.execute("UPDATE meta SET version = version + 1")
        connection.execute("COMMIT")
        latencies.append(time.perf_counter() - started)
    connection.close()
    return latencies
