"""In which requests a person may be asked, and which tools must not be listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.dialects.model.api import ANTHROPIC, CHAT, RESPONSES
from proxy.dialects.model.confirm.may_ask import reaches_host, why_not

if TYPE_CHECKING:
    from proxy.dialects.model.api import ModelApi

Json = dict[str, Any]
LISTED = frozenset({"search", "remember", "memory", "files.search"})


def asked(api: ModelApi, fields: Json | None = None) -> str:
    body: Json = {"model": "m", api.turns: [{"role": "user", "content": "Hello"}]}
    body |= fields or {}
    return why_not(api.name, body, api.read_request(body), LISTED)


def tool(api: ModelApi, name: str) -> Json:
    if api is CHAT:
        return {"type": "function", "function": {"name": name}}
    return {"name": name} if api is ANTHROPIC else {"type": "function", "name": name}


@pytest.mark.parametrize("api", [ANTHROPIC, CHAT, RESPONSES], ids=lambda one: one.name)
def test_she_may_be_asked_where_listed_tools_alone_are_offered(api: ModelApi) -> None:
    assert asked(api) == ""
    assert asked(api, {"tools": [tool(api, "search"), tool(api, "remember")]}) == ""
    assert asked(api, {"tools": [tool(api, "search"), tool(api, "bash")]}) == "tools"
    assert asked(api, {"tools": [tool(api, "Search")]}) == "tools"


@pytest.mark.parametrize(
    ("api", "fields", "why"),
    [
        (CHAT, {"response_format": {"type": "json_object"}}, "form"),
        (CHAT, {"response_format": {"type": "text"}}, ""),
        (RESPONSES, {"text": {"format": {"type": "json_schema"}}}, "form"),
        (RESPONSES, {"text": {"verbosity": "low"}}, ""),
        (ANTHROPIC, {"output_format": {"type": "json_schema"}}, "members"),
        (ANTHROPIC, {"output_config": {"format": {}}}, "members"),
        (CHAT, {"tool_choice": "required"}, "form"),
        (CHAT, {"tool_choice": "auto"}, ""),
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": "search"}}}, "form"),
        (ANTHROPIC, {"tool_choice": {"type": "any"}}, "form"),
        (ANTHROPIC, {"tool_choice": {"type": "auto"}}, ""),
        (CHAT, {"n": 2}, "form"),
        (CHAT, {"n": 1}, ""),
        (CHAT, {"stop": ["\n"]}, "form"),
        (ANTHROPIC, {"stop_sequences": ["x"]}, "form"),
        (ANTHROPIC, {"stop_sequences": []}, ""),
        (CHAT, {"logprobs": True}, "form"),
        (CHAT, {"web_search_options": {}}, "members"),
        (ANTHROPIC, {"mcp_servers": [{"url": "x"}]}, "members"),
        (ANTHROPIC, {"container": "c"}, "members"),
        (RESPONSES, {"tools": [{"type": "web_search"}]}, "tools"),
        (RESPONSES, {"tools": [{"type": "mcp", "server_label": "search"}]}, "tools"),
        (RESPONSES, {"tools": [{"type": "local_shell", "name": "search"}]}, "tools"),
        (ANTHROPIC, {"tools": [{"type": "bash_20250124", "name": "search"}]}, "tools"),
        (ANTHROPIC, {"tools": [{"type": "memory_20250818", "name": "memory"}]}, ""),
        (CHAT, {"functions": [{"name": "bash"}]}, "members"),
        (CHAT, {"model": "gpt-4o-search-preview"}, "tools"),
    ],
)
def test_each_limit_of_a_request(api: ModelApi, fields: Json, why: str) -> None:
    assert asked(api, fields) == why


def test_a_tool_that_was_called_before_counts_as_offered() -> None:
    called = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    assert asked(CHAT, {"messages": turns}) == "tools"


def test_a_namespace_is_a_part_of_the_name() -> None:
    space = {
        "type": "namespace",
        "name": "files",
        "tools": [{"type": "function", "name": "search"}],
    }
    assert asked(RESPONSES, {"tools": [space]}) == ""
    space = {**space, "name": "other"}
    assert asked(RESPONSES, {"tools": [space]}) == "tools"


@pytest.mark.parametrize(
    "name",
    [
        *("Bash", "BashOutput", "bash", "run_command", "shell", "mcp__x__execute_sql", "exec"),
        *("python", "code_interpreter", "runCode", "terminal", "computer", "Read", "Write"),
        *("read_file", "readFile", "ReadMultipleFiles", "list_directory", "Glob", "Grep", "Edit"),
        *("http_request", "curl", "fetch_api", "webhook", "browser_navigate", "send_email"),
        *("Task", "Agent", "delegate", "run_subagent", "mcp_read", "MultiEdit", "powershell"),
    ],
)
def test_tools_that_could_read_a_code_or_answer_may_not_be_listed(name: str) -> None:
    assert reaches_host(name)


@pytest.mark.parametrize(
    "name",
    [
        *("search", "web_search", "fetch", "remember", "memory", "core_memory_append"),
        *("create_entities", "add_observations", "open_nodes", "read_graph", "search_nodes"),
        *("archival_memory_insert", "qdrant-store", "read_note", "write_note", "weather"),
    ],
)
def test_tools_of_memory_and_search_may(name: str) -> None:
    assert not reaches_host(name)
