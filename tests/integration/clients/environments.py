"""Environments of their own for what a test needs: installed by name, made once, and kept.

They live under MNEMOGATE_CACHE (default: `~/.cache/mnemogate`). A registry that cannot be reached
skips the test with that reason; any other failed installation fails it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

INSTALL_S: Final = 400.0
# Bytecode is made for what is imported, which is a small part of it.
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
_ONCE: Final = ("--retries", "1", "--timeout", "20")
_UNREACHABLE: Final = (
    "NewConnectionError",
    "Temporary failure in name resolution",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "(from versions: none)",
    "ENOTFOUND",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "EAI_AGAIN",
    "tcp connect error",
    "dns error",
)


def python_environment(package: str, version: str) -> Path:
    """The interpreter of a virtual environment that holds one package and what it asks for."""
    with made_once(f"{package}-{version}") as (environment, missing):
        interpreter = environment / "bin" / "python"
        if missing:
            install(sys.executable, "-m", "venv", "--clear", environment)
            install(interpreter, *_PIP, *_ONCE, f"{package}=={version}")
    return interpreter


def interpreter_of(version: str) -> Path:
    """An interpreter of that minor version, the running one where it is that; else a skip."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    found = shutil.which(f"python{version}")
    # A launcher of that name may be there for a version that is not.
    check = (found, "-c", "import ensurepip, venv") if found else ("false",)
    if subprocess.run(check, check=False, capture_output=True, timeout=60).returncode != 0:
        pytest.skip(f"no python{version} that can make an environment is installed")
    return Path(str(found))


def exact_environment(python: Path, pins: tuple[str, ...]) -> Path:
    """The interpreter of an environment of `python` that holds these pins and what they ask for."""
    with made_once(f"exactly-{_digest(python, *pins)}") as (environment, missing):
        interpreter = environment / "bin" / "python"
        if missing:
            install(python, "-m", "venv", "--clear", environment)
            install(interpreter, *_PIP, *_ONCE, *pins)
    return interpreter


def locked_environment(lock: Path) -> Path:
    """The interpreter of an environment that holds exactly what a lock file names."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    with made_once(f"locked-{_digest(Path(sys.executable), digest)}") as (environment, missing):
        interpreter = environment / "bin" / "python"
        if missing:
            install(sys.executable, "-m", "venv", "--clear", environment)
            exactly = ("--no-deps", "--require-hashes", "--requirement", lock)
            install(interpreter, *_PIP, *_ONCE, *exactly)
    return interpreter


def overlay(python: Path, pin: str) -> Path:
    """A folder with one package, without what it asks for, to be put before an environment's."""
    with made_once(f"overlay-{_digest(python, pin)}") as (folder, missing):
        if missing:
            install(python, *_PIP, *_ONCE, "--no-deps", "--upgrade", "--target", folder, pin)
    return folder


def _digest(python: Path, *pins: str) -> str:
    """One name for the same interpreter, through whichever environment of it it is named."""
    words = (str(python.resolve()), *pins)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def node_environment(package: str, version: str) -> Path:
    """A folder whose `node_modules` holds one npm package, without scripts and optional peers."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    with made_once(f"npm-{package}-{version}") as (environment, missing):
        if missing:
            flags = ("--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund")
            retries = ("--fetch-retries", "1", "--prefix", environment)
            install(npm, "install", *flags, *retries, f"{package}@{version}")
    return environment


@contextmanager
def made_once(name: str) -> Generator[tuple[Path, bool]]:
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


def install(
    *command: str | Path, what: str | None = None, environment: dict[str, str] | None = None
) -> None:
    """Run what installs; what cannot reach its registry skips the test, any other failure fails it.

    Args:
        command: The program and its arguments.
        what: What is installed, for the reason that is told; else the last argument.
        environment: What it gets instead of this process's variables.
    """
    what = what or str(command[-1])
    try:
        ran = subprocess.run(
            command,
            check=False,
            capture_output=True,
            env=environment,
            text=True,
            timeout=INSTALL_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what}: not installed within {INSTALL_S:.0f} s")
    said = ran.stdout + ran.stderr
    if ran.returncode == 0:
        return
    if any(sign in said for sign in _UNREACHABLE):
        pytest.skip(f"{what}: the registry cannot be reached")
    pytest.fail(f"{what}: installation failed\n{said[-2_000:]}")
