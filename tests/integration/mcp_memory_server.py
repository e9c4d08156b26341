"""A memory server over stdio with tools of the reference server, on a file of JSON lines.

It knows nothing of this project. `KEEP_SILENT=name` makes a tool work and not answer, and
`INSTRUCTIONS` are the server's words in its answer to `initialize`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

TOOL: dict[str, Any] = {"description": os.environ.get("DESCRIBED", ""), "inputSchema": {}}
META = "io.modelcontextprotocol/protocolVersion"
# Of things of this type it says nothing, once it has them.
SILENT = "secret"
FILE = Path(os.environ["MEMORY_FILE"])
TOOLS = ("create_entities", "delete_entities", "delete_observations", "open_nodes", "read_graph")


def answer(body: dict[str, Any], **value: object) -> None:
    kind = {"resultType": "complete"} if META in body.get("params", {}).get("_meta", {}) else {}
    said = {"jsonrpc": "2.0", "id": body["id"], "result": {**value, **kind}}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def graph() -> list[Any]:
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


def call(body: dict[str, Any]) -> None:
    found: dict[str, Any]
    name = body["params"]["name"]
    if name == "create_entities":
        entities = body["params"]["arguments"]["entities"]
        with FILE.open("a") as file:
            file.writelines(json.dumps(entity) + "\n" for entity in entities)
        if any(entity["entityType"] == SILENT for entity in entities):
            return
        found = {"entities": entities}
    else:
        wanted = body["params"].get("arguments", {}).get("names")
        shown = [one for one in graph() if name != "open_nodes" or one["name"] in wanted]
        found = {"entities": shown, "relations": []}
    if name == os.environ.get("KEEP_SILENT"):
        return
    text = [{"type": "text", "text": json.dumps(found, indent=2)}]
    answer(body, content=text, structuredContent=found)


for line in sys.stdin:
    asked: dict[str, Any] = json.loads(line)
    match asked.get("method"):
        case "initialize":
            told: dict[str, Any] = {"serverInfo": {"name": "memory-server", "version": "1"}}
            if "INSTRUCTIONS" in os.environ:
                told["instructions"] = os.environ["INSTRUCTIONS"]
            answer(asked, protocolVersion="2025-11-25", capabilities={}, **told)
        case "tools/list":
            answer(asked, tools=[{"name": name, **TOOL} for name in TOOLS])
        case "tools/call":
            call(asked)
        case "ping":
            answer(asked)
        case _:
            pass
