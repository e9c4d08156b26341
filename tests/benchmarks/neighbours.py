"""The same short memories into three other memories, each in turns with the sidecar."""

from __future__ import annotations

import http.client
import json
import os
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.bars import FAILURES, BarRow, Lines, at_least, not_measured
from tests.benchmarks.corpus import Corpus
from tests.benchmarks.load import request_body
from tests.benchmarks.servers import HERE, free_port, sidecar
from tests.integration.clients.environments import python_environment

CHROMA = ("chromadb", "1.5.9")
SUPERLOCALMEMORY = ("superlocalmemory", "4.1.18")
MEM0 = ("mem0ai", "2.2.1")
WRITERS = (1, 10)
SECONDS = 4.0
_START_S = 120.0
_TEXTS = 4_000
_STORED = frozenset({200, 201, 202})

Json = dict[str, Any]

_VECTORS: list[list[float]] = [row.tolist() for row in Corpus().rows(512)]


def _native_body(text: str, _number: int) -> Json:
    return {"text": text, "user_id": "alice"}


def _chroma_body(text: str, number: int) -> Json:
    vector = _VECTORS[number % len(_VECTORS)]
    return {"ids": [f"memory-{number}"], "documents": [text], "embeddings": [vector]}


def _superlocalmemory_body(text: str, _number: int) -> Json:
    return {"content": text}


class _Target(NamedTuple):
    name: str
    port: int
    path: str
    headers: dict[str, str]
    body: Callable[[str, int], Json]


class _Written(NamedTuple):
    """Stored per second, p50 and p99 in milliseconds, and how many were not taken."""

    per_s: float
    p50_ms: float
    p99_ms: float
    refused: float


class _Peer(NamedTuple):
    """What writes to one system: so many writers, with that seed."""

    name: str
    written: Callable[[int, int], _Written]


def run() -> Lines:
    """Writes per second and p99 of each, and ours against each of theirs."""
    lines: Lines = [
        "system              | writers | writes/s | p50 ms | p99 ms | refused | ours against it"
    ]
    with tempfile.TemporaryDirectory() as scratch, sidecar(Path(scratch) / "own") as own:
        ours = _over_http(
            _Target(
                "sidecar",
                own.port,
                "/v1/memories",
                {"Authorization": f"Bearer {own.key}"},
                _native_body,
            )
        )
        for start, bar in _PEERS:
            try:
                with start(Path(scratch)) as peer:
                    for writers in WRITERS:
                        lines += _compared(ours, peer, writers, bar)
            except FAILURES as failure:
                lines.append(not_measured(f"ours / {start.__name__.strip('_')}", failure, bar))
    return lines


def _compared(ours: _Peer, theirs: _Peer, writers: int, bar: str) -> Lines:
    pairs = [(theirs.written(writers, seed), ours.written(writers, seed)) for seed in (1, 2)]
    ratio = f"{statistics.median(own.per_s / other.per_s for other, own in pairs):.1f}"
    lines: Lines = [
        _line(theirs.name, writers, [other for other, _ in pairs], ratio),
        _line(ours.name, writers, [own for _, own in pairs], ""),
    ]
    if writers == max(WRITERS):
        lines.append(BarRow(f"ours / {theirs.name}, {writers} writers", ratio, bar))
    return lines


def _over_http(target: _Target) -> _Peer:
    return _Peer(target.name, partial(_driven, target))


def _line(name: str, writers: int, figures: list[_Written], ratio: str) -> str:
    rate, half, slow, refused = (statistics.mean(column) for column in zip(*figures, strict=True))
    return (
        f"{name:19s} | {writers:7d} | {rate:8.0f} | {half:6.1f} | {slow:6.1f} | {refused:7.0f} | "
        f"{ratio}"
    )


