"""A memory server as a program: three tools of server-memory on a file of JSON lines.

It knows nothing of this project. `KEEP_SILENT=name` makes a tool work and not answer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FILE = Path(os.environ["MEMORY_FILE"])
TOOLS = ("create_entities", "read_graph", "open_nodes")


def entities() -> list[Json]:
    if not FILE.exists():
        return []
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def called(name: str, arguments: Json) -> Json:
    found = entities()
    if name == "create_entities":
        found = arguments["entities"]
        with FILE.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in found)
    elif name == "open_nodes":
        found = [one for one in found if one["name"] in arguments["names"]]
    shown = {"entities": found}
    return {
        "content": [{"type": "text", "text": json.dumps(shown)}],
        "structuredContent": shown,
    }


def answer(method: str, params: Json) -> Json:
    if method == "initialize":
        info = {"name": "memory-server", "version": "0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        said = {"description": os.environ.get("DESCRIBED", ""), "inputSchema": {"type": "object"}}
        return {"tools": [{"name": name, **said} for name in TOOLS]}
    if method == "tools/call":
        return called(params["name"], params.get("arguments") or {})
    return {}


def main() -> None:
    for line in sys.stdin:
        body: Json = json.loads(line)
        if "id" not in body:
            continue
        params: Json = body.get("params") or {}
        result = answer(body["method"], params)
        if params.get("name") == os.environ.get("KEEP_SILENT", "-"):
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
