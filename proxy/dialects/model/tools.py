"""Parses the tools that a request offers its model, and the outcomes of tool calls.

One parser serves all four APIs, because no shape of one API means something else in another. Parts
of an unknown form are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from proxy.dialects.model.gemini.contents import RESULT, TURNS, identified
from proxy.dialects.model.reading import list_of, object_of, strings_in, text_of
from proxy.dialects.strict_json.tolerant import Json, read_body
from proxy.seams.faults import MalformedRequest

# Items of these types in a Responses request offer tools to the model.
_BRING_TOOLS: Final = frozenset({"tool_search_output", "additional_tools"})
_BLOCKS: Final = frozenset({"tool_result", "mcp_tool_result"})
_SCHEMAS: Final = ("parameters", "input_schema", "parametersJsonSchema")
_RESULT_LEN_MAX: Final = 1024 * 1024
# A tool's result that begins with one of these words reports that nothing was done.
_FAILED: Final = ("error", "an error", "failed", "traceback", "exception", "toolexception")
_FAILED_STATUS: Final = frozenset({"failed", "error", "failure"})


class DeclaredTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `arguments` are the names that its schema declares; None if it has no schema."""

    name: str
    server: str | None = None  # the namespace in which the tool is declared
    type: str = ""
    arguments: frozenset[str] | None = None


def tools_of(body: dict[str, Json]) -> tuple[DeclaredTool, ...] | None:
    """The tools that a request offers; None if it lists no tool, as in a continued thread."""
    given = [*list_of(body.get("tools")), *list_of(body.get("functions"))]
    for item in list_of(body.get("input")):
        if text_of(object_of(item).get("type")) in _BRING_TOOLS:
            given += list_of(object_of(item).get("tools"))
    given = [
        one
        for tool in given
        for one in list_of(object_of(tool).get("functionDeclarations")) or [tool]
    ]
    if not given:
        return None
    return tuple(tool for part in given for tool in _declared(object_of(part), None))


def answer_names(body: dict[str, Json]) -> frozenset[str]:
    """The names of properties in the JSON schema that a request sets for the model's answer."""
    responses = object_of(object_of(body.get("text")).get("format"))
    chat = object_of(object_of(body.get("response_format")).get("json_schema"))
    schemas: list[Json] = [one.get("schema") for one in (responses, chat)]
    return _arguments({"allOf": schemas}) or frozenset()


def outcomes_of(body: dict[str, Json], call_ids: Collection[str]) -> dict[str, bool]:
    """A mapping of each given call with a result in the request to whether the call failed.

    Calls without a result are left out. If a call has two results, the later one counts.
    """
    found: dict[str, Json] = {}
    told: dict[str, Json] = {}
    turns = [part for key in ("messages", "input", TURNS) for part in list_of(body.get(key))]
    for given, content, is_error in results_in(turns):
        call_id = text_of(given) or ""
        if call_id in call_ids:
            found[call_id], told[call_id] = content, is_error
    return {
        call_id: told[call_id] is True or (told[call_id] is None and _says_failed(content))
        for call_id, content in found.items()
    }


def _declared(tool: dict[str, Json], server: str | None) -> Iterator[DeclaredTool]:
    kind = text_of(tool.get("type")) or ""
    if kind == "namespace" and server is None:
        for inner in list_of(tool.get("tools")):
            yield from _declared(object_of(inner), text_of(tool.get("name")) or "")
        return
    named = object_of(tool.get("function")) or object_of(tool.get("custom")) or tool
    schema = next((named[key] for key in _SCHEMAS if key in named), None)
    yield DeclaredTool(
        name=text_of(named.get("name")) or "",
        server=server,
        type=kind,
        arguments=_arguments(object_of(schema)) if isinstance(schema, dict) else None,
    )


def _arguments(schema: dict[str, Json]) -> frozenset[str] | None:
    """The names of a schema's properties, through its alternatives and its own definitions."""
    names: set[str] = set()
    pending, followed = [schema], set[str]()
    for part in pending:  # the list grows during this loop; each `$ref` is followed only once
        names |= object_of(part.get("properties")).keys()
        for several in ("allOf", "anyOf", "oneOf"):
            pending += [object_of(one) for one in list_of(part.get(several))]
        reference = text_of(part.get("$ref"))
        if reference is not None and reference not in followed:
            followed.add(reference)
            pending.append(_target(schema, reference))
    return frozenset(names) if names or "properties" in schema else None


def _target(schema: dict[str, Json], reference: str) -> dict[str, Json]:
    part: Json = schema if reference.startswith("#/") else None
    for step in reference[2:].split("/"):
        part = object_of(part).get(step)
    return object_of(part)


def results_in(turns: list[Json]) -> Iterator[tuple[Json, Json, Json]]:
    """Each tool result of a conversation: its call id, its content, and the API's error flag."""
    for message in identified(turns):
        yield from _results(object_of(message))


def _results(message: dict[str, Json]) -> Iterator[tuple[Json, Json, Json]]:
    kind = text_of(message.get("type")) or ""
    if text_of(message.get("role")) in {"tool", "function"}:
        yield message.get("tool_call_id"), message.get("content"), None
    elif kind.endswith("_output"):
        yield message.get("call_id"), message.get("output"), None
    for part in list_of(message.get("content")):
        block = object_of(part)
        if block.get("type") in _BLOCKS:
            yield block.get("tool_use_id"), block.get("content"), block.get("is_error")
    for part in list_of(message.get("parts")):
        answer = object_of(object_of(part).get(RESULT))
        if answer:
            response = object_of(answer.get("response"))
            yield answer.get("id"), response, True if "error" in response else None


def _says_failed(content: Json) -> bool:
    text = "\n".join(part for _, part in strings_in(content, ()))
    if text.lstrip().casefold().startswith(_FAILED):
        return True
    if len(text) > _RESULT_LEN_MAX or not text.lstrip().startswith("{"):
        return False
    try:
        said = read_body(text.encode("utf-8", "surrogatepass"))
    except MalformedRequest:
        return False
    status = text_of(said.get("status")) or ""
    return (
        said.get("success") is False
        or said.get("isError") is True
        or said.get("is_error") is True
        or bool(said.get("error"))
        or status.casefold() in _FAILED_STATUS
    )
