"""superlocalmemory: its daemon in local mode (A), asked over its HTTP API, in its own home."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TypedDict

from serving import Reply, Request, place, serve, unsupported

_START_S = 120.0


class _Told(TypedDict, total=False):
    """What of the daemon's answers is looked at."""

    fact_ids: list[str]
    results: list[object]


class Drive:
    def __init__(self) -> None:
        self.home = Path(place())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        environment = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", ""),
            # Nothing is fetched while it is measured.
            "HF_HUB_OFFLINE": "1",
            "SLM_DISABLE_LEGACY_PORT": "1",
        }
        module = "superlocalmemory.server.unified_daemon"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "--start", f"--port={self.port}"],
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.token = ""

    def started(self) -> None:
        if self.token:
            return
        deadline = time.monotonic() + _START_S
        token = self.home / ".superlocalmemory" / ".install_token"
        while time.monotonic() < deadline:
            try:
                self.token = token.read_text().strip()
                self.ask("GET", "/status")
            except (OSError, urllib.error.URLError):
                self.token = ""
                time.sleep(0.5)
            else:
                return
        raise SystemExit("the daemon did not start")

    def ask(self, method: str, path: str, body: dict[str, str] | None = None) -> _Told:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-Install-Token": self.token},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.loads(answer.read() or b"{}")

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def hello(self, _request: Request) -> Reply:
        self.started()
        return {"name": "superlocalmemory"}

    def reset(self, _request: Request) -> Reply:
        """A start takes half a minute; every canary is another one, so the store may stay."""
        self.started()
        return {}

    def remember(self, request: Request) -> Reply:
        missing = unsupported(
            request, "nonce", "promotion_token", "derived_from", "id", "target", "metadata"
        )
        if missing is not None or request.get("as") == "stranger":
            return missing or {"na": "tenants are profiles of one user"}
        try:
            done = self.ask("POST", "/remember?wait=true", {"content": request["text"]})
        except urllib.error.HTTPError as refused:
            return {"decision": "refused", "said": refused.read().decode(errors="replace")}
        return {"decision": "admitted", "id": str(done.get("fact_ids", [""])[0])}

    def recall(self, request: Request) -> Reply:
        query = urllib.parse.urlencode({"q": request["query"], "limit": 20, "fast": "true"})
        found = self.ask("GET", f"/recall?{query}")
        return {"items": [{"text": str(one)} for one in found.get("results", [])]}

    def files(self, _request: Request) -> Reply:
        return {"files": [str(self.home)]}


if __name__ == "__main__":
    drive = Drive()
    names = ("hello", "reset", "remember", "recall", "files")
    try:
        serve({name: getattr(drive, name) for name in names})
    finally:
        drive.close()
