"""The examples of `examples.toml`: orders, attacks and honest texts of each language."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import msgspec


class Examples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The examples of one language."""

    directives: tuple[str, ...]
    injections: tuple[str, ...]
    honest: tuple[str, ...]

    @property
    def flagged(self) -> tuple[str, ...]:
        """The texts that must be found."""
        return (*self.directives, *self.injections)


EXAMPLES: Final = msgspec.convert(
    tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")), dict[str, Examples]
)
