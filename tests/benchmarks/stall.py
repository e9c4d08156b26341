"""How long everybody else waits while one agent's costliest bodies are judged."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from tests.benchmarks.model import ROOT, upstream

AGENTS: Final = 3
"""How many agents send a body at the same time."""
ROUNDS: Final = 2
IDLE_S: Final = 1.5
HEALTH_BAR_MS: Final = 50
READ_BAR_MS: Final = 250
_TEXT_LEN: Final = 65_000
_OPERATOR_KEY: Final = "bench-operator-key-0123456789"
_ANSWER_S: Final = 180.0
_EVERY_S: Final = 0.01
_TURN: Final = "/anthropic/v1/messages"
_BATCH: Final = "/v1/memories/batch"


def run() -> list[str]:
    return _compared({"now": ROOT})


def against(before: Path) -> list[str]:
    """The same for another checkout beside it, body by body in turns."""
    return _compared({"before": before, "now": ROOT})


def _compared(roots: dict[str, Path]) -> list[str]:
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model_port = upstream(stack)
        sidecars = {
            name: stack.enter_context(_Sidecar(base / name, root, model_port))
            for name, root in roots.items()
        }
        lines = [
            f"{AGENTS} agents at once, {ROUNDS} times; ms: p50, p99, worst",
            f"{'body':26s} | tree   | {'/healthz':21s} | {'read of another tenant':21s} | CPU s",
        ]
        lines += [_row("none", name, one, None) for name, one in sidecars.items()]
        for title, (path, made) in BODIES.items():
            lines += [_row(title, name, one, (path, made)) for name, one in sidecars.items()]
    lines.append(f"bars at p99: {HEALTH_BAR_MS} ms and {READ_BAR_MS} ms")
    return lines


def _row(
    title: str, name: str, sidecar: _Sidecar, body: tuple[str, Callable[[str], bytes]] | None
) -> str:
    path, made = body or ("", str.encode)
    sent = made(sidecar.memory_id)
    keys = [sidecar.agents() for _ in range(ROUNDS)]
    began_s = _spent_s(sidecar.pid)
    with _Asked(sidecar) as asked:
        if body is None:
            time.sleep(IDLE_S)
        else:
            for some in keys:
                sidecar.attack(path, sent, some)
    taken_s = _spent_s(sidecar.pid) - began_s
    count = 1 if body is None else AGENTS * ROUNDS
    figures = [
        " ".join(f"{value * 1e3:6.1f}" for value in (*np.percentile(taken, (50, 99)), max(taken)))
        for taken in (asked.health, asked.read)
    ]
    spent = f"{taken_s / count:.2f}"
    return f"{title:26s} | {name:6s} | {figures[0]:21s} | {figures[1]:22s} | {spent}"


# ---- what is sent ------------------------------------------------------------------------------


def _filled(piece: str) -> str:
    return (piece * (_TEXT_LEN // len(piece) + 1))[:_TEXT_LEN]


def _batch(operations: list[dict[str, Any]]) -> bytes:
    return json.dumps({"operations": operations}, ensure_ascii=False).encode()


def _creates(texts: list[str], **more: object) -> bytes:
    return _batch([{"op": "create", "text": text, "class": "L4", **more} for text in texts])


def _parents(memory_id: str) -> bytes:
    return _creates([f"t{number}" for number in range(390)], derived_from=[memory_id] * 64)


def _ligatures(_: str) -> bytes:
    return _creates(["\ufdfa" * _TEXT_LEN] * 5)


def _directives(_: str) -> bytes:
    return _batch(
        [
            {"op": "create", "text": "x", "class": "L4", "metadata": {"a": _orders(number)}}
            for number in range(26)
        ]
    )


def _orders(number: int) -> list[str]:
    return [f"always {at:x}{number}" for at in range(2_050)]


def _metadata(memory_id: str) -> bytes:
    updates = [{"op": "update", "id": memory_id, "metadata": {"a": at}} for at in range(1_000)]
    return _batch(updates)


def _heads(_: str) -> bytes:
    return _creates([_filled("answer a b, ")] * 15)


def _hangul(_: str) -> bytes:
    return _creates([_filled("\ud55c\uae00")[:21_000]] * 15)


def _floats(_: str) -> bytes:
    numbers = ",".join(f"{at % 10}.{1_000 + at}" for at in range(140_000))
    return b'{"text":"x","metadata":{"a":[' + numbers.encode() + b"]}}"


def _keys(_: str) -> bytes:
    return _batch(
        [
            {
                "op": "create",
                "text": "x",
                "class": "L4",
                "metadata": {f"k{at:05d}{number}": 1 for at in range(2_000)},
            }
            for number in range(26)
        ]
    )


def _said(*content: object) -> bytes:
    messages = [{"role": "user", "content": [*content]}]
    return json.dumps(
        {"model": "m", "max_tokens": 64, "stream": True, "messages": messages}
    ).encode()


def _result(text: str) -> bytes:
    made: list[dict[str, Any]] = [
        {"role": "user", "content": "Please read that file."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": text}],
        },
    ]
    return json.dumps({"model": "m", "max_tokens": 64, "stream": True, "messages": made}).encode()


def _encoded(_: str) -> bytes:
    data = base64.b64encode(os.urandom(60_000)).decode()
    return _result(json.dumps({f"part{at}": data for at in range(10)}))


def _typed(_: str) -> bytes:
    words = "The garden by the river was quiet that evening, and nobody said a word about it. "
    return _said({"type": "text", "text": _numbered(words, 600_000)})


def _escapes(_: str) -> bytes:
    said = "".join(f"\\u00{ord(one):02x}" for one in "the quick brown fox jumps. ")
    return _result(said * (200_000 // len(said)))


def _numbered(words: str, length: int) -> str:
    lines = [f"{at}: {words}" for at in range(length // len(words))]
    return " ".join(lines)[:length]


BODIES: Final[dict[str, tuple[str, Callable[[str], bytes]]]] = {
    "one parent 64 x 390 times": (_BATCH, _parents),
    "texts that unfold": (_BATCH, _ligatures),
    "lists of directives": (_BATCH, _directives),
    "1000 updates of one large": (_BATCH, _metadata),
    "texts of nothing but heads": (_BATCH, _heads),
    "texts in Hangul": (_BATCH, _hangul),
    "140000 numbers": ("/v1/memories", _floats),
    "52000 keys": (_BATCH, _keys),
    "base64 in a tool's result": (_TURN, _encoded),
    "a typed turn of 600 kB": (_TURN, _typed),
    "200 kB of escapes": (_TURN, _escapes),
}


# ---- who asks ----------------------------------------------------------------------------------


class _Sidecar:
    """A sidecar of one tree, with a model behind it and a memory of another tenant in it."""

    def __init__(self, base: Path, root: Path, model_port: int) -> None:
        base.mkdir()
        self.data, self.admin = _free_port(), _free_port()
        config = base / "mnemogate.toml"
        config.write_text(
            '[[model]]\nname = "anthropic"\napi = "anthropic"\n'
            f'url = "http://127.0.0.1:{model_port}"\n'
        )
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(base),
            "PYTHONPATH": str(root),
            "MNEMOGATE_STATE": str(base / "state"),
            "MNEMOGATE_CHECKPOINT": str(base / "checkpoint" / "checkpoint.txt"),
            "MNEMOGATE_LISTEN": f"127.0.0.1:{self.data}",
            "MNEMOGATE_ADMIN": f"127.0.0.1:{self.admin}",
            "MNEMOGATE_OPERATOR_KEY": _OPERATOR_KEY,
            "MNEMOGATE_CONFIG": str(config),
            "MNEMOGATE_ACCESS_LOG": "false",
        }
        own = root / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        self._process = subprocess.Popen(
            [python, "-P", "-m", "proxy", "run"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.pid = self._process.pid
        self._agents = 0

    def __enter__(self) -> Self:
        for port in (self.data, self.admin):
            _wait(port)
        self.reader_key = self._key("reader", "another")
        self.agent_key = self._key("first", "first")
        kept = {"text": "The bicycle is in the garden.", "class": "L4"}
        self.read_id = json.loads(self._post("/v1/memories", self.reader_key, kept))["id"]
        large = {"text": "plain words " * 5_400, "class": "L4"}
        self.memory_id = json.loads(self._post("/v1/memories", self.agent_key, large))["id"]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _key(self, name: str, tenant: str) -> str:
        answered = self._post(
            "/api/v1/keys", _OPERATOR_KEY, {"name": name, "tenant": tenant}, self.admin
        )
        plain: str = json.loads(answered)["plain"]
        return plain

    def _post(self, path: str, key: str, body: dict[str, Any], port: int | None = None) -> bytes:
        raw = json.dumps(body).encode()
        status, answered = _asked(port or self.data, path, key, raw)
        if status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{path}: {status} {answered[:200]!r}")
        return answered

    def agents(self) -> list[str]:
        made = range(self._agents, self._agents + AGENTS)
        self._agents += AGENTS
        return [self._key(f"agent-{number}", "first") for number in made]

    def attack(self, path: str, body: bytes, keys: list[str]) -> None:
        """Send the body from several agents at the same time, and wait for all answers."""
        threads = [
            threading.Thread(target=_asked, args=(self.data, path, key, body)) for key in keys
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()


class _Asked:
    """Seconds that each answer took while the block ran."""

    def __init__(self, sidecar: _Sidecar) -> None:
        self.health: list[float] = []
        self.read: list[float] = []
        key = {"Authorization": f"Bearer {sidecar.reader_key}"}
        self._over = threading.Event()
        asked: tuple[tuple[int, str, dict[str, str], list[float]], ...] = (
            (sidecar.admin, "/healthz", {}, self.health),
            (sidecar.data, f"/v1/memories/{sidecar.read_id}", key, self.read),
        )
        self._threads = [threading.Thread(target=self._ask, args=one) for one in asked]

    def __enter__(self) -> Self:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for one in self._threads:
            one.join()

    def _ask(self, port: int, path: str, headers: dict[str, str], taken: list[float]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
        while not self._over.is_set():
            began = time.perf_counter()
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            took = time.perf_counter() - began
            # Requests that were due during a stall wait for it too. Otherwise a long stall would be
            # one answer among hundreds of quick ones.
            taken.extend(took - late * _EVERY_S for late in range(1 + int(took / _EVERY_S)))
            if answer.status != http.client.OK:
                raise RuntimeError(f"{path}: {answer.status}")
            time.sleep(_EVERY_S)


def _asked(port: int, path: str, key: str, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
    headers = {
        "Authorization": f"Bearer {key}",
        "X-Api-Key": key,
        "Content-Type": "application/json",
    }
    del headers["Authorization" if path == _TURN else "X-Api-Key"]
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    answered = answer.read()
    connection.close()
    return answer.status, answered


def _spent_s(pid: int) -> float:
    """Processor time of all threads in seconds, of those that ended meanwhile too."""
    behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(behind_name[11]) + int(behind_name[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the sidecar does not listen")
