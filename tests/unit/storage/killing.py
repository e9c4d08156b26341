"""Kills of a process between two changes of names in a directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final

_KILLED: Final = 9
_CHANGES: Final = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir"})


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Whether a process that works was killed before its n-th change of a name."""
    child = os.fork()
    if child == 0:
        left, code = step, 1

        def count(event: str, given: tuple[object, ...]) -> None:
            nonlocal left
            del given
            left -= event in _CHANGES
            if not left:
                os._exit(_KILLED)

        try:
            sys.addaudithook(count)
            work()
            code = 0
        finally:
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, _KILLED)
    return ended == _KILLED
