"""Runs all probes in order, and says what they prove together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from proxy.doctor.files import probe_files
from proxy.doctor.finding import Attempt, DoctorTarget, Finding, ProbeResult
from proxy.doctor.locate import effective_uid, listening_uid, running_sidecars
from proxy.doctor.network import probe_network
from proxy.doctor.past_gate import ESSENTIAL, probe_backend
from proxy.doctor.processes import probe_environment, probe_identity, probe_process

# The inode number of the machine's initial PID namespace (PROC_PID_INIT_INO in proc_ns.h).
_MACHINES_OWN: Final = 0xEFFFFFFC
DIRECTORIES_MAX: Final = 200_000
_NO_FILES: Final = frozenset({"proc", "sys", "dev"})
# Files by which a gate's state directory is recognised, and files in its subdirectories, of which a
# container may mount one alone.
_SIGNS: Final = (
    frozenset({"gate.lock", "store", "secrets"}),
    frozenset({"store.key", "log.key", "token.key"}),
)
# Files that every LMDB environment has, a gate's or another program's.
_ALIKE: Final = frozenset({"data.mdb", "lock.mdb"})
# The probes of the gate's files and process, which have no target in an isolated container.
UNSEEN: Final = frozenset({"identity.uid", "state.list", "process.mem"})
# Probes that show that a gate answers and refuses, on the agent's own way to it.
_ANSWERED: Final = frozenset({"data.anonymous"})
_A_GATE: Final = frozenset({"data.agent_key.L1", "mode"})
PROCESSES: Final = "isolation.processes"
FILES: Final = "isolation.files"


def probe_isolation(root: Path = Path("/")) -> Iterator[Finding]:
    """Findings on whether a gate's process and files are visible to this process.

    Where neither is, no attempt on them can be refused. Both are searched for without relying on
    doctor's arguments, which may name a wrong place.
    """
    alone = _processes()
    yield alone
    if alone.verdict is ProbeResult.OK:
        yield _files(root)


def isolated(findings: Iterable[Finding]) -> bool:
    """Whether a gate answers, and neither its process nor its files exist where this runs."""
    well = {finding.id for finding in findings if finding.verdict is ProbeResult.OK}
    seen = well & {"state.list", "process.mem"}
    return not seen and {PROCESSES, FILES} | _ANSWERED <= well and bool(_A_GATE & well)


def _processes() -> Finding:
    attempt = Attempt(
        PROCESSES, "see a gate among all processes (PID namespace)", "a namespace without any"
    )
    try:
        number = Path("/proc/self/ns/pid").stat().st_ino
        # If /proc hides the processes of other users, it would also hide a gate on the same
        # machine.
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
    """Search all directories for a gate's files, from the root on.

    Outside this process's mounts no file can be opened by name, so this search is complete.
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

    `separated`: no probe succeeded. `proven`: in addition the sidecar's files, process and
    listeners were found, so the probes had a target; or `isolated`: a gate answers, and neither its
    process nor its files are visible from here.
    """

    separated: bool
    proven: bool
    isolated: bool
    findings: tuple[Finding, ...]


# These probes have to be made: if one was skipped, nothing counts as proven.
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
    """The sidecar's user, found by its process, its listening socket or its state directory."""
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
    if aim.backend is not None:
        yield from probe_backend(aim, aim.backend)
