"""Runs all probes in order, and derives what they prove together."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from proxy.doctor.files import probe_files
from proxy.doctor.finding import Attempt, DoctorTarget, Finding, ProbeResult, forbidden
from proxy.doctor.hosts import probe_hosts
from proxy.doctor.locate import effective_uid, listening_uid, running_sidecars
from proxy.doctor.network import ESSENTIAL, probe_backend, probe_network

REFUSED: Final = "permission denied"
OPERATOR_KEY_NAME: Final = b"MNEMOGATE_OPERATOR_KEY="

_PTRACE_SEIZE: Final = 0x4206
_PTRACE_INTERRUPT: Final = 0x4207
_PTRACE_DETACH: Final = 17
_WALL: Final = 0x40000000
_SUDO_TIMEOUT_S: Final = 5

# A process with one of these capabilities can act as another user, so that a user of its own does
# not separate it from the sidecar.
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
    """Check who this process runs as: root and the sidecar's own user can bypass the gate.

    Capabilities and a `sudo` without password are checked too.
    """
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
    """Search for the operator key in every process environment that this process may read."""
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
    """Try every way to read, debug, signal or limit the sidecar's process."""
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

    PTRACE_SEIZE does not stop the process; after a successful attempt, it is released at once.
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


# The inode number of the machine's initial PID namespace (PROC_PID_INIT_INO in proc_ns.h).
_MACHINES_OWN: Final = 0xEFFFFFFC
DIRECTORIES_MAX: Final = 200_000
_NO_FILES: Final = frozenset({"proc", "sys", "dev"})
# Names by which a gate's state directory is recognised, or its subdirectory `secrets`, which a
# container may mount alone.
_SIGNS: Final = (
    frozenset({"gate.lock", "store", "secrets"}),
    frozenset({"store.key", "log.key", "token.key"}),
)
# Files of every LMDB environment, whether a gate's or another program's.
_ALIKE: Final = frozenset({"data.mdb", "lock.mdb"})
# The probes of the gate's files and process, which have no target in an isolated container.
UNSEEN: Final = frozenset({"identity.uid", "state.list", "process.mem"})
# Probes whose success shows that a gate answers and refuses at the agent's own URL.
_ANSWERED: Final = frozenset({"data.anonymous"})
_A_GATE: Final = frozenset({"data.agent_key.L1", "mode"})
PROCESSES: Final = "isolation.processes"
FILES: Final = "isolation.files"


def probe_isolation(root: Path = Path("/")) -> Iterator[Finding]:
    """Search for a gate's process and files, without doctor's arguments, which may be wrong.

    If neither is visible from here, attempts on them have no target that could refuse them.
    """
    alone = _processes()
    yield alone
    if alone.verdict is ProbeResult.OK:
        yield _files(root)


def isolated(findings: Iterable[Finding]) -> bool:
    """Whether a gate answers, and neither its process nor its files are visible from here."""
    well = {finding.id for finding in findings if finding.verdict is ProbeResult.OK}
    seen = well & {"state.list", "process.mem"}
    return not seen and {PROCESSES, FILES} | _ANSWERED <= well and bool(_A_GATE & well)


def _processes() -> Finding:
    attempt = Attempt(
        PROCESSES, "see a gate among all processes (PID namespace)", "a namespace without any"
    )
    try:
        number = Path("/proc/self/ns/pid").stat().st_ino
        # If /proc hides other users' processes, it could hide a gate on this machine too, so
        # reading process 1 must succeed.
        first = Path("/proc/1/cmdline").read_bytes()
    except OSError as error:
        return attempt.skipped(f"not every process is shown here ({type(error).__name__})")
    if not first or number == _MACHINES_OWN:
        return attempt.skipped("this is the machine's own namespace, or cannot be told from it")
    found = running_sidecars(None)
    if found:
        return attempt.skipped(f"process {found[0]} is one: no container of the agent's own")
    return attempt.ok("a namespace of its own, and no gate runs in it")


def _files(root: Path) -> Finding:
    """Search all directories below the root for a gate's files.

    The search is complete, because no file outside this process's mounts can be opened by name.
    """
    attempt = Attempt(FILES, "find a gate's state directory anywhere", "none that can be listed")
    looked = 0
    for place, directories, names in os.walk(root):
        looked += 1
        if looked > DIRECTORIES_MAX:
            return attempt.skipped(f"more than {DIRECTORIES_MAX} directories")
        entries = {*directories, *names}
        if any(sign <= entries for sign in _SIGNS):
            return attempt.fail(f"{place} looks like one, and can be listed")
        if entries >= _ALIKE:
            return attempt.skipped(f"{place} may be the store of one")
        if place == "/":
            directories[:] = [one for one in directories if one not in _NO_FILES]
    return attempt.ok(f"none in {looked} directories")


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `mnemogate doctor`.

    `separated`: no attempt to bypass the gate succeeded. `proven`: the sidecar's files, process and
    listeners were found, so that the attempts had a target; or `isolated`: a gate answers, and
    neither its process nor its files are visible from here.
    """

    separated: bool
    proven: bool
    isolated: bool
    findings: tuple[Finding, ...]


# Probes that have to be made: if one of them was skipped, nothing is proven.
_ESSENTIAL = ("identity.uid", "state.list", "data.anonymous", "process.mem", *ESSENTIAL)


def examine(aim: DoctorTarget) -> Examination:
    """Run every probe in this process, with this process's rights."""
    findings = tuple(_probes(aim))
    alone = isolated(findings)
    if alone:
        findings = tuple(_unseen(finding) for finding in findings)
    skipped = {finding.id for finding in findings if finding.verdict is ProbeResult.SKIPPED}
    return Examination(
        separated=all(finding.verdict is not ProbeResult.FAIL for finding in findings),
        proven=not skipped.intersection(_ESSENTIAL),
        isolated=alone,
        findings=findings,
    )


def _unseen(finding: Finding) -> Finding:
    """Report a probe as "unseen" if its target is not visible to this process."""
    if finding.id not in UNSEEN or finding.verdict is not ProbeResult.SKIPPED:
        return finding
    return msgspec.structs.replace(
        finding, verdict=ProbeResult.UNSEEN, got=f"cannot be seen from here: {finding.got}"
    )


def owner_uid(aim: DoctorTarget) -> int | None:
    """The uid of the sidecar, from its process, listening socket or state directory; else None."""
    for pid in aim.pids:
        uid = effective_uid(pid)
        if uid is not None:
            return uid
    uid = listening_uid(aim.data_url)
    if uid is not None:
        return uid
    try:
        return os.stat(aim.state).st_uid  # noqa: PTH116 - one call, no path object wanted
    except OSError:
        return None


def _probes(aim: DoctorTarget) -> Iterator[Finding]:
    yield from probe_identity(owner_uid(aim))
    yield probe_environment()
    yield from probe_files(aim)
    if not aim.pids:
        yield Attempt(
            "process.mem", "open the memory of the sidecar's process", "permission denied"
        ).skipped("no process of a sidecar is visible; pass --pid")
    for pid in aim.pids:
        yield from probe_process(pid)
    if not aim.pids and not os.path.lexists(aim.state):
        yield from probe_isolation()
    yield from probe_network(aim)
    yield from probe_hosts(aim.environment)
    if aim.backend is not None:
        yield from probe_backend(aim, aim.backend)
