"""Starts `mnemogate run` for relays that find no gate: a process of its own, which outlives them.

A relay is never the gate itself. So the gate, and the page on which a person decides, remain when
the MCP host that started the relay ends.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from proxy.doctor.locate import lock_holders
from proxy.guard.wire import SOCKET
from proxy.settle.forwarder import NoGate
from storage.ground.trusted_files import reason

_LOG: Final = logging.getLogger("mnemogate.gate_starter")
PAUSE_S: Final = 0.1
READY_S: Final = 30.0
STAND_BACK_S: Final = 10.0
"""Seconds that a gate which ended has to come back by itself, as a service that is restarted."""
FAILED_S: Final = 30.0
"""Seconds from a start that failed to the next one, whoever makes it."""
LOG_NAME: Final = "gate.log"
LOCK_NAME: Final = "start.lock"
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_LOG_BYTES_READ_MAX: Final = 64 * 1024
_SAID: Final = "mnemogate: "
# A process between the relay and the gate, which ends at once: some hosts end every descendant of
# what they started, whatever its session.
_DETACHED: Final = (
    *(sys.executable, "-I", "-S", "-c"),
    "import os, sys; os.fork() or os.execv(sys.argv[1], sys.argv[1:])",
)


class GateStarter:
    """Makes some process serve the gate of a state directory. Event loop only.

    Of all starters one starts a gate: the one that locks a file. The gate inherits the lock and
    holds it for as long as it runs, so that a starter which is killed leaves no lock.
    """

    def __init__(
        self,
        state: Path,
        command: Callable[[], tuple[str, ...]],
        environment: Mapping[str, str],
        *,
        clock_ns: Callable[[], int],
        stand_back_s: float = STAND_BACK_S,
    ) -> None:
        """`command` is asked for the gate's whole command line at each start."""
        self._clock_ns = clock_ns
        self._state = state
        self._command = command
        self._environment = environment
        self._stand_back_s = stand_back_s
        self._turn = asyncio.Lock()
        # Whether this starter's last start is not known to have succeeded. A request that is
        # cancelled forgets what it began, so this is kept here.
        self._started = False
        self._told = ""

    async def bring_up(self, *, again: bool) -> None:
        """Return as soon as a process serves the gate; start one if none does.

        `again`: a gate was reached before. It may come back by itself, so it is waited for first.

        Raises:
            NoGate: No process serves it; the text is the reason.
        """
        async with self._turn:
            try:
                await self._brought_up(self._stand_back_s if again else 0)
            except OSError as error:
                told = reason(error)
                if told != self._told:
                    _LOG.error("there is no gate", extra={"fields": {"why": told}})
                self._told = told
                raise NoGate(told) from None
            self._told = ""

    async def _brought_up(self, stand_back_s: float) -> None:
        loop = asyncio.get_running_loop()
        start_s, end_s = loop.time() + stand_back_s, loop.time() + READY_S
        while not await self._answers():
            if loop.time() >= end_s:
                raise TimeoutError(errno.ETIMEDOUT, f"no gate serves {self._state}")
            # A gate that is stopping, or a command, may still have the directory open.
            if loop.time() >= start_s and not lock_holders(self._state):
                await asyncio.to_thread(self._start)
            await asyncio.sleep(PAUSE_S)
        if self._started:
            # The start did not fail, so a later one need not wait.
            os.utime(self._state / LOCK_NAME, (0, 0))
            self._started = False

    async def _answers(self) -> bool:
        """Whether a process serves the gate's socket."""
        try:
            _, writer = await asyncio.open_unix_connection(str(self._state / SOCKET))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        writer.close()
        return True

    def _start(self) -> None:
        """Start a gate, unless one runs or is being started. Blocking.

        Raises:
            ChildProcessError: A gate was started a moment ago, and has ended; the text is why.
        """
        lock = self._open(LOCK_NAME, os.O_RDWR)
        try:
            if not _locked(lock):
                return
            last = os.fstat(lock)
            ago_s = self._clock_ns() / 1e9 - last.st_mtime
            if last.st_size and 0 <= ago_s < FAILED_S:
                raise ChildProcessError(errno.ECHILD, self._last_words())
            self._run(lock)
            # The file's time is that of the last start. It is set after the start, so that a
            # starter which is killed before has started nothing.
            os.pwrite(lock, b"\n", 0)
            self._started = True
        finally:
            os.close(lock)

    def _run(self, lock: int) -> None:
        log = self._open(LOG_NAME, os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
        try:
            subprocess.run(  # noqa: S603 - our own command
                [*_DETACHED, *self._command()],
                check=False,
                stdin=subprocess.DEVNULL,
                # The gate prints its first keys there, which the host must not learn.
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
                # The gate must not keep the host's directory from being unmounted.
                cwd="/",
                env=self._environment,
            )
        finally:
            os.close(log)

    def _open(self, name: str, flags: int) -> int:
        self._state.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        flags |= os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._state / name, flags, _FILE_MODE)

    def _last_words(self) -> str:
        """The line with which a gate that ended gave its reason."""
        file = self._state / LOG_NAME
        with file.open("rb") as log:
            lines = log.read(_LOG_BYTES_READ_MAX).decode("utf-8", "replace").splitlines()
        said = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
        return said[-1] if said else f"`mnemogate run` ended without a reason; see {file}"


def _locked(handle: int) -> bool:
    """Lock an open file; return whether no other process has it locked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
