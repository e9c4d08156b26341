"""A bounded queue that takes events off the decision path and delivers batches on a thread.

The producer of an event never waits for its consumer. When the receiver is dead or slow, the queue
fills up, and further events are dropped and counted; nothing else changes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

QUEUE_LEN_MAX: Final = 65_536
BATCH_LEN_MAX: Final = 4_096
INTERVAL_S: Final = 0.2
_FLUSHING_S: Final = 0.002
# The part of the queue that only urgent events may use. Without it a flood of admits could leave no
# room for the trace of a refusal.
URGENT_RESERVE: Final = 8_192

T = TypeVar("T")


class PipeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of events offered to a pipe since the process began, by their outcome."""

    offered: int
    delivered: int
    dropped: int
    waiting: int


class Pipe(Generic[T]):
    """Passes events to `deliver` in batches, on one daemon thread of its own.

    `deliver` takes a batch and returns how many of its events arrived. It must not raise, but may
    hang. `ended` is called on the same thread after the last delivery.
    """

    def __init__(
        self,
        name: str,
        deliver: Callable[[list[T]], int],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._deliver = deliver
        self._ended = ended
        self._queue: deque[T] = deque()
        # `_moving` guards the move of events from the queue to the receiver; `offer` never takes
        # it. `_counting` guards `_dropped`, for the time of one addition.
        self._moving = threading.Lock()
        self._counting = threading.Lock()
        self._delivered = 0
        self._dropped = 0
        self._in_flight = 0
        self._abandoned = False
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def offer(self, event: T, *, urgent: bool = False) -> bool:
        """Queue the event; return False if the pipe is full or closed.

        Takes less than a microsecond, on any thread. The delivering thread is not woken: it reads
        the queue every `INTERVAL_S` seconds.
        """
        room = QUEUE_LEN_MAX if urgent else QUEUE_LEN_MAX - URGENT_RESERVE
        # Several threads may see the same last free place, so the queue may exceed its bound by the
        # number of threads.
        if len(self._queue) < room and not self._abandoned:
            self._queue.append(event)
            return True
        self._drop(1)
        return False

    def counts(self) -> PipeCounts:
        """The number of events offered so far, by their outcome."""
        with self._moving, self._counting:
            waiting = len(self._queue) + self._in_flight
            return PipeCounts(
                offered=self._delivered + self._dropped + waiting,
                delivered=self._delivered,
                dropped=self._dropped,
                waiting=waiting,
            )

    def flush(self, timeout_s: float) -> None:
        """Wait until everything queued is delivered, or for `timeout_s`."""
        end_s = time.monotonic() + timeout_s
        while self.counts().waiting and time.monotonic() < end_s:
            self._wake.set()
            time.sleep(_FLUSHING_S)

    def close(self, timeout_s: float) -> None:
        """Deliver queued events for at most `timeout_s`; drop and count the rest.

        Returns in time even if `deliver` hangs: its thread is a daemon, and later deliveries are
        not counted.
        """
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)
        with self._moving:
            self._abandoned = True
            self._drop(len(self._queue) + self._in_flight)
            self._queue.clear()
            self._in_flight = 0

    def _run(self) -> None:
        stopping = False
        while not stopping:
            self._wake.wait(INTERVAL_S)
            self._wake.clear()
            stopping = self._stopping
            while self._queue and not self._abandoned:
                self._deliver_batch()
        self._ended()

    def _deliver_batch(self) -> None:
        with self._moving:
            # Only this thread and `close` take events out, and `close` holds the lock as well.
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_LEN_MAX))]
            self._in_flight = len(batch)
        arrived = self._deliver(batch)
        with self._moving:
            if not self._abandoned:
                self._delivered += arrived
                self._drop(len(batch) - arrived)
                self._in_flight = 0

    def _drop(self, count: int) -> None:
        with self._counting:
            self._dropped += count
