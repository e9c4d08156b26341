"""A data listener over an in-memory session, and a client that sends any bytes it likes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import AsyncGenerator, Callable

import msgspec

from policy.model import (
    Basis,
    CandidateId,
    Channel,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    Principal,
    PrincipalId,
    SourceKind,
    Tenant,
)
from policy.verdict import Reason
from proxy.dialects.native.dialect import Native
from proxy.fronts.memory import MemoryFront
from proxy.seams.environment import Environment
from proxy.seams.observations import observation_for
from proxy.seams.operation import (
    EntitiesResult,
    GetHistory,
    GetMemory,
    GetResult,
    HistoryResult,
    Identify,
    IdentityResult,
    ListEntities,
    ListMemories,
    ListResult,
    Operation,
    Proposal,
    Result,
    Search,
    SearchResult,
    Write,
    WriteResult,
    WrittenItem,
)
from proxy.seams.pace import Pace
from proxy.settings.binding import Binding
from proxy.settings.table import Limits
from proxy.settings.values import Address
from proxy.transport.auth import Authenticator, hash_key
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener
from storage.values import KeyRecord
from telemetry.events import Event, RequestServed, TraceContext

AGENT_KEY = "mg_test_agent_key_of_forty_characters_xx"
OPERATOR_KEY = "mg_test_operator_key_of_forty_chars_xxxx"
AGENT = Principal(principal_id=PrincipalId("agent"), tenant=Tenant("default"))
OPERATOR = Principal(
    principal_id=PrincipalId("operator"), tenant=Tenant("default"), channel=Channel.OPERATOR
)
LIMITS = Limits(
    body_bytes_max=64 * 1024,
    header_seconds=0.3,
    body_seconds=0.5,
    idle_seconds=5.0,
    drain_seconds=2.0,
    connections_max=32,
    requests_max=16,
)
START_NS = 1_700_000_000_000_000_000


def records() -> tuple[KeyRecord, ...]:
    return (
        KeyRecord(key_id="agent", key_sha256=hash_key(AGENT_KEY), principal=AGENT, created_at_ms=0),
        KeyRecord(
            key_id="operator",
            key_sha256=hash_key(OPERATOR_KEY),
            principal=OPERATOR,
            created_at_ms=0,
        ),
    )


class MemorySession:
    """Admits what it is given, or refuses all of it for one reason; remembers what was asked."""

    def __init__(self) -> None:
        self.stored: list[Proposal] = []
        self.performed: list[tuple[Principal, Operation, str]] = []
        self.refuse: tuple[str, Reason, int] | None = None
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.replayed = False

    async def perform(  # noqa: PLR0911 - one arm per operation
        self, principal: Principal, operation: Operation, *, dialect: str, trace: TraceContext
    ) -> Result:
        del trace
        self.performed.append((principal, operation, dialect))
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        match operation:
            case Write(proposals=proposals):
                return WriteResult(items=tuple(self._item(proposal) for proposal in proposals))
            case Identify():
                return IdentityResult(principal=principal, incarnation="i1")
            case ListMemories():
                memories = tuple(_memory(proposal) for proposal in self.stored)
                return ListResult(total=len(memories), memories=memories)
            case GetMemory():
                return GetResult(memory=None)
            case GetHistory(memory_id=memory_id):
                return HistoryResult(memory_id=memory_id, entries=())
            case ListEntities():
                return EntitiesResult(total=0, entities=())
            case Search():
                return SearchResult(hits=())
            case _:
                return WriteResult(items=())

    def _item(self, proposal: Proposal) -> WrittenItem:
        decision, reason, step = ("admit", None, None) if self.refuse is None else self.refuse
        if decision == "admit":
            self.stored.append(proposal)
        return WrittenItem(
            decision=decision,
            change=proposal.change,
            memory_id=MemoryId("00000000-0000-4000-8000-000000000001"),
            candidate_id=CandidateId("ab" * 16),
            reason=reason,
            step=step,
            memory_class=proposal.memory_class,
            source=SourceKind.UNKNOWN,
            observation=observation_for(decision, reason, proposal.memory_class),
            version=len(self.stored),
            leaf_index=7,
            replayed=self.replayed,
        )


def _memory(proposal: Proposal) -> Memory:
    return Memory(
        memory_id=MemoryId("00000000-0000-4000-8000-000000000001"),
        tenant=Tenant("default"),
        principal_id=PrincipalId("agent"),
        text=proposal.text or "",
        metadata_json=proposal.metadata_json,
        scope=proposal.scope,
        target=proposal.target,
        memory_class=MemoryClass.L3,
        source=SourceKind.UNKNOWN,
        basis=Basis.UNPROVEN,
        status=MemoryStatus.LIVE,
        version=1,
        created_at_ms=1_700_000_000_000,
        updated_at_ms=1_700_000_000_000,
        candidate_id=CandidateId("ab" * 16),
    )


class Bench:
    def __init__(self, listener: Listener, session: MemorySession, events: list[Event]) -> None:
        self.listener = listener
        self.session = session
        self.events = events
        self.address = Address(host="127.0.0.1", port=0)
        self.halted: list[bool] = []
        self.routes: frozenset[str] = frozenset()

    def served(self) -> list[RequestServed]:
        return [event for event in self.events if isinstance(event, RequestServed)]

    async def raw(self, data: bytes, *, wait_s: float = 5.0) -> bytes:
        """Everything the listener answers to these bytes, until it closes."""
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        return await read_all(reader, writer, wait_s)

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = AGENT_KEY,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One well-formed request on a connection of its own."""
        data = body if isinstance(body, bytes) else b""
        if body is not None and not isinstance(body, bytes):
            data = msgspec.json.encode(body)
        return parse(await self.raw(request_bytes(method, path, data, key, headers)))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    reason: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        return msgspec.json.decode(self.body, type=dict[str, object])


