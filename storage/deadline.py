"""How long a candidate may be decided: whoever waits for it no longer, and the writer, agree.

A model request waits for the candidates of its principal. When it has waited long enough it goes on
as if they had been refused, and then they must be: the writer's thread looks here inside the
decision and tells the gate. What it has begun to decide nobody takes back.
"""

from __future__ import annotations

import threading


class Due:
    """One candidate. Any thread; the first of the two calls decides."""

    __slots__ = ("_begun", "_lock", "_over")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._over = False

    def begin(self) -> bool:
        """The writer decides now: False where nobody waits any more. The same each time."""
        with self._lock:
            self._begun = not self._over
            return self._begun

    def expire(self) -> bool:
        """Nobody waits any more: False where the writer has begun. The same each time."""
        with self._lock:
            self._over = not self._begun
            return self._over
