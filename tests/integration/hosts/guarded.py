"""Mnemogate between a client and its servers: the stdio wrapper, and a sidecar for HTTP."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.integration.cli_process import ROOT

if TYPE_CHECKING:
    from tests.integration.hosts.scene import Scene

HERE: Final = Path(__file__).parent
NOTES_MAP: Final = HERE / "notes_map.toml"


def wrapper_environment(scene: Scene, **more: str) -> dict[str, str]:
    """What a person's shell would give the wrapper, with this scene's folders."""
    return {
        "MNEMOGATE_STATE": str(scene.state),
        "MNEMOGATE_CHECKPOINT": str(scene.checkpoint),
        "MNEMOGATE_LISTEN": "127.0.0.1:0",
        "MNEMOGATE_ADMIN": "127.0.0.1:0",
        "PYTHONPATH": str(ROOT),
        **more,
    }


def wrapped(name: str, words: tuple[str, ...], *options: str) -> tuple[str, ...]:
    """`mnemogate mcp --server NAME ... -- COMMAND`, from the tree under test."""
    wrapper = (sys.executable, "-P", "-m", "proxy", "mcp", "--server", name, *options)
    # The path to our own packages is none of the server's business.
    return (*wrapper, "--", "env", "-u", "PYTHONPATH", *words)


def open_ruleset(base: Path) -> Path:
    """A ruleset whose matrix admits everything: for views that are to be compared."""
    default = (ROOT / "policy" / "default.toml").read_text(encoding="utf-8")
    head, matrix, rest = re.split(r"(?m)^(?=\[matrix\]|\[budgets\])", default)
    opened = re.sub(r'= "\w+"', '= "admit"', matrix)
    path = base / "open.toml"
    path.write_text(head + opened + rest, encoding="utf-8")
    return path
