"""Members of a shard: `mnemogate run` processes with one database, each with a state of its own."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE_S: Final = 90.0
AGENT_KEY: Final = "agent-key-of-all-members"
OPERATOR_KEY: Final = "operator-key-of-all-members"


def free_port() -> int:
    """A port that no one has now, below those that Linux gives to connections meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def eventually(holds: Callable[[], bool], what: str, member: Member | None = None) -> None:
    """Wait until something holds; a failure shows what the member answers and has logged."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            shown = () if member is None else (member.ready(), member.log.read_text()[-2_000:])
            raise AssertionError(what, *shown)
        time.sleep(0.1)


class Member:
    """One member, started; its ports and its state directory stay when it is started again."""

    def __init__(
        self,
        root: Path,
        name: str,
        url: str,
        *,
        keyed: bool = True,
        shard: str = "test",
        settings: str = "",
        program: tuple[str, ...] = ("proxy",),
    ) -> None:
        """`settings` begin its file; `program` are a module and arguments, instead of ours."""
        self._program = program
        self.home = root / name
        self.home.mkdir(mode=0o700)
        secrets = root / "secrets"
        if not secrets.exists():
            secrets.mkdir(mode=0o700)
            for key in ("store.key", "log.key", "token.key", "journal.key"):
                _closed(secrets / key, os.urandom(32))
        _closed(root / "dsn", url.encode())
        keys = root / "keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        self.data, self.admin, self.health, self.peers = (free_port() for _ in range(4))
        _closed(
            self.home / "m.toml",
            f'{settings}[shard]\nname = "{shard}"\ndsn = "{root / "dsn"}"\nsecrets = "{secrets}"\n'
            f'peers = "127.0.0.1:{self.peers}"\n'.encode()
            + (f'keys = "{keys}"\n'.encode() if keyed else b""),
        )
        self.config = self.home / "m.toml"
        self.log = self.home / "log"
        self.state = self.home / ".local" / "state" / "mnemogate"
        self.start()

    def start(self, *words: str) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", *self._program, "run", "--json"),
                    *("--listen", f"127.0.0.1:{self.data}", "--admin", f"127.0.0.1:{self.admin}"),
                    *("--health", f"127.0.0.1:{self.health}", *words),
                ],
                cwd="/",
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.home),
                    "PYTHONPATH": str(ROOT),
                    "MNEMOGATE_CONFIG": str(self.home / "m.toml"),
                    "MNEMOGATE_AGENT_KEY": AGENT_KEY,
                    "MNEMOGATE_OPERATOR_KEY": OPERATOR_KEY,
                },
                stdout=log,
                stderr=log,
            )

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        return self._process.wait(PATIENCE_S)

    def remove(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait(PATIENCE_S)

    def ready(self) -> dict[str, Any]:
        """The body of `/readyz`, with its HTTP status; empty while nothing answers."""
        try:
            status, body = self._ask(self.health, "GET", "/readyz")
        except (OSError, http.client.HTTPException):
            return {}
        return {"http": status, **body}

    def is_holder(self) -> bool:
        return self.ready().get("status") == "ready"

    def is_standby(self) -> bool:
        found = self.ready()
        return (found.get("status"), found.get("http")) == ("standby", 200)

    def write(
        self, text: str, key: str = AGENT_KEY, client: str = "127.0.0.1", **more: object
    ) -> int:
        """The status of a write from an address; 0 where the connection broke or was refused."""
        try:
            written = {"text": text, **more}
            return self._ask(self.data, "POST", "/v1/memories", key, written, client)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def texts(self) -> list[str]:
        _, body = self._ask(self.data, "GET", "/v1/memories", AGENT_KEY)
        return [str(one["text"]) for one in body["memories"]]

    def erase(self, user: str) -> dict[str, Any]:
        """What the operator's erasure of a user answers."""
        asked = {"user_id": user}
        return dict(self._ask(self.admin, "POST", "/api/v1/erasures", OPERATOR_KEY, asked)[1])

    def problems(self) -> list[str]:
        """What the operator's check of the whole store reports."""
        _, body = self._ask(self.admin, "POST", "/api/v1/check", OPERATOR_KEY, {})
        return list(body["problems"])

    def _ask(
        self,
        port: int,
        method: str,
        path: str,
        key: str = "",
        body: object = None,
        client: str = "127.0.0.1",
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=30, source_address=(client, 0)
        )
        try:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            sent = None if body is None else json.dumps(body)
            if sent is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(data) if data else None


def _closed(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o600)
