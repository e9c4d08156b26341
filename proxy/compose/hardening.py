"""Keeps other processes of the same user from reading this process's memory, where Linux can."""

from __future__ import annotations

import ctypes
import enum
import os
import resource
import socket
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_PR_GET_DUMPABLE: Final = 3


class Shielding(enum.Enum):
    """The result of shielding the process's memory, which `run` prints."""

    ON = "on"
    UNSUPPORTED = "unsupported"  # the system has no prctl, as it is not Linux
    REFUSED = "refused"


def missing_here() -> str:
    """What the sidecar needs of Linux and this system does not have; "" if it has everything."""
    needed = (
        (hasattr(socket, "SO_PEERCRED"), "a caller's uid (SO_PEERCRED)"),
        (hasattr(os, "memfd_create"), "files in memory alone (memfd_create)"),
        (hasattr(os, "fdatasync"), "data that is durable (fdatasync)"),
    )
    return ", ".join(what for there, what in needed if not there)


def shield() -> Shielding:
    """Make this process not dumpable: no ptrace, no `/proc/<pid>/mem`, `environ`, `fd`, no core.

    A process of the same uid could otherwise read keys and every withheld candidate from memory.
    Programs that the process starts are unaffected: the kernel resets the flag at execve(2). The
    resource limit is for systems that refuse prctl(2); a program in `core_pattern` ignores it.
    Root can still read them, and a process of the same uid can still edit the store's files, unless
    the sidecar runs as a user of its own, which `doctor` tests.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return Shielding.UNSUPPORTED
    prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
    prctl.restype = ctypes.c_int
    if prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 or prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0:
        return Shielding.REFUSED
    return Shielding.ON
