"""How many questions a search for culprits may take."""

from __future__ import annotations

import math

from policy.after.attribution import BISECT_ABOVE


def questions_max(suspects: int) -> int:
    """The most distinct replays that a search among this many suspects asks for."""
    if suspects <= BISECT_ABOVE:
        return suspects + 3
    return suspects + math.ceil(math.log2(suspects)) + 3
