"""Probes of what an agent in a container of its own can see: the gate's process, and its files.

If neither is visible to the agent, no attempt on them can be refused, because none can be made.
That protects as well, but only if the container hides them, and not if doctor was given a wrong
place. So both are searched for here, without relying on doctor's arguments.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from proxy.doctor.finding import Attempt, Finding, ProbeResult
from proxy.doctor.locate import running_sidecars

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
    """The findings on whether no gate's process and no gate's files are visible to this process."""
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
