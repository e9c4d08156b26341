"""Random bytes for ids, salts, keys and nonces, read from the kernel in blocks.

Each read from the kernel releases the interpreter lock, and under load it takes half a millisecond
to get the lock back. Four reads per candidate took most of the time that a batch waited.
"""

from __future__ import annotations

import os
import threading
from typing import Final

BLOCK_LEN: Final = 4_096


class _Pool(threading.local):
    """The unused random bytes of one thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.block = bytearray()
        self.at = self.end = 0


_POOL: Final = _Pool()
# After a fork the child must not use the parent's random bytes, or two keys would be equal. In the
# child only the forking thread exists, and `forget` is called on it.
os.register_at_fork(after_in_child=_POOL.forget)


def random_bytes(count: int) -> bytes:
    """`count` unpredictable bytes, never returned again. Any thread, any process after a fork."""
    pool = _POOL
    start = pool.at
    stop = start + count
    if stop > pool.end:
        pool.end = max(BLOCK_LEN, count)
        pool.block = bytearray(os.urandom(pool.end))
        start, stop = 0, count
    pool.at = stop
    drawn = bytes(pool.block[start:stop])
    # Bytes that were handed out are cleared, so that a destroyed key does not survive in this pool.
    pool.block[start:stop] = bytes(count)
    return drawn
