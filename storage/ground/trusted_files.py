"""Checks of files and directories that an operator names: owner, type, modes and length.

The rule is that of sshd for its keys. A file is accepted only if it belongs to this user or to
root, no other user may write it, and no directory or symlink on its path lets another user replace
it. Three cases that sshd refuses and honest machines have are accepted: a directory with the sticky
bit, a group without other members, and a directory that root mounted read-only.
"""

from __future__ import annotations

import enum
import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final

from storage.ground.errors import StorageError

_LINKS_MAX: Final = 40
_CHUNK_LEN: Final = 1024 * 1024
# The owning group may read a secret, because a kubelet mounts secrets as root's, readable by the
# pod's `fsGroup`. No other user may read a secret, and only its owner may write it.
_OPEN_TO_STRANGERS: Final = 0o037


class UnfitFile(StorageError):  # noqa: N818 - as its siblings: named for what it is
    """The error for a file or directory that must not be used, with the reason and the remedy."""


class Trust(enum.Enum):
    """The conditions that a file must fulfil before its content is used."""

    OURS = enum.auto()  # No one but this user and root can change the file.
    # No one but this user and root can change the file, and no one else can read it.
    SECRET = enum.auto()
    PLAIN = enum.auto()
    # A person named the file at a terminal to have it examined: any owner, and a pipe too.
    ANYBODYS = enum.auto()


def read_file(path: Path, bytes_max: int, trust: Trust = Trust.OURS) -> bytes:
    """The bytes of a file, at most `bytes_max`.

    The path may contain symlinks, because a kubelet replaces a directory of secrets by one.

    Raises:
        UnfitFile: The file does not fulfil the conditions of `trust`, or is longer than
            `bytes_max`; the message names the file.
        OSError: The file cannot be opened or read; `reason` names the file as well.
    """
    checked = trust is not Trust.ANYBODYS
    # The file is opened non-blocking, because a named pipe in its place would block a start or a
    # reload for ever.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if checked else 0))
    try:
        if checked:
            _refuse_unfit(path, os.fstat(handle), trust)
        data = _read(handle, bytes_max)
    except OSError as error:
        # Only the error of `os.open` contains the file's name by itself.
        error.filename = error.filename or str(path)
        raise
    finally:
        os.close(handle)
    if len(data) > bytes_max:
        raise UnfitFile(f"a file of at most {bytes_max} bytes, and {path} is longer")
    return data


def reason(error: Exception) -> str:
    """An error in words; for an OSError with the name of its file."""
    if not isinstance(error, OSError):
        return str(error)
    words = error.strerror or type(error).__name__
    return words if error.filename is None else f"{error.filename}: {words}"


def refuse_replaceable(path: Path) -> None:
    """Refuse a path where another user could remove, replace or add a file.

    For a missing path, its existing parents are checked.

    Raises:
        UnfitFile: The message names who could do what, and where.
        OSError: A directory on the path cannot be read.
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


def refuse_open_directory(path: Path) -> None:
    """Refuse a directory that another user can read, or on whose path one could replace a file.

    Raises:
        UnfitFile: The message names the directory, or who could do what, and where.
        OSError: It is not there, or cannot be read.
    """
    found = path.stat()
    refuse_replaceable(path)
    shared = found.st_mode & stat.S_IRWXG and not _nobody_else_in(found.st_gid)
    if not stat.S_ISDIR(found.st_mode) or shared or found.st_mode & stat.S_IRWXO:
        raise UnfitFile(f"a directory that others cannot read: `chmod 700 {path}`")


def _refuse_unfit(path: Path, found: os.stat_result, trust: Trust) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnfitFile(f"a regular file, and {path} is none")
    if trust is Trust.PLAIN:
        return
    _refuse_owner(path, found)
    if trust is Trust.SECRET and found.st_mode & _OPEN_TO_STRANGERS:
        raise UnfitFile(
            "a file that others cannot read or write, of mode 0400, 0440 or 0600: "
            f"`chmod 600 {path}`, which has {stat.S_IMODE(found.st_mode):04o}"
        )
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
    # In a directory with the sticky bit no user can rename another user's file.
    if found.st_mode & stat.S_ISVTX:
        return
    if os.path.ismount(directory) and os.statvfs(directory).f_flag & os.ST_RDONLY:
        # Kubernetes mounts a ConfigMap in this way: mode 0777, but in a directory that is closed
        # to others.
        return
    raise UnfitFile(
        f"out of the reach of others, who can write {directory} and so replace what is in it: "
        f"`chmod {'go-w' if others else 'g-w'} {directory}`, or `chmod +t` where others must write"
    )


def _relied_on() -> frozenset[int]:
    """The users who can change this process without changing a file: this uid and root.

    In a user namespace all uids from outside, root included, appear as one number.
    """
    known = {0, os.geteuid()}
    try:
        whole = Path("/proc/self/uid_map").read_text("ascii").split() == ["0", "0", "4294967295"]
        if not whole:
            known.add(int(Path("/proc/sys/kernel/overflowuid").read_text("ascii")))
    except (OSError, ValueError):
        pass  # systems other than Linux have no user namespaces
    return frozenset(known)


def _nobody_else_in(group: int) -> bool:
    """Whether a group has no members but this user and root, as far as this machine knows."""
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
