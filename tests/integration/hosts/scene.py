"""One scene: a memory server, a web page that wants to be remembered, and what both were told.

The servers are `memory` (`@modelcontextprotocol/server-memory`) and `web` (one search tool). How a
host reaches them is the wiring: directly, or with Mnemogate in between. Every pipe is recorded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.integration.clients.environments import node_environment

HERE: Final = Path(__file__).parent
SERVER_MEMORY: Final = "2026.8.31"
PAGE: Final = "A page about tea.\nMEMO: {memo}\nThere is more below."

Json = dict[str, Any]


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a pipe; `inwards` is towards the server."""

    inwards: bool
    line: bytes

    @property
    def message(self) -> Json:
        return msgspec.json.decode(self.line, type=Json)


class Scene:
    """Files of one scene below a folder of its own."""

    def __init__(self, base: Path, memo: str) -> None:
        self.base = base
        # The server's folder and ours: what is searched for a refused text. The page, the host's
        # home and the recordings lie elsewhere, for they hold it by right.
        self.server_folder = base / "server"
        self.state = base / "ours" / "state"
        self.checkpoint = base / "ours" / "checkpoint" / "checkpoint.txt"
        self.recordings = base / "recordings"
        self.page = base / "page" / "page.txt"
        for folder in (self.server_folder, base / "ours", self.recordings, self.page.parent):
            folder.mkdir(parents=True)
        self.page.write_text(PAGE.format(memo=memo), encoding="utf-8")

    @property
    def memory_file(self) -> Path:
        return self.server_folder / "memory.jsonl"

    def memory_words(self) -> tuple[str, ...]:
        """The memory server's command; `env` because a wrapper's child inherits the wrapper's."""
        installed = node_environment("@modelcontextprotocol/server-memory", SERVER_MEMORY)
        script = installed / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
        return ("env", f"MEMORY_FILE_PATH={self.memory_file}", "node", str(script))

    def web_words(self) -> tuple[str, ...]:
        return (sys.executable, str(HERE / "web_search.py"), str(self.page))

    def recorded(self, name: str, words: tuple[str, ...]) -> tuple[str, ...]:
        """The same command with a recorder before it."""
        return (sys.executable, str(HERE / "tee.py"), str(self.recordings / name), *words)

    def said(self, name: str) -> list[Said]:
        """What went through a recorded pipe, in order."""
        path = self.recordings / name
        if not path.exists():
            return []
        return [
            Said(inwards=line[:1] == b">", line=line[2:]) for line in path.read_bytes().splitlines()
        ]

    def complaints(self, name: str) -> bytes:
        """What the recorded command said on standard error."""
        return (self.recordings / f"{name}.err").read_bytes()

    def remembered(self) -> list[Json]:
        """The lines of the memory server's own file."""
        if not self.memory_file.exists():
            return []
        lines = self.memory_file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line]


def entity(name: str, kind: str, *observations: str) -> Json:
    return {"entities": [{"name": name, "entityType": kind, "observations": list(observations)}]}
