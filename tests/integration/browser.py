"""Headless Chromium, as a person's browser: what it shows, and a picture of it.

Where it is not installed, `make test-full` installs Debian's package by its name; who may not
install packages skips the tests that need it.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.integration.debian import installed

ROOT: Final = Path(__file__).parents[2]
PICTURES: Final = ROOT / "docs" / "pictures"
PHONE, DESK = 390, 1_200
"""Widths of a window, in pixels."""
_TIMEOUT_S: Final = 240.0


@functools.cache
def why_no_browser() -> str | None:
    """Why there is none; None where there is, or was put there."""
    if installed("chromium", "chromium"):
        return None
    return "needs Chromium (Debian and Ubuntu, as root: apt-get install chromium)"


class Browser(NamedTuple):
    home: Path

    def shown(self, url: str, *, settle_ms: int = 0) -> str:
        """The document as it is once the page has loaded; scripts get `settle_ms` of its time."""
        return self._run(url, "--dump-dom", *_settling(settle_ms)).decode()

    def picture(
        self, url: str, name: str, *, width: int, height: int = 1_100, settle_ms: int = 0
    ) -> Path:
        """A picture of a page; with MNEMOGATE_PICTURES it replaces the one that is kept."""
        directory = PICTURES if os.environ.get("MNEMOGATE_PICTURES") else self.home
        path = directory / f"{name}.png"
        size = f"--window-size={width},{height}"
        self._run(url, f"--screenshot={path}", size, "--hide-scrollbars", *_settling(settle_ms))
        assert path.read_bytes().startswith(b"\x89PNG")
        return path

    def _run(self, url: str, *options: str) -> bytes:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
        command += [f"--user-data-dir={self.home / 'profile'}", *options, url]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        done = subprocess.run(
            command, env=environment, capture_output=True, check=True, timeout=_TIMEOUT_S
        )
        return done.stdout


def browser(home: Path) -> Browser:
    """A browser with a fresh profile; skips the test where there is none."""
    reason = why_no_browser()
    if reason is not None:
        pytest.skip(reason)
    return Browser(home)


def _settling(settle_ms: int) -> tuple[str, ...]:
    return (f"--virtual-time-budget={settle_ms}",) if settle_ms else ()
