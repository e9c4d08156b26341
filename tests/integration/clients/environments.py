"""Environments of their own for unmodified clients: installed by name, made once, and kept.

They live under MNEMOGATE_CACHE (default: `~/.cache/mnemogate`). A registry that cannot be reached
skips the test with that reason; any other failed installation fails it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

INSTALL_S: Final = 400.0
_UNREACHABLE: Final = (
    "NewConnectionError",
    "Temporary failure in name resolution",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "No matching distribution found",
    "ENOTFOUND",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "EAI_AGAIN",
)


def python_environment(package: str, version: str) -> Path:
    """The interpreter of a virtual environment that holds one package and what it asks for."""
    with _made_once(f"{package}-{version}") as (environment, missing):
        interpreter = environment / "bin" / "python"
        if missing:
            _install(sys.executable, "-m", "venv", "--clear", environment)
            pip = (interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            # Bytecode is made for what is imported, which is a small part of it.
            flags = ("--no-compile", "--retries", "1", "--timeout", "20")
            _install(*pip, *flags, f"{package}=={version}")
    return interpreter


def node_environment(package: str, version: str) -> Path:
    """A folder whose `node_modules` holds one npm package, without scripts and optional peers."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    with _made_once(f"npm-{package}-{version}") as (environment, missing):
        if missing:
            flags = ("--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund")
            retries = ("--fetch-retries", "1", "--prefix", environment)
            _install(npm, "install", *flags, *retries, f"{package}@{version}")
    return environment


@contextmanager
def _made_once(name: str) -> Generator[tuple[Path, bool]]:
    """The folder of that name, and whether it has to be filled; other processes wait meanwhile."""
    root = Path(os.environ.get("MNEMOGATE_CACHE") or Path.home() / ".cache" / "mnemogate")
    environment = root / name
    environment.mkdir(parents=True, exist_ok=True)
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = environment / "installed"
        missing = not done.exists()
        yield environment, missing
        if missing:
            done.touch()


def _install(*command: str | Path) -> None:
    try:
        ran = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[-1]}: not installed within {INSTALL_S:.0f} s")
    said = ran.stdout + ran.stderr
    if ran.returncode == 0:
        return
    if any(sign in said for sign in _UNREACHABLE):
        pytest.skip(f"{command[-1]}: the registry cannot be reached")
    pytest.fail(f"{command[-1]}: installation failed\n{said[-2_000:]}")
