"""Probes of the file system: the state directory, its secrets, the checkpoint copy, the code.

A probe that succeeds is harmless too: files are opened and closed, and never truncated; a file that
it creates is removed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proxy.doctor.finding import Attempt, DoctorTarget, Finding, forbidden

REFUSED: Final = "permission denied"
# Sockets of container engines: a process that may connect to one of them can become root.
_ROOT_SOCKETS: Final = (
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
)
_PACKAGES: Final = ("proxy", "policy", "storage", "telemetry")


def probe_files(aim: DoctorTarget) -> Iterator[Finding]:
    """Try to read, write or replace each file by which an agent could bypass the gate."""
    yield _listing("state.list", aim.state)
    yield _created("state.create", aim.state)
    yield _replaceable("state.replace", "the state directory", aim.state)
    yield _opened("store.write", aim.state / "store" / "data.mdb", os.O_RDWR)
    yield _opened("store.lock", aim.state / "store" / "lock.mdb", os.O_RDWR)
    yield _opened("store.read", aim.state / "store" / "data.mdb", os.O_RDONLY)
    yield _opened("staging.write", aim.state / "staging" / "held" / "data.mdb", os.O_RDWR)
    yield _listing("staging.keys", aim.state / "staging" / "keys")
    yield _created("segments.write", aim.state / "segments")
    yield _opened("sessions.write", aim.state / "sessions" / "log", os.O_RDWR)
    for name in ("store.key", "log.key", "token.key"):
        yield _opened(f"secrets.{name}", aim.state / "secrets" / name, os.O_RDONLY)
    yield _opened("gate.lock", aim.state / "gate.lock", os.O_RDWR)
    yield from _checkpoint(aim.checkpoint, aim.state)
    yield _beside("secrets.disk", aim.state / "secrets", aim.state)
    yield _code()
    yield _preload()
    if aim.config is not None:
        yield _opened("config.write", aim.config, os.O_WRONLY)
        yield _replaceable("config.replace", "the configuration", aim.config)
    if aim.shard is not None:
        yield _opened("shard.secrets", aim.shard.secrets / "journal.key", os.O_RDONLY)
        yield _shard_keys(aim.shard.keys)
    yield _root_socket()


def _shard_keys(directory: Path | None) -> Finding:
    if directory is not None:
        return _listing("shard.keys", directory)
    attempt = Attempt("shard.keys", "find what was purged in a journal", "keys that are destroyed")
    return attempt.warned(
        "no `keys` in [shard]: the database, its log and its backups keep what purges and erasures "
        "took, for whoever has journal.key"
    )


def _listing(probe_id: str, path: Path) -> Finding:
    attempt = Attempt(probe_id, f"list {path}", REFUSED)
    return forbidden(attempt, lambda: f"listed {len(os.listdir(path))} names")  # noqa: PTH208


def _opened(probe_id: str, path: Path, flags: int) -> Finding:
    how = {os.O_RDONLY: "read", os.O_WRONLY: "write", os.O_RDWR: "read and write"}[flags]
    attempt = Attempt(probe_id, f"open {path} to {how}", REFUSED)

    def act() -> str:
        # No O_TRUNC and no O_CREAT: a probe that succeeds must not change the file.
        os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
        return "opened"

    return forbidden(attempt, act)


def _created(probe_id: str, directory: Path) -> Finding:
    attempt = Attempt(probe_id, f"create a file in {directory}", REFUSED)

    def act() -> str:
        path = directory / f".doctor-{secrets.token_hex(8)}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        path.unlink()
        return "created and removed one"

    return forbidden(attempt, act)


def _replaceable(probe_id: str, what: str, path: Path) -> Finding:
    """Check whether the agent could rename a directory on the path, and so replace the file."""
    attempt = Attempt(probe_id, f"rename {what} or a directory above it", REFUSED)
    resolved = Path(os.path.realpath(path))
    hole = next((above for above in resolved.parents if _may_rename(above, resolved)), None)
    if hole is not None:
        return attempt.fail(f"{hole} is writable: what is in it can be replaced")
    return attempt.ok("no directory above it is writable")


def _may_rename(directory: Path, below: Path) -> bool:
    """Whether this process could rename the entry of `directory` that leads to `below`."""
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return False
    try:
        information = directory.stat()
    except OSError:
        return True
    if not information.st_mode & stat.S_ISVTX:
        return True
    # In a sticky directory such as /tmp the agent may rename its own entries, and no others.
    entry = directory / below.relative_to(directory).parts[0]
    try:
        return os.geteuid() in (entry.lstat().st_uid, information.st_uid, 0)
    except OSError as error:
        # The agent could create a missing entry of the path before the sidecar does.
        return error.errno == errno.ENOENT


def _checkpoint(copy: Path | None, state: Path) -> Iterator[Finding]:
    if copy is None:
        attempt = Attempt("checkpoint.write", "write the checkpoint copy", REFUSED)
        yield attempt.skipped("its place is not known; pass --checkpoint")
        return
    yield _opened("checkpoint.write", copy, os.O_WRONLY)
    yield _replaceable("checkpoint.replace", "the checkpoint copy", copy)
    yield _beside("checkpoint.disk", copy, state)


def _beside(probe_id: str, path: Path, state: Path) -> Finding:
    """Report whether what authenticates the state is on the disk of the state."""
    attempt = Attempt(probe_id, f"compare the disks of {path} and the state", "another disk")
    try:
        shared = path.stat().st_dev == state.stat().st_dev
    except OSError as error:
        return attempt.skipped(f"cannot be seen from here ({type(error).__name__})")
    if shared:
        return attempt.warned("one disk: whoever gets it can edit the state unnoticed")
    return attempt.ok("another disk")


def _code() -> Finding:
    """Check that this installation's files, which the sidecar may run, are not writable."""
    attempt = Attempt("code.write", "write the sidecar's program files", REFUSED)
    for path in _program_files():
        if os.access(path, os.W_OK, effective_ids=True):
            return attempt.fail(f"{path} is writable")
    return attempt.ok("none of this installation's program files is writable")


def _program_files() -> Iterator[Path]:
    yield Path(os.path.realpath(sys.executable))
    yield Path(sys.executable).parent
    yield Path(sys.prefix)
    for name in ("stdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    root = Path(__file__).parent.parent.parent
    yield root
    for package in _PACKAGES:
        yield root / package
        yield from (root / package).rglob("*")


def _preload() -> Finding:
    attempt = Attempt("loader.preload", "make the loader preload code (ld.so.preload)", REFUSED)
    for path in (Path("/etc/ld.so.preload"), Path("/etc/ld.so.cache"), Path("/etc")):
        if os.access(path, os.W_OK, effective_ids=True):
            return attempt.fail(f"{path} is writable")
    return attempt.ok("the loader's files are not writable")


def _root_socket() -> Finding:
    attempt = Attempt("host.root_socket", "reach a container engine's socket", REFUSED)
    for path in _ROOT_SOCKETS:
        if os.access(path, os.W_OK, effective_ids=True):
            return attempt.fail(f"{path} is writable: whoever may talk to it is root here")
    return attempt.ok("none is writable")
