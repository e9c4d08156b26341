"""A server for tests of the stdio wrapper: one line in, what its method says happens.

It knows nothing of this project, and is run as a program.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any


def say(body: dict[str, object]) -> None:
    # Not through `sys.stdout`: a signal's handler may be inside of it.
    left = memoryview(json.dumps(body).encode() + b"\n")
    while left:
        left = left[os.write(1, left) :]


def hung_up(_number: int, _frame: object) -> None:
    say({"jsonrpc": "2.0", "method": "x/hup"})


def main() -> None:  # noqa: C901 - one branch per method
    signal.signal(signal.SIGHUP, hung_up)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        method, request_id = asked.get("method", ""), asked.get("id")
        params: dict[str, Any] = asked.get("params") or {}
        if method == "x/env":
            got = {
                "env": os.environ.get(params["name"]),
                "cwd": str(Path.cwd()),
                "pid": os.getpid(),
            }
            say({"jsonrpc": "2.0", "id": request_id, "result": got})
        elif method == "x/stderr":
            os.write(2, bytes.fromhex(params["hex"]))
            say({"jsonrpc": "2.0", "id": request_id, "result": {}})
        elif method == "x/long":
            text = "y" * params["len"]
            say({"jsonrpc": "2.0", "id": request_id, "result": {"text": text}})
        elif method == "x/exit":
            sys.exit(params["code"])
        elif method == "x/kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif method == "x/noise":
            os.write(1, b"server is up\n\n")
            say({"jsonrpc": "2.0", "id": request_id, "result": {}})
        elif method == "x/child":
            # A daemon that keeps our stdout open when we are gone, until its stdin ends.
            if os.fork() == 0:
                os.read(0, 1)
                os._exit(0)
            say({"jsonrpc": "2.0", "id": request_id, "result": {}})
            sys.exit(7)
        elif method == "x/silent":
            pass
        elif request_id is not None:
            say({"jsonrpc": "2.0", "id": request_id, "result": {"echo": params}})
    sys.exit(3)


if __name__ == "__main__":
    main()
