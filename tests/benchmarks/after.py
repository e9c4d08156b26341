"""After the write: what the recall ledger costs a read, and a thousand memories hidden at once."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np

from policy.after.closure import CaseSignal, CaseStep
from policy.model import PrincipalId, Tenant
from proxy.embed.embedding import StaticEmbedder
from storage.features.cases import Opening
from storage.features.cases.case_records import MoveCase, OpenCase
from tests.benchmarks import anchors, model
from tests.benchmarks.load import WORDS
from tests.benchmarks.pairs import ratio_of
from tests.benchmarks.servers import Server, free_port, sidecar
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running
from tests.unit.storage.opening import candidate_of, submission_of

MEMORIES: Final = 2_000
SEARCHES: Final = 2_000
HIDDEN: Final = 1_000
INCIDENTS: Final = 10_000
WRITES: Final = 2_000
OPERATOR: Final = PrincipalId("operator")
_ACTS: Final = 5
_LIMIT: Final = 10
_AT_ONCE: Final = 32
_WITHOUT: Final = "[after]\nrecalls_max = 0\n"


def run() -> list[str]:
    """Searches, first bytes, bytes on disk, a thousand hidden in one act, and a hundred anchors."""
    lines = [*_searches(), *model.with_ledger(_WITHOUT)]
    lines.append("bar: 1.05 times")
    lines += _receiver_down()
    lines += asyncio.run(_hiding())
    return [*lines, "a hundred anchors, bar 10 times:", *anchors.run()]


class _Reader:
    def __init__(self, server: Server) -> None:
        self._to = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._headers = {
            "Authorization": f"Bearer {server.key}",
            "Content-Type": "application/json",
        }

    def post(self, path: str, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Milliseconds until the whole answer was there, and the answer."""
        began = time.perf_counter()
        self._to.request("POST", path, json.dumps(body), self._headers)
        raw = self._to.getresponse().read()
        return (time.perf_counter() - began) * 1e3, json.loads(raw)

    def close(self) -> None:
        self._to.close()


def _sentence(number: int) -> str:
    words = " ".join(WORDS[(number * 7 + step * 3) % len(WORDS)] for step in range(12))
    return f"Note {number}: {words}."


def _searches() -> list[str]:
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        readers: list[_Reader] = []
        for name, text in (("without", _WITHOUT), ("with", "")):
            place = base / name
            place.mkdir()
            config = place / "mnemogate.toml"
            config.write_text(text)
            server = stack.enter_context(sidecar(place, "--config", str(config)))
            reader = _Reader(server)
            stack.callback(reader.close)
            for number in range(MEMORIES):
                reader.post("/v1/memories", {"text": _sentence(number)})
            readers.append(reader)
        taken = np.array([_asked(readers, number) for number in range(SEARCHES)])
        kept = sum(one.stat().st_size for one in (base / "with").rglob("recalls/*"))
    p50, p99 = (np.percentile(taken, at, axis=0) for at in (50, 99))
    return [
        f"{SEARCHES} searches of {_LIMIT} among {MEMORIES}, in turns",
        f"without the ledger: p50 {p50[0]:.2f} ms, p99 {p99[0]:.2f} ms",
        f"with the ledger:    p50 {p50[1]:.2f} ms, p99 {p99[1]:.2f} ms",
        f"p99: {p99[1] / p99[0]:.2f} times, bar 1.10; median of pairs {ratio_of(taken):.3f}",
        f"on disk: {kept / SEARCHES:.0f} bytes for a recall of ten hits, bar 1,600",
    ]


def _asked(readers: list[_Reader], number: int) -> tuple[float, float]:
    """Milliseconds without and with the ledger; now one and now the other comes first."""
    body = {"query": _sentence(number * 13 + 1), "limit": _LIMIT}
    spent = [0.0, 0.0]
    for at in (0, 1) if number % 2 else (1, 0):
        spent[at], answer = readers[at].post("/v1/search", body)
        if len(answer["results"]) != _LIMIT:
            raise RuntimeError(f"{len(answer['results'])} hits")
    return spent[0], spent[1]


