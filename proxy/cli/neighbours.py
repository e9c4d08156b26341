"""Finds other packages in this Python environment that have the names of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions
from typing import Final

_OURS: Final = ("policy", "proxy", "storage", "telemetry")
_DISTRIBUTION: Final = "mnemogate"


def foreign(installed: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """`package (distribution)` for each other distribution that has a package of our names.

    Of two distributions with one package the one installed last has overwritten files of the other,
    so either may run the other's code. `installed` is what `packages_distributions` says.
    """
    known = packages_distributions() if installed is None else installed
    return tuple(
        f"{package} ({distribution})"
        for package in _OURS
        for distribution in dict.fromkeys(known.get(package, ()))
        if distribution.lower() != _DISTRIBUTION
    )
