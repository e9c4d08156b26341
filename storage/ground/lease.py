"""A lease on the LMDB environment: many readers at once, or one thread that reopens it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


class Lease:
    """Lets many readers use the environment at once, or one thread alone that reopens it.

    Not reentrant: a thread that holds a shared lease must not ask for another.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._closing = False

    @contextmanager
    def shared(self) -> Generator[None]:
        """Hold the lease together with other readers; waits for a thread that holds it alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closing)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                if self._readers == 0:
                    self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Hold the lease alone; new readers wait, and present readers are waited for."""
        with self._changed:
            self._closing = True
            self._changed.wait_for(lambda: self._readers == 0)
        try:
            yield
        finally:
            with self._changed:
                self._closing = False
                self._changed.notify_all()
