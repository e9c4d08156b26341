"""What one tenant can read says nothing of how much its neighbours wrote."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
import pytest

from policy.gate import GATE
from policy.model import ChangeKind
from proxy.compose.app import Composition
from proxy.guard.client import GuardClient
from proxy.guard.wire import SOCKET
from proxy.intercept import operations
from proxy.seams.operation import (
    FindInGraph,
    GraphOperation,
    GraphResult,
    Operation,
    Proposal,
    ReadGraph,
    Result,
    Search,
    Write,
    WriteResult,
)
from telemetry.exporter import SpanPipe
from tests.integration.otlp_receiver import Received, attributes, otlp_receiver
from tests.integration.recorded import lives
from tests.integration.recorded.recorder import Recorder
from tests.integration.recorded.recording import Recording, Step
from tests.integration.recorded.store_life import StoreClient
from tests.integration.recorded.world import lived
from tests.integration.running import Running, running

PATIENT_S: Final = 60.0
WRITES: Final = 57
# So many of them between the steps, and the others before the first one.
BETWEEN: Final = 20
OTHER: Final = "other"
# Ids, keys, sessions and links are random; what is drawn depends on what others drew before. So are
# the ids of our own requests to a server behind, which are numbers as a client's are.
_RANDOM: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w-])(?=[\w-]*\d)[\w-]{16,}(?![\w-])"
    r'|(?<=\\"id\\":)\d{6,}'
)
_LENGTH: Final = re.compile(r"Content-Length: \d+")


class Neighbour:
    """A tenant that writes whenever somebody else is about to ask, so often and no more."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self._key = ""
        self._on: Running | None = None
        self._last = ""

    async def moves_in(self, on: Running) -> None:
        """Have a key at this sidecar; a life without any of its writes has it as well."""
        self._on = on
        self._key = await on.key("neighbour", tenant=OTHER)
        while self.left > BETWEEN:
            await self.writes()

    async def writes(self) -> None:
        """One more write: an admitted one, a change, a refused one or a deletion, in turn."""
        if not self.left or self._on is None:
            return
        self.left -= 1
        path = f"/v1/memories/{self._last}"
        match self.left % 4:
            case 2 if self._last:
                asked: tuple[str, str, Any] = ("PATCH", path, {"metadata": {"n": self.left}})
            case 1 if self._last:
                asked, self._last = ("DELETE", path, None), ""
            case 0 if self.left % 8 == 0:
                asked = ("POST", "/v1/memories", {"text": "Never.", "class": "L1"})
            case _:
                said = {"text": f"There are {self.left} chairs in the hall.", "user_id": "alice"}
                asked = ("POST", "/v1/memories", said)
        method, path, body = asked
        status, told = await self._on.call(method, path, self._key, body)
        assert status in {200, 201, 403}, told
        if status == 201:
            self._last = told["id"]


class Beside(Recorder):
    """A recorder of a life beside which somebody else writes."""

    neighbour: Neighbour

    async def ask(self, name: str, request: str, body: object = None, **more: Any) -> Any:  # noqa: ANN401
        await self.neighbour.writes()
        return await super().ask(name, request, body, **more)


def folders(base: Path) -> tuple[Path, Path]:
    """Two empty folders, for a life alone and a life in a crowd."""
    both = base / "alone", base / "crowded"
    for folder in both:
        folder.mkdir()
    return both


def beside(name: str, base: Path, writes: int) -> tuple[Recording, Received]:
    """The life of this name, so many writes of another tenant between its steps; and its spans."""
    neighbour = Neighbour(writes)
    send, close = StoreClient.send, SpanPipe.close

    def closes(pipe: SpanPipe) -> None:
        close(pipe, PATIENT_S)  # on a busy machine some spans would be given up else

    async def sends(client: StoreClient, step: str, body: Any) -> None:  # noqa: ANN401
        await neighbour.writes()
        await send(client, step, body)

    @asynccontextmanager
    async def runs(
        base: Path, composed: Composition, *, tables: str = ""
    ) -> AsyncGenerator[Running]:
        # Spans of the steps for every admit: a share is drawn by trace id, which a crowd changes.
        told: dict[str, str | float] = {
            "otel_endpoint": received.url,
            "admit_detail_share": 1.0,
        }
        async with running(base, composed, told, tables) as on:
            await neighbour.moves_in(on)
            yield on

    with (
        otlp_receiver() as received,
        mock.patch.object(Beside, "neighbour", neighbour, create=True),
        mock.patch.object(lives, "Recorder", Beside),
        mock.patch.object(lives, "running", runs),
        mock.patch.object(StoreClient, "send", sends),
        mock.patch.object(SpanPipe, "close", closes),
    ):
        recording = lived(name, lambda world: lives.LIVES[name](base, world, GATE))
    assert not neighbour.left
    return recording, received


