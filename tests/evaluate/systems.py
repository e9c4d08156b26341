"""The five systems of the paper, as variants of one pipeline.

They differ in the gate that judges (`policy`), in when it judges (`placement`), and in whether
refused texts are withheld (`coupled`).

Every part is a real one: LMDB, FAISS, embedder, HTTP listener, and a client over a socket.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from policy.gate import GATE, Gate
from policy.model import Channel, Claims, PrincipalId
from proxy.compose.app import Composition, Sidecar, compose, no_failpoint
from proxy.intercept.interceptor import Submits
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.settings.load import load_settings
from proxy.settings.values import Address
from proxy.transport.auth import mint_key
from storage.features.registered import PutKey
from storage.interfaces import Store
from tests.bound import bound
from tests.embedder import share_embedder
from tests.evaluate.canary import files_below, found_in
from tests.evaluate.heuristic import heuristic_objection
from tests.evaluate.unsafe import UnsafeLateGate, UnsafeLateWriter, unsafe_gate_that_admits_all
from tests.evaluate.wire import Question, Tried, Write, answered, headers_of, shown_in
from tests.uncoupled import UnsafeUncoupled

share_embedder()

EVALUATOR: Final = PrincipalId("evaluate")
ADMITTED: Final = frozenset({200, 201})
_PREFIX: Final = "mnemogate-evaluate-"


class System(msgspec.Struct, frozen=True, kw_only=True):
    """One system, which is a column of the paper's tables."""

    name: str
    policy: str  # Which gate judges writes: "none", "heuristic" or "gate".
    placement: str  # Whether the gate stands before or after the write: "pre" or "post".
    coupled: bool
    meaning: str


SYSTEMS: Final = (
    System(name="B0", policy="none", placement="post", coupled=False, meaning="direct write"),
    System(
        name="B1", policy="heuristic", placement="post", coupled=False, meaning="three-layer filter"
    ),
    System(
        name="LG", policy="gate", placement="post", coupled=False, meaning="write first, verify"
    ),
    System(name="S3", policy="gate", placement="pre", coupled=False, meaning="gate, no coupling"),
    System(name="S4", policy="gate", placement="pre", coupled=True, meaning="full: `run`"),
)
BY_NAME: Final = {system.name: system for system in SYSTEMS}


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The counts by which two states of a store are compared."""

    rows: int
    vectors: int
    version: int
    problems: tuple[str, ...]


class Bench:
    """One running system, a client for it, and the files it keeps."""

    def __init__(self, system: System, place: Path) -> None:
        self.system = system
        self.place = place
        self.late: UnsafeLateWriter | None = None
        # The store's state after the last trial.
        self.seen: Observed | None = None
        self.sidecar: Sidecar
        self.client: aiohttp.ClientSession
        self.operator_key = f"operator-{secrets.token_hex(16)}"
        self.agent_key = f"agent-{secrets.token_hex(16)}"

    @property
    def url(self) -> str:
        """The URL of the data listener."""
        return _url(self.sidecar.data)

    @property
    def admin_url(self) -> str:
        """The URL of the operator's API."""
        return _url(self.sidecar.admin)

    async def key(
        self,
        name: str,
        *,
        channel: Channel = Channel.AGENT,
        claims: Claims = Claims.IGNORED,
        tenant: str = "default",
    ) -> str:
        """A new key for a new principal."""
        made = mint_key(bound(name, tenant, channel, claims), 0)
        await self.sidecar.store.writer.order(PutKey(made.record, EVALUATOR))
        self.sidecar.keys_changed()
        return made.plain

    async def keys(self, count: int, *, claims: Claims, channel: Channel) -> list[str]:
        """New keys for so many new principals, made at once."""
        made = [
            mint_key(bound(f"p-{secrets.token_hex(8)}", "default", channel, claims), 0)
            for _ in range(count)
        ]
        writer = self.sidecar.store.writer
        async with asyncio.TaskGroup() as group:
            for one in made:
                group.create_task(writer.order(PutKey(one.record, EVALUATOR)))
        self.sidecar.keys_changed()
        return [one.plain for one in made]

    async def written(self, bodies: Sequence[tuple[str, Write]], at_once: int = 32) -> list[Tried]:
        """Send many writes, so many of them at a time; their answers in order."""
        room = asyncio.Semaphore(at_once)

        async def one(key: str, body: Write) -> Tried:
            async with room:
                return await self.write(key, body)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(key, body)) for key, body in bodies]
        return [task.result() for task in tasks]

    async def call(
        self, method: str, path: str, key: str, body: msgspec.Struct | None = None
    ) -> Tried:
        """Send one request to the data listener."""
        return await self._asked(method, self.url + path, key, body)

    async def operate(self, method: str, path: str, body: msgspec.Struct | None = None) -> Tried:
        """Send one request to the operator's API."""
        url = f"{self.admin_url}/api/v1{path}"
        return await self._asked(method, url, self.operator_key, body)

    async def write(self, key: str, body: Write) -> Tried:
        """Send one write: POST /v1/memories."""
        return await self.call("POST", "/v1/memories", key, body)

    async def recalled(self, key: str, query: str, limit: int = 10) -> list[str]:
        """The texts of the memories that a search finds."""
        asked = Question(query=query, limit=limit)
        found = await self.call("POST", "/v1/search", key, asked)
        return [shown_in(hit).text for hit in found.body.results]

    async def listed(self, key: str) -> list[str]:
        """The newest thousand memories of the key's tenant."""
        found = await self.call("GET", "/v1/memories?limit=1000", key)
        return [shown_in(item).text for item in found.body.memories]

    async def _asked(self, method: str, url: str, key: str, body: msgspec.Struct | None) -> Tried:
        data = None if body is None else msgspec.json.encode(body)
        async with self.client.request(method, url, data=data, headers=headers_of(key)) as answer:
            return answered(answer.status, await answer.read())

    def observed(self) -> Observed:
        """Check the whole store, and return its state."""
        report = self.sidecar.store.reader.check()
        return Observed(
            rows=report.rows,
            vectors=report.vectors,
            version=report.version,
            problems=report.problems,
        )

    def on_disk(self, canaries: Sequence[str]) -> frozenset[str]:
        """The canaries that stand in a file of the system, plain, encoded or compressed."""
        return found_in(files_below(self.place), canaries)


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """Parts and settings that an experiment adds to a system."""

    failpoint: Callable[[str], None] = no_failpoint
    gate: Gate | None = None
    # The text of a settings file, in which `{place}` stands for the system's directory; and the
    # name and text of one more file there.
    config: str = ""
    secret: tuple[str, str] | None = None


