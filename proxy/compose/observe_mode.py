"""Reports observe mode: in every answer, each minute in the log, in the metrics.

Observe mode lets everything in. So that a trial of it is not forgotten, no report can be switched
off.
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