class Names:
    """What is random, by the order in which it was first seen."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def plain(self, text: str) -> str:
        return _RANDOM.sub(lambda found: self._name(found[0]), _LENGTH.sub("", text))

    def _name(self, one: str) -> str:
        return self._seen.setdefault(one, f"<{len(self._seen)}>")


def _is_tenants(step: Step) -> bool:
    return not step.name.startswith(("operator.", "health."))


def seen(recording: Recording) -> list[str]:
    """Each step that the life's own clients took, as they and the servers behind saw it."""
    names = Names()
    steps = (step for step in recording.steps if _is_tenants(step))
    return [names.plain(msgspec.json.encode(step).decode()) for step in steps]


def traced(received: Received) -> list[str]:
    """Each span of the life's own tenant, without how long anything took."""
    names = Names()
    own: list[str] = []
    ours = {span.trace_id for span in received.spans if _tenant(span) not in {OTHER, None}}
    for span in received.spans:
        if span.trace_id in ours:
            told = attributes(span.attributes).items()
            shown = sorted((name, value) for name, value in told if not name.endswith("_us"))
            own.append(names.plain(f"{span.name} {shown}"))
    return own


def _tenant(span: Any) -> object:  # noqa: ANN401 - protobuf's
    return attributes(span.attributes).get("mnemogate.tenant")


@pytest.mark.parametrize("name", lives.LIVES)
def test_a_tenant_is_told_the_same_however_much_its_neighbour_writes(
    tmp_path: Path, name: str
) -> None:
    here, there = folders(tmp_path)
    alone, spans_alone = beside(name, here, 0)
    crowded, spans_crowded = beside(name, there, WRITES)
    for one, other in zip(seen(alone), seen(crowded), strict=True):
        assert one == other
    assert len(seen(alone)) > 20
    assert traced(spans_alone) == traced(spans_crowded)
    assert len(traced(spans_alone)) > 20
    grown = len(crowded.leaves) - len(alone.leaves)
    assert grown > WRITES, "control: an operator counts all of it"


async def relayed(base: Path, writes: int) -> list[str]:
    """What a relay of another process is told over the gate's socket, one line per question."""
    names, neighbour = Names(), Neighbour(writes)
    # Both stand: the store takes the later time of the two.
    composed = Composition(clock_ns=lambda: 1_767_225_600_000_000_000, monotonic_ns=lambda: 0)
    async with running(base, composed) as on, GuardClient(on.state / SOCKET) as relay:
        await neighbour.moves_in(on)
        told: list[Result | GraphResult] = []

        async def ask(operation: Operation | GraphOperation) -> Result | GraphResult:
            await neighbour.writes()
            told.append(await relay.perform(operation))
            return told[-1]

        said = Proposal(change=ChangeKind.CREATE, text="Tea is at four.")
        created = await ask(Write(proposals=(said,)))
        assert isinstance(created, WriteResult)
        memory_id = created.items[0].memory_id
        assert memory_id is not None
        gone = Write(proposals=(Proposal(change=ChangeKind.DELETE, memory_id=memory_id),))
        tea, graph, part = Search(query="tea"), ReadGraph(), FindInGraph(names=("Tea",))
        twice = Write(proposals=(said, said))
        for operation in (tea, twice, tea, gone, gone, tea, graph, part):
            await ask(operation)
        return [names.plain(msgspec.json.encode(one).decode()) for one in told]


async def test_a_relay_is_told_the_same_however_much_its_neighbour_writes(tmp_path: Path) -> None:
    alone, crowded = folders(tmp_path)
    told = await relayed(alone, 0)
    assert len(told) == 9
    assert await relayed(crowded, WRITES) == told


async def test_control_with_the_stores_own_numbers_a_relay_counts_its_neighbours_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_it_is(result: Result) -> Result:
        return result

    monkeypatch.setattr(operations, "without_store_numbers", as_it_is)
    alone, crowded = folders(tmp_path)
    assert await relayed(alone, 0) != await relayed(crowded, WRITES)