def _driven(target: _Target, writers: int, seed: int) -> _Written:
    latencies: list[float] = []
    refused: list[int] = []
    deadline = time.perf_counter() + SECONDS

    def write(worker: int) -> None:
        rng = random.Random(seed * 1_000 + worker)  # noqa: S311 - the same load every time
        connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
        number = (seed * 1_000 + worker) * 10**6
        while time.perf_counter() < deadline:
            number += 1
            text = json.loads(request_body(rng, number))["text"]
            body = json.dumps(target.body(text, number))
            headers = {"Content-Type": "application/json", **target.headers}
            started = time.perf_counter()
            connection.request("POST", target.path, body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status in _STORED:
                latencies.append(time.perf_counter() - started)
            else:
                refused.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not latencies:
        raise RuntimeError(f"{target.name} stored nothing; it answered {sorted(set(refused))}")
    return _summed(latencies, len(refused))


def _summed(latencies: list[float], refused: int) -> _Written:
    ordered = sorted(latencies)
    half, slow = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return _Written(len(latencies) / SECONDS, half * 1e3, slow * 1e3, refused)


@contextmanager
def _chroma(scratch: Path) -> Generator[_Peer]:
    """Vectors come with the request: Chroma is spared the embedding that we do."""
    binary = python_environment(*CHROMA).with_name("chroma")
    port = free_port()
    base = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    command = [str(binary), "run", "--path", str(scratch / "chroma"), "--port", str(port)]
    with _running([*command, "--host", "127.0.0.1"], scratch, port):
        made = _asked(port, base, {"name": "bench"})
        path = f"{base}/{made['id']}/add"
        yield _over_http(_Target("Chroma 1.5.9", port, path, {}, _chroma_body))


@contextmanager
def _superlocalmemory(scratch: Path) -> Generator[_Peer]:
    """Waits for each memory to be written, as we do; without a model it embeds nothing."""
    interpreter = python_environment(*SUPERLOCALMEMORY)
    port = free_port()
    module = "superlocalmemory.server.unified_daemon"
    command = [str(interpreter), "-m", module, "--start", f"--port={port}"]
    token = scratch / ".superlocalmemory" / ".install_token"
    with _running(command, scratch, port):
        # The daemon makes this key for its own user, below the home that the test gave it.
        headers = {"X-Install-Token": token.read_text().strip()}
        path = "/remember?wait=true"
        yield _over_http(_Target("SuperLocalMemory", port, path, headers, _superlocalmemory_body))


@contextmanager
def _mem0(scratch: Path) -> Generator[_Peer]:
    """In a process of its own without HTTP, and spared the embedding that we do."""
    interpreter = python_environment(*MEM0)

    def written(writers: int, seed: int) -> _Written:
        rng = random.Random(seed)  # noqa: S311 - the same load every time
        texts = [
            [json.loads(request_body(rng, 10**6 * writer + at))["text"] for at in range(_TEXTS)]
            for writer in range(writers)
        ]
        asked = scratch / "mem0.json"
        asked.write_text(json.dumps({"texts": texts, "vectors": _VECTORS, "seconds": SECONDS}))
        done = subprocess.run(
            [str(interpreter), str(HERE / "mem0_local.py"), str(asked)],
            check=True,
            capture_output=True,
            timeout=_START_S,
            cwd=scratch,
            env={"HOME": str(scratch), "PATH": os.environ.get("PATH", "")},
        )
        seen: Json = json.loads(done.stdout.splitlines()[-1])
        if not seen["taken"]:
            raise RuntimeError(f"mem0ai stored nothing: {sorted(set(seen['failed']))}")
        return _summed(seen["taken"], len(seen["failed"]))

    yield _Peer("mem0ai, Qdrant local", written)


_PEERS = ((_superlocalmemory, "stated"), (_chroma, at_least(6)), (_mem0, at_least(2.4)))


@contextmanager
def _running(command: list[str], home: Path, port: int) -> Generator[None]:
    environment = {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", ""),
        # Nothing may be fetched while it is measured.
        "HF_HUB_OFFLINE": "1",
        "ANONYMIZED_TELEMETRY": "False",
        "SLM_DISABLE_LEGACY_PORT": "1",
    }
    process = subprocess.Popen(
        command, env=environment, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + _START_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _asked(port: int, path: str, body: Json) -> Json:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer: Json = json.loads(connection.getresponse().read())
    connection.close()
    return answer
