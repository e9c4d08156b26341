"""A log whose reader stops reading costs lines, never a request and never the end of the process.

A host of `mnemogate mcp`, or a log driver that hangs, leaves stderr a full pipe.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.cli_process import DEADLINE_S, Place, Running
from tests.integration.test_mcp_command import SERVER, Host

F_SETPIPE_SZ, F_GETPIPE_SZ = 1_031, 1_032
PAGE = 4_096
WRITES = 40  # of which each logs a verdict and a request: about 1,000 bytes


@contextmanager
def _full_pipe(place: Place, *words: str) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A command whose stderr is a pipe of one page that no one reads, and the pipe's end."""
    reading, writing = os.pipe()
    fcntl.fcntl(reading, F_SETPIPE_SZ, PAGE)
    with subprocess.Popen(
        [*place.program, *words],
        cwd="/",
        env=place.environment(MEMORY_FILE=str(place.root / "memory.jsonl"))
        | {"PYTHONPATH": place.path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
    ) as process:
        os.close(writing)
        try:
            yield process, reading
        finally:
            process.kill()
            process.wait(DEADLINE_S)
            os.close(reading)


def _waiting(reading: int) -> int:
    """How many bytes wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(reading, 0x541B, b"\0" * 4), "little")  # FIONREAD


def _drained(reading: int) -> bytes:
    """What a reader that is back gets within three seconds."""
    os.set_blocking(reading, False)
    found, end_s = b"", time.monotonic() + 3
    while time.monotonic() < end_s:
        try:
            found += os.read(reading, 1 << 20)
        except BlockingIOError:
            time.sleep(0.05)
    return found


def _is_well(sidecar: Running) -> bool:
    with urllib.request.urlopen(f"{sidecar.ready['health']}/healthz", timeout=DEADLINE_S) as answer:  # noqa: S310
        return bool(answer.status == 200)


def _ready(place: Place, process: subprocess.Popen[str]) -> Running:
    assert process.stdout is not None
    return Running(place=place, pid=process.pid, ready=json.loads(process.stdout.readline()))


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_sidecar_serves_and_ends_while_no_one_reads_its_log(
    tmp_path: Path, *, comes_back: bool
) -> None:
    place = Place(root=tmp_path)
    listens = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--health", "127.0.0.1:0")
    with _full_pipe(place, "run", "--json", *listens) as (process, reading):
        sidecar = _ready(place, process)
        key = sidecar.key("agent")
        for number in range(WRITES):
            assert sidecar.write(key, text=f"Plain fact number {number}.")[0] == 201
        assert _until(lambda: _waiting(reading) > 0)
        # A line of the program's own: the log of a reload.
        os.kill(process.pid, signal.SIGHUP)
        assert _is_well(sidecar)
        assert sidecar.write(key, text="A fact after the reload.")[0] == 201
        # Control: the pipe holds a fifth of the log at most, so its writer waits.
        assert _waiting(reading) <= fcntl.fcntl(reading, F_GETPIPE_SZ) == PAGE
        if comes_back:
            said = _drained(reading).decode()
            assert len(said) > 5 * PAGE
            assert said.count('"event":"verdict"') == WRITES + 1
            assert '"event":"log lines were lost' not in said  # all of them had room
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0  # before, it never ended


def test_a_wrapper_writes_nothing_per_call_and_serves_while_no_one_reads_its_log(
    tmp_path: Path,
) -> None:
    place = Place(root=tmp_path)
    words = ("mcp", "--server", "memory", "--", sys.executable, "-P", SERVER)
    (tmp_path / "work").mkdir()
    with _full_pipe(place, *words) as (process, reading):
        host = Host(process)
        host.hello()
        for number in range(1, WRITES):
            assert "isError" not in host.create(number, f"topic{number}", f"Fact {number}.")
        time.sleep(0.5)  # longer than a line waits for its thread
        # A few lines of the start; a line for each call would be 300 bytes and more.
        assert 0 < _waiting(reading) < 50 * WRITES
        # Lines of the program's own fill the pipe all the same: a tool that no map takes.
        for number in range(WRITES):
            host.call(1_000 + number, f"remember_{number}", text="anything")
        assert "isError" not in host.create(2_000, "last", "The last fact.")
        assert host.leave() == 0


def _until(holds: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + DEADLINE_S
    while not holds() and time.monotonic() < end_s:
        time.sleep(0.05)
    return holds()