def _receiver_down() -> list[str]:
    """Writes beside incidents that wait for a receiver which is down, and beside none."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        writers: list[_Reader] = []
        for name, incidents in (("without", 0), ("down", INCIDENTS)):
            place = base / name
            place.mkdir()
            text = ""
            if incidents:
                text = _nobody_there(place)
                asyncio.run(_opened(place, text, incidents))
            config = place / "down.toml"
            config.write_text(text)
            server = stack.enter_context(sidecar(place, "--config", str(config)))
            writer = _Reader(server)
            stack.callback(writer.close)
            writers.append(writer)
        taken = np.array([_written(writers, number) for number in range(WRITES)])
    p50, p99 = (np.percentile(taken, at, axis=0) for at in (50, 99))
    return [
        f"{WRITES} writes in turns, {INCIDENTS} incidents wait for a webhook that is down:",
        f"without: p50 {p50[0]:.2f} ms, p99 {p99[0]:.2f} ms",
        f"down:    p50 {p50[1]:.2f} ms, p99 {p99[1]:.2f} ms",
        f"p99: {p99[1] / p99[0]:.2f} times, bar 1.10; median of pairs {ratio_of(taken):.3f}",
    ]


def _nobody_there(place: Path) -> str:
    """Settings with a receiver at a port where nothing listens."""
    secret = place / "webhook-secret"
    secret.write_text("whsec_" + base64.b64encode(b"0123456789abcdef" * 2).decode())
    secret.chmod(0o600)
    return (
        f'[after.webhook]\nurl = "http://127.0.0.1:{free_port()}/"\nallow = ["127.0.0.1/32"]\n'
        f'secret_file = "{secret}"\n'
    )


async def _opened(place: Path, tables: str, count: int) -> None:
    """Open and close so many incidents, which the receiver is told of from the first on."""
    async with running(place, tables=tables) as live:
        cases, room = live.sidecar.store.cases, asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            opening = Opening(
                tenant=Tenant("default"),
                signal=CaseSignal.OPERATOR,
                by=OPERATOR,
                failure_id=f"{number:020x}",
            )
            async with room:
                case = await cases.order(OpenCase(opening))
                await cases.order(MoveCase(case.case_id, CaseStep.CLOSED, OPERATOR))

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(number))


def _written(writers: list[_Reader], number: int) -> tuple[float, float]:
    """Milliseconds of a write without and with what waits; now one and now the other is first."""
    spent = [0.0, 0.0]
    for at in (0, 1) if number % 2 else (1, 0):
        spent[at], answer = writers[at].post("/v1/memories", {"text": _sentence(number)})
        if "id" not in answer:
            raise RuntimeError(str(answer))
    return spent[0], spent[1]


async def _hiding() -> list[str]:
    """A root with all that was derived from it, hidden in one act, beside writes of as many."""
    with tempfile.TemporaryDirectory() as place:
        async with running(Path(place)) as live:
            embedder = StaticEmbedder()
            pairs = [await _act(live, embedder, act) for act in range(_ACTS)]
    ratios = [hidden / written for written, hidden in pairs]
    return [
        f"{HIDDEN} writes in one go: {' '.join(f'{written:.2f}' for written, _ in pairs)} s",
        f"{HIDDEN} hidden in one act: {' '.join(f'{hidden:.2f}' for _, hidden in pairs)} s",
        f"ratio: median {statistics.median(ratios):.2f}, bar 2",
    ]


async def _act(live: Running, embedder: StaticEmbedder, act: int) -> tuple[float, float]:
    submit = live.sidecar.store.writer.submit
    texts = [f"Act {act}: {_sentence(number)}" for number in range(HIDDEN)]
    made = [
        submission_of(candidate_of(text), vector=vector, embedder_id=embedder.embedder_id)
        for text, vector in zip(texts, embedder.embed(texts), strict=True)
    ]
    began = time.perf_counter()
    await asyncio.gather(*(submit(one) for one in made))
    written = time.perf_counter() - began
    _, root = await live.write(AGENT_KEY, {"text": f"The root of act {act}."})
    room = asyncio.Semaphore(_AT_ONCE)

    async def derive(number: int) -> None:
        async with room:
            text = f"Of root {act}: {_sentence(number)}"
            status, answer = await live.write(
                AGENT_KEY, {"text": text, "derived_from": [root["id"]]}
            )
        if status != http.HTTPStatus.CREATED:
            raise RuntimeError(str(answer))

    await asyncio.gather(*(derive(number) for number in range(HIDDEN - 1)))
    url = f"{live.admin_url}/api/v1/memories/{root['id']}/quarantine"
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    before = live.sidecar.store.reader.status().live_count
    began = time.perf_counter()
    async with live.client.post(url, json={"with_descendants": True}, headers=headers) as answer:
        await answer.read()
        hidden = time.perf_counter() - began
    gone = before - live.sidecar.store.reader.status().live_count
    if gone != HIDDEN:
        raise RuntimeError(f"{gone} were hidden")
    return written, hidden
