"""How many live memories of low trust that mention a name put the name under a drift alarm."""

from __future__ import annotations

from typing import Final

ALARM_COUNT: Final = 3
"""How many live memories of low trust must mention a name to put it under alarm."""
