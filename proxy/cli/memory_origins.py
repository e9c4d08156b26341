"""`mnemogate insight`: what memories are about, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proxy.admin.wire.views import ORIGINS
from proxy.cli.api_commands import asking, table
from proxy.cli.isolate import NAMED, SELECTION


def _mix(counts: Mapping[str, float], form: str = "{1} {0}") -> str:
    """The values of a mapping with their names, as `form` has it, the largest first."""
    largest = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(form.format(name, value) for name, value in largest)


_ORIGINS: Final = table(
    "origins",
    {
        "by": "by",
        "name": "name",
        "live": lambda one: sum(one.labels.values()),
        "hidden": "hidden",
        "labels": lambda one: _mix(one.labels),
        "shown": lambda one: _mix(one.shares, "{1:.1%} {0}"),
        "trust": lambda one: "" if one.trust is None else f"{one.trust:.2f}",
    },
)
COMMANDS = (
    asking(
        "insight origins",
        "what each server, tool, session and principal brought in, and how often reads showed it",
        ORIGINS,
        _ORIGINS,
        options=SELECTION,
        names=NAMED,
        label="reading every memory",
    ),
)
