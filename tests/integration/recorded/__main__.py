"""`python -m tests.integration.recorded [NAME ...]`: live anew, and keep what came of it."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.integration.recorded.lives import LIVES, recorded
from tests.integration.recorded.recording import write


def main() -> None:
    """Record the lives that are named; all of them where none is."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.recorded")
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(LIVES))
    names: list[str] = parser.parse_args().names or list(LIVES)
    for name in names:
        with tempfile.TemporaryDirectory() as base:
            path = write(name, recorded(name, Path(base)))
        print(f"{name}: {path.stat().st_size:,} bytes in {path.name}")  # noqa: T201 - a report


if __name__ == "__main__":
    main()
