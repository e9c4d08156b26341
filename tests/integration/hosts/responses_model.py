"""A scripted model behind OpenAI's Responses API, streamed, as Codex asks for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from tests.integration.hosts.script import (
    OPENAI,
    CallGiven,
    Directive,
    HostModel,
    Reply,
    ToolResult,
    send_events,
)

Json = dict[str, Any]
# How a program of code mode makes a call and prints what came of it.
_PROGRAM = """\
const result = await tools.{name}({arguments});
for (const part of result.content ?? [{{ text: JSON.stringify(result) }}]) text(part.text);
"""
_CALLS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}
_NESTED = re.compile(r"tools\.(\w+)\(")
_USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


class ResponsesModel(HostModel):
    """Keeps each request as a whole history."""

    api = OPENAI

    def __init__(self, told: Mapping[str, Sequence[CallGiven]] | None = None) -> None:
        super().__init__(told)
        self._histories: dict[str, list[Json]] = {}
        # The moves that wait for the tool that a search looks for, by the search's id.
        self._searched: dict[str, Reply] = {}

    def routes(self, application: web.Application) -> None:
        application.router.add_post("/v1/responses", self._responses)
        application.router.add_route("*", "/{path:.*}", _nothing)

    def results(self) -> list[ToolResult]:
        """What the tools told the model, in order, of the longest conversation."""
        if not self.requests:
            return []
        return _results(max(self.requests, key=lambda body: len(body["input"]))["input"])

    def catalogue(self) -> list[str]:
        offered = [_offered(body.get("tools", ())) for body in self.requests]
        return sorted({f"{space}/{name}" for names in offered for space, name in names})

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        before: str = body.pop("previous_response_id", None) or ""
        if before and before not in self._histories:
            return _refused("Previous response not found.", 400)
        body["input"] = [*self._histories.get(before, ()), *_items(body["input"])]
        self.requests.append(body)
        item = self._next_item(body)
        whole: Json = {
            "id": f"resp_{len(self.requests)}",
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": _USAGE,
            "error": None,
        }
        self._histories[whole["id"]] = [*body["input"], item]
        done: Json = {**whole, "status": "completed", "output": [item]}
        if not body.get("stream"):
            return web.json_response(done)
        begun: Json = {**whole, "status": "in_progress", "output": []}
        events: list[tuple[str, Json]] = [
            ("response.created", {"response": begun}),
            *_streamed(item),
            ("response.completed", {"response": done}),
        ]
        numbered = [
            (name, {"sequence_number": at, **data}) for at, (name, data) in enumerate(events)
        ]
        return await send_events(request, numbered)

    def _next_item(self, body: Json) -> Json:
        results = _results(body["input"])
        begun = any(
            item.get("type") in _CALLS or item.get("role") == "assistant" for item in body["input"]
        )
        waited = self._searched.pop(str(body["input"][-1].get("call_id")), None)
        move = waited or self._script.next(_user_texts(body["input"]), results, begun=begun)
        if move.call is None:
            return message(move.text)
        offered = _offered(body.get("tools", ()))
        for item in body["input"]:
            offered += _offered(item["tools"]) if item.get("type") == "tool_search_output" else ()
        found = _find(move.call, offered)
        search = _search(move.call, len(self.requests))
        if found is None and ("", "tool_search") in offered and not waited:
            self._searched[search["call_id"]] = move
            return search
        if found is None and _runs_programs(body["input"]):
            return _program(move.call, move.arguments, self._script.made())
        if found is None:
            return message(f"NO TOOL {move.call.server}/{move.call.tool}")
        space, name = found
        made = self._script.made()
        item = {
            "type": "function_call",
            "id": f"fc_{made}",
            "call_id": f"call_{made:020d}",
            "name": name,
            "arguments": move.arguments,
            "status": "completed",
        }
        return {**item, "namespace": space} if space else item


def _search(call: Directive, number: int) -> Json:
    """Finds a server's tool, which the host brings no sooner."""
    return {
        "type": "tool_search_call",
        "id": f"ts_{number}",
        "call_id": f"search_{number}",
        "execution": "client",
        "status": "completed",
        "arguments": {"query": f"{call.server} {call.tool}", "limit": 1},
    }


