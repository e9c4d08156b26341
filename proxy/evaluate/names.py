"""The experiments by name, for a command line that must not load them."""

from __future__ import annotations

from typing import Final

SECTIONS: Final = (
    "core",
    "leakage",
    "everyday",
    "labels",
    "honest",
    "noise",
    "forged",
    "stress",
    "crash",
    "corpora",
    "roc",
    "cost",
    "conformance",
)

# Made only when they are asked for.
LONG: Final = ("mutants",)

# Made by the benchmarks of a checkout: nothing of it is installed.
GUARDS: Final = "neighbours"
