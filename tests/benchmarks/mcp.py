"""What `mnemogate mcp --` adds to a call: an admitted write, and a read of fifty memories."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.bars import BarRow, Lines
from tests.benchmarks.pairs import ratio_of
from tests.integration.gates import end_process, gates_below

ROOT = Path(__file__).resolve().parents[2]
CALLS = 400
WARM_UP = 50
_BARS = {
    "write": ("MCP write, added p50", "5"),
    "read": ("MCP read of fifty, added p50 / p99", "1.5 / 8"),
}
_SERVER = (sys.executable, str(Path(__file__).parent / "mcp_memory.py"))
_WRAPPER = (sys.executable, "-P", "-m", "proxy", "mcp", "--server", "memory", "--")


def run() -> Lines:
    """Milliseconds of each kind of call, and what was added to it."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(_end_gates, base)
        direct = stack.enter_context(_Client(_SERVER, environment(base)))
        guarded = stack.enter_context(_Client((*_WRAPPER, *_SERVER), environment(base)))
        taken = _taken(direct, guarded)
    lines: Lines = ["call   | direct p50, p99 ms | guarded p50, p99 ms | added p50, p99 ms"]
    lines += _compared(taken)
    for kind, (name, bars) in _BARS.items():
        added = np.percentile(
            taken[kind][:, 1] - taken[kind][:, 0], [50, 99][: 1 + bars.count("/")]
        )
        shown = " / ".join(f"{one:.2f}" for one in added)
        lines.append(BarRow(name, f"{shown} ms", f"≤ {bars} ms"))
    lines.append("An admitted write is two durable commits: the intent, then what became of it.")
    return lines


def against(before: Path) -> list[str]:
    """The same through another checkout's wrapper and through this one's, in turns."""
    words = (*_WRAPPER, *_SERVER)
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(_end_gates, base)
        old = stack.enter_context(_Client(words, environment(base / "before", before)))
        new = stack.enter_context(_Client(words, environment(base / "now")))
        lines = ["call   | before p50, p99 ms | now p50, p99 ms | difference p50, p99 ms"]
        return lines + _compared(_taken(old, new))


def _end_gates(base: Path) -> None:
    for pid in gates_below(base):
        end_process(pid)


def environment(base: Path, root: Path = ROOT) -> dict[str, str]:
    base.mkdir(exist_ok=True)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(base),
        "MNEMOGATE_STATE": str(base / "state"),
        "MNEMOGATE_CHECKPOINT": str(base / "checkpoint" / "checkpoint.txt"),
        "MNEMOGATE_LISTEN": "127.0.0.1:0",
        "MNEMOGATE_ADMIN": "127.0.0.1:0",
        "PYTHONPATH": str(root),
    }


def _taken(first: _Client, second: _Client) -> dict[str, NDArray[Any]]:
    """Milliseconds of each call through the first and the second, by the kind of call."""
    return {
        kind: np.array([_called(first, second, kind, number) for number in range(CALLS + WARM_UP)])[
            WARM_UP:
        ]
        * 1_000
        for kind in ("write", "read")
    }


def _compared(taken: dict[str, NDArray[Any]]) -> list[str]:
    lines: list[str] = []
    for kind, measured in taken.items():
        columns = (measured[:, 0], measured[:, 1], measured[:, 1] - measured[:, 0])
        shown = [
            f"{np.percentile(column, 50):8.2f} {np.percentile(column, 99):8.2f}"
            for column in columns
        ]
        ratio = ratio_of(measured)
        lines.append(f"{kind:6s} | {' | '.join(shown)} | ratio {ratio:.3f}")
    return lines


def _called(first: _Client, second: _Client, kind: str, number: int) -> tuple[float, float]:
    if number % 2:
        return first.call(*_asked(kind, number)), second.call(*_asked(kind, number))
    taken = second.call(*_asked(kind, number))
    return first.call(*_asked(kind, number)), taken


def _asked(kind: str, number: int) -> tuple[str, dict[str, Any]]:
    if kind == "read":
        return "read_graph", {}
    text = f"Guest {number} of the house likes tea from garden {number * 7919 % 1_000}."
    entity = {"name": f"guest-{number}", "entityType": "person", "observations": [text]}
    return "create_entities", {"entities": [entity]}


class _Client:
    """Raw JSON-RPC on a pipe: nothing of a client's own is in the figures."""

    def __init__(self, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=dict(environment)
        )
        self._ids = itertools.count()

    def __enter__(self) -> Self:
        given: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
        self._ask("initialize", {**given, "clientInfo": {"name": "bench", "version": "0"}})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._ask("tools/list", {})
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def call(self, tool: str, arguments: dict[str, Any]) -> float:
        began = time.perf_counter()
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        taken = time.perf_counter() - began
        if answer["result"].get("isError"):
            raise RuntimeError(f"{tool} was refused: {answer['result']['content']}")
        return taken

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._send({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
        if self._process.stdout is None:
            raise RuntimeError("the server has no pipe")
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def _send(self, message: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise RuntimeError("the server has no pipe")
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
