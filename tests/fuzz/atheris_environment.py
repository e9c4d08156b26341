"""The directory with atheris: made once, and kept apart from the project's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VERSION = "3.0.0"


class AtherisMissing(Exception):  # noqa: N818 - says what is the case
    """Atheris is not there and cannot be installed; the message says why."""


def atheris_path() -> Path:
    """The directory to put on the path; installs atheris on first use.

    It lives under MNEMOGATE_CACHE (default: `~/.cache/mnemogate`).

    Raises:
        AtherisMissing: No wheel for this interpreter, or no package index.
    """
    root = os.environ.get("MNEMOGATE_CACHE") or Path.home() / ".cache" / "mnemogate"
    tag = f"{sys.version_info.major}{sys.version_info.minor}"
    place = Path(root) / f"atheris-{VERSION}-{tag}"
    done = place / "installed"
    if done.exists():
        return place
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--no-deps", "--upgrade", "--target", str(place)]
    ran = subprocess.run(
        [*command, f"atheris=={VERSION}"], check=False, capture_output=True, text=True
    )
    if ran.returncode != 0:
        last = (ran.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise AtherisMissing(f"atheris {VERSION} cannot be installed: {last}")
    done.touch()
    return place
