"""A deadline for deciding a candidate, on which the waiting request and the writer agree.

A model request waits for its principal's candidates. After the deadline it is forwarded as if they
were refused, so they have to be refused: the writer asks this object during the decision, and tells
the gate. A decision that has begun is not taken back.
"""

from __future__ import annotations

import threading


class Due:
    """The deadline of one candidate. Any thread; of `begin` and `expire` the first call wins."""

    __slots__ = ("_begun", "_lock", "_over")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._over = False

    def begin(self) -> bool:
        """Note that the writer begins to decide; False if the request has given up.

        A repeated call returns the same.
        """
        with self._lock:
            self._begun = not self._over
            return self._begun

    def expire(self) -> bool:
        """Note that the request gives up waiting; False if the writer has begun to decide."""
        with self._lock:
            self._over = not self._begun
            return self._over
