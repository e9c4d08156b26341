"""What one call of store mode costs where its graph has 10,000 observations, here and before."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from tests.benchmarks.mcp import environment
from tests.benchmarks.writes import spent_ns

_STORE: Final = (sys.executable, "-P", "-m", "proxy", "mcp", "--store")
SIZES: Final = (1_000, 10_000)
TURNS: Final = 5
_AT_ONCE: Final = 500


def against(before: Path) -> list[str]:
    """Median milliseconds of processor time per call, at each size."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        old = stack.enter_context(_Store(environment(base / "before", before)))
        new = stack.enter_context(_Store(environment(base / "now")))
        lines = ["observations | call | before ms | now ms | ratio"]
        made = 0
        for store in (old, new):
            big: dict[str, Any] = {"name": "Big", "entityType": "thing", "observations": []}
            store.call("create_entities", {"entities": [big]})
        for size in SIZES:
            while made < size:
                texts = [f"Box {made + one} stands in Bern." for one in range(_AT_ONCE)]
                for store in (old, new):
                    store.observe(texts)
                made += _AT_ONCE
            lines += _compared(old, new, size)
    return lines


def _compared(old: _Store, new: _Store, size: int) -> list[str]:
    lines: list[str] = []
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("open_nodes", {"names": ["x"]}),
        ("search_nodes", {"query": "stands nowhere"}),
        ("add_observations", {}),
        ("read_graph", {}),
    )
    for tool, arguments in calls:
        pairs = [_turn(old, new, tool, arguments, size, turn) for turn in range(TURNS)]
        then, now = np.median(np.array(pairs), axis=0)
        ratio = then / now
        lines.append(f"{size:12d} | {tool:16s} | {then:9.1f} | {now:6.1f} | {ratio:5.0f}")
    return lines


def _turn(
    old: _Store, new: _Store, tool: str, arguments: dict[str, Any], size: int, turn: int
) -> tuple[float, float]:
    if tool == "add_observations":
        said = {"entityName": "Big", "contents": [f"Said once at {size}, turn {turn}."]}
        arguments = {"observations": [said]}
    first = (old, new) if turn % 2 else (new, old)
    taken = {store: store.cost_ms(tool, arguments) for store in first}
    return taken[old], taken[new]


class _Store:
    """One `mnemogate mcp --store`, which is its own gate."""

    def __init__(self, given: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            _STORE, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=dict(given)
        )
        self._id = 0

    def __enter__(self) -> Self:
        hello: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
        self._ask("initialize", {**hello, "clientInfo": {"name": "bench", "version": "0"}})
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def observe(self, texts: list[str]) -> None:
        said = {"entityName": "Big", "contents": texts}
        self.call("add_observations", {"observations": [said]})

    def cost_ms(self, tool: str, arguments: dict[str, Any]) -> float:
        began = spent_ns(self._process.pid)
        self.call(tool, arguments)
        return (spent_ns(self._process.pid) - began) / 1e6

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if answer["result"].get("isError"):
            raise RuntimeError(f"{tool} was refused: {answer['result']['content']}")

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        asked = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the server has no pipe")
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer
