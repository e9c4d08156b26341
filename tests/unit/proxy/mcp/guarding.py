"""A guard in memory that keeps the promises of `proxy.seams.guard`, for relays and fronts.

It refuses what holds `EVIL`, holds what holds `ASK`, and admits the rest. What is refused never
gets a state; what is admitted waits for `settle`.
"""

from __future__ import annotations

import asyncio

from policy.model import CandidateId, Principal
from policy.verdict import Reason
from proxy.seams.guard import (
    CallIdentity,
    ForwardStatus,
    GuardedCall,
    Item,
    ItemVerdict,
    PinnedTool,
    PinState,
    RefusedCall,
    RelayedText,
    UnsettledItem,
)
from storage.ground.errors import StoreUnavailable

EVIL = "EVIL"
ASK = "ASK"


class MemoryGuard:
    def __init__(self) -> None:
        self.judged: list[GuardedCall] = []
        self.states: dict[CandidateId, ForwardStatus | None] = {}  # None: admitted, not settled
        self.settled: list[tuple[CandidateId, ForwardStatus]] = []
        self.segments: list[RelayedText] = []
        self.refusals: list[RefusedCall] = []
        self.held: dict[CandidateId, Item] = {}
        self.decisions: dict[CandidateId, ItemVerdict] = {}
        self.withheld: set[str] = set()
        self.relayed: dict[str, str] = {}
        self.ahead: dict[str, tuple[str, tuple[ItemVerdict, ...]]] = {}
        self.waiting: list[UnsettledItem] = []
        self.pins: tuple[PinnedTool, ...] | None = None
        self.approved = True
        self.pinned = 0
        self.broken = False
        self.sift_broken = False
        self.settle_broken = False
        self.changed = asyncio.Condition()
        # Cleared: a verdict waits until it is set.
        self.may_judge = asyncio.Event()
        self.may_judge.set()
        self.judging = asyncio.Event()

    async def judge(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        self._check()
        self.judged.append(call)
        self.judging.set()
        await self.may_judge.wait()
        return tuple(self._verdict(item) for item in call.items)

    async def judge_ahead(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        return await self.judge(principal, call)

    def server_of(self, principal: Principal, host_name: str) -> str | None:
        return self.relayed.get(host_name)

    def joined(self, principal: Principal, made: CallIdentity) -> bool:
        return made.call_id in self.ahead

    async def hand_over(
        self,
        principal: Principal,
        made: CallIdentity,
        call: GuardedCall,
        judged: tuple[ItemVerdict, ...],
    ) -> None:
        self.ahead[made.call_id] = call.server, judged

    def handed_over(self, principal: Principal) -> frozenset[str]:
        return frozenset(self.ahead)

    async def ended(self, principal: Principal, call_id: str, state: ForwardStatus) -> None:
        server, judged = self.ahead[call_id]
        settled = tuple((one.candidate_id, state) for one in judged if one.candidate_id is not None)
        await self.settle(principal, server, settled)
        del self.ahead[call_id]

    async def claim(self, principal: Principal, server: str, candidate_id: CandidateId) -> bool:
        self._check()
        mine = [one for one in self.waiting if one.candidate_id == candidate_id]
        self.waiting = [one for one in self.waiting if one.candidate_id != candidate_id]
        return bool(mine)

    async def settle(
        self,
        principal: Principal,
        server: str,
        settled: tuple[tuple[CandidateId, ForwardStatus], ...],
    ) -> None:
        self._check(broken=self.settle_broken)
        for candidate_id, state in settled:
            self.settled.append((candidate_id, state))
            self.states[candidate_id] = state
        async with self.changed:
            self.changed.notify_all()

    async def has_settled(self, count: int) -> None:
        """Wait until so many items were settled."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: len(self.settled) >= count), 10)

    async def sift(
        self,
        principal: Principal,
        server: str,
        strings: tuple[str, ...],
        seen: RelayedText | None = None,
    ) -> tuple[bool, ...]:
        self._check(broken=self.sift_broken)
        flags = tuple(any(hidden in text for hidden in self.withheld) for text in strings)
        if seen is not None and seen.texts and not any(flags):
            await self.saw(principal, seen)
        return flags

    async def refused(self, principal: Principal, call: RefusedCall) -> None:
        self._check()
        self.refusals.append(call)

    async def saw(self, principal: Principal, segment: RelayedText) -> None:
        self._check()
        self.segments.append(segment)

    async def pin(
        self, principal: Principal, server: str, tools: tuple[PinnedTool, ...]
    ) -> PinState:
        self.pinned += 1
        self._check()
        if self.pins is None:
            self.pins = tools
        changed = tuple(sorted({tool.name for tool in set(tools) ^ set(self.pins)}))
        return PinState(approved=not changed and self.approved, changed=changed)

    async def unsettled(self, principal: Principal, server: str) -> tuple[UnsettledItem, ...]:
        self._check()
        given, self.waiting = tuple(self.waiting), []
        return given

    async def decided(self, principal: Principal, candidate_id: CandidateId) -> ItemVerdict:
        self._check()
        return self.decisions[candidate_id]

    def _check(self, *, broken: bool = False) -> None:
        if self.broken or broken:
            raise StoreUnavailable("the disk is gone")

    def _verdict(self, item: Item) -> ItemVerdict:
        candidate_id = CandidateId(f"{len(self.states) + len(self.held) + 1:032x}")
        words = " ".join((*item.pieces, item.key))
        if EVIL in words:
            return ItemVerdict(
                decision="reject",
                candidate_id=candidate_id,
                memory_class=item.memory_class,
                observation="not stored: directive_language",
                reason=Reason.DIRECTIVE_LANGUAGE,
                step=2,
            )
        if ASK in words:
            self.held[candidate_id] = item
            judged = ItemVerdict(
                decision="hold",
                candidate_id=candidate_id,
                memory_class=item.memory_class,
                observation="not stored yet: it waits for a person",
                reason=Reason.CLASS_FLOOR,
                step=1,
                confirm_url=f"http://127.0.0.1:7078/review/{candidate_id}",
            )
            self.decisions[candidate_id] = judged
            return judged
        self.states[candidate_id] = None
        return ItemVerdict(
            decision="admit",
            candidate_id=candidate_id,
            memory_class=item.memory_class,
            observation="",
        )

    def deny(self) -> None:
        """A person said no to everything held."""
        for candidate_id, item in self.held.items():
            self.decisions[candidate_id] = ItemVerdict(
                decision="reject",
                candidate_id=candidate_id,
                memory_class=item.memory_class,
                observation="Not stored (denied_by_person).",
                reason=Reason.DENIED_BY_PERSON,
            )
        self.held.clear()

    def release(self, candidate_id: CandidateId, tool: str) -> None:
        """A person said yes to a held item."""
        item = self.held.pop(candidate_id)
        self.states[candidate_id] = None
        self.decisions[candidate_id] = ItemVerdict(
            decision="admit",
            candidate_id=candidate_id,
            memory_class=item.memory_class,
            observation="",
        )
        self.waiting.append(_unsettled(candidate_id, tool, item, sent=False))

    def lose(self, candidate_id: CandidateId, call: GuardedCall) -> None:
        """What went with this call is to be looked up."""
        (item,) = call.items
        self.waiting.append(_unsettled(candidate_id, call.tool, item, sent=True))


def _unsettled(candidate_id: CandidateId, tool: str, item: Item, *, sent: bool) -> UnsettledItem:
    return UnsettledItem(
        candidate_id=candidate_id,
        tool=tool,
        change=item.change,
        arguments=item.arguments,
        pieces=item.pieces,
        key=item.key,
        sent=sent,
    )
