"""Programs from Debian's packages for the tests that need them, taken by name where they miss.

One that runs by itself is unpacked below MNEMOGATE_CACHE: that needs no root, and starts no service
that its package brings. One that needs the packages its own asks for is installed, by root alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import HEAVY
from tests.integration.clients.environments import INSTALL_S, made_once


def unpacked(command: str, package: str) -> Path:
    """A program that runs by itself: as it is installed, else out of its package.

    Skips the test where it misses and cannot be had, and in the quick suite, which fetches nothing.
    """
    found = shutil.which(command)
    if found is not None:
        return Path(found)
    wanted = f"{command}: apt-get install {package}"
    if not HEAVY:
        pytest.skip(f"{wanted}, or set MNEMOGATE_HEAVY=1")
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip(wanted)
    with made_once(f"debian-{package}") as (folder, missing):
        if missing:
            # Unpacked whole or not at all: what a run before left half done is written over.
            with TemporaryDirectory(dir=folder) as place:
                if not _apt_get("download", package, cwd=Path(place)):
                    pytest.skip(f"{wanted}, which cannot be fetched")
                [archive] = Path(place).glob("*.deb")
                subprocess.run(
                    ("dpkg", "-x", archive, folder),
                    check=True,
                    capture_output=True,
                    timeout=INSTALL_S,
                )
    return folder / "usr" / "bin" / command


def installed(command: str, package: str) -> bool:
    """Whether a program is on this machine, or was put there because root runs the tests."""
    if shutil.which(command) is not None:
        return True
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    done = _apt_get("install", "--yes", "--no-install-recommends", package, cwd=Path("/"))
    return done and shutil.which(command) is not None


def _apt_get(*words: str, cwd: Path) -> bool:
    """Whether apt-get did it, at once or with lists of packages that are fetched anew."""

    def ran(*words: str) -> bool:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ("apt-get", *words)
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
        return done.returncode == 0

    return ran(*words) or (ran("update") and ran(*words))
