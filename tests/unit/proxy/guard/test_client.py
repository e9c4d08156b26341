"""Questions of a relay at the gate's socket: answered to their end, within bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from policy.model import CandidateId, ChangeKind
from proxy.dialects.problem import problem
from proxy.guard.client import GuardClient
from proxy.seams.environment import Environment, RandomPool
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus
from proxy.seams.operation import HttpReply, ListMemories, Proposal, Write
from proxy.settings.table import Limits
from proxy.settle.forwarder import NoGate
from proxy.transport.exchange import AnsweredReply, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener
from proxy.transport.responses import AnswerFailure, attempt
from storage.ground.errors import OutcomeUnknown, StoreUnavailable
from tests.unit.proxy.guarded import AGENT, GOOD, SERVER, call, item

ONE = ((CandidateId("0" * 32), ForwardStatus.DONE),)


class Slow:
    """Answers every question with the same body, once `go` is set."""

    name = "guard"
    routes = frozenset({"guard.any"})

    def __init__(self, body: bytes) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.fails = False
        self.departed = 0
        self.answered = 0
        self.named: list[str] = []
        self._body = body

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        name = incoming.head.path.rpartition("/")[2]
        if name == "presence":
            return AnsweredReply(reply=HttpReply(status=404), route="guard.any")
        self.named.append(name)
        incoming.welcome.gone.tell(self._left)
        done = await attempt(incoming.complete(), lambda: None)
        self.asked.set()
        await self.go.wait()
        if self.fails:
            raise RuntimeError("of its own")
        self.answered += 1
        if isinstance(done, AnswerFailure):
            return AnsweredReply(reply=problem(done.refusal, incoming.answering), route="guard.any")
        return AnsweredReply(reply=HttpReply(status=200, body=self._body), route="guard.any")

    def _left(self) -> None:
        self.departed += 1


@asynccontextmanager
async def served(
    base: Path, front: Slow, *, drain_s: float = 1, body_bytes_max: int = 1 << 20
) -> AsyncGenerator[Path]:
    listener = Listener(
        front,
        limits=msgspec.structs.replace(
            Limits(), drain_seconds=drain_s, body_bytes_max=body_bytes_max
        ),
        rules=HostRules.of((), (), "127.0.0.1"),
        surroundings=Environment(
            clock_ns=lambda: 1_700_000_000_000_000_000,
            random_hex=RandomPool(),
            record=lambda _event: None,
        ),
        halt=lambda: None,
    )
    path = base / "gate.sock"
    await listener.open_unix(path, frozenset({os.geteuid()}), private=True)
    try:
        yield path
    finally:
        await listener.close()


async def test_a_gate_that_ends_answers_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    front = Slow(b"[true]")
    async with GuardClient(tmp_path / "gate.sock") as client:
        async with served(tmp_path, front, drain_s=30):
            asked = asyncio.ensure_future(client.sift(AGENT, SERVER, ("a",)))
            await front.asked.wait()
            asyncio.get_running_loop().call_later(0.01, front.go.set)
        assert await asked == (True,)
        with pytest.raises(StoreUnavailable):
            await client.sift(AGENT, SERVER, ("a",))


async def test_what_outlasts_the_drain_time_is_an_unknown_outcome(tmp_path: Path) -> None:
    front = Slow(b"[]")
    async with GuardClient(tmp_path / "gate.sock") as client:
        async with served(tmp_path, front, drain_s=0.05):
            asked = asyncio.ensure_future(client.judge(AGENT, call(item(GOOD))))
            await front.asked.wait()
        with pytest.raises(OutcomeUnknown):
            await asked


async def test_whoever_stops_waiting_is_known_to_be_gone_and_the_work_goes_on(
    tmp_path: Path,
) -> None:
    front = Slow(b"[]")
    async with served(tmp_path, front) as path, GuardClient(path) as client:
        asked = asyncio.ensure_future(client.judge(AGENT, call(item(GOOD))))
        await front.asked.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        async with asyncio.timeout(10):
            while not front.departed:  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0)
        assert front.answered == 0
        front.go.set()
    assert front.answered == 1


async def test_an_answer_that_does_not_come_in_time_is_an_unknown_outcome(tmp_path: Path) -> None:
    front = Slow(b"[]")
    async with (
        served(tmp_path, front, drain_s=0.05) as path,
        GuardClient(path, answer_s=0.01) as client,
    ):
        with pytest.raises(OutcomeUnknown):
            await client.judge(AGENT, call(item(GOOD)))


async def test_a_question_is_bounded(tmp_path: Path) -> None:
    front = Slow(b"[false]")
    front.go.set()
    async with served(tmp_path, front, body_bytes_max=1_000) as path, GuardClient(path) as client:
        assert await client.sift(AGENT, SERVER, ("a" * 900,)) == (False,)
        with pytest.raises(MalformedRequest, match="too large"):
            await client.sift(AGENT, SERVER, ("a" * 1_000,))


async def test_a_front_that_breaks_costs_its_own_question_only(tmp_path: Path) -> None:
    front = Slow(b"[false]")
    front.go.set()
    async with served(tmp_path, front) as path, GuardClient(path) as client:
        front.fails = True
        with pytest.raises((OutcomeUnknown, StoreUnavailable)):
            await client.judge(AGENT, call(item(GOOD)))
        front.fails = False
        assert await client.sift(AGENT, SERVER, ("a",)) == (False,)


class Starts:
    """Starts a gate at a path when it is asked to, if it may."""

    def __init__(self, base: Path, front: Slow) -> None:
        self.base = base
        self.front = front
        self.asked: list[bool] = []
        self.why = ""
        self.stop = asyncio.Event()
        self.up = asyncio.Event()

    async def run(self) -> None:
        async with served(self.base, self.front):
            self.up.set()
            await self.stop.wait()

    async def __call__(self, *, again: bool) -> None:
        self.asked.append(again)
        if self.why:
            raise NoGate(self.why)
        await self.up.wait()


async def test_a_question_that_reaches_no_gate_has_one_started_and_is_asked_then(
    tmp_path: Path,
) -> None:
    front = Slow(b"[false]")
    front.go.set()
    starts = Starts(tmp_path, front)
    async with (
        asyncio.TaskGroup() as group,
        GuardClient(tmp_path / "gate.sock", bring_up=starts) as client,
    ):
        asked = asyncio.ensure_future(client.sift(AGENT, SERVER, ("a",)))
        await asyncio.sleep(0)
        assert not asked.done(), "nothing is passed while the gate starts"
        group.create_task(starts.run())
        assert await asked == (False,)
        assert starts.asked[0] is False
        starts.stop.set()


async def test_why_there_is_no_gate_is_the_reason_of_the_refusal(tmp_path: Path) -> None:
    starts = Starts(tmp_path, Slow(b"[]"))
    starts.why = "the disk is full"
    async with GuardClient(tmp_path / "gate.sock", bring_up=starts) as client:
        with pytest.raises(NoGate, match="the disk is full"):
            await client.judge(AGENT, call(item(GOOD)))


@pytest.mark.parametrize("kind", ["judge", "write", "settle", "read"])
async def test_of_lost_answers_only_what_counts_once_is_asked_for_again(
    tmp_path: Path, kind: str
) -> None:
    asked: list[str] = []

    async def lose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take whole questions, and close the connection in place of the first answer."""
        line = (await reader.readline()).decode()
        asked.append(line.split()[1].rpartition("/")[2])
        await reader.readuntil(b"\r\n\r\n")
        if len([name for name in asked if name != "presence"]) > 1:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    path = tmp_path / "gate.sock"
    write = Write(proposals=(Proposal(change=ChangeKind.CREATE, text=GOOD),))
    async with await asyncio.start_unix_server(lose, path), GuardClient(path) as client:
        asking: dict[str, Callable[[], Awaitable[object]]] = {
            "judge": lambda: client.judge(AGENT, call(item(GOOD))),
            "write": lambda: client.perform(write),
            "settle": lambda: client.settle(AGENT, SERVER, ONE),
            "read": lambda: client.perform(ListMemories(limit=5)),
        }
        if kind == "settle":
            await asking[kind]()
        else:
            why = "cannot be read" if kind == "read" else "went away"
            with pytest.raises(OutcomeUnknown, match=why):
                await asking[kind]()
    named = [name for name in asked if name != "presence"]
    assert len(named) == (1 if kind in {"judge", "write"} else 2)
