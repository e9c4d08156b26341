"""A witness, written from C2SP tlog-witness: a small HTTP server that keeps what it cosigned.

It is strict: it checks the log's signature and the consistency proof, and its state is on disk
before it answers. `Trusting` is the control: it cosigns whatever the log's key signed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.tlog_reader import Unsound, is_consistent, verified_head


class Answer(Exception):  # noqa: N818 - an answer that is no cosignature
    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class Witness:
    """A witness of the logs whose verifier keys it is given."""

    def __init__(self, state: Path, name: str = "witness.example/w1") -> None:
        self.name = name
        self.logs: dict[str, str] = {}
        self.asked: list[tuple[int, int]] = []
        self._state = state
        self._key = Ed25519PrivateKey.generate()
        self._lock = threading.Lock()

    def knows(self, vkey: str) -> None:
        """Configure the key of a log."""
        self.logs[vkey.partition("+")[0]] = vkey

    @property
    def vkey(self) -> str:
        raw = b"\x04" + self._key.public_key().public_bytes_raw()
        hashed = hashlib.sha256(self.name.encode() + b"\n" + raw).digest()[:4].hex()
        return f"{self.name}+{hashed}+{base64.b64encode(raw).decode()}"

    def kept(self) -> dict[str, tuple[int, str]]:
        """The size and root of the head that it cosigned last, for each log."""
        if not self._state.exists():
            return {}
        return msgspec.json.decode(self._state.read_bytes(), type=dict[str, tuple[int, str]])

    def _keep(self, origin: str, size: int, root: bytes) -> None:
        whole = json.dumps(self.kept() | {origin: (size, root.hex())}).encode()
        fresh = self._state.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(whole)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self._state)

    def _consistent(
        self, old: int, proof: list[bytes], size: int, before: bytes, root: bytes
    ) -> bool:
        return is_consistent(old, size, proof, before, root)

    def cosign(self, body: bytes) -> bytes:
        """The answer to `add-checkpoint`, or an `Answer`."""
        asked, _, note = body.partition(b"\n\n")
        first, *lines = asked.decode().split("\n")
        word, _, number = first.partition(" ")
        if word != "old" or str(int(number)) != number or len(lines) > 63:
            raise Answer(400)
        old = int(number)
        proof = [base64.b64decode(line, validate=True) for line in lines]
        origin = note.split(b"\n", 1)[0].decode()
        if origin not in self.logs:
            raise Answer(404)
        try:
            head = verified_head(note, self.logs[origin])
        except (InvalidSignature, Unsound):
            raise Answer(403) from None
        self.asked.append((old, head.size))
        if old > head.size:
            raise Answer(400)
        with self._lock:
            size, before = self.kept().get(origin, (0, ""))
            if old != size:
                raise Answer(409, f"{size}\n".encode())
            if not self._consistent(old, proof, head.size, bytes.fromhex(before), head.root):
                raise Answer(422)
            self._keep(origin, head.size, head.root)
        return self.signed(head.text)

    def signed(self, text: str, at_s: int | None = None) -> bytes:
        """The line of a cosignature on the text of a head."""
        at_s = int(time.time()) if at_s is None else at_s
        signature = self._key.sign(f"cosignature/v1\ntime {at_s}\n{text}".encode())
        key_id = bytes.fromhex(self.vkey.split("+")[1])
        raw = base64.b64encode(key_id + at_s.to_bytes(8, "big") + signature).decode()
        return f"\N{EM DASH} {self.name} {raw}\n".encode()


class Trusting(Witness):
    """A witness that checks no consistency: a log that forks gets its cosignature too."""

    def _consistent(
        self, old: int, proof: list[bytes], size: int, before: bytes, root: bytes
    ) -> bool:
        return True

    def kept(self) -> dict[str, tuple[int, str]]:
        asked = self.asked[-1][0] if self.asked else 0
        return dict.fromkeys(self.logs, (asked, ""))


@contextmanager
def serving(witness: Witness) -> Generator[str]:
    """The submission prefix of a witness that answers on a free port while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                status, told = 200, witness.cosign(body)
            except Answer as answer:
                status, told = answer.status, answer.body
            if self.path != "/prefix/add-checkpoint":
                status, told = 404, b""
            self.send_response(status)
            if status == 409:
                self.send_header("Content-Type", "text/x.tlog.size")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            with suppress(OSError):  # who asked read no more of it
                self.wfile.write(told)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the library
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/prefix"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
