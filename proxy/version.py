"""The version of the installed program."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """The installed version; "unknown" if the program runs from a tree that was not installed."""
    try:
        return metadata.version("mnemogate")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
