"""The points of the write path at which the process can be killed, and what kills it there."""

from __future__ import annotations

import os
import signal
from typing import Final

POINTS: Final = (
    "intercepted",
    "staged",
    "before_transaction",
    "decided",
    "before_put",
    "after_put",
    "before_commit",
    "after_commit",
    "key_destroyed",
    "index_swapped",
    "before_answer",
    "snapshot_written",
    "checkpoint_written",
)


class Killer:
    """A failpoint that ends the process without a word, at one point, once armed."""

    def __init__(self, point: str) -> None:
        self._point = point
        self.armed = False

    def __call__(self, name: str) -> None:
        """Kill the process if this is the chosen point; the writer calls this at each failpoint."""
        if self.armed and name == self._point:
            os.kill(os.getpid(), signal.SIGKILL)
