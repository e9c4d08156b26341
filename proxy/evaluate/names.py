"""The names of the experiments, for a command line that must not load their code."""

from __future__ import annotations

from typing import Final

SECTIONS: Final = (
    "core",
    "leakage",
    "everyday",
    "labels",
    "honest",
    "blame",
    "heal",
    "parole",
    "trust",
    "isolate",
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

# The experiment that is a benchmark in the source tree, and is not installed with the program.
GUARDS: Final = "neighbours"
