"""Computes from when on a memory with an expiry is not shown any more."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def expiry_ms(expires_at: str) -> int:
    """The first moment at which a memory is not shown any more.

    A date lasts until its end, in UTC. An expiry that cannot be read counts as past: a dialect lets
    no such value through, and a memory that nobody can date must not stay for ever.
    """
    try:
        moment = datetime.fromisoformat(expires_at)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    day = timedelta(days=1 if _DATE.fullmatch(expires_at) else 0)
    # The moment is computed with integers: the calendar's last day has no next day, and nothing may
    # raise after a durable commit.
    return ((moment - _EPOCH) // _MILLISECOND) + day // _MILLISECOND
