"""Instructions for connecting an agent to the sidecar, which `mnemogate run` prints for copying."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy.settings.model import Api

if TYPE_CHECKING:
    from proxy.settings.model import ModelUpstream

_COMMAND: Final = "mnemogate"


def exports(keys: dict[str, str]) -> list[str]:
    """Shell lines that put the command on the path, if it is not there, and export the keys.

    `keys` has the key of each channel, in the order in which they are shown.
    """
    own = Path(sys.argv[0]).absolute()
    hidden = own.name == _COMMAND and shutil.which(_COMMAND) is None
    path = [f'export PATH={shlex.quote(str(own.parent))}:"$PATH"'] if hidden else []
    return path + [f"export MNEMOGATE_{role.upper()}_KEY={key}" for role, key in keys.items()]


def first_write(data: str) -> str:
    """A command that stores a first memory, with the key of `exports`."""
    return (
        'curl -H "Authorization: Bearer $MNEMOGATE_AGENT_KEY" '
        "-H 'Content-Type: application/json' \\\n"
        f'      -d \'{{"text": "The meeting is on Tuesday."}}\' {data}/v1/memories'
    )


def mcp_entry(state: Path) -> str:
    """An entry for the configuration of an MCP host: a memory server behind this gate."""
    own = Path(sys.argv[0]).absolute()
    command = str(own) if own.name == _COMMAND and os.access(own, os.X_OK) else _COMMAND
    server = ["npx", "-y", "@modelcontextprotocol/server-memory"]
    arguments = ["mcp", "--state", str(state), "--server", "memory", "--", *server]
    return json.dumps({"mcpServers": {"memory": {"command": command, "args": arguments}}})


def pointed(model: ModelUpstream, data: str, key: str) -> str:
    """Shell lines that connect an agent to a model API.

    If the sidecar has no credential for that API, the agent keeps its own.
    """
    url = f"{data}/{model.name}"
    if model.api is Api.ANTHROPIC:
        given = f"ANTHROPIC_BASE_URL={url}"
        if model.headers:
            return f"{given} ANTHROPIC_API_KEY={key}"
        return f'{given} ANTHROPIC_CUSTOM_HEADERS="Mnemogate-Key: {key}"'
    given = f"OPENAI_BASE_URL={url}/v1"
    if model.headers:
        return f"{given} OPENAI_API_KEY={key}"
    return f"{given} and the header `Mnemogate-Key: {key}` beside the agent's own OPENAI_API_KEY"
