"""Random bytes for ids, salts, keys and nonces, out of the kernel's source in blocks.

Each read of that source gives the interpreter lock away, and under load it takes half a millisecond
to get it back: four reads per candidate were most of what a batch waited for.
"""

from __future__ import annotations

import os
import threading
from typing import Final

BLOCK_LEN: Final = 4_096


class _Pool(threading.local):
    """The bytes of one thread, and the process that drew them."""

    def __init__(self) -> None:
        self.block = bytearray()
        self.at = 0
        self.pid = 0


_POOL: Final = _Pool()


def random_bytes(count: int) -> bytes:
    """`count` unpredictable bytes, used once. Any thread, any process after a fork."""
    pool = _POOL
    start = pool.at
    stop = start + count
    if stop > len(pool.block) or pool.pid != os.getpid():
        # A forked child must not go on with its parent's bytes: two keys would be one.
        pool.block, pool.pid = bytearray(os.urandom(max(BLOCK_LEN, count))), os.getpid()
        start, stop = 0, count
    pool.at = stop
    drawn = bytes(pool.block[start:stop])
    # A key that is destroyed must not live on in here.
    pool.block[start:stop] = bytes(count)
    return drawn
