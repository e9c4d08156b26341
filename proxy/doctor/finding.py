"""The result of one probe, and the target of all probes."""

from __future__ import annotations

import enum
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec


class ProbeResult(enum.Enum):
    """How a probe ended. Only `FAIL` means that the agent can bypass the gate."""

    OK = "ok"
    FAIL = "FAIL"
    SKIPPED = "skipped"
    WARNED = "warn"  # The agent could do nothing, but a person should check the finding.
    UNSEEN = "unseen"  # The agent cannot see the target at all, and so cannot attack it.


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one probe.

    `id` is stable, `expected` is the result for an agent that is separated from the gate, and `got`
    is the actual result.
    """

    id: str
    tried: str
    expected: str
    got: str
    verdict: ProbeResult


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a probe; `target` is the part of a URL after the host."""

    method: str
    target: str
    body: bytes = b""


class BackendTarget(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream memory server, and requests to it that change nothing."""

    name: str
    url: str
    # The file with the sidecar's own credential for the server, where the table names one.
    headers_file: Path | None
    # A request that shows, when it is sent through the gate, that the server runs.
    alive: ProbeRequest
    read: ProbeRequest
    write: ProbeRequest


class ShardTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The directories of a shard: its secrets, and the keys of its journal, if it has any."""

    secrets: Path
    keys: Path | None = None


class DoctorTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where the sidecar's files, listeners and processes (`pids`) are, as an agent can find out."""

    state: Path
    checkpoint: Path | None
    config: Path | None
    data_url: str
    admin_url: str
    agent_key: str | None
    pids: tuple[int, ...]
    backend: BackendTarget | None = None
    shard: ShardTarget | None = None
    # The environment of the agent's hosts, as far as it has no secret of the sidecar.
    environment: dict[str, str] = {}


class Attempt:
    """The description of one attempt, from which its finding is made once it has ended."""

    def __init__(self, probe_id: str, tried: str, expected: str) -> None:
        self._id = probe_id
        self._tried = tried
        self._expected = expected

    def ok(self, got: str) -> Finding:
        """Report that the attempt was refused, as it should be."""
        return self._finding(got, ProbeResult.OK)

    def fail(self, got: str) -> Finding:
        """Report that the attempt succeeded, so that the agent can bypass the gate in this way."""
        return self._finding(got, ProbeResult.FAIL)

    def skipped(self, why: str) -> Finding:
        """Report that the attempt could not be made, with the reason, and so proves nothing."""
        return self._finding(why, ProbeResult.SKIPPED)

    def warned(self, got: str) -> Finding:
        """Report that the agent can do nothing, but that a person should judge the result."""
        return self._finding(got, ProbeResult.WARNED)

    def _finding(self, got: str, verdict: ProbeResult) -> Finding:
        return Finding(
            id=self._id, tried=self._tried, expected=self._expected, got=got, verdict=verdict
        )


_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESRCH})


def forbidden(attempt: Attempt, act: Callable[[], str]) -> Finding:
    """Try an act that the system must refuse; return the finding.

    `act` returns what it achieved where it is not refused. An error other than a refusal proves
    nothing, and is reported as skipped.
    """
    try:
        done = act()
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "error")
        if error.errno in _DENIED:
            return attempt.ok(f"refused ({name})")
        if error.errno in _ABSENT:
            return attempt.skipped(f"not there ({name})")
        return attempt.skipped(f"could not be tried ({name})")
    return attempt.fail(done)
