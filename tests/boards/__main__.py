"""`make boards`: yardsticks that others wrote, on this very system.

    python -P -m tests.boards [--only agmi]

Works in temporary directories and touches no running sidecar. Exit code 1 if a promise is broken
or a control did not fire.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from tests.boards.agmi.table import agmi
from tests.boards.board import Board
from tests.boards.laundering import laundering
from tests.boards.recall import beam, locomo

BOARDS: Final[Mapping[str, Callable[[Board], Awaitable[None]]]] = {
    "agmi": agmi,
    "beam": beam,
    "locomo": locomo,
    "laundering": laundering,
}


def main() -> int:
    """Print the boards that were asked for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make boards", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", action="append", choices=tuple(BOARDS), help="one board")
    asked: list[str] = parser.parse_args().only or list(BOARDS)
    logging.disable(logging.CRITICAL)
    board = Board()
    for name in asked:
        try:
            asyncio.run(_run(BOARDS[name], board))
        except pytest.skip.Exception as skipped:
            board.note(f"{name}: skipped: {skipped}")
    return 0 if board.sound else 1


async def _run(measure: Callable[[Board], Awaitable[None]], board: Board) -> None:
    await measure(board)


if __name__ == "__main__":
    sys.exit(main())
