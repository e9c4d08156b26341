"""The dialect of the self-hosted Mem0 server: an operation or one of two refusals."""

from __future__ import annotations

from tests.fuzz.dialects import check_dialect
from tests.fuzz.targets.mem0_platform import WORDS as _PLATFORM_WORDS
from tests.unit.proxy.dialects.mem0.sample import OSS

WORDS = (
    *_PLATFORM_WORDS,
    b"/memories",
    b"/search",
    b"/reset",
    b"/configure",
    b"x-api-key",
    b"data",
)


def check(data: bytes) -> None:
    check_dialect(OSS, data)
