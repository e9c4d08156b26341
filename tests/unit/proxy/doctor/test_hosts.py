"""Doctor's rows about agents' hosts: the hook, what else writes memory, and who may write rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from proxy.doctor.finding import Finding, ProbeResult
from proxy.doctor.hosts import HookGroup, codex_hashes, probe_hosts
from tests.integration.cli_process import ROOT

EXAMPLES: Final = ROOT / "examples"
HOSTS: Final = {
    "codex": (".codex", {"hooks.json": "codex/hooks.json"}),
    "claude-code": (".claude", {"settings.json": "claude-code/settings.json"}),
    "gemini": (".gemini", {"settings.json": "gemini/settings.json"}),
    "openclaw": (".openclaw", {"openclaw.json": "openclaw/openclaw.json"}),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with every host, set up as in `examples/`."""
    monkeypatch.chdir("/")
    for folder, files in HOSTS.values():
        (tmp_path / folder).mkdir()
        for name, example in files.items():
            (tmp_path / folder / name).write_bytes((EXAMPLES / example).read_bytes())
    file = tmp_path / ".codex" / "hooks.json"
    groups = msgspec.convert(
        json.loads(file.read_bytes())["hooks"]["PreToolUse"], tuple[HookGroup, ...]
    )
    (tmp_path / ".codex" / "config.toml").write_text(
        "".join(
            f'[hooks.state."{key}"]\ntrusted_hash = "{digest}"\n'
            for key, digest in codex_hashes(file, groups)
        ),
        encoding="utf-8",
    )
    return tmp_path


def row(home: Path, name: str, **environment: str) -> Finding:
    found = probe_hosts({"HOME": str(home), **environment})
    return next(one for one in found if one.id == f"host.{name}")


def edited(file: Path, **changes: Any) -> None:  # noqa: ANN401 - JSON
    known = json.loads(file.read_bytes())
    file.write_text(json.dumps({**known, **changes}), encoding="utf-8")


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_that_is_set_up_as_in_the_examples_is_well(home: Path, name: str) -> None:
    assert row(home, name).verdict is ProbeResult.OK


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_without_the_hook_is_named_with_the_example(home: Path, name: str) -> None:
    folder, files = HOSTS[name]
    for file in files:
        edited(home / folder / file, hooks={}, plugins={})
    found = row(home, name)
    assert found.verdict is ProbeResult.WARNED
    assert "is absent" in found.got
    assert f"examples/{name}" in found.got


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_that_is_not_here_and_one_that_cannot_be_read_are_told_so(
    home: Path, tmp_path: Path, name: str
) -> None:
    folder, files = HOSTS[name]
    for file in files:
        (home / folder / file).write_text("{ // a comment\n}", encoding="utf-8")
    assert row(home, name).verdict is ProbeResult.SKIPPED
    assert "could not be read" in row(home, name).got
    for file in files:
        (home / folder / file).write_text('{"hooks": {"PreToolUse": 7, "BeforeTool": 7}}', "utf-8")
    assert row(home, name).verdict is not ProbeResult.OK
    assert "no such host" in row(tmp_path / "none", name).got


def test_a_hook_of_codex_that_is_not_trusted_or_was_changed_is_named(home: Path) -> None:
    trusted = (home / ".codex" / "config.toml").read_text("utf-8")
    hooks = (home / ".codex" / "hooks.json").read_text("utf-8")
    (home / ".codex" / "hooks.json").write_text(hooks.replace("mcp__", "mcp_"), encoding="utf-8")
    assert "present but not trusted" in row(home, "codex").got
    (home / ".codex" / "hooks.json").write_text(hooks, encoding="utf-8")
    (home / ".codex" / "config.toml").write_text("", encoding="utf-8")
    told = row(home, "codex").got
    assert "present but not trusted" in told
    digest = trusted.rpartition("= ")[2].strip()
    assert digest in told, "what makes it trusted is part of the row"


