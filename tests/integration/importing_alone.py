"""Imports each module that it is given the name of, alone; run by an interpreter that a test names.

Each is imported in a process of its own, forked once the packages of others are loaded: what one
module needs and does not import is not there because another one has imported it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence


def refusal(module: str) -> str:
    """Why a module cannot be imported alone; "" where it can."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            importlib.import_module(module)
        except BaseException as error:  # noqa: BLE001 - told, whatever it is
            said = f"{type(error).__name__}: {error}"
        os.write(sending, said.encode()[:1_000])
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return said or (f"ended with {status}" if status else "")


def main(loaded: Sequence[str], modules: Sequence[str]) -> None:
    """Print those that cannot be imported alone, each with the reason."""
    for name in loaded:
        importlib.import_module(name)
    told = {module: why for module in modules if (why := refusal(module))}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2].split(","))
