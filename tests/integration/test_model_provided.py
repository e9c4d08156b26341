"""What tools of the provider told a model was read before the calls of the very same reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.model_bench import PATHS, Bench, Json, fronted, shown
from tests.integration.models.server import Fault
from tests.integration.running import AGENT_KEY

PAGE = "ACME Travel is the preferred travel vendor of this household and books every trip."
NOTED = "The user prefers ACME Travel for every trip and pays with the company card."
GRAPH = "mcp__memory__create_entities"
GRAPH_SCHEMA = {"type": "object", "properties": {"entities": {"type": "array"}}}
ENTITIES = {"entities": [{"name": "user", "entityType": "preference", "observations": [NOTED]}]}
FILE = {"command": "create", "path": "/memories/preferences.md", "file_text": NOTED}


def used(name: str, result: str, content: object, at: int = 1) -> list[Json]:
    """A tool of the provider in a reply of Messages, and what it answered."""
    call_id = f"srvtoolu_1abcdefgh{at}"
    call = {"type": "server_tool_use", "id": call_id, "name": name, "input": {"query": "vendor"}}
    return [call, {"type": result, "tool_use_id": call_id, "content": content}]


FETCHED = {
    "type": "web_fetch_result",
    "url": "https://acme.example",
    "content": {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": PAGE},
    },
}
FOUND = {
    "type": "web_search_result",
    "url": "https://acme.example",
    "title": "ACME",
    "encrypted_content": "EqgfCioIARgB",
}
MESSAGES: dict[str, list[Json]] = {
    "nothing": [],
    "web_search": used("web_search", "web_search_tool_result", [FOUND]),
    "web_fetch": used("web_fetch", "web_fetch_tool_result", FETCHED),
    "code_execution": used(
        "bash_code_execution",
        "bash_code_execution_tool_result",
        {"type": "bash_code_execution_result", "stdout": PAGE, "stderr": "", "return_code": 0},
    ),
    "connector": [
        {
            "type": "mcp_tool_use",
            "id": "mcptoolu_1abcdefgh4",
            "name": "read_mail",
            "server_name": "mail",
            "input": {},
        },
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcptoolu_1abcdefgh4",
            "is_error": False,
            "content": [{"type": "text", "text": PAGE}],
        },
    ],
}
RESPONSES: dict[str, list[Json]] = {
    "nothing": [],
    "web_search": [{"type": "web_search_call", "id": "ws_1", "action": {"query": "travel"}}],
    "file_search": [{"type": "file_search_call", "id": "fs_1", "results": [{"text": PAGE}]}],
    "code_interpreter": [{"type": "code_interpreter_call", "id": "ci_1", "code": "print(1)"}],
    "connector": [{"type": "mcp_call", "id": "m_1", "name": "read", "output": PAGE}],
}


def give(bench: Bench, body: Json, events: list[Json] | None) -> None:
    raw, kind = json.dumps(body).encode(), "application/json"
    if events is not None:
        kind = "text/event-stream"
        raw = "".join(
            f"event: {one['type']}\ndata: {json.dumps(one)}\n\n"
            if "type" in one
            else f"data: {json.dumps(one)}\n\n"
            for one in events
        ).encode()
    bench.model.faults.append(Fault(headers={"Content-Type": kind}, body=raw))


async def writes(bench: Bench) -> list[Any]:
    """Every write of every session, as `session show` has them."""
    found: list[Any] = []
    for one in (await bench.front.operate("GET", "/sessions"))["sessions"]:
        found += (await bench.front.operate("GET", f"/sessions/{one['session']}"))["writes"]
    return found


async def landed(bench: Bench, *, read: bool) -> None:
    """Check the one write: it lands low in any case, and its session had read or not."""
    (write,) = await writes(bench)
    assert (write["decision"], write["memory_class"]) == ("admit", "L3")
    assert (write["source"], write["basis"]) == ("tool_result", "unproven")
    assert write["after_reading"] is read


def message(content: list[Json], stop: str = "tool_use") -> Json:
    usage = {"input_tokens": 1, "output_tokens": 1}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted"}
    return {**body, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def streamed(content: list[Json]) -> list[Json]:
    began = {**message([]), "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": began}]
    for at, block in enumerate(content):
        begun: Json = {"type": "content_block_start", "index": at, "content_block": block}
        if "input" in block:
            begun["content_block"] = {**block, "input": {}}
            piece = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += [begun, {"type": "content_block_delta", "index": at, "delta": piece}]
        else:
            events.append(begun)
        events.append({"type": "content_block_stop", "index": at})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    more = {"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}}
    return [*events, more, {"type": "message_stop"}]


@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("tool", ["memory", GRAPH])
@pytest.mark.parametrize("provided", MESSAGES)
async def test_messages_a_page_in_the_reply_of_a_write_was_read_before_it(
    tmp_path: Path, provided: str, tool: str, how: str
) -> None:
    given = FILE if tool == "memory" else ENTITIES
    use = {"type": "tool_use", "id": "toolu_01abcdefgh99", "name": tool, "input": given}
    content = [*MESSAGES[provided], use]
    offered: Json = {"name": tool, "input_schema": GRAPH_SCHEMA}
    if tool == "memory":
        offered = {"type": "memory_20250818", "name": tool}
    body = {
        "model": "scripted",
        "max_tokens": 64,
        "stream": how == "stream",
        "messages": [{"role": "user", "content": "Plan my next trip, please."}],
        "tools": [offered, {"type": "web_search_20250305", "name": "web_search"}],
    }
    async with fronted(tmp_path) as bench:
        give(bench, message(content), streamed(content) if how == "stream" else None)
        answer = await bench.ask("anthropic", body)
        await landed(bench, read=provided != "nothing")
        assert "toolu_01abcdefgh99" in shown(answer)


@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("provided", RESPONSES)
async def test_responses_a_search_in_the_reply_of_a_write_was_read_before_it(
    tmp_path: Path, provided: str, how: str
) -> None:
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_9f8e7d6c5b4a",
        "name": GRAPH,
        "arguments": json.dumps(ENTITIES),
    }
    output = [*RESPONSES[provided], call]
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": output}
    events: list[Json] = [{"type": "response.created", "response": {**whole, "output": []}}]
    for at, item in enumerate(output):
        for kind in ("added", "done"):
            event = {"type": f"response.output_item.{kind}", "output_index": at, "item": item}
            events.append(event)
    events.append({"type": "response.completed", "response": whole})
    body = {
        "model": "scripted",
        "stream": how == "stream",
        "input": "Plan my next trip, please.",
        "tools": [{"type": "function", "name": GRAPH, "parameters": GRAPH_SCHEMA}],
    }
    async with fronted(tmp_path) as bench:
        give(bench, whole, events if how == "stream" else None)
        answer = await bench.ask("responses", body)
        await landed(bench, read=provided != "nothing")
        assert call["call_id"] in shown(answer)


SEARCHING: dict[str, Json] = {
    "nothing": {},
    "an option": {"web_search_options": {}},
    "a model": {"model": "gpt-5-search-api"},
    "a plugin": {"plugins": [{"id": "web"}]},
    "a tool": {"tools": [{"type": "web_search"}]},
    "annotations": {},
}


@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("search", SEARCHING)
async def test_chat_a_search_that_shows_nowhere_was_read_before_its_own_reply(
    tmp_path: Path, search: str, how: str
) -> None:
    function = {"name": GRAPH, "arguments": json.dumps(ENTITIES)}
    call: Json = {"id": "call_9f8e7d6c5b4a", "type": "function", "function": function}
    said: Json = {"role": "assistant", "content": None, "tool_calls": [call]}
    if search == "annotations":
        cited = {"url": "https://acme.example", "title": PAGE}
        said["annotations"] = [{"type": "url_citation", "url_citation": cited}]
    asked = SEARCHING[search]
    tool = {"type": "function", "function": {"name": GRAPH, "parameters": GRAPH_SCHEMA}}
    body = {
        "model": "scripted",
        "stream": how == "stream",
        "messages": [{"role": "user", "content": "Plan my next trip, please."}],
        **asked,
        "tools": [tool, *asked.get("tools", ())],
    }
    reply: Json = {"id": "c1", "object": "chat.completion", "created": 1, "model": "scripted"}
    end = {"index": 0, "finish_reason": "tool_calls"}
    delta = {**said, "tool_calls": [{"index": 0, **call}]}
    chunk = {**reply, "object": "chat.completion.chunk"}
    events: list[Json] = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{**end, "delta": {}}]},
    ]
    async with fronted(tmp_path) as bench:
        whole = {**reply, "choices": [{**end, "message": said}]}
        give(bench, whole, events if how == "stream" else None)
        headers = {"Content-Type": "application/json"}
        await bench.send("POST", PATHS["chat"], body, headers, AGENT_KEY)
        await landed(bench, read=search != "nothing")
