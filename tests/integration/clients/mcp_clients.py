"""The MCP clients that are on the registries, each as a command that follows given steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.integration.clients.environments import node_environment, python_environment
from tests.integration.clients.mcp_steps import Step

HERE: Final = Path(__file__).parent
MCP1: Final = "1.30.0"
MCP2: Final = "2.3.0"
STATELESS: Final = "2026-07-28"


class McpClient(msgspec.Struct, frozen=True, kw_only=True):
    package: str
    version: str
    mode: str = "legacy"

    @property
    def name(self) -> str:
        return f"{self.package.removeprefix('@modelcontextprotocol/')}-{self.version}-{self.mode}"

    def command(self, steps: Sequence[Step]) -> tuple[str, ...]:
        """What to run; the server's URL or command follows."""
        given = json.dumps(steps)
        if self.package == "mcp":
            interpreter = str(python_environment("mcp", self.version))
            if self.version == MCP1:
                return (interpreter, str(HERE / "mcp1_drive.py"), given)
            return (interpreter, str(HERE / "mcp2_drive.py"), self.mode, given)
        return ("node", str(HERE / "mcp_ts_drive.mjs"), self.package, self.mode, given)

    def environment(self) -> dict[str, str]:
        if self.package == "mcp":
            return {}
        return {"MCP_MODULES": str(node_environment(self.package, self.version))}


HANDSHAKE: Final = (
    McpClient(package="mcp", version=MCP1),
    McpClient(package="mcp", version=MCP2),
    McpClient(package="mcp", version=MCP2, mode="auto"),
    McpClient(package="@modelcontextprotocol/sdk", version="1.32.2"),
    McpClient(package="@modelcontextprotocol/client", version="2.4.0"),
    McpClient(package="@modelcontextprotocol/client", version="2.4.0", mode="auto"),
)
PINNED: Final = (
    McpClient(package="mcp", version=MCP2, mode=STATELESS),
    McpClient(package="@modelcontextprotocol/client", version="2.4.0", mode=STATELESS),
)
EVERY: Final = (*HANDSHAKE, *PINNED)
