"""Runs one target under atheris: `python -m tests.fuzz.one TARGET [libFuzzer options]`.

Started by `python -m tests.fuzz`, which puts atheris on the path.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tests.fuzz.registry import load


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    name = sys.argv[1]
    instrumented = ["policy", "proxy", "storage", "telemetry", "tomllib"]
    with atheris.instrument_imports(include=instrumented):
        target = load(name)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
