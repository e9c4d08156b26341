"""Which version of the program this is."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The installed version; that of a tree nobody installed is unknown."""
    try:
        return metadata.version("mnemogate")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
