"""A small MCP server over stdio, both eras, for tests; it knows nothing of this project."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = {}
META = "io.modelcontextprotocol/protocolVersion"
LOCK = threading.Lock()


def say(body: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps(body) + "\n")
        sys.stdout.flush()


def answer(body: dict[str, Any], **value: object) -> None:
    kind = {"resultType": "complete"} if META in body.get("params", {}).get("_meta", {}) else {}
    say({"jsonrpc": "2.0", "id": body["id"], "result": {**value, **kind}})


def text(body: dict[str, Any], said: str) -> None:
    answer(body, content=[{"type": "text", "text": said}])


def call(body: dict[str, Any], waiting: dict[Any, dict[str, Any]]) -> None:
    params = body["params"]
    given = params.get("arguments", {})
    match params["name"]:
        case "echo":
            text(body, json.dumps(given))
        case "late":
            Path(os.environ["MEMO"] + "-started").touch()

            def later() -> None:
                time.sleep(given["seconds"])
                text(body, json.dumps(given))

            threading.Thread(target=later, daemon=True).start()
        case "progress":
            token = params["_meta"]["progressToken"]
            note = {"jsonrpc": "2.0", "method": "notifications/progress"}
            say({**note, "params": {"progressToken": token, "progress": 1}})
            time.sleep(given.get("seconds", 0.0))
            text(body, "done")
        case "ask":
            waiting[77] = body
            say({"jsonrpc": "2.0", "id": 77, "method": "roots/list", "params": {}})
        case "who":
            found = {name: os.environ[name] for name in os.environ if name.startswith("M")}
            text(body, json.dumps({"pid": os.getpid(), "cwd": str(Path.cwd()), "env": found}))
        case "die":
            os._exit(3)
        case _:
            text(body, "no such tool")


def main() -> None:
    sys.stderr.write("complaint with a secret\n")
    waiting: dict[Any, dict[str, Any]] = {}
    for line in sys.stdin:
        body: dict[str, Any] = json.loads(line)
        match body.get("method"):
            case "initialize":
                info = {"name": "small", "version": "1"}
                version = body["params"].get("protocolVersion")
                answer(body, protocolVersion=version, capabilities={}, serverInfo=info)
            case "notifications/initialized":
                say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            case "notifications/cancelled":
                Path(os.environ["MEMO"]).write_text(json.dumps(body["params"]["requestId"]))
            case "tools/list":
                names = ("echo", "late", "progress", "ask", "who", "die")
                answer(body, tools=[{"name": name, "inputSchema": SCHEMA} for name in names])
            case "tools/call":
                call(body, waiting)
            case None if "result" in body and body["id"] in waiting:
                text(waiting.pop(body["id"]), json.dumps(body["result"]))
            case _:
                if "id" in body and "method" in body:
                    error = {"code": -32601, "message": "Method not found"}
                    say({"jsonrpc": "2.0", "id": body["id"], "error": error})


if __name__ == "__main__":
    main()
