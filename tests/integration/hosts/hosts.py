"""Claude Code and Codex, unmodified, each with a home of its own and a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tests.integration.clients.environments import node_environment
from tests.integration.clients.process import Conversed, conversing, run_client
from tests.integration.hosts.messages_model import MessagesModel
from tests.integration.hosts.responses_model import ResponsesModel
from tests.integration.hosts.script import ModelServer, ToolResult, calling, serving

CLAUDE_CODE = "2.1.332"
CODEX = "0.171.0"
# The first of the catalogue that this Codex has in it.
CODEX_OWN_MODEL = "gpt-6.2-sol"
UNSAFE_SHELL = "--dangerously-bypass-approvals-and-sandbox"


class Command(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[str, ...]
    environment: dict[str, str] = {}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    headers: dict[str, str] = {}


Servers = dict[str, Command | Address]


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt: what the host printed, and what its tools told its model."""

    out: str
    err: str
    results: list[ToolResult]


class Host(Protocol):
    def model(self) -> ModelServer: ...
    def settings(self, servers: Servers) -> str: ...
    async def run(self, prompt: str, home: Path, model: str, settings: Settings) -> Printed: ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The host's own file of MCP servers, their names, and variables of its shell."""

    text: str
    servers: tuple[str, ...]
    environment: dict[str, str] = {}
    # Tools of the host's own that need nobody's click.
    tools: tuple[str, ...] = ()


class Printed(msgspec.Struct, frozen=True):
    out: str
    err: str


async def ask(host: Host, home: Path, servers: Servers, *calls: tuple[str, dict[str, Any]]) -> Ran:
    """Have the host's model make these calls, in one process of the host."""
    settings = Settings(text=host.settings(servers), servers=tuple(servers))
    return await ask_configured(host, home, settings, *calls)


async def ask_configured(
    host: Host, home: Path, settings: Settings, *calls: tuple[str, dict[str, Any]]
) -> Ran:
    """The same, with a file of servers as it stands."""
    # Each host finds its settings in its home.
    await asyncio.to_thread((home / ".codex").mkdir, parents=True, exist_ok=True)
    async with serving(host.model()) as model:
        printed = await host.run(calling(*calls), home, model.url, settings)
        results = model.results()
    assert "NO TOOL" not in printed.out, printed.out
    return Ran(out=printed.out, err=printed.err, results=results)


class ClaudeCode:
    """`claude -p`. `searches`: it finds its servers' tools with a tool of its own."""

    def __init__(self, *, searches: bool = False) -> None:
        self._searches = searches

    def model(self) -> MessagesModel:
        return MessagesModel()

    def settings(self, servers: Servers) -> str:
        return json.dumps({"mcpServers": claude_servers(servers)})

    async def run(self, prompt: str, home: Path, model: str, settings: Settings) -> Printed:
        words = ("-p", prompt, "--output-format", "json", *self._configured(home, settings))
        code, out, err = await run_client(
            claude_program(),
            *words,
            home=home,
            environment=self._environment(model, settings),
        )
        assert code == 0, (out, err[-2_000:])
        return Printed(out, err)

    async def talk(
        self, turns: Sequence[str], home: Path, model: str, settings: Settings
    ) -> list[str]:
        """One conversation in one process, turn by turn; the last words of each turn."""
        stream = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        words = (claude_program(), "-p", *stream, *self._configured(home, settings))
        environment = self._environment(model, settings)
        said: list[str] = []
        async with conversing(*words, home=home, environment=environment) as process:
            for turn in turns:
                message = {"role": "user", "content": [{"type": "text", "text": turn}]}
                process.write(json.dumps({"type": "user", "message": message}).encode() + b"\n")
                said.append(await _ended(process))
        return said

    def _configured(self, home: Path, settings: Settings) -> tuple[str | Path, ...]:
        path = home / "mcp.json"
        path.write_text(settings.text, encoding="utf-8")
        allowed = [f"mcp__{name}" for name in settings.servers] + ["ReadMcpResourceTool"]
        servers = ("--mcp-config", path, "--strict-mcp-config")
        return (*servers, "--allowedTools", ",".join((*allowed, *settings.tools)))

    def _environment(self, model: str, settings: Settings) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": "nothing",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": str(self._searches).lower(),
            **settings.environment,
        }


class Codex:
    """`codex exec`. `model`: one of its catalogue calls tools from inside programs alone."""

    def __init__(self, model: str = "gpt-5.5", *, sandboxed: bool = True) -> None:
        self._model = model
        self._flags = () if sandboxed else (UNSAFE_SHELL,)

    def model(self) -> ResponsesModel:
        return ResponsesModel()

    def settings(self, servers: Servers) -> str:
        return codex_servers(servers)

    async def run(self, prompt: str, home: Path, model: str, settings: Settings) -> Printed:
        config = CODEX_MODEL.format(model=self._model, url=model) + settings.text
        (home / ".codex" / "config.toml").write_text(config, encoding="utf-8")
        # Nobody is there to approve a call, and the one prompt waits for every server.
        given = ('default_tools_approval_mode="approve"', "required=true")
        approve = [
            word
            for name in settings.servers
            for setting in given
            for word in ("-c", f"mcp_servers.{name}.{setting}")
        ]
        code, out, err = await run_client(
            codex_program(),
            *("exec", "--skip-git-repo-check", "--json", *self._flags, *approve, prompt),
            home=home,
            environment={"SCRIPTED_KEY": "nothing", **settings.environment},
        )
        assert code == 0, (out, err[-2_000:])
        return Printed(out, err)


def codex_program() -> Path:
    return node_environment("@openai/codex", CODEX) / "node_modules" / ".bin" / "codex"


CODEX_MODEL = """\
model = "{model}"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
"""


def claude_servers(servers: Mapping[str, Command | Address]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, server in servers.items():
        if isinstance(server, Command):
            command, *args = server.words
            written[name] = {"command": command, "args": args, "env": server.environment}
        else:
            written[name] = {"type": "http", "url": server.url, "headers": server.headers}
    return written


def codex_servers(servers: Mapping[str, Command | Address]) -> str:
    """The `[mcp_servers]` of `config.toml`. JSON strings and lists are TOML too."""
    lines: list[str] = []
    for name, server in servers.items():
        lines.append(f"[mcp_servers.{name}]")
        if isinstance(server, Command):
            command, *args = server.words
            lines += [f"command = {json.dumps(command)}", f"args = {json.dumps(args)}"]
            table, pairs = "env", server.environment
        else:
            lines.append(f"url = {json.dumps(server.url)}")
            table, pairs = "http_headers", server.headers
        lines.append(f"[mcp_servers.{name}.{table}]")
        lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in pairs.items()]
    return "\n".join(lines) + "\n"


async def _ended(process: Conversed) -> str:
    async for line in process.lines():
        told = json.loads(line)
        if told.get("type") == "control_request":
            # A server asks its person about what waits: she is not there.
            answer = {"subtype": "success", "request_id": told["request_id"]}
            whole = {**answer, "response": {"action": "cancel"}}
            process.write(
                json.dumps({"type": "control_response", "response": whole}).encode() + b"\n"
            )
        if told.get("type") == "result":
            assert not told.get("is_error"), told
            return str(told["result"])
    raise AssertionError(f"the conversation ended: {await process.complaints()}")


def claude_program() -> Path:
    """The program itself: its npm package is a launcher around one file per platform."""
    environment = node_environment("@anthropic-ai/claude-code", CLAUDE_CODE)
    folder = environment / "node_modules" / "@anthropic-ai"
    return next(folder.glob("claude-code-*/claude"))
