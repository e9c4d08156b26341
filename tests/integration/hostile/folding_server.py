"""A small MCP memory server over stdio that folds the case of members, as Go's `encoding/json`."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}}
    for name in ("create_entities", "read_graph")
]
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "memory-server", "version": "1"},
}


def folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of names that fold to the same, the last counts."""
    return {name.casefold(): value for name, value in pairs}


def answer(said: dict[str, Any], store: str) -> dict[str, Any]:
    match said.get("method"):
        case "initialize":
            return HELLO
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            called = said.get("params", {})
            if called.get("name") == "create_entities":
                with pathlib.Path(store).open("a", encoding="utf-8") as file:
                    file.writelines(
                        json.dumps(one) + "\n"
                        for one in called.get("arguments", {}).get("entities", [])
                    )
            return {"content": [{"type": "text", "text": f"done {called.get('name')}"}]}
        case _:
            return {}


def main() -> None:
    for line in sys.stdin:
        said = json.loads(line, object_pairs_hook=folded)
        result = answer(said, sys.argv[1])
        if "id" in said:
            body = {"jsonrpc": "2.0", "id": said["id"], "result": result}
            sys.stdout.write(json.dumps(body) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
