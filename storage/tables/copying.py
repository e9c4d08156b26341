"""A compacted copy of an LMDB environment, durable when the function returns."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import lmdb

from storage.ground.errors import StoreUnavailable
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


def fsync_file(path: Path) -> None:
    """Make a file's bytes durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
