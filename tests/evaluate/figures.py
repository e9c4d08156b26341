"""The form of a reported figure: a value, its count, and its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

_Z: Final = 1.959963984540054
"""Of the normal distribution, for an interval that holds the truth in 95 of 100 cases."""


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured value with its 95 % interval; shares in percent. None: nothing was measured."""

    value: float | None
    n: int
    low: float | None
    high: float | None
    # Why nothing was measured; "" if something was.
    skipped: str = ""
    unit: str = "%"


def share(hits: float, n: int) -> Figure:
    """The share `hits / n` in percent, with Wilson's interval, which also holds near 0 and 100."""
    if n == 0:
        return skipped("nothing was tried")
    p = hits / n
    scale = 1 + _Z**2 / n
    middle = (p + _Z**2 / (2 * n)) / scale
    half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2)) / scale
    return Figure(
        value=_rounded(100 * p),
        n=n,
        low=_rounded(100 * max(0.0, middle - half)) if hits else 0.0,
        high=_rounded(100 * min(1.0, middle + half)) if hits < n else 100.0,
    )


def rate(count: int, n: int, unit: str) -> Figure:
    """The figure `count / n` with Byar's interval for a Poisson count, which also holds near 0."""
    if n == 0:
        return skipped("nothing was tried")
    more = count + 1
    low = count * (1 - 1 / (9 * count) - _Z / (3 * math.sqrt(count))) ** 3 if count else 0.0
    high = more * (1 - 1 / (9 * more) + _Z / (3 * math.sqrt(more))) ** 3
    return Figure(
        value=_rounded(count / n),
        n=n,
        low=_rounded(max(0.0, low) / n),
        high=_rounded(high / n),
        unit=unit,
    )


def skipped(why: str) -> Figure:
    """A figure that was not measured, with the reason."""
    return Figure(value=None, n=0, low=None, high=None, skipped=why)


def quantile(values: Sequence[float], at: float, unit: str) -> Figure:
    """A quantile of measured values, with the interval that their order statistics give."""
    if not values:
        return skipped("nothing was measured")
    ordered = sorted(values)
    n = len(ordered)
    half = _Z * math.sqrt(n * at * (1 - at))

    def nth(rank: float) -> float:
        return _rounded(ordered[min(n - 1, max(0, int(rank)))])

    low, high = nth(n * at - half), nth(n * at + half)
    return Figure(value=nth(n * at), n=n, low=low, high=high, unit=unit)


def mean_over(values: Sequence[float], unit: str) -> Figure:
    """The mean of repeated measurements, with twice its standard error as interval."""
    n = len(values)
    if n == 0:
        return skipped("nothing was measured")
    mean = sum(values) / n
    spread = math.sqrt(sum((one - mean) ** 2 for one in values) / (n - 1)) if n > 1 else 0.0
    half = _Z * spread / math.sqrt(n)
    return Figure(
        value=_rounded(mean), n=n, low=_rounded(mean - half), high=_rounded(mean + half), unit=unit
    )


def text_of(figure: Figure, *, interval: bool = False) -> str:
    """The text of a figure in a table."""
    if figure.value is None:
        return "n/a"
    value = f"{figure.value:.1f}".removesuffix(".0")
    if not interval or figure.low is None or figure.high is None:
        return value
    return f"{value} [{figure.low:.1f}, {figure.high:.1f}]"


def _rounded(value: float) -> float:
    return round(value, 3)
