"""Answers the adapter protocol on standard input and output; beside each drive, in its process."""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import TypedDict

# As `tests/evaluate/suite/protocol.py` has them, without what only that process has. Two of the
# keys are words of the language.
Request = TypedDict(
    "Request",
    {
        "op": str,
        "as": str,
        "text": str,
        "class": str,
        "source": str,
        "nonce": str,
        "id": str,
        "derived_from": list[str],
        "target": str,
        "metadata": dict[str, str],
        "promotion_token": str,
        "query": str,
        "statement": str,
    },
    total=False,
)


class Item(TypedDict):
    text: str


class Reply(TypedDict, total=False):
    """The outcome of an operation. `na` says why this implementation cannot express it."""

    na: str
    decision: str
    id: str
    said: str
    items: list[Item]
    files: list[str]
    name: str


def place() -> str:
    """A directory that is gone when the process ends."""
    path = tempfile.mkdtemp(prefix="mnemogate-neighbour-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def serve(acts: dict[str, Callable[[Request], Reply]]) -> None:
    """One JSON object in, one out, until the input ends."""
    # Output of libraries is discarded: the real stdout carries the protocol.
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request: Request = json.loads(line)
        act = acts.get(request["op"])
        answer: Reply = {"na": "no such operation"} if act is None else act(request)
        out.write(json.dumps(answer) + "\n")
        out.flush()


def unsupported(request: Request, *fields: str) -> Reply | None:
    """The answer to a request that needs what this implementation lacks; None for any other."""
    for field in fields:
        if request.get(field):
            return {"na": f"it has no {field}"}
    return None
