"""A compacted copy of an LMDB environment, durable when the function returns."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import lmdb

from storage.ground.errors import StoreCorrupt, StoreUnavailable
from storage.ground.state_directory import DIRECTORY_MODE, FILE_MODE, fsync_directory

DATA: Final = "data.mdb"


def copy_compactly(env: lmdb.Environment, directory: Path) -> None:
    """Write one generation of `env`, without its free pages, to the new directory `directory`.

    The copy is made in a read transaction, so readers and the writer continue meanwhile.

    Raises:
        StoreUnavailable: No room, or the disk refused; the incomplete copy was removed.
    """
    try:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=DIRECTORY_MODE)
        env.copy(str(directory), compact=True)
        (directory / DATA).chmod(FILE_MODE)
        fsync_file(directory / DATA)
        fsync_directory(directory)
    except (lmdb.Error, OSError) as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise StoreUnavailable(f"no copy can be written: {error}") from error


def refuse_cut(directory: Path) -> None:
    """Refuse a file that lacks pages in use, because reading one would end the process (SIGBUS).

    Call it before the environment is opened. LMDB does not write a free page at the end of a file,
    so a sound file may be shorter than its meta page says. In that case a child process reads
    every page in use.

    Raises:
        StoreCorrupt: The file was cut.
        lmdb.Error: The file is no environment's.
    """
    with _opened(directory) as env:
        whole_bytes = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if (directory / DATA).stat().st_size >= whole_bytes:
        return
    child = os.fork()
    if not child:
        unread = 1
        try:
            with _opened(directory) as env:
                env.copyfd(os.open(os.devnull, os.O_WRONLY), compact=True)
            unread = 0
        finally:
            os._exit(unread)
    if os.waitpid(child, 0)[1]:
        raise StoreCorrupt(f"{directory / DATA} was cut, and lacks pages; restore a backup")


def _opened(directory: Path) -> lmdb.Environment:
    return lmdb.open(str(directory), map_size=0, readonly=True, create=False, lock=False)


def fsync_file(path: Path) -> None:
    """Make a file's bytes durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
