"""The JSON of the hooks of agents' hosts: a call that is about to be made, and its denial. Pure.

A host starts a command before each call, writes the call to its stdin, and reads from its stdout
why the call must not be made. A host takes no output as no objection.
"""

from __future__ import annotations

import json
from typing import Final

from proxy.dialects.model.reading import arguments_of, text_of
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import HostCall

CALL_BYTES_MAX: Final = 32 * 1024 * 1024
_PRE_TOOL_USE: Final = "PreToolUse"
EVENTS: Final = {"codex": _PRE_TOOL_USE, "claude-code": _PRE_TOOL_USE, "gemini": "BeforeTool"}
"""Maps each host to its event in which a call may be denied."""
# What Codex calls a tool before its hook, with the argument `command`, and before its model.
_CODEX: Final = {"apply_patch": ("apply_patch", "input"), "Bash": ("exec_command", "cmd")}


def read_call(host: str, raw: bytes) -> HostCall:
    """The call that a host reports.

    Raises:
        MalformedRequest: It is no call of this form; the detail quotes nothing of it.
    """
    given = arguments_of(raw.decode("utf-8", "surrogateescape"))
    if given is None or len(raw) > CALL_BYTES_MAX:
        raise MalformedRequest("stdin: must be a JSON object of at most 32 MB, with unique names")
    if given.get("hook_event_name") != EVENTS[host]:
        raise MalformedRequest(f"hook_event_name: must be {EVENTS[host]}")
    tool, arguments = text_of(given.get("tool_name")), given.get("tool_input")
    if tool is None or not isinstance(arguments, dict):
        raise MalformedRequest("tool_name, tool_input: must be a name and an object")
    if host == "codex" and tool in _CODEX:
        tool, name = _CODEX[tool]
        arguments = {name if key == "command" else key: one for key, one in arguments.items()}
    call_id, folder = (text_of(given.get(name)) or "" for name in ("tool_use_id", "cwd"))
    try:
        f"{tool}{call_id}{folder}".encode()
    except UnicodeEncodeError:
        raise MalformedRequest("tool_name, tool_use_id, cwd: must be Unicode text") from None
    return HostCall(tool=tool, arguments=json.dumps(arguments), call_id=call_id, folder=folder)


def denial(host: str, reason: str) -> str:
    """What the host reads in place of the call."""
    if EVENTS[host] != _PRE_TOOL_USE:
        return json.dumps({"decision": "deny", "reason": reason})
    denied = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return json.dumps({"hookSpecificOutput": {"hookEventName": _PRE_TOOL_USE, **denied}})
