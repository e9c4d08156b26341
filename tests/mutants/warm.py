"""Runs tests in a forked child that has the libraries already: half of a short run is imports."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

_LIBRARIES: Final = (
    "hypothesis",
    "hypothesis.strategies",
    "hypothesis.stateful",
    "pytest_asyncio",
    "numpy",
    "lmdb",
    "msgspec",
    "rfc8785",
    "aiohttp",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
)
_OURS: Final = ("policy", "proxy", "storage", "telemetry", "tests")
_TIMEOUT_S: Final = 300


def warm_up() -> None:
    """Import what every test run needs, and nothing of ours."""
    for library in _LIBRARIES:
        importlib.import_module(library)


def code_of(place: Path, tests: Sequence[str]) -> int:
    """pytest's exit status for some tests of the project in `place`; 1 where they never end."""
    child = multiprocessing.get_context("fork").Process(target=_run, args=(place, tuple(tests)))
    child.start()
    child.join(_TIMEOUT_S)
    if child.exitcode is None:
        child.kill()
        child.join()
        return 1
    return child.exitcode


def _run(place: Path, tests: tuple[str, ...]) -> None:
    os.chdir(place)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(place))
    # This module is of the project as it is; what is tested is the copy.
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    # The plugins among the libraries are there before pytest could rewrite their asserts.
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *quiet, *tests]))
