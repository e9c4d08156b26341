"""How much longer the second of two takes, when they are asked in turns and each comes first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ratio_of(taken: NDArray[Any]) -> float:
    """The median ratio, of shape (asked, 2): of two rounds together, one in either order.

    Who comes second finds warm caches, so a single round says more of its order than of its code.
    """
    whole = taken[: len(taken) // 2 * 2]
    rounds = whole.reshape(-1, 2, 2).sum(axis=1)
    return float(np.median(rounds[:, 1] / rounds[:, 0]))
