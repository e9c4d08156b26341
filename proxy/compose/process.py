"""What the process of a gate withholds from others on its machine: an image of its memory.

Candidates that wait for their verdict are there, and the keys that open them. A core dump would put
both on the disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
from typing import Final

_PR_SET_DUMPABLE: Final = 4  # prctl(2)


def no_core_dumps() -> None:
    """No crash of this process writes an image of it, and nobody of its user attaches to it.

    Programs that it starts are as before: the kernel sets what prctl(2) took away at execve(2). The
    limit is for where that call is refused; a program behind a pipe in `core_pattern` ignores it.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
