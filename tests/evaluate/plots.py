"""Plots as SVG, drawn here, so that the report's page loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

_WIDTH: Final = 460
_HEIGHT: Final = 270
_LEFT: Final = 56
_BOTTOM: Final = 44
_TOP: Final = 14
_RIGHT: Final = 16
COLOURS: Final = ("#1f5fbf", "#c2571a", "#2d8a4e", "#8a3fa0", "#7a7a7a")
_TICKS: Final = 5


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One curve of a plot."""

    name: str
    points: Sequence[tuple[float, float]]


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """The titles and the upper ends of a plot's two axes."""

    x: str
    y: str
    x_max: float
    y_max: float = 100.0


def plot(axes: Axes, lines: Sequence[Line]) -> str:
    """A plot of curves as SVG, with axes and a legend."""
    body = [_grid(axes)]
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(_at(axes, x, y) for x, y in line.points if x <= axes.x_max)
        body.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<rect x="{_WIDTH - 150}" y="{_HEIGHT - _BOTTOM - 18 - 18 * number}" width="12"'
            f' height="3" fill="{colour}"/>'
            f'<text x="{_WIDTH - 132}" y="{_HEIGHT - _BOTTOM - 12 - 18 * number}">'
            f"{escape(line.name)}</text>"
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(axes.y)}">'
        + "".join(body)
        + "</svg>"
    )


def _at(axes: Axes, x: float, y: float) -> str:
    across = _LEFT + x / axes.x_max * (_WIDTH - _LEFT - _RIGHT)
    down = _TOP + (1 - y / axes.y_max) * (_HEIGHT - _TOP - _BOTTOM)
    return f"{across:.1f},{down:.1f}"


def _grid(axes: Axes) -> str:
    found: list[str] = []
    for tick in range(_TICKS + 1):
        x, y = axes.x_max * tick / _TICKS, axes.y_max * tick / _TICKS
        left, low = (float(one) for one in _at(axes, 0, y).split(","))
        across, bottom = (float(one) for one in _at(axes, x, 0).split(","))
        found.append(
            f'<line x1="{left}" y1="{low}" x2="{_WIDTH - _RIGHT}" y2="{low}" class="grid"/>'
            f'<text x="{left - 6}" y="{low + 4}" text-anchor="end">{y:g}</text>'
            f'<text x="{across}" y="{bottom + 16}" text-anchor="middle">{x:.3g}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    found.append(
        f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(axes.x)}</text>'
        f'<text x="14" y="{(_HEIGHT - _BOTTOM) / 2}" text-anchor="middle"'
        f' transform="rotate(-90 14 {(_HEIGHT - _BOTTOM) / 2})">{escape(axes.y)}</text>'
    )
    return "".join(found)


def cumulative(values: Sequence[float]) -> list[tuple[float, float]]:
    """The cumulative distribution: for each value, the percentage of values not above it."""
    ordered = sorted(values)
    return [(0.0, 0.0), *((v, 100 * (n + 1) / len(ordered)) for n, v in enumerate(ordered))]
