"""Find the sidecar from outside, with what every user of the machine may see."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_LISTENING: Final = "0A"
_GATES: Final = frozenset({"run", "mcp"})
_PROGRAM: Final = re.compile(r"(^|/)mnemogate$")


def effective_uid(pid: int) -> int | None:
    """The user a process runs as; None where it is gone or hidden.

    From `status`, which stays true when the process is not dumpable: the owner of `/proc/<pid>`
    is root then.
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
    """The user that owns the listening TCP socket of a URL on this machine (Linux)."""
    port = urlsplit(url).port
    if port is None:
        return None
    for table in ("tcp", "tcp6"):
        try:
            lines = (Path("/proc/net") / table).read_text(encoding="utf-8").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                return int(fields[7])
    return None


def running_sidecars(uid: int | None) -> tuple[int, ...]:
    """Processes that look like a gate by their command line, of one user if given.

    `mnemogate run` is one; any `mnemogate mcp` may be, or become, the gate of its state directory.
    """
    found: list[int] = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if _is_run(words) and (uid is None or effective_uid(int(directory.name)) == uid):
            found.append(int(directory.name))
    return tuple(sorted(found))


def _is_run(words: list[str]) -> bool:
    for position, word in enumerate(words):
        if word not in _GATES or position == 0:
            continue
        before = words[:position]
        if any(_PROGRAM.search(name) for name in before):
            return True
        if any(pair == ("-m", "proxy") for pair in itertools.pairwise(before)):
            return True
    return False
