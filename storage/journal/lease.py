"""The deadline of a lease on a clock that does not stop, and the thread that renews the lease."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

from storage.ground.errors import LeaseLost, StoreUnavailable
from storage.journal.protocol import Journal

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_RENEWALS_PER_LEASE: Final = 3.3


def boot_s() -> float:
    """Seconds since the machine started, which a suspend does not stop."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """The random name that the kernel drew when the machine started."""
    return _BOOT_ID.read_text("ascii").strip()


class LeaseDeadline:
    """The moment at which a lease ends. Any thread."""

    __slots__ = ("_until", "length_s")

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._until = 0.0

    def extend(self, asked_s: float) -> None:
        """Move the deadline to one length after `asked_s`: `boot_s` before the request was sent."""
        self._until = asked_s + self.length_s

    def end(self) -> None:
        """End the lease now."""
        self._until = 0.0

    def holds(self) -> bool:
        """Whether the deadline is not reached."""
        return boot_s() < self._until


class Renewal:
    """Renews an acquired lease on a thread of its own, until it is lost or `stop` is called."""

    def __init__(self, journal: Journal, length_s: float) -> None:
        self._journal = journal
        self._every_s = length_s / _RENEWALS_PER_LEASE
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mnemogate-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the lease is not ended. Blocks for one request at most."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self._journal.renew()
            except LeaseLost:
                return
            except StoreUnavailable:
                # Without an answer the lease may hold nevertheless, so that renewing continues.
                continue
