"""A folder for PATH in which `mnemogate` is the tree under test, and `npx` fetches nothing.

So the configuration files of `examples/` are used as they stand.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.integration.cli_process import ROOT
from tests.integration.clients.environments import node_environment

_PACKAGE = "@modelcontextprotocol/server-memory"


def shims(base: Path, version: str) -> Path:
    """The folder, with `npx -y PACKAGE@VERSION` for the memory server of that version alone."""
    folder = base / "bin"
    folder.mkdir(parents=True)
    script = node_environment(_PACKAGE, version) / "node_modules" / _PACKAGE / "dist" / "index.js"
    _executable(
        folder / "mnemogate",
        f'PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -P -m proxy "$@"',
    )
    _executable(
        folder / "npx",
        f'[ "$*" = "-y {_PACKAGE}@{version}" ] || exit 64\nexec node {shlex.quote(str(script))}',
    )
    return folder


def _executable(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)
