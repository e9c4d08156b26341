"""First requests of sessions as six hosts send them, with the files that they inject.

The wording around the files is that of the clients at the versions in `policy/places.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

Json = dict[str, Any]
Files = Mapping[str, str]
HOME: Final = "/home/ada"
ROOT: Final = f"{HOME}/work"


class InjectingHost(NamedTuple):
    """A host: the API that it speaks, a file of instructions and one of facts ("" if none)."""

    name: str
    api: str
    rules: str
    facts: str
    request: Callable[[Files, str], Json]


def _text(said: str) -> Json:
    return {"type": "text", "text": said}


def _claude_code(files: Files, root: str) -> Json:
    named = "".join(
        f"\n\nContents of {path} (project instructions):\n\n{text}" for path, text in files.items()
    )
    reminder = f"<system-reminder>\nInstructions are shown below.{named}\n</system-reminder>"
    environment = (
        f"# Environment\nYou run here:\n - Primary working directory: {root}\n - Shell: bash"
    )
    return {
        "model": "m",
        "max_tokens": 9,
        "system": [_text("You are an agent."), _text("Work with the user.")],
        "messages": [
            {"role": "user", "content": [*([_text(reminder)] if files else []), _text("Hello.")]},
            {"role": "system", "content": [_text(environment)]},
        ],
    }


def _message(role: str, *texts: str) -> Json:
    content = [{"type": "input_text", "text": one} for one in texts]
    return {"type": "message", "role": role, "content": content}


def _codex(files: Files, root: str) -> Json:
    items = [_message("developer", "You are a coding agent.")]
    for path, text in files.items():
        if path.startswith("~"):
            rule = "========="
            marked = (
                f"{rule} MEMORY_SUMMARY BEGINS {rule}\n{text}\n{rule} MEMORY_SUMMARY ENDS {rule}"
            )
            items.append(
                _message("developer", f"## Memory\n\nUse the summary.\n\n{marked}\n\nCite it.")
            )
        else:
            folder = path.rpartition("/")[0]
            said = (
                f"# AGENTS.md instructions for {folder}\n\n<INSTRUCTIONS>\n{text}\n</INSTRUCTIONS>"
            )
            items.append(_message("user", said))
    context = (
        f"<environment_context>\n  <cwd>{root}</cwd>\n  <shell>bash</shell>\n</environment_context>"
    )
    return {"model": "m", "input": [*items, _message("user", context), _message("user", "Hello.")]}


def _openclaw(files: Files, root: str) -> str:
    named = "".join(f"\n## {path}\n{text}" for path, text in files.items())
    return (
        "<!-- openclaw:attempt:STABLE -->\nYou run inside OpenClaw.\n## Workspace\n"
        f"Your working directory is: {root}\n# Project Context{named}\n"
        "<!-- /openclaw:attempt:STABLE -->\n<!-- openclaw:attempt:DYNAMIC -->\nToday is Sunday."
    )


def _openclaw_anthropic(files: Files, root: str) -> Json:
    system = [_text(_openclaw(files, root))]
    return {
        "model": "m",
        "max_tokens": 9,
        "system": system,
        "messages": [{"role": "user", "content": "Hi."}],
    }


def _openclaw_chat(files: Files, root: str) -> Json:
    system = {"role": "system", "content": _openclaw(files, root)}
    return {"model": "m", "messages": [system, {"role": "user", "content": "Hi."}]}


def _opencode(files: Files, root: str) -> Json:
    named = "".join(f"\nInstructions from: {path}\n{text}" for path, text in files.items())
    said = f"You are an agent.\n<env>\n  Working directory: {root}\n</env>{named}"
    return {
        "model": "m",
        "max_tokens": 9,
        "system": [_text(said)],
        "messages": [{"role": "user", "content": "Hello."}],
    }


def _gemini(files: Files, root: str) -> Json:
    def named(*, own: bool) -> str:
        return "\n".join(
            f"--- Context from: {path} ---\n{text}\n--- End of Context from: {path} ---"
            for path, text in files.items()
            if path.startswith(f"{root}/") is own
        )

    system = (
        "You are a CLI agent.\n\n<loaded_context>\n<user_project_memory>\n"
        f"{named(own=False)}\n</user_project_memory>\n</loaded_context>"
    )
    context = (
        f"<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - {root}\n"
        f"<project_context>\n{named(own=True)}\n</project_context>\n</session_context>"
    )
    return {
        "systemInstruction": {"role": "user", "parts": [{"text": system}]},
        "contents": [{"role": "user", "parts": [{"text": context}, {"text": "Hello."}]}],
    }


HOSTS: Final = (
    InjectingHost(
        "claude-code",
        "anthropic",
        f"{ROOT}/CLAUDE.md",
        f"{HOME}/.claude/projects/-home-ada-work/memory/MEMORY.md",
        _claude_code,
    ),
    InjectingHost(
        "codex", "responses", f"{ROOT}/AGENTS.md", "~/.codex/memories/memory_summary.md", _codex
    ),
    InjectingHost(
        "openclaw", "anthropic", f"{ROOT}/AGENTS.md", f"{ROOT}/MEMORY.md", _openclaw_anthropic
    ),
    InjectingHost("openclaw-chat", "chat", f"{ROOT}/SOUL.md", f"{ROOT}/USER.md", _openclaw_chat),
    InjectingHost("opencode", "anthropic", f"{ROOT}/AGENTS.md", "", _opencode),
    InjectingHost(
        "gemini-cli",
        "gemini",
        f"{ROOT}/GEMINI.md",
        f"{HOME}/.gemini/tmp/shop/memory/MEMORY.md",
        _gemini,
    ),
)
BY_NAME: Final = {one.name: one for one in HOSTS}
