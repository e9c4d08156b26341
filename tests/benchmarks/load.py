"""Closed-loop load: N connections, each sends a write, waits for the answer, sends the next.

Runs in a process of its own with hand-made requests, because a client library costs more
processor time per request than the servers under test, on the same two cores.

    python tests/benchmarks/load.py --port 7077 --key mg_... --connections 50 --seconds 5
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time

CHARACTERS = 200
WORDS = """
    river garden window letter market bridge summer winter yellow silver quiet simple travel
    dinner kitchen music morning evening doctor teacher school office project budget meeting
    birthday ticket holiday mountain forest coffee bicycle guitar painting museum library
""".split()  # noqa: SIM905 - a list literal would be one word a line


def request_body(rng: random.Random, number: int, characters: int = CHARACTERS) -> bytes:
    """A memory of about so many characters, unlike every other."""
    text = f"Note {number}: " + " ".join(rng.choices(WORDS, k=characters * 27 // 200))
    return json.dumps({"text": text[:characters], "user_id": f"user-{number % 50}"}).encode()


class _Connection(asyncio.Protocol):
    def __init__(self, load: _Load) -> None:
        self._load = load
        self.answered_count = 0
        load.connections.append(self)
        self._received = bytearray()
        self._started = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if time.perf_counter() >= self._load.deadline:
            transport.close()
            return
        self._started = time.perf_counter()
        transport.write(self._load.next_request())

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self._received[:head_end]).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._received) < head_end + 4 + length:
            return
        status = int(head.split(b" ", 2)[1])
        del self._received[: head_end + 4 + length]
        self.answered_count += 1
        self._load.answered(status, time.perf_counter() - self._started)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lost(exc)


class _Load:
    def __init__(self, options: argparse.Namespace) -> None:
        rng = random.Random(options.seed)  # noqa: S311 - the same load every time
        head = (
            f"POST {options.path} HTTP/1.1\r\nHost: 127.0.0.1:{options.port}\r\n"
            f"Authorization: Bearer {options.key}\r\nContent-Type: application/json\r\n"
        )
        numbers = itertools.count(options.seed * 10**7)
        bodies = (request_body(rng, number, options.characters) for number in numbers)
        self._requests = (
            f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies
        )
        self.deadline = time.perf_counter() + options.seconds
        self.latencies: list[float] = []
        self.statuses: dict[int, int] = {}
        self.per_connection_lost = 0
        self.connections: list[_Connection] = []
        self._open = options.connections
        self.done = asyncio.Event()

    def next_request(self) -> bytes:
        return next(self._requests)

    def answered(self, status: int, latency_s: float) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.latencies.append(latency_s)

    def lost(self, exc: Exception | None) -> None:
        self.per_connection_lost += exc is not None
        self._open -= 1
        if self._open == 0:
            self.done.set()


def _median_to_slowest(load: _Load) -> float:
    """How many times as much the median connection got done as the slowest."""
    counts = sorted(connection.answered_count for connection in load.connections)
    return counts[len(counts) // 2] / max(1, counts[0])


async def _main(options: argparse.Namespace) -> int:
    load = _Load(options)
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    for _ in range(options.connections):
        await loop.create_connection(lambda: _Connection(load), "127.0.0.1", options.port)
    await asyncio.wait_for(load.done.wait(), options.seconds + 30)
    elapsed = time.perf_counter() - started
    ordered = sorted(load.latencies)
    # 202 is a held write: it is not stored, and does not count.
    good = load.statuses.get(200, 0) + load.statuses.get(201, 0)
    result = {
        "writes_per_s": good / elapsed,
        "p50_ms": ordered[len(ordered) // 2] * 1e3 if ordered else None,
        "p99_ms": ordered[int(len(ordered) * 0.99)] * 1e3 if ordered else None,
        "answered": good,
        "median_to_slowest": _median_to_slowest(load),
        "statuses": load.statuses,
        "lost": load.per_connection_lost,
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return 0 if good else 1


def main() -> int:
    """Run the load that the command line describes and print one JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", default="none")
    parser.add_argument("--path", default="/v1/memories")
    parser.add_argument("--connections", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--characters", type=int, default=CHARACTERS)
    return asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())
