"""Probes of the sidecar's process, and of the agent's own privileges and environment."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from proxy.doctor.finding import Attempt, Finding, forbidden

REFUSED: Final = "permission denied"
OPERATOR_KEY_NAME: Final = b"MNEMOGATE_OPERATOR_KEY="

_PTRACE_SEIZE: Final = 0x4206
_PTRACE_INTERRUPT: Final = 0x4207
_PTRACE_DETACH: Final = 17
_WALL: Final = 0x40000000
_SUDO_TIMEOUT_S: Final = 5

# A process with one of these capabilities can act as another user, so being two users separates
# nothing.
_CAPABILITIES: Final = {
    0: "CAP_CHOWN",
    1: "CAP_DAC_OVERRIDE",
    2: "CAP_DAC_READ_SEARCH",
    3: "CAP_FOWNER",
    5: "CAP_KILL",
    6: "CAP_SETGID",
    7: "CAP_SETUID",
    16: "CAP_SYS_MODULE",
    17: "CAP_SYS_RAWIO",
    19: "CAP_SYS_PTRACE",
    21: "CAP_SYS_ADMIN",
    31: "CAP_SETFCAP",
    38: "CAP_PERFMON",
    39: "CAP_BPF",
}


def probe_identity(owner_uid: int | None) -> Iterator[Finding]:
    """Check the identity of this process: root, or the sidecar's own user, cannot be kept out."""
    uid = os.geteuid()
    attempt = Attempt("identity.uid", "be a user of its own", "neither root nor the sidecar's uid")
    if uid == 0:
        yield attempt.fail(
            "runs as root: root can allow its own writes, edit the store's files and read the "
            "sidecar's memory. "
            "Run doctor as the user the agent runs as, and the agent as a user of its own"
        )
    elif owner_uid is None:
        yield attempt.skipped(f"uid {uid}; the sidecar's uid is not known here")
    elif uid == owner_uid:
        yield attempt.fail(
            f"runs as uid {uid}, the sidecar's own: an agent under it can allow its own writes "
            "and edit the files. "
            "Run the sidecar as a user of its own; one that `mnemogate mcp` became by itself, "
            "under an agent's host, always is the agent's"
        )
    else:
        yield attempt.ok(f"uid {uid}, and the sidecar's is {owner_uid}")
    yield _capabilities()
    yield _sudo()


def probe_environment() -> Finding:
    """Search the environments of all processes that the agent may read for the operator key."""
    attempt = Attempt(
        "agent.environment", "find MNEMOGATE_OPERATOR_KEY in a readable environment", "in none"
    )
    for directory in sorted(Path("/proc").glob("[0-9]*")):
        try:
            variables = (directory / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(OPERATOR_KEY_NAME) for variable in variables):
            return attempt.fail(f"process {directory.name} carries it")
    return attempt.ok("in none")


def probe_process(pid: int) -> Iterator[Finding]:
    """Try on the sidecar's process every way by which one process reaches into another."""
    root = Path("/proc") / str(pid)
    for name, flags in (("environ", os.O_RDONLY), ("maps", os.O_RDONLY), ("mem", os.O_RDWR)):
        attempt = Attempt(f"process.{name}", f"open {root / name}", REFUSED)
        yield forbidden(attempt, partial(_read, root / name, flags))
    attempt = Attempt("process.fd", f"list {root}/fd", REFUSED)
    yield forbidden(attempt, lambda: f"listed {len(os.listdir(root / 'fd'))} files")  # noqa: PTH208
    attempt = Attempt("process.ptrace", f"attach to process {pid} (ptrace)", REFUSED)
    yield forbidden(attempt, lambda: _attach(pid))
    attempt = Attempt("process.signal", f"signal process {pid}", REFUSED)
    yield forbidden(attempt, lambda: _signal(pid))
    attempt = Attempt("process.priority", f"change the limits of process {pid}", REFUSED)
    yield forbidden(attempt, lambda: _limit(pid))


def _read(path: Path, flags: int) -> str:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        if flags == os.O_RDONLY:
            os.read(descriptor, 1)
    finally:
        os.close(descriptor)
    return "opened and read" if flags == os.O_RDONLY else "opened for writing"


def _attach(pid: int) -> str:
    """Try to attach to the process as a debugger.

    PTRACE_SEIZE does not stop the process. If the attempt succeeds, the process is released at
    once.
    """
    library = ctypes.CDLL(None, use_errno=True)
    trace = library.ptrace
    trace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    trace.restype = ctypes.c_long
    if trace(_PTRACE_SEIZE, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    trace(_PTRACE_INTERRUPT, pid, None, None)
    os.waitpid(pid, _WALL)
    trace(_PTRACE_DETACH, pid, None, None)
    return "attached and detached"


def _signal(pid: int) -> str:
    os.kill(pid, 0)
    return f"may send any signal, {signal.SIGKILL.name} included"


def _limit(pid: int) -> str:
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
    return "set"


def _capabilities() -> Finding:
    attempt = Attempt("identity.capabilities", "hold a capability that overrides users", "none")
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return attempt.skipped("no /proc here")
    held = 0
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in {"CapEff", "CapPrm", "CapAmb"}:
            held |= int(value, 16)
    names = [name for bit, name in _CAPABILITIES.items() if held >> bit & 1]
    return attempt.fail("holds " + ", ".join(names)) if names else attempt.ok("holds none")


def _sudo() -> Finding:
    attempt = Attempt("identity.sudo", "become root without a password (sudo -n)", REFUSED)
    program = shutil.which("sudo", path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    if program is None:
        return attempt.ok("there is no sudo here")
    if os.geteuid() == 0:
        return attempt.skipped("already root")
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command found on a fixed path
            [program, "-n", "true"], capture_output=True, check=False, timeout=_SUDO_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return attempt.skipped(f"could not be tried ({type(error).__name__})")
    return attempt.fail("it works") if done.returncode == 0 else attempt.ok("refused")