def request_bytes(
    method: str,
    path: str,
    body: bytes = b"",
    key: str | None = AGENT_KEY,
    headers: dict[str, str] | None = None,
) -> bytes:
    """A request that asks for the connection to be closed behind it."""
    lines = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": str(len(body))}
    if key is not None:
        lines["Authorization"] = f"Bearer {key}"
    lines.update(headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def read_all(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float
) -> bytes:
    """Read until the other end closes; a connection that stays open is an error."""
    received = b""
    try:
        async with asyncio.timeout(wait_s):
            while chunk := await reader.read(65_536):
                received += chunk
    except ConnectionError:
        pass
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return received


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    _, status, reason = lines[0].split(" ", 2)
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:])
    }
    return Answer(status=int(status), reason=reason, headers=headers, body=body)


def surroundings(record: Callable[[Event], None]) -> Environment:
    """A clock that moves a millisecond per look, and ids that count."""
    ticks = itertools.count(START_NS, 1_000_000)
    ids = itertools.count(1)
    return Environment(
        clock_ns=lambda: next(ticks),
        random_hex=lambda count: f"{next(ids):0{2 * count}x}",
        record=record,
    )


@contextlib.asynccontextmanager
async def running(
    *,
    limits: Limits = LIMITS,
    bindings: tuple[Binding, ...] = (),
    origins: tuple[str, ...] = (),
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Bench]:
    session = MemorySession()
    events: list[Event] = []
    out = surroundings(events.append)
    halted: list[bool] = []
    authenticator = Authenticator(records, bindings, out.now_ms)
    front = MemoryFront(
        (Native(),), session, authenticator, lambda: halted.append(True), pace=Pace()
    )
    listener = Listener(
        front,
        limits=limits,
        rules=HostRules.of((), origins, "127.0.0.1"),
        surroundings=out,
        halt=lambda: halted.append(True),
    )
    bench = Bench(listener, session, events)
    bench.halted = halted
    bench.routes = front.routes
    bench.address = await listener.open_tcp(Address(host="127.0.0.1", port=0), tls)
    try:
        yield bench
    finally:
        await listener.close()


CREATE = {"text": "The office closes at six.", "user_id": "ada"}
