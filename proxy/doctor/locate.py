"""Finds the sidecar's processes, by information that every user of the machine may read."""

from __future__ import annotations

import itertools
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_LISTENING: Final = "0A"
_PROGRAM: Final = re.compile(r"(^|/)mnemogate$")


def effective_uid(pid: int) -> int | None:
    """The uid that a process runs as; None if the process has ended or is hidden.

    It is read from `status`, because `/proc/<pid>` of a process without core dumps belongs to root.
    """
    try:
        status = (Path("/proc") / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[2])
    return None


def listening_uid(url: str) -> int | None:
    """The uid that owns the socket that listens at a URL's port on this machine; None if none."""
    socket = _listening(urlsplit(url).port)
    return None if socket is None else socket[0]


def _listening(port: int | None) -> tuple[int, str] | None:
    """The owner's uid, and the inode, of a socket that listens at a TCP port of this machine."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (Path("/proc/net") / table).read_text(encoding="utf-8").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                return int(fields[7]), fields[9]
    return None


def port_holder(port: int) -> str | None:
    """Who listens at a TCP port of this machine, in words; None if no process does.

    The process is named if this user may see its open files. A sidecar's are closed to everyone, so
    the sidecars of the port's owner are named instead.
    """
    found = _listening(port)
    if found is None:
        return None
    uid, inode = found
    for directory in Path("/proc").glob("[0-9]*"):
        # Another user's process, or one that has ended meanwhile.
        with suppress(OSError):
            handles = list((directory / "fd").iterdir())
            if any(str(handle.readlink()) == f"socket:[{inode}]" for handle in handles):
                name = (directory / "comm").read_text("utf-8", "replace").strip()
                return f"process {directory.name} ({name})"
    pids = ", ".join(map(str, running_sidecars(uid)))
    return f"a process of uid {uid}" + (f", whose sidecars are {pids}" if pids else "")


def running_sidecars(uid: int | None) -> tuple[int, ...]:
    """The ids of processes that run `mnemogate run`, of one user if `uid` is given."""
    found: list[int] = []
    for directory in Path("/proc").glob("[0-9]*"):
        pid = int(directory.name)
        if _is_run(_words(pid)) and (uid is None or effective_uid(pid) == uid):
            found.append(pid)
    return tuple(sorted(found))


def gates_of(state: Path, uid: int | None) -> tuple[int, ...]:
    """The id of the process that is the gate of a state directory; () if none is found.

    The gate holds a lock on the directory, and /proc/locks names the holder. On file systems whose
    device numbers differ there, the gate is a process of `uid` whose command line names the
    directory; or the only process of `uid`, if its command line names none (a container image names
    the directory in the environment).
    """
    holders = lock_holders(state)
    if holders:
        return holders
    named = {pid: _named_state(pid) for pid in running_sidecars(uid)}
    if uid is not None and list(named.values()) == [None]:
        return tuple(named)
    return tuple(pid for pid, place in named.items() if place == state)


def lock_holders(place: Path) -> tuple[int, ...]:
    """The processes that hold a lock on a directory, from /proc/locks, which all users may read."""
    try:
        found = place.stat()
        lines = Path("/proc/locks").read_text("ascii").splitlines()
    except OSError:
        return ()
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    holders: set[int] = set()
    for line in lines:
        # A line of the file is like `1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF`, where 4711 is
        # the process id; that of a hidden process is 0.
        words = line.split()
        if words[1] == "FLOCK" and device in words and int(words[4]) > 0:
            holders.add(int(words[4]))
    return tuple(sorted(holders))


def _named_state(pid: int) -> Path | None:
    """The state directory in a process's command line, if it is an absolute path."""
    given = option_of(pid, "--state")
    return None if given is None else Path(given)


def option_of(pid: int, option: str) -> str | None:
    """The value of an option in a process's command line; None if the option is not in it."""
    told: str | None = None
    words = iter(_words(pid))
    for word in words:
        # After "--" follows the command line of a server that `mnemogate mcp` wraps.
        if word == "--":
            break
        name, separator, value = word.partition("=")
        if name == option:
            told = value if separator else next(words, "")
    return told


def _words(pid: int) -> list[str]:
    try:
        line = (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return line.decode("utf-8", "replace").split("\0")


def _is_run(words: list[str]) -> bool:
    """Whether a command line is that of `mnemogate run`."""
    for position, word in enumerate(words):
        if word != "run" or position == 0:
            continue
        before = words[:position]
        if any(_PROGRAM.search(name) for name in before):
            return True
        if any(pair == ("-m", "proxy") for pair in itertools.pairwise(before)):
            return True
    return False
