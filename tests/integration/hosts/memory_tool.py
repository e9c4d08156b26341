"""An MCP server with Anthropic's memory tool (`memory_20250818`) on a folder of real files.

`memory_tool.py FOLDER`. Standard library only, stdio, handshake era. One tool, `memory`, whose
`command` says what it does: view, create, str_replace, insert, delete, rename.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_STRING = {"type": "string"}
TOOL = {
    "name": "memory",
    "description": "Files that outlive a conversation",
    "inputSchema": {
        "type": "object",
        "properties": {
            "command": _STRING,
            "path": _STRING,
            "file_text": _STRING,
            "old_str": _STRING,
            "new_str": _STRING,
            "insert_line": {"type": "integer"},
            "insert_text": _STRING,
            "old_path": _STRING,
            "new_path": _STRING,
        },
        "required": ["command"],
    },
}


class Folder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def do(self, given: dict[str, Any]) -> str:
        command = given["command"]
        if command == "rename":
            target = self._at(given["new_path"])
            target.parent.mkdir(parents=True, exist_ok=True)
            self._at(given["old_path"]).rename(target)
            return "renamed"
        path = self._at(given["path"])
        if command == "view":
            if path.is_dir():
                return "\n".join(sorted(one.name for one in path.iterdir()))
            return path.read_text(encoding="utf-8")
        if command == "delete":
            path.unlink()
            return "deleted"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._changed(path, given), encoding="utf-8")
        return "written"

    def _changed(self, path: Path, given: dict[str, Any]) -> str:
        if given["command"] == "create":
            return str(given["file_text"])
        text = path.read_text(encoding="utf-8")
        if given["command"] == "str_replace":
            return text.replace(given["old_str"], given["new_str"])
        lines = text.splitlines(keepends=True)
        lines.insert(given["insert_line"], given["insert_text"] + "\n")
        return "".join(lines)

    def _at(self, path: str) -> Path:
        return self._root / path.removeprefix("/memories").lstrip("/")


def answer(method: str, params: dict[str, Any], folder: Folder) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "example-memory-tool", "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    try:
        text, failed = folder.do(params["arguments"]), False
    except (OSError, KeyError, TypeError) as error:
        text, failed = f"{type(error).__name__}", True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def main() -> None:
    folder = Folder(Path(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        result = answer(asked["method"], asked.get("params", {}), folder)
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
