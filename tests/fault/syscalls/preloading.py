"""Builds the shim, starts Python under it, and arms it from inside."""

from __future__ import annotations

import ctypes
import enum
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")
PROJECT: Final = Path(__file__).resolve().parents[3]


class Call(enum.IntEnum):
    """Classes of calls, as the shim numbers them."""

    WRITE = 0  # write, pwrite, writev
    FDATASYNC = 1
    FSYNC = 2
    RENAME = 3


class How(enum.IntEnum):
    """The effect in place of the system call."""

    NOT_DONE = 0
    DONE = 1
    SHORT = 2
    KILL_HALF_WAY = 3
    KILL_AFTER = 4


KILLED: Final = 77
FOR_EVER: Final = 2**31 - 1


def missing() -> str:
    """Why no shim can be built here; "" where it can."""
    compiler = shutil.which("cc")
    if compiler is None:
        return "there is no C compiler (Debian and Ubuntu: apt-get install gcc libc6-dev)"
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            _compile(Path(directory) / "shim.so"), capture_output=True, check=False
        )
    return "" if done.returncode == 0 else "the shim does not compile here"


def build(directory: Path) -> Path:
    library = directory / "shim.so"
    subprocess.run(_compile(library), check=True, capture_output=True)
    return library


def _compile(library: Path) -> list[str]:
    return ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]


def run(library: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


class Shim:
    """The shim that this process was started under."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        if not hasattr(self._library, "fault_watch"):
            raise RuntimeError("start this under the shim")

    def watch(self, directory: Path) -> None:
        """Count from zero, and only what lies below a directory."""
        self._library.fault_watch(os.fsencode(directory))

    def arm(self, call: Call, first: int, last: int, how: How, error: int) -> None:
        """Fault the calls of one class from number `first` (1 is the next one) to `last`."""
        self._library.fault_arm(int(call), first, last, int(how), error)

    def disarm(self) -> None:
        self._library.fault_disarm()

    def count(self, call: Call) -> int:
        return int(self._library.fault_count(int(call)))

    def delay(self, call: Call, microseconds: int) -> None:
        """Make every call of a class take so much longer."""
        self._library.fault_delay(int(call), microseconds)
