"""Finds packages of other distributions that have the names of this program's packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions
from typing import Final

_OURS: Final = ("policy", "proxy", "storage", "telemetry")
_DISTRIBUTION: Final = "mnemogate"


def foreign(installed: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """`package (distribution)` for each other distribution with a package of the same name as ours.

    If two distributions contain a package of one name, the one installed last has overwritten files
    of the other, so either may run the other's code. `installed` is the result of
    `packages_distributions`.
    """
    known = packages_distributions() if installed is None else installed
    return tuple(
        f"{package} ({distribution})"
        for package in _OURS
        for distribution in dict.fromkeys(known.get(package, ()))
        if distribution.lower() != _DISTRIBUTION
    )
