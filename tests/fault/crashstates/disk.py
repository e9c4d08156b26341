"""A disk that keeps only what it was made to keep: strict POSIX, in sectors of 512 bytes.

File contents are durable after an fsync of the file; a name is durable after an fsync of its
directory. Anything else may survive a power cut or not: each sector of an unsynced write by itself,
and of the changes to one directory the first few, in order (a rename is one change).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

SECTOR: Final = 512


class Create(msgspec.Struct, frozen=True):
    """A file or directory that may be new."""

    path: str
    directory: bool = False


class Link(msgspec.Struct, frozen=True):
    """A rename; what was at `new` is gone with it."""

    old: str
    new: str


class Unlink(msgspec.Struct, frozen=True):
    path: str


class Write(msgspec.Struct, frozen=True):
    """Bytes at an offset; `durable` where the file was opened so that a write is a sync."""

    path: str
    offset: int
    data: bytes
    durable: bool = False


class Truncate(msgspec.Struct, frozen=True):
    path: str
    length: int


class Sync(msgspec.Struct, frozen=True):
    """fsync or fdatasync of a file or directory."""

    path: str


class Said(msgspec.Struct, frozen=True):
    """A line on the workload's standard output. It changes no file, and is a promise."""

    data: bytes


Operation = Create | Link | Unlink | Write | Truncate | Sync | Said


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the unsynced changes survive: shares from 0 to 1, and whether in global order."""

    contents: float
    names: float

    def __str__(self) -> str:
        return f"contents {self.contents:g}, names {self.names:g}"


NOTHING: Final = Choice(contents=0.0, names=0.0)
EVERYTHING: Final = Choice(contents=1.0, names=1.0)


class State(msgspec.Struct, frozen=True):
    """The tree on the disk when the power is back: directories, and files with their bytes."""

    directories: tuple[str, ...]
    files: dict[str, bytes]


class Disk:
    """The operations up to one moment, split into what is durable and what may be lost.

    `root` itself is durable; every path is below it.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        # Names as a running process sees them; an inode of None is a directory.
        self._live: dict[str, int | None] = {root: None}
        self._durable: dict[str, int | None] = {root: None}
        self._content: dict[int, bytearray] = {}
        self._unsynced: dict[int, list[Write | Truncate]] = {}
        self._names: list[tuple[Create | Link | Unlink, int | None]] = []

    def apply(self, operation: Operation) -> None:
        match operation:
            case Create(path=path, directory=directory):
                if path not in self._live:
                    inode = None if directory else len(self._content)
                    if inode is not None:
                        self._content[inode] = bytearray()
                        self._unsynced[inode] = []
                    self._live[path] = inode
                    self._names.append((operation, inode))
            case Link(old=old, new=new):
                inode = self._live.pop(old)
                self._live[new] = inode
                self._names.append((operation, inode))
            case Unlink(path=path):
                self._live.pop(path)
                self._names.append((operation, None))
            case Write(path=path, durable=True):
                _write(self._content[self._inode(path)], operation)
            case Write(path=path) | Truncate(path=path):
                self._unsynced[self._inode(path)].append(operation)
            case Sync(path=path):
                self._sync(path)
            case Said():
                pass

    def _inode(self, path: str) -> int:
        inode = self._live[path]
        if inode is None:
            raise IsADirectoryError(path)
        return inode

    def _sync(self, path: str) -> None:
        inode = self._live[path]
        if inode is not None:
            for change in self._unsynced[inode]:
                _change(self._content[inode], change)
            self._unsynced[inode].clear()
            return
        waiting = self._names
        self._names = []
        for named, of in waiting:
            if os.path.dirname(_path_of(named)) == path:  # noqa: PTH120 - paths are plain text here
                _name(self._durable, named, of)
            else:
                self._names.append((named, of))

    # ---- states --------------------------------------------------------------------------------

    def state(self, choice: Choice, rng: Random, torn: Operation | None = None) -> State:
        """One state that a power cut may leave now; `torn` had begun, and may be there in part."""
        names = dict(self._durable)
        for change, inode in self._surviving_names(choice, rng):
            _name(names, change, inode)
        files: dict[str, bytes] = {}
        directories: list[str] = []
        for path in sorted(names):
            # A name inside a directory that was itself lost leads nowhere.
            if path != self._root and os.path.dirname(path) not in directories:  # noqa: PTH120
                continue
            inode = names[path]
            if inode is None:
                directories.append(path)
            else:
                files[path] = self._surviving_bytes(inode, choice, rng, torn)
        return State(tuple(directories), files)

    def _surviving_names(
        self, choice: Choice, rng: Random
    ) -> Iterator[tuple[Create | Link | Unlink, int | None]]:
        ended: set[str] = set()
        for change, inode in self._names:
            directory = os.path.dirname(_path_of(change))  # noqa: PTH120
            if directory in ended:
                continue
            if rng.random() < choice.names:
                yield change, inode
            else:
                ended.add(directory)

    def _surviving_bytes(
        self, inode: int, choice: Choice, rng: Random, torn: Operation | None
    ) -> bytes:
        content = bytearray(self._content[inode])
        for change in self._unsynced[inode]:
            _change_partly(content, change, choice.contents, rng)
        if isinstance(torn, Write) and self._live.get(torn.path) == inode:
            _change_partly(content, torn, 0.5, rng)
        return bytes(content)


def _path_of(change: Create | Link | Unlink) -> str:
    return change.new if isinstance(change, Link) else change.path


def _name(names: dict[str, int | None], change: Create | Link | Unlink, inode: int | None) -> None:
    match change:
        case Create(path=path):
            names[path] = inode
        case Link(old=old, new=new):
            names.pop(old, None)
            names[new] = inode
        case Unlink(path=path):
            names.pop(path, None)


def _write(content: bytearray, change: Write) -> None:
    if len(content) < change.offset:
        content.extend(bytes(change.offset - len(content)))
    content[change.offset : change.offset + len(change.data)] = change.data


def _change(content: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Write):
        _write(content, change)
        return
    del content[change.length :]
    content.extend(bytes(change.length - len(content)))


def _change_partly(content: bytearray, change: Write | Truncate, share: float, rng: Random) -> None:
    if share >= 1:
        _change(content, change)
        return
    if share <= 0:
        return
    if isinstance(change, Truncate):
        if rng.random() < share:
            _change(content, change)
        return
    at = 0
    while at < len(change.data):
        length = SECTOR - (change.offset + at) % SECTOR
        if rng.random() < share:
            piece = change.data[at : at + length]
            _write(content, Write(change.path, change.offset + at, piece))
        at += length
