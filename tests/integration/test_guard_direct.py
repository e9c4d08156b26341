"""A relay in the gate's own process: asked directly, the gate is who it is at its socket."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from policy.model import CandidateId, ChangeKind, MemoryId
from proxy.cli.mcp import client_of, electing
from proxy.compose.app import Composition
from proxy.guard.client import GuardClient
from proxy.guard.wire import SOCKET
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, PinnedTool, RelayedText
from proxy.seams.operation import ListMemories, Proposal, Write
from proxy.settings.load import load_settings
from storage.ground.errors import StorageError, StoreUnavailable
from storage.interfaces import Store
from storage.values import Outcome, Submission
from tests.integration.running import Running, running
from tests.unit.proxy.guarded import AGENT, GOOD, SERVER, STEERING, TENANT, call, item

_IDS = re.compile(r"[0-9a-f]{32}|[0-9a-f-]{36}|[0-9]{13}|127\.0\.0\.1:[0-9]+|(?<=code=)[\w.~-]+")
TARGET = f"mcp/{SERVER}"
BOUND = """
[[principals]]
id = "desk"
tenant = "acme"
uid = {uid}
"""


@asynccontextmanager
async def directly(
    base: Path, tables: str = "", composition: Composition | None = None
) -> AsyncGenerator[tuple[Running, GuardClient]]:
    async with (
        running(base, composition, tables=tables) as live,
        # Nobody is at that socket, so all that is answered was asked directly.
        GuardClient(base / "nobody.sock", direct=lambda: live.sidecar.direct) as client,
    ):
        yield live, client


@asynccontextmanager
async def at_the_socket(
    base: Path, tables: str = ""
) -> AsyncGenerator[tuple[Running, GuardClient]]:
    async with running(base, tables=tables) as live, GuardClient(live.state / SOCKET) as client:
        yield live, client


async def said(asked: Coroutine[object, object, object]) -> str:
    """What came of a question, without what differs from run to run."""
    try:
        found = repr(await asked)
    except (MalformedRequest, StorageError) as error:
        detail = error.detail if isinstance(error, MalformedRequest) else error
        found = f"{type(error).__name__}: {detail}"
    return _IDS.sub("*", found)


async def conversation(client: GuardClient) -> list[str]:
    """All that a relay may ask, and what none may, as it is answered."""
    many = msgspec.structs.replace(call(item(GOOD)), items=(item(GOOD),) * 257)
    long = msgspec.structs.replace(item(GOOD), key="k" * 2_000)
    tools = (PinnedTool(name="read", digest="0" * 64),)
    other = (PinnedTool(name="read", digest="1" * 64),)
    (admitted,) = await client.judge(AGENT, call(item(GOOD)))
    assert admitted.candidate_id is not None
    settled = ((admitted.candidate_id, ForwardStatus.DONE),)
    nonsense = ((CandidateId("none of that form"), ForwardStatus.DONE),)
    asked = (
        client.sift(AGENT, SERVER, (GOOD, "else")),
        client.settle(AGENT, SERVER, settled),
        client.settle(AGENT, SERVER, nonsense),
        client.sift(AGENT, SERVER, (GOOD, "else")),
        client.judge(AGENT, call(item(STEERING))),
        client.judge(AGENT, many),
        client.judge(AGENT, call(long)),
        client.judge(AGENT, call(item(GOOD, arguments='{"b": 1}'))),
        client.sift(AGENT, SERVER, (STEERING,)),
        client.sift(AGENT, "s" * 300, (GOOD,)),
        client.saw(AGENT, RelayedText(server="web", tool="search", call_id="c", texts=(GOOD,))),
        client.pin(AGENT, SERVER, tools),
        client.pin(AGENT, SERVER, other),
        client.pin(AGENT, SERVER, tools * 2),
        client.pin(AGENT, SERVER, (PinnedTool(name="read", digest="not one"),)),
        client.unsettled(AGENT, SERVER),
        client.decided(AGENT, CandidateId("0" * 32)),
        client.decided(AGENT, CandidateId("../../etc")),
        client.perform(Write(proposals=(Proposal(change=ChangeKind.CREATE, text_after=GOOD),))),
        client.perform(
            Write(proposals=(Proposal(change=ChangeKind.PURGE, memory_id=MemoryId("m")),))
        ),
        client.perform(ListMemories(limit=5)),
    )
    return [_IDS.sub("*", repr(admitted)), *[await said(one) for one in asked]]


@pytest.mark.parametrize("tables", ["", BOUND.format(uid=os.geteuid())], ids=["uid", "bound"])
async def test_both_ways_give_the_same_answers_to_the_same_principal(
    tmp_path: Path, tables: str
) -> None:
    told: list[list[str]] = []
    for way in (at_the_socket, directly):
        base = tmp_path / way.__name__
        base.mkdir()
        async with way(base, tables) as (live, client):
            answers = await conversation(client)
            (held,) = live.sidecar.store.reader.held()
            answers.append(f"{held.tenant}/{held.principal_id}")
        told.append(answers)
    assert told[0] == told[1]
    assert told[1][-1] == ("acme/desk" if tables else f"default/uid:{os.geteuid()}")
    for kind in ("decision='hold'", "MalformedRequest", "UnknownCandidate", "?code=*"):
        assert any(kind in one for one in told[1]), kind


class Stopped:
    """The store's writer; it waits before it takes anything."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.done = asyncio.Event()

    async def submit(self, submission: Submission) -> Outcome:
        self.asked.set()
        await self.go.wait()
        outcome = await self._store.writer.submit(submission)
        self.done.set()
        return outcome


async def test_what_is_admitted_for_a_relay_that_stopped_waiting_is_not_sent(
    tmp_path: Path,
) -> None:
    made: list[Stopped] = []

    def stopped(store: Store) -> Stopped:
        made.append(Stopped(store))
        return made[0]

    async with directly(tmp_path, composition=Composition(placing=stopped)) as (live, client):
        (writer,), forwards = made, live.sidecar.store.forwards
        asked = asyncio.ensure_future(client.judge(AGENT, call(item(GOOD))))
        await writer.asked.wait()
        asked.cancel()
        writer.go.set()
        await writer.done.wait()
        async with asyncio.timeout(30):
            while forwards.pending(TENANT, TARGET):  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0.001)
        (judged,) = await client.judge(AGENT, call(item(GOOD)))
        assert judged.decision == "admit"
        assert forwards.pending(TENANT, TARGET), "the control: who waits has it to send"


async def test_a_wrapper_that_is_the_gate_asks_itself(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "admin": "127.0.0.1:0",
            "state": str(tmp_path / "state"),
            "checkpoint": str(tmp_path / "checkpoint.txt"),
        },
        environment={"HOME": str(tmp_path)},
    )
    async with (
        electing(settings) as election,
        client_of(settings, election) as client,
        GuardClient(settings.state / SOCKET) as other,
    ):
        await election.ready()
        assert await other.sift(AGENT, SERVER, ("a",)) == (False,)
        (settings.state / SOCKET).unlink()
        assert await client.sift(AGENT, SERVER, ("a",)) == (False,)
    with pytest.raises(StoreUnavailable):
        async with GuardClient(settings.state / SOCKET) as other:
            await other.sift(AGENT, SERVER, ("a",))
