"""The JSON of hosts' hooks, as Codex 0.171, Claude Code 2.1.332 and Gemini CLI 0.61 write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.hooks import denial, read_call
from proxy.seams.faults import MalformedRequest

PATCH = "*** Begin Patch\n*** Add File: AGENTS.md\n+x\n*** End Patch\n"
CODEX: dict[str, Any] = {
    "session_id": "S",
    "turn_id": "T",
    "transcript_path": "/home/ada/.codex/sessions/x.jsonl",
    "cwd": "/home/ada/shop",
    "hook_event_name": "PreToolUse",
    "model": "gpt-6.2-sol",
    "permission_mode": "bypassPermissions",
    "tool_name": "apply_patch",
    "tool_input": {"command": PATCH},
    "tool_use_id": "exec-1",
}
GEMINI: dict[str, Any] = {
    "session_id": "S",
    "transcript_path": "/home/ada/.gemini/tmp/chats/x.jsonl",
    "cwd": "/home/ada/shop",
    "hook_event_name": "BeforeTool",
    "timestamp": "2026-11-28T14:00:00.000Z",
    "tool_name": "write_file",
    "tool_input": {"file_path": "/home/ada/shop/GEMINI.md", "content": "x\n"},
}


def raw(event: dict[str, Any], **more: object) -> bytes:
    return json.dumps({**event, **more}).encode()


def test_a_patch_of_codex_is_the_call_that_its_map_names() -> None:
    call = read_call("codex", raw(CODEX))
    assert (call.tool, json.loads(call.arguments)) == ("apply_patch", {"input": PATCH})
    assert (call.call_id, call.folder) == ("exec-1", "/home/ada/shop")


def test_the_shell_of_codex_is_the_call_that_its_map_names() -> None:
    event = raw(CODEX, tool_name="Bash", tool_input={"command": "ls"})
    call = read_call("codex", event)
    assert (call.tool, json.loads(call.arguments)) == ("exec_command", {"cmd": "ls"})
    call = read_call("claude-code", event)
    assert (call.tool, json.loads(call.arguments)) == ("Bash", {"command": "ls"})


def test_a_call_of_gemini_has_no_id() -> None:
    call = read_call("gemini", raw(GEMINI))
    assert (call.tool, call.call_id) == ("write_file", "")
    assert json.loads(call.arguments) == GEMINI["tool_input"]


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"hook_event_name": "PreToolUse", "hook_event_name": "PostToolUse"}',
        raw(CODEX, tool_name=7),
        raw(CODEX, tool_input="the secret"),
        raw(CODEX)[:-1] + b', "tool_name": "Read"}',
        raw(CODEX)[:-3],
    ],
)
def test_what_cannot_be_read_is_malformed_and_not_quoted(given: bytes) -> None:
    with pytest.raises(MalformedRequest) as refused:
        read_call("codex", given)
    assert "secret" not in refused.value.detail


def test_an_event_in_which_nothing_can_be_denied_any_more_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        read_call("codex", raw(CODEX, hook_event_name="PostToolUse"))
    with pytest.raises(MalformedRequest):
        read_call("gemini", raw(CODEX))


def test_a_denial_has_each_host_s_form() -> None:
    assert json.loads(denial("codex", "Not yet.")) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "Not yet.",
        }
    }
    assert denial("claude-code", "x") == denial("codex", "x")
    assert json.loads(denial("gemini", "Not yet.")) == {
        "decision": "deny",
        "reason": "Not yet.",
    }
