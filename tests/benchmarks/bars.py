"""A figure of this project beside the bar that it is held against."""

from __future__ import annotations

from typing import NamedTuple, cast

import pytest


class BarRow(NamedTuple):
    """One line of the table of bars; `bar` is empty for a figure that is only stated."""

    figure: str
    measured: str
    bar: str = ""

    def __str__(self) -> str:
        return f"| {self.figure} | {self.measured} | {self.bar} |"


TABLES = (
    *("calls", "paths", "older", "lengths", "writes", "mcp", "model", "backends", "search"),
    *("commands", "startup", "tracing", "neighbours"),
)
"""The tables that have a row with a bar, in the order of the table of bars."""

Lines = list[str | BarRow]

# What may end one measurement, so that the others are made all the same.
FAILURES = (Exception, pytest.skip.Exception, pytest.fail.Exception)


def not_measured(name: str, failure: BaseException, bar: str = "") -> BarRow:
    """The row of a figure that could not be measured, with the reason."""
    first: BaseException = failure
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    said = " ".join(f"{first}".split())[:200]
    return BarRow(name, f"not measured: {type(first).__name__}: {said}", bar)


def at_most(bar: float, unit: str = "") -> str:
    return f"≤ {bar:,g}{unit}"


def at_least(bar: float, unit: str = "") -> str:
    return f"≥ {bar:,g}{unit}"


def table(rows: list[BarRow]) -> str:
    """All rows as one table of Markdown."""
    return "\n".join(("| figure | measured | bar |", "|---|---|---|", *map(str, rows)))
