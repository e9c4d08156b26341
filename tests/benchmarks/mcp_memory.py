"""A memory server that takes no time, with the tools of `server-memory`: so that ours is seen."""

from __future__ import annotations

import json
import sys
from typing import Any

NAMES = ("create_entities", "read_graph")
GRAPH = {
    "entities": [
        {"name": f"person-{n}", "entityType": "person", "observations": [f"Likes tea number {n}."]}
        for n in range(50)
    ],
    "relations": [],
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "memory-server", "version": "0"},
        }
    if method == "tools/list":
        schema = {"type": "object"}
        return {"tools": [{"name": name, "inputSchema": schema} for name in NAMES]}
    said = GRAPH if params["name"] == "read_graph" else params["arguments"]
    return {
        "content": [{"type": "text", "text": json.dumps(said, indent=2)}],
        "structuredContent": said,
    }


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        result = answer(asked["method"], asked.get("params", {}))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
