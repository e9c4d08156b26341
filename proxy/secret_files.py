"""Keys from files, as Kubernetes and Compose mount them: one line, closed to strangers."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from proxy.setting_values import BadValue, Secret, secret

if TYPE_CHECKING:
    from pathlib import Path

# The owning group may read: a kubelet makes a mounted secret root's, and readable by the pod's
# `fsGroup`. Nobody else may read it, and nobody but its owner may write it.
FORBIDDEN_MODE: Final = 0o037
_FILE_BYTES_MAX: Final = 1024


def secret_from(path: Path) -> Secret:
    """The secret in a file; one line break at its end is not part of it.

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
        data = os.read(handle, _FILE_BYTES_MAX)
    except OSError as error:
        raise BadValue(f"a readable file ({type(error).__name__})") from None
    finally:
        os.close(handle)
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise BadValue("a file with one line of printable ASCII characters") from None
    return secret(text.removesuffix("\n").removesuffix("\r"))
