"""Protects the memory of the gate's process from other processes of the machine.

That memory has undecided candidates and the keys that decrypt them. A core dump would write both to
disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
from typing import Final

_PR_SET_DUMPABLE: Final = 4  # The constant PR_SET_DUMPABLE of prctl(2).


def no_core_dumps() -> None:
    """Forbid core dumps of this process, and attaching to it by its user's other processes.

    Programs that it starts are unaffected: the kernel resets the prctl(2) flag at execve(2). The
    resource limit is for systems where that call is refused; a program in `core_pattern` ignores
    it.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
