"""The version of the installed program."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """The installed version; "unknown" if the program runs from a tree that was not installed."""
    # The import is local, because it takes a third of the time of a short command.
    from importlib import metadata  # noqa: PLC0415

    try:
        return metadata.version("mnemogate")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
