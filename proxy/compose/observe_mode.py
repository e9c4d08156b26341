"""Reports observe mode: in every answer, each minute in the log, and in the metrics.

Observe mode admits everything. The reports cannot be switched off, so that an operator does not
forget that it is on.
"""

from __future__ import annotations

import logging
from typing import Final

_LOG: Final = logging.getLogger("mnemogate.observe")
WARN_EVERY_S: Final = 60.0
BANNER: Final = "OBSERVE MODE: nothing is refused; what would be, lands and is only marked"
HEADER: Final = ("Mnemogate-Observe", "1")


async def warn() -> None:
    """Warn in the log that observe mode is on."""
    _LOG.warning("observe mode: nothing is refused")
