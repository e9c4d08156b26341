"""The version of the installed program."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The installed version; "unknown" if the program runs from a tree that was not installed."""
    try:
        return metadata.version("mnemogate")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
