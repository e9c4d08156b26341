"""What the disk alone costs: one page and one `fdatasync`, into a file that is there already."""

from __future__ import annotations

import os
import tempfile
import time

_WRITES = 400
_PAGE = 4_096


def fdatasync_floor() -> tuple[float, float]:
    """Median and 99th percentile of `pwrite` + `fdatasync`, in microseconds."""
    samples: list[float] = []
    with tempfile.TemporaryFile() as file:
        file.write(bytes(_PAGE * 64))
        file.flush()
        os.fsync(file.fileno())
        for number in range(_WRITES):
            started = time.perf_counter()
            os.pwrite(file.fileno(), os.urandom(_PAGE), _PAGE * (number % 64))
            os.fdatasync(file.fileno())
            samples.append((time.perf_counter() - started) * 1e6)
    samples.sort()
    return samples[_WRITES // 2], samples[_WRITES * 99 // 100]