PLAIN: Final = Extras()


@asynccontextmanager
async def running(system: System, extras: Extras = PLAIN) -> AsyncGenerator[Bench]:
    """One running system on free ports, in a directory that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as place:
        async with at(system, Path(place), extras) as bench:
            yield bench


@asynccontextmanager
async def at(
    system: System,
    place: Path,
    extras: Extras = PLAIN,
    keys: tuple[str, str] | None = None,
) -> AsyncGenerator[Bench]:
    """One running system on free ports, with its files below `place`.

    `keys` are the agent's and the operator's.
    """
    bench = Bench(system, place)
    if keys is not None:
        bench.agent_key, bench.operator_key = keys
    settings = load_settings(
        {
            "listen": "127.0.0.1:0",
            "admin": "127.0.0.1:0",
            "state": str(place / "state"),
            "checkpoint": str(place / "checkpoint.txt"),
        },
        environment={
            "HOME": str(place),
            "MNEMOGATE_AGENT_KEY": bench.agent_key,
            "MNEMOGATE_OPERATOR_KEY": bench.operator_key,
        },
        config=_configured(place, extras),
    )
    composition = composed(system, bench, extras)
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        compose(settings, composition) as sidecar,
        aiohttp.ClientSession(timeout=timeout) as client,
    ):
        bench.sidecar, bench.client = sidecar, client
        yield bench


def composed(system: System, bench: Bench, extras: Extras) -> Composition:
    """The parts of which a system is composed.

    Those of S4 are the ones that `mnemogate run` uses.
    """
    if system.coupled:
        return Composition(gate=extras.gate or GATE, failpoint=extras.failpoint)
    if system.placement == "pre":
        gate = extras.gate or GATE
        return Composition(gate=gate, failpoint=extras.failpoint, couple=_uncoupled)
    if system.policy == "none":
        gate = unsafe_gate_that_admits_all()
        return Composition(gate=gate, failpoint=extras.failpoint, couple=_uncoupled)
    late = UnsafeLateGate()
    verify = late.verify if system.policy == "gate" else heuristic_objection

    def placing(store: Store) -> Submits:
        bench.late = UnsafeLateWriter(store, verify)
        return bench.late

    return Composition(gate=late, placing=placing, failpoint=extras.failpoint, couple=_uncoupled)


def _uncoupled(_coupling: LedgerCoupling) -> LedgerCoupling:
    """A coupling that lets everything pass, as a plain proxy would."""
    return UnsafeUncoupled()


def _configured(place: Path, extras: Extras) -> Path | None:
    if extras.secret is not None:
        name, text = extras.secret
        (place / name).write_text(text, "utf-8")
        (place / name).chmod(0o600)
    if not extras.config:
        return None
    path = place / "mnemogate.toml"
    path.write_text(extras.config.replace("{place}", str(place)), "utf-8")
    return path


def _url(address: Address | None) -> str:
    return "" if address is None else f"http://{address.host}:{address.port}"
