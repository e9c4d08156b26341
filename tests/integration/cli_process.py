"""The real command line: a `mnemogate run` process, and commands run beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60


class Done(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:  # noqa: ANN401 - what `--json` printed
        return json.loads(self.out)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A state directory, and commands that are about it."""

    root: Path
    # This tree under the tests' own interpreter, unless a test is about another installation.
    program: tuple[str, ...] = (sys.executable, "-P", "-m", "proxy")
    path: str = str(ROOT)

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def checkpoint(self) -> Path:
        return self.root / "beside" / "checkpoint.txt"

    def environment(self, **more: str) -> dict[str, str]:
        """As little as possible, so that no variable of the machine decides a test."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "MNEMOGATE_STATE": str(self.state),
            "MNEMOGATE_CHECKPOINT": str(self.checkpoint),
            **more,
        }

    def command(self, *words: str, stdin: str = "", **environment: str) -> Done:
        done = subprocess.run(
            [*self.program, *words],
            capture_output=True,
            cwd="/",
            env=self.environment(**environment) | {"PYTHONPATH": self.path},
            input=stdin,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    @contextmanager
    def started(self, *words: str) -> Generator[Following]:
        """A command that goes on until the block ends."""
        with subprocess.Popen(
            [*self.program, *words],
            cwd="/",
            env=self.environment() | {"PYTHONPATH": self.path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                yield Following(process)
            finally:
                process.kill()
                process.communicate(timeout=DEADLINE_S)

    @contextmanager
    def running(self, *words: str, **environment: str) -> Generator[Running]:
        """`mnemogate run` on free ports, until the block ends."""
        with subprocess.Popen(
            [
                *(*self.program, "run", "--json"),
                *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *words),
            ],
            cwd="/",
            env=self.environment(**environment) | {"PYTHONPATH": self.path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            try:
                assert line, process.communicate(timeout=DEADLINE_S)[1]
                yield Running(place=self, pid=process.pid, ready=json.loads(line))
            finally:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0


class Following:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class Running(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    pid: int
    ready: dict[str, Any]

    def key(self, channel: str) -> str:
        return str(next(k["key"] for k in self.ready["first_keys"] if k["channel"] == channel))

    def write(self, key: str, **body: object) -> tuple[int, Any]:
        return self._post("/v1/memories", key, body)

    def search(self, key: str, query: str) -> tuple[int, Any]:
        return self._post("/v1/search", key, {"query": query})

    def _post(self, path: str, key: str, body: dict[str, object]) -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310 - our own listener
            f"{self.ready['data']}{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
