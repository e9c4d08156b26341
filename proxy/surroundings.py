"""The outside as the proxy sees it: a clock, random ids, and somewhere to report happenings.

Injected, so that tests hold all three in their hands.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.events import Event


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Clock in Unix nanoseconds; `random_hex(n)` gives 2n hex digits; `record` never blocks."""

    clock_ns: Callable[[], int]
    random_hex: Callable[[int], str]
    record: Callable[[Event], None]

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return self.clock_ns() // 1_000_000


def real_surroundings(record: Callable[[Event], None]) -> Surroundings:
    """The machine's clock and its cryptographic random source."""
    return Surroundings(clock_ns=time.time_ns, random_hex=secrets.token_hex, record=record)
