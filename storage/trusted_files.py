"""Files and directories that an operator names: whose they are, of what type, and how long.

The rule is sshd's for its keys. A file counts only if it belongs to this user or to root, nobody
else may write it, and no directory or symlink on its way lets somebody else put another one in its
place. What sshd refuses and honest machines have is allowed: a directory with the sticky bit, a
group that has nobody else in it, and what root mounted read-only.
"""

from __future__ import annotations

import enum
import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final

from storage.errors import StorageError

_LINKS_MAX: Final = 40
_CHUNK_LEN: Final = 1024 * 1024
# The owning group may read a secret: a kubelet mounts secrets as root's, readable by the pod's
# `fsGroup`. No other user may read it, and only its owner may write it.
_OPEN_TO_STRANGERS: Final = 0o037


class UnfitFile(StorageError):  # noqa: N818 - as its siblings: named for what it is
    """A file or directory that is not to be relied on; the message says why, and what to do."""


class Trust(enum.Enum):
    """What a file must fulfil before its content is used."""

    OURS = enum.auto()  # nobody but this user and root can change it
    SECRET = enum.auto()  # the same, and strangers cannot read it
    # any owner's file, because a signature proves its content; or a file that a person named at a
    # terminal: any owner, a pipe as well.
    PLAIN = enum.auto()
    # A person at a terminal named it, to have it examined: any owner, and a pipe as well.
    ANYBODYS = enum.auto()


def read_file(path: Path, bytes_max: int, trust: Trust = Trust.OURS) -> bytes:
    """The bytes of a file, at most so many.

    A path may lead over symlinks: a kubelet swaps a whole directory of secrets by one.

    Raises:
        UnfitFile: It is not what `trust` asks for, or longer than `bytes_max`.
        OSError: It cannot be opened or read.
    """
    checked = trust is not Trust.ANYBODYS
    # Non-blocking: a named pipe in its place would block a start or a reload for ever.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if checked else 0))
    try:
        if checked:
            _refuse_unfit(path, os.fstat(handle), trust)
        data = _read(handle, bytes_max)
    finally:
        os.close(handle)
    if len(data) > bytes_max:
        raise UnfitFile(f"a file of at most {bytes_max} bytes")
    return data


def refuse_replaceable(path: Path) -> None:
    """Refuse a place that another user can take away, put elsewhere, or put something else in.

    For a missing path, its existing parents are checked.

    Raises:
        UnfitFile: Who could do it where, and what to do.
        OSError: Some part of the way cannot be looked at.
    """
    at, left, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    found = at.lstat()
    while left:
        _refuse_writable(at, found)
        name = left.pop()
        if name == "..":
            at = at.parent
            found = at.lstat()
            continue
        entry = at / name
        try:
            found = entry.lstat()
        except FileNotFoundError:
            return
        _refuse_owner(entry, found)
        if not stat.S_ISLNK(found.st_mode):
            at = entry
            continue
        links += 1
        if links > _LINKS_MAX:
            raise UnfitFile(f"a path without a circle of symlinks: {path} has one")
        target = entry.readlink()
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        at = Path("/") if target.is_absolute() else at
        found = at.lstat()
    if stat.S_ISDIR(found.st_mode):
        _refuse_writable(at, found)


def _refuse_unfit(path: Path, found: os.stat_result, trust: Trust) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnfitFile("a regular file")
    if trust is Trust.PLAIN:
        return
    _refuse_owner(path, found)
    if trust is Trust.SECRET and found.st_mode & _OPEN_TO_STRANGERS:
        raise UnfitFile("a file that others cannot read or write: mode 0400, 0440 or 0600")
    if found.st_mode & stat.S_IWOTH or (
        found.st_mode & stat.S_IWGRP and not _nobody_else_in(found.st_gid)
    ):
        raise UnfitFile(f"a file that only its owner can write: `chmod go-w {path}`")
    refuse_replaceable(path)


def _refuse_owner(entry: Path, found: os.stat_result) -> None:
    if found.st_uid in _relied_on():
        return
    raise UnfitFile(
        f"out of the reach of uid {found.st_uid}, to whom {entry} belongs: "
        f"run as that user, choose another place, or, if you know what is in it, "
        f"`chown -h {os.geteuid()} {entry}`"
    )


def _refuse_writable(directory: Path, found: os.stat_result) -> None:
    others = found.st_mode & stat.S_IWOTH
    if not others and not (found.st_mode & stat.S_IWGRP and not _nobody_else_in(found.st_gid)):
        return
    # In a directory with the sticky bit nobody can rename another user's file.
    if found.st_mode & stat.S_ISVTX:
        return
    if os.path.ismount(directory) and os.statvfs(directory).f_flag & os.ST_RDONLY:
        return  # as Kubernetes mounts a ConfigMap: mode 0777, and closed to everybody
    raise UnfitFile(
        f"out of the reach of others, who can write {directory} and so replace what is in it: "
        f"`chmod {'go-w' if others else 'g-w'} {directory}`, or `chmod +t` where others must write"
    )


def _relied_on() -> frozenset[int]:
    """Users who can change this process without changing a file: this uid and root.

    In a user namespace every uid from outside has the same number, root's among them.
    """
    known = {0, os.geteuid()}
    try:
        whole = Path("/proc/self/uid_map").read_text("ascii").split() == ["0", "0", "4294967295"]
        if not whole:
            known.add(int(Path("/proc/sys/kernel/overflowuid").read_text("ascii")))
    except (OSError, ValueError):
        pass  # another system than Linux has no such namespaces
    return frozenset(known)


def _nobody_else_in(group: int) -> bool:
    """Whether a group has no members besides this user and root, as far as this machine knows."""
    try:
        names = frozenset(grp.getgrgid(group).gr_mem)
    except KeyError:
        names = frozenset[str]()
    members = {
        user.pw_uid for user in pwd.getpwall() if user.pw_gid == group or user.pw_name in names
    }
    return members <= {0, os.geteuid()}


def _read(handle: int, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    left = bytes_max + 1
    while left and (part := os.read(handle, min(left, _CHUNK_LEN))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
