"""In which model requests a person may be asked, and the person's answer may count."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy.dialects.model.memory_tools import folded
from proxy.dialects.model.reading import object_of
from proxy.dialects.model.tools import tools_of
from proxy.dialects.strict_json.tolerant import Json  # noqa: TC001 - an alias in a value's type

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy.dialects.model.tools import Declared
    from proxy.dialects.model.transcript import ModelRequest

_COMMON: Final = frozenset(
    {
        *("model", "tools", "tool_choice", "stream", "temperature", "top_p", "metadata"),
        *("service_tier", "user", "store", "stream_options", "parallel_tool_calls"),
        *("prompt_cache_key", "prompt_cache_retention", "safety_identifier"),
    }
)
# Members of a request that bring in no tool and do not ask for an answer of a set form. A request
# with any other member gets no question.
_MEMBERS: Final = {
    "anthropic": _COMMON
    | {"messages", "system", "max_tokens", "top_k", "stop_sequences", "thinking", "cache_control"},
    "chat": _COMMON
    | {
        *("messages", "max_tokens", "max_completion_tokens", "n", "seed", "presence_penalty"),
        *("frequency_penalty", "logit_bias", "reasoning_effort", "verbosity", "response_format"),
        *("stop", "logprobs", "top_logprobs"),
    },
    "responses": _COMMON
    | {
        *("input", "instructions", "max_output_tokens", "reasoning", "text", "truncation"),
        *("include", "max_tool_calls", "top_logprobs"),
    },
}
_FREE: Final = (None, "auto", "none")
_OWN_KINDS: Final = frozenset({"", "function", "custom"})
# Tools of a type that begins so are the provider's memory tools, which the client carries out.
_MEMORY_KIND: Final = "memory_"
_EMPTY: Final[tuple[Json, ...]] = (None, False, [], "", 0)


def why_not(api: str, body: dict[str, Json], request: ModelRequest, tools: Collection[str]) -> str:
    """Why a person cannot be asked in the reply to this request; "" if a person can.

    Args:
        api: The name of the API.
        body: The request.
        request: The parsed request.
        tools: The names of the tools that may be offered.
    """
    members = _MEMBERS.get(api)
    if members is None or not body.keys() <= members:
        return "members"
    choice = body.get("tool_choice")
    chosen = object_of(choice).get("type") if isinstance(choice, dict) else choice
    ended = any(body.get(key) not in _EMPTY for key in ("stop", "stop_sequences", "logprobs"))
    if _has_form(body) or chosen not in _FREE or body.get("n") not in (None, 1) or ended:
        return "form"
    offered = tools_of(body) or ()
    called = (call for turn in request.turns for call in turn.calls)
    names = {_name(one) for one in offered} | {_called(call.server, call.name) for call in called}
    if request.searches or not names <= set(tools):
        return "tools"
    return ""


def _has_form(body: dict[str, Json]) -> bool:
    """Whether the model's answer must have a form, such as JSON, which a question would break."""
    for asked in (body.get("response_format"), object_of(body.get("text")).get("format")):
        if asked is not None and object_of(asked).get("type") != "text":
            return True
    return False


def _name(tool: Declared) -> str:
    own = tool.type in _OWN_KINDS or tool.type.startswith(_MEMORY_KIND)
    return _called(tool.server, tool.name) if own else ""


def _called(server: str | None, name: str) -> str:
    return name if server is None else f"{server}.{name}"


# No person is asked where a tool with one of these words in its name is offered: it may run
# commands, send requests with headers of its own, read the host's files, or begin another agent.
_PARTS: Final = (
    "bash",
    "shell",
    "exec",
    "terminal",
    "subprocess",
    "filesystem",
    "agent",
    "multiedit",
)
_WORDS: Final = frozenset(
    {
        *("sh", "zsh", "cmd", "run", "command", "commands", "process", "spawn", "eval", "repl"),
        *("python", "node", "script", "code", "interpreter", "sandbox", "computer", "sql"),
        *("http", "https", "request", "requests", "curl", "wget", "webhook", "api", "graphql"),
        *("browser", "navigate", "playwright", "puppeteer", "socket", "email", "mail"),
        *("file", "files", "directory", "dir", "folder", "path", "disk", "transcript", "logs"),
        *("delegate", "dispatch"),
    }
)
_WHOLE: Final = frozenset({"read", "write", "edit", "glob", "grep", "ls", "cat", "task", "open"})
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def reaches_host(name: str) -> bool:
    """Whether a tool, by its name, might read a code somewhere or send an answer by itself."""
    plain = folded(_CAMEL.sub("_", name))
    words = plain.split("_")
    last = words[-1]
    return (
        not _WORDS.isdisjoint(words)
        or plain in _WHOLE
        or (len(words) > 1 and "".join(words[:-1]) in {"mcp", "functions"} and last in _WHOLE)
        or any(part in plain.replace("_", "") for part in _PARTS)
    )
