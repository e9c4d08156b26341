"""The experiments by name, for a command line that must not load them."""

from __future__ import annotations

from typing import Final

SECTIONS: Final = (
    "core",
    "leakage",
    "everyday",
    "labels",
    "honest",
    "blame",
    "trust",
    "drift",
    "noise",
    "forged",
    "stress",
    "crash",
    "corpora",
    "roc",
    "cost",
    "conformance",
)

# Experiments that run only when they are named.
LONG: Final = ("mutants",)

# Experiments of a checkout's benchmarks: none of them is installed.
GUARDS: Final = "neighbours"
