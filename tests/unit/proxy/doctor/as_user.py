"""Run a function as another real user, in a child process, and bring its result back."""

from __future__ import annotations

import codecs
import os
import traceback
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

AGENT_UID = 65_534
SIDECAR_UID = 10_001

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="two real users need root to start with")

_Result = TypeVar("_Result")


def become(uid: int) -> None:
    """Turn this process into one of another user, for good."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def as_user(uid: int, act: Callable[[], _Result], form: type[_Result]) -> _Result:
    """What `act` returns when a process of `uid`, without groups or capabilities, calls it."""
    for name in ("ascii", "idna", "latin-1"):
        # Loaded late by the standard library, from an installation that may be root's own.
        codecs.lookup(name)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            become(uid)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(msgspec.msgpack.encode(act()))
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the child could not run"
    return msgspec.msgpack.decode(data, type=form)
