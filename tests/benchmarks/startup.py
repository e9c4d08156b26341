"""A store of 100,000 memories: how fast it starts, what it takes on disk and in memory."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from http import HTTPStatus
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from policy.gate import GATE
from policy.query import AllOf
from policy.ruleset import parse_ruleset
from proxy.embed.embedding import resolve_embedder
from proxy.seams.environment import Embedder
from storage.embedded import EmbeddedOptions, EmbeddedStore, open_embedded
from storage.write.writer import WriterOptions
from tests.benchmarks.bars import BarRow, Lines
from tests.benchmarks.filling import PRINCIPAL, submission
from tests.benchmarks.load import request_body
from tests.benchmarks.servers import ROOT, Server, sidecar

COUNT = 100_000
_PATIENCE_S = 600.0
_CHUNK = 2_048
_EMPTY = 10
_STARTS = 3


def run(count: int = COUNT) -> Lines:
    """Seconds to the first durable write, bytes per memory on disk and in memory."""
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        filled_s = _filled(base / "full", count)
        _filled(base / "empty", _EMPTY)
        disk = sum(file.stat().st_size for file in (base / "full").rglob("*") if file.is_file())
        store = (base / "full" / "store" / "data.mdb").stat().st_size
        served = [_served(base / name) for name in ("empty", "full")]
        empty, with_files = _started(base / "empty"), _started(base / "full")
        shutil.rmtree(base / "full" / "segments")
        without = _started(base / "full")
    rss = (with_files["rss_bytes"] - empty["rss_bytes"]) / count
    return [
        f"filled with {count:,} memories of 200 characters: {count / filled_s:,.0f} per second",
        "start         | open s | first durable write s | first search s",
        _line("empty store", empty),
        _line("with files", with_files) + "   (bar: 2 s)",
        _line("without files", without) + "   (bar: 15 s)",
        *_disk(store / count, disk / count),
        f"memory per item: {rss:,.0f} bytes more than with an empty store (bar 2,252 at 1M)",
        *_rows(served[0], served[1], count),
    ]


def _disk(store_bytes: float, all_bytes: float) -> Lines:
    return [
        f"disk per memory: {store_bytes:,.0f} bytes in the store",
        BarRow("disk per memory, with the index's files", f"{all_bytes:,.0f} B", "≤ 2,500 B"),
    ]


class _Served(NamedTuple):
    """A sidecar's start: seconds until it listens, and both after its first durable write."""

    listens_s: float
    cpu_s: float
    own_bytes: int


def _rows(empty: _Served, full: _Served, count: int) -> Lines:
    anonymous = f"{empty.own_bytes / 1e6:.1f} / {full.own_bytes / 1e6:.1f} MB"
    return [
        BarRow("CPU from the start to the first write, empty", f"{empty.cpu_s:.2f} s", "≤ 0.9 s"),
        BarRow(f"a store of {count:,} listens after", f"{full.listens_s:.2f} s", "≤ 1.5 s"),
        BarRow(f"anonymous memory, empty / {count:,}", anonymous, "≤ 105 / 280 MB"),
    ]


def _served(state: Path) -> _Served:
    """The medians of several starts, each on a copy."""
    each = [_served_once(state) for _ in range(_STARTS)]
    return _Served(
        statistics.median(one.listens_s for one in each),
        statistics.median(one.cpu_s for one in each),
        int(statistics.median(one.own_bytes for one in each)),
    )


def _served_once(state: Path) -> _Served:
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        shutil.copytree(state, base / "state")
        shutil.copy(state.with_suffix(".checkpoint"), base / "checkpoint.txt")
        began = time.monotonic()
        with sidecar(base) as server:
            listens_s = time.monotonic() - began
            _write(server)
            pid = server.process.pid
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
            ticks = sum(int(one) for one in fields[11:15])  # its own and its children's
            return _Served(listens_s, ticks / os.sysconf("SC_CLK_TCK"), resident_bytes(pid))


def _write(server: Server) -> None:
    to = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    text = "The first sentence after the start is stored like every other."
    to.request("POST", "/v1/memories", json.dumps({"text": text}), headers)
    answer = to.getresponse()
    body = answer.read()
    to.close()
    if answer.status != HTTPStatus.CREATED:
        raise RuntimeError(f"the first write was not stored: {answer.status} {body!r}")


def _line(name: str, took: dict[str, float]) -> str:
    return (
        f"{name:13s} | {took['open_s']:6.2f} | {took['write_s']:21.2f} | {took['search_s']:14.2f}"
    )


def _filled(state: Path, count: int) -> float:
    embedder = resolve_embedder("static")
    store = _open(state, embedder)
    started = time.monotonic()
    try:
        asyncio.run(_fill(store, embedder, count))
        return time.monotonic() - started
    finally:
        store.close()


async def _fill(store: EmbeddedStore, embedder: Embedder, count: int) -> None:
    rng = random.Random(5)  # noqa: S311 - the same texts every time
    for start in range(0, count, _CHUNK):
        texts: list[str] = [
            json.loads(request_body(rng, number))["text"]
            for number in range(start, min(count, start + _CHUNK))
        ]
        vectors = embedder.embed(texts)
        incarnation = store.reader.status().incarnation
        made = [
            submission(text, vector, embedder.embedder_id, incarnation)
            for text, vector in zip(texts, vectors, strict=True)
        ]
        await asyncio.gather(*(store.writer.submit(one) for one in made))


def _open(state: Path, embedder: Embedder) -> EmbeddedStore:
    text = resources.files("policy").joinpath("default.toml").read_text("utf-8")
    return open_embedded(
        state=state,
        checkpoint=state.with_suffix(".checkpoint"),
        gate=GATE,
        ruleset=parse_ruleset(text),
        embedder_id=embedder.embedder_id,
        dimension=embedder.dimension,
        clock=lambda: time.time_ns() // 1_000_000,
        options=EmbeddedOptions(
            # A full queue takes longer than a caller waits where other work has the cores.
            writer=WriterOptions(queue_len_max=_CHUNK, answer_timeout_s=_PATIENCE_S)
        ),
    )


def _started(state: Path) -> dict[str, float]:
    # On a copy: the files that one start writes must not help the next.
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / state.name
        shutil.copytree(state, copy)
        checkpoint = state.with_suffix(".checkpoint")
        shutil.copy(checkpoint, copy.with_suffix(".checkpoint"))
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tests.benchmarks.startup", str(copy)],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "HOME": scratch},
        )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


async def _measure(state: Path) -> dict[str, float]:
    embedder = resolve_embedder("static")
    text = "The first sentence after the start is stored like every other."
    vector = embedder.embed([text])[0]
    started = time.monotonic()
    store = _open(state, embedder)
    opened = time.monotonic()
    incarnation = store.reader.status().incarnation
    await store.writer.submit(submission(text, vector, embedder.embedder_id, incarnation))
    wrote = time.monotonic()
    store._engine.parts.derived.wait(60)  # pyright: ignore[reportPrivateUsage]
    found = store.reader.search(PRINCIPAL.tenant, vector, AllOf(parts=()), 10, -1.0)
    searched = time.monotonic()
    if not found:
        raise RuntimeError("the search found nothing")
    store.close()
    return {
        "open_s": opened - started,
        "write_s": wrote - started,
        "search_s": searched - started,
        "rss_bytes": resident_bytes(),
    }


def resident_bytes(pid: int | str = "self") -> int:
    """Memory of a process's own that is resident now.

    The peak would count what loading took and gave back. Pages of the store's file that are mapped
    are the system's cache: it takes them back when it wants to.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("RssAnon:"))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(_measure(Path(sys.argv[1])))))
