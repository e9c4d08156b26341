"""The record of an evaluation: each trial, table, promise and positive control."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from tests.evaluate.figures import Figure
from tests.evaluate.tables import Beyond, Promise, Tables, joined


class Book:
    """The record of one evaluation. Event loop only."""

    def __init__(
        self,
        *,
        trials: int,
        seed: int,
        progress: Callable[[str], Callable[[int, int], None]],
        out: BinaryIO | None = None,
    ) -> None:
        self.trials = trials
        self.seed = seed
        self.progress = progress
        self.tables = Tables()
        self.promises: list[Promise] = []
        self.controls: list[Promise] = []
        # Remarks for the report's reader, by the table that they belong to.
        self.notes: dict[str, list[str]] = {}
        self._out = out
        self._encoder = msgspec.json.Encoder()

    def draws(self, name: str, round_number: int = 0) -> random.Random:
        """The random numbers for one experiment; the same seed gives the same numbers."""
        return random.Random(f"{self.seed}/{name}/{round_number}")  # noqa: S311 - no secret

    def trial(self, table: str, **what: object) -> None:
        """Write one line about a trial to the file that `--trials-out` names."""
        if self._out is not None:
            self._out.write(self._encoder.encode({"table": table, **what}) + b"\n")

    def found(self, tables: Tables) -> None:
        """Add an experiment's result to those of the others."""
        self.tables = joined(self.tables, tables)

    def beyond(self, found: Beyond) -> None:
        """Add a result for which the paper has no figure."""
        self.found(Tables(beyond=found))

    def promise(self, name: str, figure: Figure, wanted: float, *, at_most: bool = False) -> None:
        """Record a promise about a share; the promise holds if the figure has the wanted value."""
        value = figure.value
        held = value is not None and (value <= wanted if at_most else value == wanted)
        shown = "nothing" if value is None else f"{value} {figure.unit}"
        bound = "at most " if at_most else ""
        self.promises.append(
            Promise(name=name, held=held, detail=f"{shown} of {figure.n}, wanted {bound}{wanted}")
        )

    def holds(self, name: str, *, held: bool, detail: str = "") -> None:
        """Record a promise that is true or false."""
        self.promises.append(Promise(name=name, held=held, detail=detail))

    def control(self, name: str, *, fired: bool, detail: str = "") -> None:
        """Record a positive control.

        Without a control, a zero could come from a search that never finds anything.
        """
        self.controls.append(Promise(name=name, held=fired, detail=detail))

    def note(self, table: str, text: str) -> None:
        """Record a remark on a table."""
        self.notes.setdefault(table, []).append(text)

    @property
    def broken(self) -> tuple[Promise, ...]:
        """Promises and controls that did not hold."""
        return tuple(one for one in (*self.promises, *self.controls) if not one.held)

    @property
    def sound(self) -> bool:
        """Whether all promises held and all positive controls fired.

        At least one of each must exist.
        """
        return not self.broken and bool(self.promises) and bool(self.controls)
