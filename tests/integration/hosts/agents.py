"""Unmodified agents that read a page and keep memories, each with the tools that are its own.

One task for all of them: read the page, keep a good memory, keep what the page says, look twice at
what is kept, or at the page. What the page says is what `MEMO` stands for: the model obeys it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from tests.integration.clients.environments import python_environment
from tests.integration.clients.process import run_client
from tests.integration.hosts import hosts
from tests.integration.hosts.chat_model import ChatModel
from tests.integration.hosts.fronted import Fronted
from tests.integration.hosts.hosts import (
    Address,
    ClaudeCode,
    Codex,
    Command,
    Host,
    Servers,
    Settings,
)
from tests.integration.hosts.messages_model import MessagesModel
from tests.integration.hosts.responses_model import ResponsesModel
from tests.integration.hosts.scene import Scene, entity
from tests.integration.hosts.script import ANTHROPIC, MEMO, OPENAI, CallGiven, ModelServer

ANTHROPIC_SDK: Final = "2.11.0"
OPENAI_SDK: Final = "3.52.0"
DRIVERS: Final = Path(__file__).resolve().parents[1] / "clients"
# What a person asks for; the script has the calls that follow these words.
TASK: Final = "Please look up what there is about tea and keep what matters."
TEA: Final = "Alice drinks green tea in the morning."
Told = dict[str, list["CallGiven"]]


class Agent(Protocol):
    name: str
    # Whether its memory is an MCP server, which may be behind the sidecar as well.
    has_servers: bool

    def model(self, told: Mapping[str, Sequence[CallGiven]]) -> ModelServer: ...
    def told(self, kind: str) -> Told: ...
    def kept(self, scene: Scene) -> list[str]: ...
    async def run(self, at: Fronted, scene: Scene, servers: Servers, *prompts: str) -> str: ...


class HostAgent:
    """Claude Code or Codex, with a memory server and a web server."""

    has_servers = True

    def __init__(self, name: str, host: Host, api: str, *before: CallGiven) -> None:
        """`before`: what it calls ahead of the task, of tools that are its own."""
        self.name = name
        self._api = api
        self._host = host
        self._before = before

    def model(self, told: Mapping[str, Sequence[CallGiven]]) -> ModelServer:
        return MessagesModel(told) if self._api == ANTHROPIC else ResponsesModel(told)

    def told(self, kind: str) -> Told:
        return {
            TASK: [
                *self._before,
                ("web/search", {"query": "tea"}),
                ("memory/create_entities", entity("Alice", "person", TEA)),
                ("memory/create_entities", entity("shop", kind, MEMO)),
                ("memory/read_graph", {}),
                ("memory/read_graph", {}),
            ]
        }

    def kept(self, scene: Scene) -> list[str]:
        return [text for one in scene.remembered() for text in one["observations"]]

    async def run(self, at: Fronted, scene: Scene, servers: Servers, *prompts: str) -> str:
        home = scene.base / "home"
        await asyncio.to_thread((home / ".codex").mkdir, parents=True, exist_ok=True)
        (prompt,) = prompts
        environment = {"ANTHROPIC_API_KEY": at.key, "SCRIPTED_KEY": at.key}
        # Claude Code's first request waits for its servers, or two runs are not alike.
        environment["MCP_CONNECTION_NONBLOCKING"] = "0"
        settings = Settings(
            text=self._host.settings(servers), servers=tuple(servers), environment=environment
        )
        return (await self._host.run(prompt, home, at.url, settings)).out


class AnthropicRunner:
    """The tool runner of the `anthropic` SDK, with its memory tool."""

    has_servers = False

    def __init__(self, mode: str) -> None:
        self.name = f"anthropic-{mode}"
        self._mode = mode

    def model(self, told: Mapping[str, Sequence[CallGiven]]) -> ModelServer:
        return MessagesModel(told)

    def told(self, kind: str) -> Told:
        where = "preferences" if kind == "preference" else "shop"
        return {
            TASK: [
                ("/fetch_page", {"url": "https://tea.example/"}),
                ("/memory", _create("alice", TEA)),
                ("/memory", _create(where, MEMO)),
                ("/memory", {"command": "view", "path": "/memories"}),
                ("/memory", {"command": "view", "path": "/memories"}),
            ]
        }

    def kept(self, scene: Scene) -> list[str]:
        return _texts_below(scene.server_folder)

    async def run(self, at: Fronted, scene: Scene, servers: Servers, *prompts: str) -> str:
        assert not servers
        environment = {"ANTHROPIC_BASE_URL": at.url, "ANTHROPIC_API_KEY": at.key}
        interpreter = python_environment("anthropic", ANTHROPIC_SDK)
        words = (DRIVERS / "anthropic_drive.py", scene.server_folder, scene.page, self._mode)
        return await _driven(scene, environment, interpreter, *words, *prompts)


class OpenaiLoop:
    """A loop around the `openai` SDK: Chat Completions, Responses, or its own runner."""

    has_servers = False

    def __init__(self, over: str, mode: str) -> None:
        self.name = f"openai-{over}-{mode}"
        self._over = over
        self._mode = mode

    def model(self, told: Mapping[str, Sequence[CallGiven]]) -> ModelServer:
        return ChatModel(told) if self._over == "chat" else ResponsesModel(told)

    def told(self, kind: str) -> Told:
        del kind
        return {
            TASK: [
                ("/fetch_page", {"url": "https://tea.example/"}),
                ("/manage_memory", {"content": TEA, "action": "create"}),
                ("/manage_memory", {"content": MEMO, "action": "create"}),
                ("/fetch_page", {"url": "https://tea.example/more"}),
                ("/fetch_page", {"url": "https://tea.example/more"}),
            ]
        }

    def kept(self, scene: Scene) -> list[str]:
        return _texts_below(scene.server_folder)

    async def run(self, at: Fronted, scene: Scene, servers: Servers, *prompts: str) -> str:
        assert not servers
        environment = {"OPENAI_BASE_URL": f"{at.url}/v1", "OPENAI_API_KEY": at.key}
        interpreter = python_environment("openai", OPENAI_SDK)
        folder = scene.server_folder
        words = (DRIVERS / "openai_drive.py", folder, scene.page, self._over, self._mode)
        return await _driven(scene, environment, interpreter, *words, *prompts)


CLAUDE_CODE: Final = HostAgent("claude-code", ClaudeCode(), ANTHROPIC)
_NEEDED = "select:mcp__web__search,mcp__memory__create_entities,mcp__memory__read_graph"
CLAUDE_CODE_SEARCHING: Final = HostAgent(
    "claude-code-searching",
    ClaudeCode(searches=True),
    ANTHROPIC,
    ("/ToolSearch", {"query": _NEEDED}),
)
CODEX: Final = HostAgent("codex", Codex(), OPENAI)
CODEX_PROGRAMS: Final = HostAgent("codex-programs", Codex(hosts.CODEX_OWN_MODEL), OPENAI)
HOSTS: Final[tuple[Agent, ...]] = (CLAUDE_CODE, CODEX)
SDKS: Final[tuple[Agent, ...]] = (
    *(AnthropicRunner(mode) for mode in ("whole", "stream")),
    *(
        OpenaiLoop(over, mode)
        for over in ("chat", "responses", "runner")
        for mode in ("whole", "stream")
    ),
)


def plain_servers(scene: Scene) -> Servers:
    """Both servers as a host starts them itself."""
    return {
        "memory": Command(words=scene.recorded("memory", scene.memory_words())),
        "web": Command(words=scene.recorded("web", scene.web_words())),
    }


def served(at: Fronted, names: Sequence[str]) -> Servers:
    origin = at.agent.url
    return {
        name: Address(url=f"{origin}/mcp/{name}", headers={"X-Api-Key": at.key}) for name in names
    }


def _create(name: str, text: str) -> dict[str, str]:
    return {"command": "create", "path": f"/memories/{name}.md", "file_text": text}


def _texts_below(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path.read_text(encoding="utf-8") for path in files]


async def _driven(scene: Scene, environment: dict[str, str], *words: str | Path) -> str:
    home = scene.base / "home"
    code, out, errors = await run_client(*words, home=home, environment=environment)
    assert code == 0, errors[-3_000:]
    return "\n".join(msgspec.json.decode(out, type=list[str]))
