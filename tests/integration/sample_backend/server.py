"""A server of cards, of the standard library alone: it knows nothing of a gate.

It prints its port and serves until its standard input ends. `/openapi.json` lists its API; a test
asks `/seen` for what reached it, and with `/lose` for a change that is done and not answered.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATHS = {"/cards": ("get", "delete"), "/cards/{name}": ("get", "put", "delete")}
CARDS: dict[str, dict[str, Any]] = {}
SEEN: list[dict[str, Any]] = []
LOSES: list[bool] = []


class CardsHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/lose":
            LOSES.append(True)
            return self._say(204)
        if self.path == "/seen":
            return self._say(200, SEEN)
        SEEN.append(
            {
                "method": self.command,
                "path": self.path,
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "body": body.decode(),
            }
        )
        status, said = self._done(body)
        if self.command != "GET" and LOSES:
            LOSES.clear()
            self.close_connection = True
            return None
        return self._say(status, said)

    def _done(self, body: bytes) -> tuple[int, object]:
        if self.path == "/openapi.json":
            return 200, {"paths": {path: dict.fromkeys(PATHS[path]) for path in PATHS}}
        name = self.path.removeprefix("/cards").removeprefix("/")
        if self.command == "PUT":
            card = json.loads(body)
            CARDS[name] = {"name": name, "text": card["text"], "tags": card.get("tags", [])}
            return 204, None
        if not name and self.command == "GET":
            return 200, {"cards": [*CARDS.values()]}
        if name and name not in CARDS:
            return 404, {"detail": f"there is no card {name}"}
        if self.command == "GET":
            return 200, CARDS[name]
        for one in [name] if name else [*CARDS]:
            del CARDS[one]
        return 204, None

    def _say(self, status: int, said: object = None) -> None:
        body = b"" if said is None else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_DELETE = do_POST = _answer  # noqa: N815 - the names that the base asks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
        """Log nothing."""


def main() -> None:
    """Serve until standard input ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), CardsHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)  # noqa: T201 - the test reads it
    sys.stdin.read()


if __name__ == "__main__":
    main()
