"""`mnemogate` without a part of what stops a past holder; the part is the first argument.

`watch`: it does not notice that its lease is over, so that each wall must hold by itself.
`deadline`: the control, whose lease is never over for itself.
"""

from __future__ import annotations

import asyncio
import sys
from unittest.mock import patch

from proxy.__main__ import main


async def never(*_given: object) -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


def always(_deadline: object) -> bool:
    """Always True."""
    return True


if __name__ == "__main__":
    if sys.argv.pop(1) == "watch":
        patch("proxy.compose.membership.given_up", never).start()
    else:
        patch("storage.journal.lease.LeaseDeadline.holds", always).start()
    sys.exit(main())
