"""Records what a workload asks of the file system, with strace, as a list of operations."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from tests.fault.crashstates.disk import (
    Create,
    Link,
    Operation,
    Said,
    Sync,
    Truncate,
    Unlink,
    Write,
)

PROJECT: Final = Path(__file__).resolve().parents[3]
# Everything that changes a file or a directory, and what is needed to know which.
_CALLS: Final = (
    "open,openat,openat2,creat,close,write,writev,pwrite64,pwritev,pwritev2,lseek,truncate,"
    "ftruncate,fallocate,copy_file_range,sendfile,splice,fsync,fdatasync,sync_file_range,msync,"
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
_COMMAND: Final = ("strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", "33554432", "-e")
_DONE: Final = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)", re.DOTALL)
_UNFINISHED: Final = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>$", re.DOTALL)
_RESUMED: Final = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)$", re.DOTALL)
_HANDLE: Final = re.compile(r"(\d+)<([^>]*)>")
_QUOTED: Final = re.compile(r'"([^"]*)"')
_STDOUT: Final = "1"


class Unmodelled(Exception):  # noqa: N818 - not an error of the store
    """The workload did something that the model of the disk does not know."""


def missing() -> str:
    """Why nothing can be recorded here; "" where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian and Ubuntu: apt-get install strace)"
    tried = subprocess.run(
        [*_COMMAND, "trace=close", "true"], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else f"strace cannot trace here: {tried.stderr.strip()}"


def record(root: Path, trace: Path, *arguments: str) -> list[Operation]:
    """What `workload ROOT ARGUMENTS` changes below `root`, and the lines it prints, in order."""
    command = [*_COMMAND, f"trace={_CALLS}", "-o", str(trace)]
    command += [sys.executable, "-m", "tests.fault.crashstates.workload", str(root), *arguments]
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        | {name: os.environ[name] for name in ("STORE",) if name in os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Unmodelled(f"the workload failed: {done.stderr[-2_000:]}")
    with trace.open(encoding="ascii") as lines:
        return _Parser(root).parse(lines)


class _Call(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    result: int


class _Parser:
    """Turns strace's lines into operations on paths below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._positions: dict[str, int] = {}
        self._durable: dict[str, bool] = {}
        self._begun: dict[str, tuple[str, str]] = {}
        self.operations: list[Operation] = []

    def parse(self, lines: Iterable[str]) -> list[Operation]:
        for line in lines:
            call = self._call(line.rstrip("\n"))
            if call is not None and call.result >= 0:
                self._take(call)
        return self.operations

    def _call(self, line: str) -> _Call | None:
        """The call that ends on this line; one that another thread interrupted is put together."""
        if found := _UNFINISHED.match(line):
            # A handle's number is free once its close has begun: another thread's `openat` may
            # be given it before strace writes that the close has ended.
            if found[2] == "close":
                return _Call(found[2], found[3], 0)
            self._begun[found[1]] = (found[2], found[3])
            return None
        if found := _RESUMED.match(line):
            if found[1] not in self._begun:
                return None
            name, start = self._begun.pop(found[1])
            line = f"{found[1]} {name}({start}{found[2]}"
        if found := _DONE.match(line):
            return _Call(found[2], found[3], int(found[4]))
        return None

    def _take(self, call: _Call) -> None:
        if call.name in {"open", "openat", "creat"}:
            self._opened(call)
        elif call.name in {"mkdir", "mkdirat"}:
            self._entry(Create, call, directory=True)
        elif call.name in {"unlink", "unlinkat", "rmdir"}:
            self._entry(Unlink, call)
        elif call.name.startswith("rename"):
            self._renamed(call)
        else:
            self._on_handle(call)

    def _mine(self, path: str) -> bool:
        return path.startswith(self._root) and not path.endswith("/lock.mdb")

    def _path(self, arguments: str, number: int = 0) -> str:
        """The `number`-th path of a call, absolute; relative ones count from a directory handle."""
        name = _text(_QUOTED.findall(arguments)[number])
        if not name.startswith("/"):
            handle = _HANDLE.search(arguments)
            base = _text(handle[2]) if handle else str(PROJECT)
            name = f"{base}/{name}"
        return os.path.normpath(name)

    def _opened(self, call: _Call) -> None:
        path, handle = self._path(call.arguments), str(call.result)
        if not self._mine(path):
            self._positions.pop(handle, None)
            return
        self._positions[handle] = 0
        self._durable[handle] = "O_DSYNC" in call.arguments or "O_SYNC" in call.arguments
        if "O_APPEND" in call.arguments:
            raise Unmodelled("a file opened to append")
        if "O_CREAT" in call.arguments:
            self.operations.append(Create(path))
        if "O_TRUNC" in call.arguments:
            self.operations.append(Truncate(path, 0))

    def _entry(self, kind: type[Create | Unlink], call: _Call, *, directory: bool = False) -> None:
        path = self._path(call.arguments)
        if self._mine(path):
            made = Create(path, directory=True) if directory else kind(path)
            self.operations.append(made)

    def _renamed(self, call: _Call) -> None:
        old, new = self._path(call.arguments), self._path(call.arguments, 1)
        if self._mine(old) != self._mine(new):
            raise Unmodelled("a rename across the edge of the directory")
        if self._mine(old):
            self.operations.append(Link(old, new))

    def _on_handle(self, call: _Call) -> None:
        found = _HANDLE.match(call.arguments)
        if found is None:
            return
        handle, path = found[1], _text(found[2])
        if handle == _STDOUT and call.name == "write":
            self._said(call)
        if not self._mine(path) or path.endswith("(deleted)"):
            return
        match call.name:
            case "lseek":
                self._positions[handle] = call.result
            case "write" | "writev":
                at = self._positions[handle]
                self._positions[handle] = at + call.result
                self._wrote(call, handle, path, at)
            case "pwrite64" | "pwritev":
                self._wrote(call, handle, path, int(call.arguments.rsplit(", ", 1)[1]))
            case "ftruncate":
                self.operations.append(Truncate(path, int(call.arguments.rsplit(", ", 1)[1])))
            case "fsync" | "fdatasync":
                self.operations.append(Sync(path))
            case "close":
                self._positions.pop(handle, None)
            case _:
                raise Unmodelled(f"{call.name} on {path}")

    def _wrote(self, call: _Call, handle: str, path: str, at: int) -> None:
        data = _bytes(call.arguments[call.arguments.index(", ") :])
        durable = self._durable[handle]
        self.operations.append(Write(path, at, data[: call.result], durable=durable))

    def _said(self, call: _Call) -> None:
        self.operations.append(Said(_bytes(call.arguments[call.arguments.index(", ") :])))


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex("".join(_QUOTED.findall(escaped)).replace("\\x", ""))


def _text(escaped: str) -> str:
    if "\\x" not in escaped:
        return escaped
    return re.sub(r"((?:\\x[0-9a-f]{2})+)", lambda run: _plain(run[1]), escaped)


def _plain(run: str) -> str:
    return bytes.fromhex(run.replace("\\x", "")).decode()
