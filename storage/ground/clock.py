"""A clock that cannot go back, and the deadline of a decision.

An expired memory or a revoked key must not become valid again. The store records the time of its
last transaction. If the wall clock is earlier (a dead battery, a wrong server, manipulation), it is
not trusted: time advances from the recorded time with the monotonic clock.
A model request waits for the verdicts on its principal's candidates. After the deadline the request
is forwarded as if the candidates were refused, so they have to be refused: the writer asks `Due`
during the decision, and reports the answer to the gate. A decision that has begun is completed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

SLACK_NS: Final = 2_000_000_000
"""The tolerance by which a wall clock may be set back, as happens when clocks are corrected."""


class SteadyClock:
    """The time in Unix nanoseconds, never less than before. Any thread."""

    def __init__(self, wall_ns: Callable[[], int], monotonic_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        # The latest known time, with the monotonic time at that moment. The pair is replaced as a
        # whole.
        self._latest = (wall_ns(), monotonic_ns())

    def __call__(self) -> int:
        """The present time in Unix nanoseconds."""
        latest_ns, at_ns = self._latest
        wall_ns, monotonic_ns = self._wall_ns(), self._monotonic_ns()
        least_ns = latest_ns + monotonic_ns - at_ns
        if wall_ns >= least_ns:
            self._latest = (wall_ns, monotonic_ns)
            return wall_ns
        return wall_ns if least_ns - wall_ns <= SLACK_NS else least_ns

    def now_ms(self) -> int:
        """The present time in Unix milliseconds."""
        return self() // 1_000_000

    def not_before(self, time_ms: int) -> None:
        """Advance the clock to at least `time_ms`, the time of the store's last transaction."""
        if time_ms > self.now_ms():
            self._latest = (time_ms * 1_000_000, self._monotonic_ns())

    def behind_s(self) -> float:
        """The seconds that the wall clock is behind the trusted time; 0 within the tolerance."""
        behind_ns = self() - self._wall_ns()
        return behind_ns / 1e9 if behind_ns > SLACK_NS else 0.0


class Due:
    """The deadline of one candidate. Any thread; the first call of `begin` or `expire` decides."""

    __slots__ = ("_begun", "_lock", "_over")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._over = False

    def begin(self) -> bool:
        """Note that the writer begins to decide; False if the request has given up before."""
        with self._lock:
            self._begun = not self._over
            return self._begun

    def expire(self) -> bool:
        """Mark that the request waits no longer; return False if the writer has begun to decide."""
        with self._lock:
            self._over = not self._begun
            return self._over
