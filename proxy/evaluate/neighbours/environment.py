"""An environment of its own for each neighbour: installed by name and version, made once, kept.

They live below MNEMOGATE_CACHE, or `~/.cache/mnemogate`. Together they take gigabytes.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
from pathlib import Path
from typing import Final

from proxy.settings import child_environment

_INSTALL_S: Final = 900.0


class NotInstalled(Exception):  # noqa: N818 - says what is the case
    """The registry could not be reached, or the installation failed."""


def cache_directory() -> Path:
    """Where environments are kept."""
    environment = child_environment()
    named = environment.get("MNEMOGATE_CACHE")
    home = environment.get("HOME", "/")
    return Path(named) if named else Path(home) / ".cache" / "mnemogate"


async def python_of(package: str, version: str) -> Path:
    """The interpreter of an environment that holds this package and what it asks for.

    Raises:
        NotInstalled: It cannot be made.
    """
    root = cache_directory()
    environment = root / f"{package}-{version}"
    python = environment / "bin" / "python"
    environment.mkdir(parents=True, exist_ok=True)
    with (root / f"{package}-{version}.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        done = environment / "installed"
        if not done.exists():
            await _run(sys.executable, "-m", "venv", "--clear", str(environment))
            pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
            await _run(str(python), *pip, "--retries", "1", f"{package}=={version}")
            done.touch()
    return python


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(),
    )
    try:
        async with asyncio.timeout(_INSTALL_S):
            _, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotInstalled(f"{command[-1]}: not installed in {_INSTALL_S:.0f} s") from None
    if process.returncode != 0:
        lines = err.decode(errors="replace").strip().splitlines() or ["no word"]
        raise NotInstalled(f"{command[-1]}: {lines[-1][:200]}")
