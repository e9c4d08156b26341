"""The control: a decoder with a fault in it, which fuzzing has to find.

`0x01, length, payload`; a payload that is shorter than it says is read past its end.
"""

from __future__ import annotations

WORDS = (b"\x01",)


def check(data: bytes) -> None:
    if len(data) < 2 or data[0] != 1:
        return
    for at in range(data[1]):
        data[2 + at]
