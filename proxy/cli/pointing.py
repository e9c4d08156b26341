"""Makes the instructions for connecting an agent, which `mnemogate run` prints for copying."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proxy.settings.mcp import McpServer
from proxy.settings.model import CLIENTS, ModelUpstream

_COMMAND: Final = "mnemogate"


def for_the_agent(key: str | None) -> list[str]:
    """Shell lines for the environment of an agent: they set the agent's own key and no other key.

    An agent that has the operator's key can release what was held from it, so the lines of
    `for_the_operator` belong in another shell.
    """
    return [] if key is None else [f"export MNEMOGATE_AGENT_KEY={key}"]


def for_the_operator(key: str | None, places: Mapping[str, Path]) -> list[str]:
    """Shell lines after which operator commands find this sidecar without further options.

    `places` is a mapping of settings' names to this sidecar's directories and files that are not at
    their default places. If the shell would not find the command itself, the lines add it to PATH.
    """
    own = Path(sys.argv[0]).absolute()
    hidden = own.name == _COMMAND and shutil.which(_COMMAND) is None
    lines = [f'export PATH={shlex.quote(str(own.parent))}:"$PATH"'] if hidden else []
    lines += [
        f"export MNEMOGATE_{name.upper()}={shlex.quote(str(path))}" for name, path in places.items()
    ]
    return lines + ([] if key is None else [f"export MNEMOGATE_OPERATOR_KEY={key}"])


def first_write(data: str) -> str:
    """A shell command that stores a first memory with the key that `for_the_agent` sets."""
    return (
        'curl -H "Authorization: Bearer $MNEMOGATE_AGENT_KEY" '
        "-H 'Content-Type: application/json' \\\n"
        f'      -d \'{{"text": "The meeting is on Tuesday."}}\' {data}/v1/memories'
    )


def mcp_entries(servers: tuple[McpServer, ...], data: str, state: Path) -> list[str]:
    """Entries for an MCP host's configuration: the sidecar's upstream MCP servers, with a key.

    If there is none, one entry for a memory server that the host runs with the gate between. Its
    writes count as those of the host's uid, because its calls carry no key.
    """
    if not servers:
        return [_entry("memory", _wrapped(state))]
    headers = {"X-Api-Key": "${MNEMOGATE_AGENT_KEY}"}
    return [
        _entry(one.name, {"type": "http", "url": f"{data}/mcp/{one.name}", "headers": headers})
        for one in servers
    ]


def _entry(name: str, server: dict[str, object]) -> str:
    return json.dumps({"mcpServers": {name: server}})


def _wrapped(state: Path) -> dict[str, object]:
    own = Path(sys.argv[0]).absolute()
    command = str(own) if own.name == _COMMAND and os.access(own, os.X_OK) else _COMMAND
    server = ["npx", "-y", "@modelcontextprotocol/server-memory"]
    arguments = ["mcp", "--state", str(state), "--server", "memory", "--", *server]
    return {"command": command, "args": arguments}


def pointed(model: ModelUpstream, data: str, key: str) -> str:
    """Shell variables that make an agent call a model API through the sidecar.

    If the sidecar has no credential for that API, the agent keeps its own.
    """
    of = CLIENTS[model.api]
    given = f"{of.base}={data}/{model.name}{of.end}"
    if model.headers:
        return f"{given} {of.key}={key}"
    if of.headers:
        return f'{given} {of.headers}="Mnemogate-Key: {key}"'
    return f"{given} and the header `Mnemogate-Key: {key}` beside the agent's own {of.key}"
