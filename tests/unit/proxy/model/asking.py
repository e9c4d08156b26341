"""Requests that offer memory tools, and calls as a model makes them."""

from __future__ import annotations

import itertools

from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json

HERMES: Json = {
    "type": "function",
    "function": {
        "name": "memory",
        "parameters": {
            "type": "object",
            "properties": {
                "action": {},
                "target": {},
                "content": {},
                "old_text": {},
                "operations": {},
            },
        },
    },
}
FILES: Json = {"type": "memory_20250818", "name": "notebook"}
_ids = itertools.count(1)


def offering(*tools: Json, **fields: Json) -> dict[str, Json]:
    """A request with these tools."""
    hello: Json = {"role": "user", "content": "hello"}
    return {"model": "m", "messages": [hello], **fields, "tools": [*tools]}


def call(name: str, server: str | None = None, **arguments: Json) -> ModelCall:
    """One call, with an id of its own."""
    return ModelCall(
        call_id=f"call_{next(_ids)}", name=name, server=server, arguments=arguments or None
    )


def create(text: str, path: str = "/memories/notes.md", name: str = "notebook") -> ModelCall:
    """A new file of Anthropic's memory tool."""
    return call(name, command="create", path=path, file_text=text)


def result(of: ModelCall, text: str = "ok", **fields: Json) -> dict[str, Json]:
    """The next request: it brings the result of a call."""
    block: Json = {"type": "tool_result", "tool_use_id": of.call_id, "content": text, **fields}
    return offering(FILES, messages=[{"role": "user", "content": [block]}])
