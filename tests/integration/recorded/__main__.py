"""`python -m tests.integration.recorded`: live anew, and keep what came of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.integration.recorded.lives import KEPT, recorded
from tests.integration.recorded.recording import FILE, write


def main() -> None:
    """Record the life anew; `git diff` shows what changed."""
    with tempfile.TemporaryDirectory() as base:
        write(recorded(KEPT, Path(base)))
    print(f"{FILE.stat().st_size:,} bytes in {FILE.name}")  # noqa: T201 - a report


if __name__ == "__main__":
    main()
