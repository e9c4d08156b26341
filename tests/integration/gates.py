"""The gates that MCP wrappers start: processes of their own, which no test has as a child."""

from __future__ import annotations

import os
import select
import signal
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
