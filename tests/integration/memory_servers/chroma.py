"""Chroma's own server, from PyPI, in an environment of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.integration.clients.environments import python_environment

START_S: Final = 120.0


def chroma_python() -> Path:
    """The interpreter of the environment, which has server and client; installed on first use."""
    return python_environment("chromadb", "1.5.9")


@contextmanager
def chroma_server(python: Path, folder: Path) -> Generator[str]:
    """The server's URL while the block runs; its data are in `folder / "data"`."""
    folder.mkdir()
    port = _free_port()
    command = [str(python.parent / "chroma"), "run", "--path", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env={"HOME": str(folder), "PATH": "/usr/bin:/bin", "ANONYMIZED_TELEMETRY": "False"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _await(port, process, folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start\n{log.read_text()[-2_000:]}")
