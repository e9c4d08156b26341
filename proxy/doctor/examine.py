"""Runs all probes in order, and says what they prove together."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from proxy.doctor.files import probe_files
from proxy.doctor.finding import Aim, Attempt, Finding, ProbeResult
from proxy.doctor.isolation import UNSEEN, isolated, probe_isolation
from proxy.doctor.locate import effective_uid, listening_uid
from proxy.doctor.network import probe_network
from proxy.doctor.past_gate import ESSENTIAL, probe_backend
from proxy.doctor.processes import probe_environment, probe_identity, probe_process


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


def examine(aim: Aim) -> Examination:
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


def owner_uid(aim: Aim) -> int | None:
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


def _probes(aim: Aim) -> Iterator[Finding]:
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
