"""The gates that MCP wrappers start: processes of their own, which no test has as a child."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from proxy.doctor.locate import lock_holders, option_of, running_sidecars

DEADLINE_S = 60.0


def gate_of(state: Path) -> int:
    """The one process that has the state directory."""
    (pid,) = lock_holders(state)
    return pid


def gates_below(base: Path) -> list[int]:
    """Every gate whose command line names a state directory below a folder."""
    found = ((pid, option_of(pid, "--state")) for pid in running_sidecars(None))
    return [pid for pid, state in found if state and Path(state).is_relative_to(base)]


def bring_up(environment: Mapping[str, str]) -> None:
    """Have a wrapper start the gate of an environment, so that no later one is answered too early.

    Until the gate is there, `initialize` is answered without the server's own words.
    """
    call: dict[str, object] = {"name": "read_graph", "arguments": {}}
    asked: tuple[dict[str, object], ...] = (
        {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "proxy", "mcp", "--store"],
        capture_output=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": "/", **environment},
        input="".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked),
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert "isError" not in done.stdout, done.stdout


def end_process(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that need not be our child, and wait for its end."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, number)
            ended, _, _ = select.select([handle], [], [], DEADLINE_S)
            assert ended, f"process {pid} does not end"
        finally:
            os.close(handle)
