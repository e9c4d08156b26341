"""A process beside the store: `python -m tests.fault.other_processes DIRECTORY read|write`.

Opens the LMDB environment as a foreign tool would, begins a transaction, says so, and keeps it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import lmdb

PROJECT = Path(__file__).resolve().parents[2]


@contextmanager
def holding(directory: Path, kind: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that holds a `read` or `write` transaction until it is killed."""
    command = [sys.executable, "-m", "tests.fault.other_processes", str(directory), kind]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holding\n"
        try:
            yield process
        finally:
            process.kill()


def main(directory: str, kind: str) -> None:
    with (
        lmdb.open(directory, map_size=1 << 30, max_dbs=32, max_readers=512) as env,
        env.begin(write=kind == "write") as txn,
    ):
        txn.stat()
        sys.stdout.write("holding\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