SWITCHES: Final = {
    "codex": (".codex/config.toml", "[features]\nmemories = true\n", "features.memories = false"),
    "gemini": (
        ".gemini/settings.json",
        '{"experimental": {"autoMemory": true}}',
        "experimental.autoMemory = false",
    ),
    "claude-code, where nothing is set": (
        ".claude/settings.json",
        "{}",
        "autoDreamEnabled = false in settings.json",
    ),
    "openclaw": (
        ".openclaw/openclaw.json",
        '{"agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": true}}}}}',
        "agents.defaults.compaction.memoryFlush.enabled = false",
    ),
    "openclaw, where nothing is set": (
        ".openclaw/openclaw.json",
        "{}",
        "plugins.entries.memory-core.config.dreaming.enabled = false",
    ),
}


# The real hosts run no hook under these; the first file of each is in the host's own folder.
OFF: Final = {
    "codex": (("config.toml", "work.config.toml"), "[features]\nhooks = false\n"),
    "claude-code": (("settings.json", "settings.local.json"), '{"disableAllHooks": true}'),
    "gemini": (("settings.json",), '{"hooksConfig": {"enabled": false}}'),
    "openclaw": (("openclaw.json",), '{"plugins": {"enabled": false}}'),
}


@pytest.mark.parametrize("project", [False, True], ids=["home", "project"])
@pytest.mark.parametrize("name", OFF)
def test_a_setting_that_keeps_the_hook_from_running_is_named_with_its_file(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, project: bool
) -> None:
    files, text = OFF[name]
    base = tmp_path / "project" if project else home
    (base / HOSTS[name][0]).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(base)
    for file in files:
        assert row(home, name).verdict is ProbeResult.OK, "control"
        path = base / HOSTS[name][0] / file
        before = path.read_bytes() if path.exists() else None
        path.write_text(text, encoding="utf-8")
        found = row(home, name)
        assert found.verdict is ProbeResult.WARNED
        assert f"in {path}" in found.got
        assert "no hook runs" in found.got
        path.unlink() if before is None else path.write_bytes(before)


@pytest.mark.parametrize("file", [".codex/work.config.toml", "project/.codex/config.toml"])
def test_memories_that_a_profile_or_a_project_turns_on_are_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    (home / "project" / ".codex").mkdir(parents=True)
    monkeypatch.chdir(home / "project")
    assert row(home, "codex").verdict is ProbeResult.OK, "control"
    (home / file).write_text("[features]\nmemories = true\n", encoding="utf-8")
    assert f"features.memories = false in {home / file}" in row(home, "codex").got


@pytest.mark.parametrize("case", SWITCHES)
def test_what_else_writes_memory_is_named_with_its_switch(home: Path, case: str) -> None:
    file, text, switch = SWITCHES[case]
    name = case.partition(",")[0]
    assert switch not in row(home, name).got, "control"
    (home / file).write_text(text, encoding="utf-8")
    found = row(home, name)
    assert found.verdict is ProbeResult.WARNED
    assert switch in found.got


@pytest.mark.parametrize(
    ("name", "variable", "folder"),
    [
        ("codex", "CODEX_HOME", ".codex"),
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude"),
        ("gemini", "GEMINI_CLI_HOME", ""),
        ("openclaw", "OPENCLAW_STATE_DIR", ".openclaw"),
    ],
)
def test_a_host_whose_folder_is_moved_is_examined_there(
    home: Path, tmp_path: Path, name: str, variable: str, folder: str
) -> None:
    empty = tmp_path / "other"
    empty.mkdir()
    assert row(empty, name).verdict is ProbeResult.SKIPPED, "control"
    found = row(empty, name, **{variable: str(home / folder)})
    assert found.verdict is ProbeResult.OK


def test_instruction_files_that_this_user_may_write_are_named(home: Path) -> None:
    assert row(home, "instructions").verdict is ProbeResult.OK
    rules = home / ".claude" / "CLAUDE.md"
    rules.write_text("Rules.\n", encoding="utf-8")
    found = row(home, "instructions")
    assert found.verdict is ProbeResult.WARNED
    assert str(rules) in found.got
