"""Defines the exit codes, and the exception that ends a command early."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """The exit codes of `mnemogate`, which have the same meaning for every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130
    CUT_SHORT = 141

    @property
    def meaning(self) -> str:
        """The line about this code in `mnemogate --help`."""
        return _MEANING[self]


_MEANING = {
    Exit.OK: "done; or what was asked about holds",
    Exit.FAILED: "the check ran, and what it checks does not hold",
    Exit.USAGE: "the command line or the configuration is wrong; nothing was tried",
    Exit.UNREACHABLE: "the sidecar, the store or a file could not be reached or opened",
    Exit.NOT_FOUND: "nothing of that name or id",
    Exit.REFUSED: "the sidecar refused: wrong credential, or not allowed now",
    Exit.INTERRUPTED: "stopped by Ctrl-C",
    Exit.CUT_SHORT: "who read the output had enough (`| head`): what was asked about may not hold",
}


class CommandFailed(Exception):  # noqa: N818 - reads as what happened, like the failures of a store
    """The error that ends a command: `what` is wrong, and what to do next (`then`)."""

    def __init__(self, code: Exit, what: str, *, then: str = "") -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.then = then


def leaf_of(error: Exception) -> Exception:
    """The single exception inside nested exception groups; else the given one."""
    inner: tuple[Exception, ...] = getattr(error, "exceptions", ())
    return leaf_of(inner[0]) if len(inner) == 1 else error
