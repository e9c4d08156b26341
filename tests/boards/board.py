"""What a board prints: tables as Markdown, and each value that is held to another."""

from __future__ import annotations

import sys


class Board:
    """Prints rows as they are measured, and remembers whether all that was promised holds."""

    def __init__(self) -> None:
        self.sound = True

    def table(self, title: str, columns: tuple[str, ...]) -> None:
        """Print the head of a table."""
        self._print(f"\n{title}\n")
        self.row(*columns)
        self.row(*("---",) * len(columns))

    def row(self, *cells: str) -> None:
        """Print one row."""
        self._print(f"| {' | '.join(cells)} |")

    def note(self, text: str) -> None:
        """Print a sentence: what was skipped, and why."""
        self._print(f"\n{text}")

    def holds(self, what: str, value: object, wanted: object, *, held: bool | None = None) -> None:
        """Print a promise: `value` is what was `wanted`, or `held` says whether it is within it."""
        right = value == wanted if held is None else held
        self.sound = self.sound and right
        self._print(f"{'ok  ' if right else 'FAIL'}  {what}: {value} (wanted {wanted})")

    @staticmethod
    def _print(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
