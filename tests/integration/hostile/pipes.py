"""A client at the pipes of a server, or of the wrapper around it: lines as they came."""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.cli_process import ROOT, Place

Json = dict[str, Any]
ANSWER_S = 30.0


class Pipes:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._ids = itertools.count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def until(self, request_id: object) -> list[bytes]:
        """Every line up to the answer to a request; up to an error without an id, else."""
        got: list[bytes] = []
        while True:
            got.append(self._lines.get(timeout=ANSWER_S))
            said = json.loads(got[-1])
            if "method" not in said and said.get("id") == request_id:
                return got

    def ask(self, method: str, **params: object) -> list[bytes]:
        """A request, and every line up to its answer."""
        number = next(self._ids)
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.send(json.dumps(body).encode())
        return self.until(number)

    def call(self, tool: str, **arguments: object) -> list[bytes]:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def hello(self) -> list[bytes]:
        took: Json = {"sampling": {}, "elicitation": {}, "roots": {}}
        who = {"name": "x", "version": "1"}
        said: Json = {"protocolVersion": "2025-06-18", "capabilities": took, "clientInfo": who}
        got = self.ask("initialize", **said)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return got


@contextmanager
def direct(place: Place, *words: str) -> Generator[Pipes]:
    with _running(place, words) as pipes:
        yield pipes


@contextmanager
def wrapped(place: Place, *words: str, shown: Path | None = None) -> Generator[Pipes]:
    """A client of the server behind the wrapper; `shown` gets what the wrapper logs."""
    wrapper = ("-P", "-m", "proxy", "mcp", "--server", "memory", "--map", "server-memory", "--")
    with _running(place, (sys.executable, *wrapper, *words), shown) as pipes:
        yield pipes


@contextmanager
def _running(place: Place, words: Sequence[str], shown: Path | None = None) -> Generator[Pipes]:
    for name in ("work", "home"):
        (place.root / name).mkdir(exist_ok=True)
    with (shown or place.root / "log").open("ab") as log:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=place.root / "work",
            env=place.environment(
                PYTHONPATH=str(ROOT),
                MNEMOGATE_LISTEN="127.0.0.1:0",
                MNEMOGATE_ADMIN="127.0.0.1:0",
            ),
        )
        with process:
            try:
                yield Pipes(process)
            finally:
                process.kill()