def _runs_programs(items: list[Json]) -> bool:
    """Whether the host's tools are called from inside programs alone."""
    brought = [item["tools"] for item in items if item.get("type") == "additional_tools"]
    return any(name == "exec" for tools in brought for _, name in _offered(tools))


def _program(call: Directive, arguments: str, made: int) -> Json:
    name = f"mcp__{call.server}__{call.tool}" if call.server else call.tool
    return {
        "type": "custom_tool_call",
        "id": f"ctc_{made}",
        "call_id": f"call_{made:020d}",
        "name": "exec",
        "input": _PROGRAM.format(name=name, arguments=arguments),
        "status": "completed",
    }


def message(text: str) -> Json:
    part: Json = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _find(call: Directive, offered: list[tuple[str, str]]) -> tuple[str, str] | None:
    space = f"mcp__{call.server}" if call.server else ""
    names = {(space, call.tool), ("", f"{space}__{call.tool}")}
    return next((one for one in offered if one in names), None)


def _offered(tools: list[Json], space: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for tool in tools:
        if tool.get("type") == "namespace":
            found += _offered(tool["tools"], tool["name"])
        else:
            found.append((space, str(tool.get("name") or tool.get("type"))))
    return found


def _streamed(item: Json) -> Iterator[tuple[str, Json]]:
    at = {"output_index": 0, "item_id": item["id"]}
    if item["type"] == "message":
        text: str = item["content"][0]["text"]
        empty: Json = {**item, "content": [], "status": "in_progress"}
        yield "response.output_item.added", {"output_index": 0, "item": empty}
        part: Json = {**at, "content_index": 0}
        hollow: Json = {"type": "output_text", "text": "", "annotations": []}
        yield "response.content_part.added", {**part, "part": hollow}
        yield "response.output_text.delta", {**part, "delta": text, "logprobs": []}
        yield "response.output_text.done", {**part, "text": text, "logprobs": []}
        yield "response.content_part.done", {**part, "part": item["content"][0]}
    elif item["type"] in _CALLS:
        event, field = _CALLS[item["type"]]
        empty = {**item, field: "", "status": "in_progress"}
        yield "response.output_item.added", {"output_index": 0, "item": empty}
        whole: str = item[field]
        for start in range(0, len(whole), 40):
            delta = {**at, "delta": whole[start : start + 40]}
            yield f"response.{event}.delta", delta
        yield f"response.{event}.done", {**at, field: whole}
    yield "response.output_item.done", {"output_index": 0, "item": item}


def _parts(content: str | list[Json]) -> list[Json]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _user_texts(items: list[Json]) -> list[str]:
    return [
        part["text"]
        for item in items
        if item.get("role") == "user"
        for part in _parts(item["content"])
        if "text" in part
    ]


def _results(items: list[Json]) -> list[ToolResult]:
    names = {item["call_id"]: _named(item) for item in items if item.get("type") in _CALLS}
    return [
        ToolResult(names[item["call_id"]], _text(item["output"]), None)
        for item in items
        if str(item.get("type")).endswith("_call_output")
    ]


def _named(item: Json) -> str:
    nested = _NESTED.search(item.get("input", ""))
    return nested[1] if nested else f"{item.get('namespace', '')}/{item['name']}"


def _text(output: str | list[Json]) -> str:
    if isinstance(output, str):
        return output
    return "\n".join(part.get("text", json.dumps(part)) for part in output)


def _items(given: str | list[Json]) -> list[Json]:
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return given


async def _nothing(_: web.Request) -> web.Response:
    return _refused("There is nothing here.", 404)


def _refused(message: str, status: int) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "code": None}
    return web.json_response({"error": error}, status=status)
