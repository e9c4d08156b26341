"""A made-up protocol, and a gate in memory: what settling is tried against where MCP is not.

The server is a rack of slots. A line such as "put 3 tea" or "clear 3" changes one; it answers
"ok ...", "no ...", or nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext

from policy.model import CandidateId, ChangeKind, Principal, PrincipalId, Tenant
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, GuardedCall, Item, ItemVerdict, UnsettledItem
from proxy.settle.forwarder import Forwarder
from proxy.settle.leftovers import Leftovers
from storage.ground.errors import StoreUnavailable
from tests.unit.proxy.mcp.guarding import MemoryGuard

AGENT = Principal(principal_id=PrincipalId("agent-1"), tenant=Tenant("default"))
SERVER = "rack"


def change_of(slot: str, text: str | None) -> Item:
    """A text put into a slot, or with None what clears it."""
    return Item(
        change=ChangeKind.CREATE if text else ChangeKind.DELETE,
        arguments="{}",
        pieces=(slot, text) if text else (slot,),
        key=slot,
    )


class Rack:
    """Implements `proxy.settle.leftovers.Backend[str]`, and is the server itself."""

    def __init__(self) -> None:
        self.slots: dict[str, str] = {}
        self.lines: list[str] = []  # everything that would change it, as it came
        self.reads = 0
        self.ready = True
        self.deaf = False  # nothing reaches it
        self.silent = False  # it does what it is told, and its answers are lost
        self.unreadable = False  # reads tell nothing
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.reached = asyncio.Event()

    async def is_ready(self) -> bool:
        return self.ready

    async def send(self, item: UnsettledItem) -> str | None:
        if not item.key.isdigit():
            raise MalformedRequest("slot: not a number")
        self.reached.set()
        if self.deaf:
            return None
        answer = self.told(item.change, item.pieces)
        await self.may_answer.wait()
        return None if self.silent else answer

    def told(self, change: ChangeKind, pieces: tuple[str, ...]) -> str:
        """What the server does with one line."""
        slot, *text = pieces
        self.lines.append(" ".join(("put" if text else "clear", *pieces)))
        if change is ChangeKind.DELETE:
            self.slots.pop(slot, None)
        elif slot in self.slots:
            return "no room"
        else:
            self.slots[slot] = text[0]
        return "ok"

    def outcome(self, reply: str) -> ForwardStatus:
        return ForwardStatus.DONE if reply.startswith("ok") else ForwardStatus.FAILED

    def turn(self, item: UnsettledItem) -> AbstractAsyncContextManager[None]:
        del item
        return nullcontext()

    async def look_up(self, item: UnsettledItem) -> ForwardStatus | None:
        self.reads += 1
        if self.unreadable:
            return None
        wanted = None if item.change is ChangeKind.DELETE else item.pieces[-1]
        return ForwardStatus.DONE if self.slots.get(item.key) == wanted else ForwardStatus.FAILED


class Gate(MemoryGuard):
    """A gate that keeps intents as the store does: an item to send is given out once.

    `claims` False takes that promise away.
    """

    def __init__(self, *, claims: bool = True) -> None:
        super().__init__()
        self.claims = claims
        self.away = False
        self.asked = 0
        self.intents: dict[CandidateId, UnsettledItem] = {}

    def released(self, number: int, slot: str, text: str | None = "tea") -> CandidateId:
        """A person said yes to a change; it was never sent."""
        return self._intent(number, slot, text, sent=False)

    def lost(self, number: int, slot: str, text: str | None = "tea") -> CandidateId:
        """A change was sent some time ago, and nobody heard what became of it."""
        return self._intent(number, slot, text, sent=True)

    async def settle(
        self,
        principal: Principal,
        server: str,
        settled: tuple[tuple[CandidateId, ForwardStatus], ...],
    ) -> None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("the gate is away")
        assert server == SERVER
        for candidate_id, state in settled:
            if state is not ForwardStatus.UNKNOWN:
                self.intents.pop(candidate_id, None)
        await super().settle(principal, server, settled)

    async def unsettled(self, principal: Principal, server: str) -> tuple[UnsettledItem, ...]:
        if self.away:
            raise StoreUnavailable("the gate is away")
        given = tuple(self.intents.values())
        for one in given if self.claims else ():
            self._intent(int(one.candidate_id, 16), one.key, _text(one), sent=True)
        return given

    def _intent(self, number: int, slot: str, text: str | None, *, sent: bool) -> CandidateId:
        item, candidate_id = change_of(slot, text), CandidateId(f"{number:032x}")
        self.intents[candidate_id] = UnsettledItem(
            candidate_id=candidate_id,
            tool="line",
            change=item.change,
            arguments=item.arguments,
            pieces=item.pieces,
            key=item.key,
            sent=sent,
        )
        return candidate_id


def _text(one: UnsettledItem) -> str | None:
    return None if one.change is ChangeKind.DELETE else one.pieces[-1]


class Desk:
    """One connection to the rack: what a front of that protocol would hold."""

    def __init__(
        self,
        gate: Gate,
        rack: Rack,
        turn: asyncio.Lock | None = None,
        *,
        answer_seconds: float = 60.0,
    ) -> None:
        self.gate, self.rack = gate, rack
        self.jobs: list[asyncio.Task[None]] = []
        self.forwarding = Forwarder(
            gate,
            AGENT,
            SERVER,
            spawn=self._spawn,
            answer_seconds=answer_seconds,
            retry_seconds=0.001,
        )
        self.leftovers = Leftovers(self.forwarding, rack, turn or asyncio.Lock())

    def _spawn(self, job: Coroutine[None, None, None]) -> None:
        self.jobs.append(asyncio.get_running_loop().create_task(job))

    async def rounds(self, count: int) -> None:
        for _ in range(count):
            await self.leftovers.round()

    async def finished(self) -> None:
        """Wait for what goes on beside."""
        await asyncio.wait_for(asyncio.gather(*self.jobs), 10)


def call(*items: Item) -> GuardedCall:
    return GuardedCall(server=SERVER, tool="line", items=items)


def verdict(decision: str, number: int | None) -> ItemVerdict:
    item = change_of("1", "tea")
    return ItemVerdict(
        decision=decision,
        candidate_id=None if number is None else CandidateId(f"{number:032x}"),
        memory_class=item.memory_class,
        observation="",
    )
