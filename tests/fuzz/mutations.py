"""A few thousand variations of a corpus, the same ones on a day: fuzzing without a fuzzer."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.fuzz.registry import Target

_STEPS_MAX = 4


def mutations(target: Target, count: int, day: int = 0) -> Iterator[bytes]:
    """`count` inputs, each a seed with one to four changes; other ones each day, if it is given."""
    draw = random.Random(target.name + (f" {day}" if day else ""))  # noqa: S311 - repeatable is what it is for
    seeds = target.seeds()
    for _ in range(count):
        data = bytearray(draw.choice(seeds))
        for _step in range(draw.randint(1, _STEPS_MAX)):
            _change(data, draw, seeds, target.words)
        yield bytes(data)


def _change(
    data: bytearray, draw: random.Random, seeds: list[bytes], words: tuple[bytes, ...]
) -> None:
    at = draw.randrange(len(data) + 1)
    end = min(len(data), at + draw.randint(1, 8))
    match draw.randrange(6):
        case 0:
            data[at:end] = b""
        case 1:
            data[at:at] = draw.choice(words)
        case 2:
            data[at:end] = draw.choice(words)
        case 3:
            data[at:end] = draw.randbytes(end - at)
        case 4:
            data[at:at] = data[at:end] * draw.choice((1, 2, 60))
        case _:
            other = draw.choice(seeds)
            start = draw.randrange(len(other) + 1)
            data[at:end] = other[start : start + draw.randint(1, 40)]
