"""Mnemogate between a client and its servers: the stdio wrapper, and a sidecar for HTTP."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.integration.cli_process import ROOT
from tests.integration.clients.process import PATH
from tests.integration.hosts.http_tee import HttpTee, http_tee
from tests.integration.hosts.scene import Scene
from tests.integration.running import AGENT_KEY, Running, running

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
    base.mkdir(parents=True, exist_ok=True)
    path = base / "open.toml"
    path.write_text(head + opened + rest, encoding="utf-8")
    return path


Table = dict[str, Any]


def command_table(words: tuple[str, ...], **more: object) -> Table:
    """An `[[mcp]]` table for a server that the sidecar runs itself."""
    return {"command": list(words), "env": {"PATH": PATH}, **more}


@asynccontextmanager
async def sidecar(
    scene: Scene, tables: Mapping[str, Table], ruleset: Path | None = None
) -> AsyncGenerator[tuple[Running, HttpTee]]:
    """A sidecar with these `[[mcp]]` tables, and a recorder before its data listener."""
    flags = {
        "state": str(scene.state),
        "checkpoint": str(scene.checkpoint),
        **({} if ruleset is None else {"ruleset": str(ruleset)}),
    }
    text = settings_text({"mcp": tables})
    ours = scene.base / "ours"
    async with running(ours, flags=flags, tables=text) as live, http_tee(live.url) as tee:
        yield live, tee


def settings_text(kinds: Mapping[str, Mapping[str, Table]]) -> str:
    lines: list[str] = []
    for kind, tables in kinds.items():
        for name, table in tables.items():
            lines += [f"[[{kind}]]", f"name = {json.dumps(name)}"]
            lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Strings, lists and numbers as JSON has them; the one table is inline."""
    text = json.dumps(value)
    return re.sub(r'("\w+"): ', r"\1 = ", text) if text.startswith("{") else text


def agent_headers() -> dict[str, str]:
    """What a host sends to be the agent."""
    return {"X-Api-Key": AGENT_KEY}
