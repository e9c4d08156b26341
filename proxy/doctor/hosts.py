"""Probes of the agents' hosts: whether the hook is in place, and what else may write memory.

A host is examined by its own settings below a home. A file that cannot be read is reported so.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import msgspec

from proxy.doctor.finding import Attempt, Finding

_INSTRUCTIONS: Final = (
    *("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".codex/AGENTS.md", ".claude/CLAUDE.md"),
    *(".gemini/GEMINI.md", ".openclaw/workspace/AGENTS.md", ".openclaw/workspace/SOUL.md"),
)


class _Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host: the folder of its settings below a home, and the variable that moves the folder.

    `settings` fits the files of settings, each of which may change those before: in the folder, and
    in a folder of that name below the project. `switches` maps a setting by which the host writes
    memory itself to what it is, `off` one that keeps each hook from running to its bad value.
    `implied`: where a switch is not set, some versions of the host write all the same.
    """

    name: str
    folder: str
    variable: str
    settings: str = "settings*.json"
    hooks: str = "settings.json"
    event: str = "PreToolUse"
    switches: dict[str, str] = {}
    off: tuple[str, bool]
    implied: bool = False


_HOSTS: Final = (
    _Host(
        name="codex",
        folder=".codex",
        variable="CODEX_HOME",
        settings="*config.toml",
        hooks="hooks.json",
        switches={"features.memories": "memories are on"},
        off=("features.hooks", False),
    ),
    _Host(
        name="claude-code",
        folder=".claude",
        variable="CLAUDE_CONFIG_DIR",
        switches={"autoDreamEnabled": "the consolidation of its notes is not off"},
        off=("disableAllHooks", True),
        implied=True,
    ),
    _Host(
        name="gemini",
        folder=".gemini",
        variable="GEMINI_CLI_HOME",
        event="BeforeTool",
        switches={"experimental.autoMemory": "Auto Memory is on"},
        off=("hooksConfig.enabled", False),
    ),
    _Host(
        name="openclaw",
        folder=".openclaw",
        variable="OPENCLAW_STATE_DIR",
        settings="openclaw.json",
        hooks="openclaw.json",
        event="",
        switches={
            "plugins.entries.memory-core.config.dreaming.enabled": "dreaming is not off",
            "agents.defaults.compaction.memoryFlush.enabled": "the memory flush is not off",
        },
        off=("plugins.enabled", False),
        implied=True,
    ),
)


class _Handler(msgspec.Struct, frozen=True):
    command: str = ""
    timeout: int = 600  # what Codex takes where it is not set


class HookGroup(msgspec.Struct, frozen=True):
    """The handlers of one matcher in a host's settings."""

    hooks: tuple[_Handler, ...] = ()
    matcher: str | None = None


def probe_hosts(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Examine each host's settings in the home of an environment, and its instruction files."""
    home = Path(environment.get("HOME", "/"))
    for host in _HOSTS:
        moved = environment.get(host.variable)
        # Gemini CLI's variable names a home, the others' the folder itself.
        below = Path(moved or home) / ("" if moved and host.name != "gemini" else host.folder)
        attempt = Attempt(
            f"host.{host.name}", f"find the hook in {below}", "it, and no other writer of memory"
        )
        if not below.is_dir():
            yield attempt.skipped("there is no such host here")
            continue
        try:
            found = [*_faults(host, below)]
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            yield attempt.skipped(f"its settings could not be read ({type(error).__name__})")
            continue
        yield attempt.warned("; ".join(found)) if found else attempt.ok("in place, and alone")
    places = dict.fromkeys((*(home / one for one in _INSTRUCTIONS), *map(Path, _INSTRUCTIONS[:3])))
    # A file in a folder that this user may write can be replaced.
    writable = [
        str(one.absolute())
        for one in filter(os.path.lexists, places)
        if os.access(one, os.W_OK) or os.access(one.parent, os.W_OK)
    ]
    attempt = Attempt("host.instructions", "write instruction files of hosts", "none of them")
    keep = f"{', '.join(writable)}: give files and folders to a user under whom no agent runs"
    yield attempt.warned(keep) if writable else attempt.ok("none of them")


def codex_hashes(file: Path, groups: tuple[HookGroup, ...]) -> Iterator[tuple[str, str]]:
    """For each of Codex's handlers that run the hook: its key, and the hash by which it is trusted.

    `file` is the `hooks.json` with the groups.
    """
    for at, group in enumerate(groups):
        for number, one in enumerate(group.hooks):
            if "mnemogate hook" in one.command:
                handler = {"type": "command", "async": False, **msgspec.structs.asdict(one)}
                given = {"event_name": "pre_tool_use", "hooks": [handler]}
                given |= {} if group.matcher is None else {"matcher": group.matcher}
                spelled = json.dumps(
                    given, sort_keys=True, separators=(",", ":"), ensure_ascii=False
                )
                digest = hashlib.sha256(spelled.encode()).hexdigest()
                yield f"{file}:pre_tool_use:{at}:{number}", f"sha256:{digest}"


def _faults(host: _Host, below: Path) -> Iterator[str]:
    """What a host's settings leave open, each with what closes it.

    Raises:
        OSError, ValueError, MsgspecError: A file cannot be read.
    """
    hooks = _read(below / host.hooks)
    files = [*below.glob(host.settings), *Path(host.folder).glob(host.settings)]
    settings = {file.resolve(): _read(file) for file in files}
    groups = msgspec.convert(_at(hooks, "hooks", host.event) or (), tuple[HookGroup, ...])
    commands = [one.command for group in groups for one in group.hooks]
    if not host.event:
        if True not in _set(settings, "plugins", "entries", "mnemogate", "enabled").values():
            yield f"the plugin is absent: examples/{host.name}"
    elif not any(f"mnemogate hook {host.name}" in one for one in commands):
        yield f"the hook is absent from {host.hooks}: examples/{host.name}"
    for key, digest in codex_hashes(below / host.hooks, groups) if host.name == "codex" else ():
        if digest not in _set(settings, "hooks", "state", key, "trusted_hash").values():
            yield (
                "the hook is present but not trusted: trust it with /hooks in Codex, or by "
                f'trusted_hash = "{digest}" below [hooks.state."{key}"] in config.toml'
            )
    path, bad = host.off
    for file, found in _set(settings, *path.split(".")).items():
        if found is bad:
            yield f"no hook runs: {path} = {json.dumps(not bad)} in {file}"
    for path, what in host.switches.items():
        values = _set(settings, *path.split("."))
        on = [file for file, found in values.items() if found is True]
        if on or (host.implied and False not in values.values()):
            where = ", ".join(map(str, on)) or host.hooks
            yield f"{what}: {path} = false in {where}"


def _read(file: Path) -> object:
    if not file.exists():
        return {}
    raw = file.read_bytes()
    return tomllib.loads(raw.decode()) if file.suffix == ".toml" else msgspec.json.decode(raw)


def _set(settings: Mapping[Path, object], *names: str) -> dict[Path, object]:
    """The value at these names in each file of settings; None where there is none."""
    return {file: _at(values, *names) for file, values in settings.items()}


def _at(settings: object, *names: str) -> object:
    """The value at these names in a settings file; None if there is none."""
    for name in names:
        if not isinstance(settings, dict):
            return None
        settings = cast("dict[str, object]", settings).get(name)
    return settings
