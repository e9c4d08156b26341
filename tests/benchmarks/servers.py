"""Starts the servers under test as processes of their own, on free ports, and stops them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.load import CHARACTERS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEY = "bench-agent-key-0123456789"
START_S = 60.0


class Server(NamedTuple):
    name: str
    port: int
    key: str
    process: subprocess.Popen[bytes]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError("the server did not start")


@contextmanager
def _running(name: str, command: list[str], environment: dict[str, str]) -> Generator[Server]:
    port = int(command[command.index("--port") + 1]) if "--port" in command else 0
    if not port:
        port = int(command[command.index("--listen") + 1].rsplit(":", 1)[1])
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    try:
        _wait(port, process)
        yield Server(name, port, KEY, process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def bare(directory: Path) -> Generator[Server]:
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", str(HERE / "bare.py"), "--port", str(free_port())]
    command += ["--directory", str(directory)]
    with _running("bare", command, dict(os.environ)) as server:
        yield server


@contextmanager
def sidecar(
    base: Path,
    *flags: str,
    collector: str | None = None,
    root: Path = ROOT,
    runner: Sequence[str] = (sys.executable, "-P", "-m", "proxy"),
) -> Generator[Server]:
    """`mnemogate run` of the tree at `root`, whatever is installed; spans go to `collector`."""
    environment = {
        "HOME": str(base),
        "PYTHONPATH": str(root),
        "PATH": os.environ.get("PATH", ""),
        "MNEMOGATE_AGENT_KEY": KEY,
        "MNEMOGATE_OPERATOR_KEY": "bench-operator-key-0123456789",
    }
    if collector is not None:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector
    command = [*runner, "run"]
    command += ["--listen", f"127.0.0.1:{free_port()}", "--admin", "127.0.0.1:0"]
    command += ["--state", str(base / "state"), "--checkpoint", str(base / "checkpoint.txt")]
    with _running("mnemogate", [*command, *flags], environment) as server:
        yield server


def put_anchors(base: Path, count: int, root: Path = ROOT) -> None:
    """Register that many statements with the sidecar of the tree at `root` that serves `base`."""
    for number in range(count):
        statement = f"Invoices of team {number} need approval within {number + 3} days."
        question = f"How long does the approval of an invoice of team {number} take?"
        command = [sys.executable, "-P", "-m", "proxy", "anchor", "put", statement]
        command += ["--question", question, "--state", str(base / "state")]
        environment = {"HOME": str(base), "PYTHONPATH": str(root), "PATH": os.environ["PATH"]}
        subprocess.run(command, check=True, capture_output=True, env=environment)


def load(
    server: Server, connections: int, seconds: float, seed: int, characters: int = CHARACTERS
) -> dict[str, float]:
    """Closed-loop writes against a server: writes per second, p50 and p99 in milliseconds."""
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            str(HERE / "load.py"),
            *("--port", str(server.port), "--key", server.key),
            *("--connections", str(connections), "--seconds", str(seconds), "--seed", str(seed)),
            *("--characters", str(characters)),
        ],
        check=True,
        capture_output=True,
        timeout=seconds + 60,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result
