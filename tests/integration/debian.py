"""Programs from Debian's packages for the tests that need them, taken by name where they miss.

One that runs by itself is unpacked below MNEMOGATE_CACHE: that needs no root, and starts no service
that its package brings. One that needs the packages its own asks for is installed, by root alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.conftest import HEAVY
from tests.integration.clients.environments import INSTALL_S, made_once

_KEYS: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


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
    return _fetched(package, f"debian-{package}", wanted) / "usr" / "bin" / command


def of_release(release: str, package: str, program: str) -> Path:
    """A program that runs by itself, at its place in the package of another release of Debian.

    Skips the test where this machine is not Debian, or the package cannot be had.
    """
    wanted = f"{package}, of Debian {release}"
    mirror = _mirror()
    if mirror is None or not _KEYS.exists():
        pytest.skip(f"{wanted}: this is not Debian")
    with TemporaryDirectory() as place:
        lists = Path(place, "lists")
        lists.mkdir()
        source = Path(place, "sources.list")
        source.write_text(f"deb [signed-by={_KEYS}] {mirror} {release} main\n", "utf-8")
        # Lists of packages of its own: what this machine installs stays of its own release.
        own = {"sourcelist": source, "sourceparts": "/dev/null"}
        options = [f"-oDir::Etc::{name}={at}" for name, at in own.items()]
        options += [f"-oDir::State::lists={lists}", f"-oDir::Cache={place}"]
        return _fetched(package, f"debian-{release}-{package}", wanted, options) / program


def _mirror() -> str | None:
    """Where this machine takes the packages of Debian from."""
    if shutil.which("apt-get") is None:
        return None
    asked = ("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)")
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found = (line.partition(" ") for line in said.splitlines())
    return next((uri for label, _, uri in found if label == "Debian"), None)


def _fetched(package: str, name: str, wanted: str, options: Sequence[str] = ()) -> Path:
    """The folder of that name with what is in a package, which apt-get finds by the options."""
    with made_once(name) as (folder, missing):
        if missing:
            # Unpacked whole or not at all: what a run before left half done is written over.
            with TemporaryDirectory(dir=folder) as place:
                if not _apt_get("download", package, cwd=Path(place), options=options):
                    pytest.skip(f"{wanted}, which cannot be fetched")
                [archive] = Path(place).glob("*.deb")
                subprocess.run(
                    ("dpkg", "-x", archive, folder),
                    check=True,
                    capture_output=True,
                    timeout=INSTALL_S,
                )
    return folder


def installed(command: str, package: str) -> bool:
    """Whether a program is on this machine, or was put there because root runs the tests."""
    if shutil.which(command) is not None:
        return True
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    done = _apt_get("install", "--yes", "--no-install-recommends", package, cwd=Path("/"))
    return done and shutil.which(command) is not None


def _apt_get(*words: str, cwd: Path, options: Sequence[str] = ()) -> bool:
    """Whether apt-get did it, at once or with lists of packages that are fetched anew."""

    def ran(*words: str) -> bool:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ("apt-get", *options, *words)
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
        return done.returncode == 0

    return ran(*words) or (ran("update") and ran(*words))
