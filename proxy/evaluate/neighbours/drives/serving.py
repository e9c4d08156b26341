"""Answers the adapter protocol on standard input and output; beside each drive, in its process."""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]


def place() -> str:
    """A directory that is gone when the process ends."""
    path = tempfile.mkdtemp(prefix="mnemogate-neighbour-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def serve(acts: dict[str, Callable[[Json], Json]]) -> None:
    """One JSON object in, one out, until the input ends."""
    # What a library prints belongs to nobody here; the protocol keeps the real stdout.
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request: Json = json.loads(line)
        act = acts.get(request["op"])
        answer = {"na": "no such operation"} if act is None else act(request)
        out.write(json.dumps(answer) + "\n")
        out.flush()


def unsupported(request: Json, *fields: str) -> Json | None:
    """What to answer where a request needs something that this implementation does not have."""
    for field in fields:
        if request.get(field):
            return {"na": f"it has no {field}"}
    return None
