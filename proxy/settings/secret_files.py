"""Keys from files, as Kubernetes and Compose mount them: one line, closed to strangers."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from proxy.settings.values import BadValue, Secret, secret

if TYPE_CHECKING:
    from pathlib import Path

# The owning group may read: a kubelet makes a mounted secret root's, and readable by the pod's
# `fsGroup`. Nobody else may read it, and nobody but its owner may write it.
FORBIDDEN_MODE: Final = 0o037
_FILE_BYTES_MAX: Final = 1024


LIST_BYTES_MAX: Final = 16 * 1024


def secret_from(path: Path) -> Secret:
    """The secret in a file; one line break at its end is not part of it.

    Raises:
        BadValue: What is required of the file; never its content.
    """
    return secret(_read(path, _FILE_BYTES_MAX).removesuffix("\n").removesuffix("\r"))


def pairs_from(path: Path, separator: str) -> tuple[tuple[str, str], ...]:
    """The names and values of a file, one per line; blank lines and `#` lines are left out.

    Raises:
        BadValue: What is required of the file; never its content.
    """
    pairs: list[tuple[str, str]] = []
    for line in _read(path, LIST_BYTES_MAX).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, found, value = line.partition(separator)
        if not found or not name.strip():
            raise BadValue(f"a file with lines NAME{separator}VALUE")
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


def _read(path: Path, bytes_max: int) -> str:
    """The text of a file that is closed to strangers.

    The path may lead over symlinks: a kubelet swaps a whole directory of secrets by one. The mode
    is read from the file that was opened, so it cannot be another one's.

    Raises:
        BadValue: What is required of the file; never its content.
    """
    try:
        # Not blocking: a named pipe in its place would stop the start for good.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BadValue(f"a readable file ({type(error).__name__})") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise BadValue("a regular file")
        if found.st_mode & FORBIDDEN_MODE:
            raise BadValue("a file that others cannot read or write: mode 0400, 0440 or 0600")
        data = os.read(handle, bytes_max + 1)
    except OSError as error:
        raise BadValue(f"a readable file ({type(error).__name__})") from None
    finally:
        os.close(handle)
    if len(data) > bytes_max:
        raise BadValue(f"a file of at most {bytes_max} bytes")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise BadValue("a file of printable ASCII characters") from None
