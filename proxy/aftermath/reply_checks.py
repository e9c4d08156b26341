"""Compares a model's finished replies with anchors, and hides the memories that made a reply wrong.

A reply that contradicts an anchor opens a case only if a memory in its request contradicts the same
anchor, because otherwise no memory caused the reply. A reply is checked before it is shown
(`wrong`) or afterwards (`replied`). In the second case the next request of the same principal waits
until the case has ended, so that the memory's text is removed from that request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Final

import msgspec

from policy.after.matchers import SignalKind
from policy.bounded import Bounded
from policy.model import Memory, MemoryId, Principal, PrincipalId, Tenant
from proxy.aftermath.blame_search import BlameSearch
from proxy.aftermath.rule_signals import RuleSignals
from proxy.aftermath.rule_watch import going_on
from proxy.seams.cases import RULES, WrongReply
from proxy.seams.waits import beside
from proxy.withhold.screens import KnownRules, TenantRules
from storage.interfaces import MemoryReader

REPLIES_MAX: Final = 256
"""How many replies may wait for their check; further replies are not checked."""
REPLIES_OF_ONE_MAX: Final = 32
"""How many replies to one principal may wait for their check, or for the end of their cases."""
SETTLED_S: Final = 10.0
"""How long one request waits for the checks of earlier replies; later requests do not wait."""
HEALED_S: Final = 10.0
"""How long a reply that is not shown yet is delayed at most until its cases end."""
_LOOKED_AT_MAX: Final = 4_096


class FinishedReply(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of one finished reply of a model, and the ids of the memories in its request."""

    tenant: Tenant
    principal_id: PrincipalId
    reply_id: str
    said: tuple[str, ...]
    memory_ids: tuple[MemoryId, ...]


class _Unsettled:
    """Counts the replies to one principal that were not checked, or whose cases have not ended."""

    def __init__(self) -> None:
        self.left_count = 0
        self.over = asyncio.Event()


class ReplyChecks:
    """Checks replies before (`HealsReplies`) and after (`ChecksReplies`) they are shown."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        rules: KnownRules,
        signals: RuleSignals,
        cases: BlameSearch,
    ) -> None:
        self._reader = reader
        self._rules = rules
        self._signals = signals
        self._cases = cases
        self._waiting: deque[tuple[FinishedReply, _Unsettled]] = deque()
        self._wake = asyncio.Event()
        self._unsettled: dict[PrincipalId, _Unsettled] = {}
        # The newest replies that were checked before they were shown, so that `replied` skips them.
        self._looked_at = Bounded[bytes, None](_LOOKED_AT_MAX)
        # A mapping of tenant, anchor and a row's ordinal to the newest case about them.
        self._case_ids = Bounded[tuple[Tenant, str, int], str](_LOOKED_AT_MAX)
        self.dropped_count = 0
        """How many replies were not checked, because too many were waiting."""

    # ---- replies that were shown already ---------------------------------------------------------

    def replied(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
    ) -> None:
        """Queue a reply that was shown for its check, and return at once; see `ChecksReplies`."""
        principal_id = principal.principal_id
        reply = _finished(principal, reply_id, said, memory_ids)
        if self._rules.of(principal.tenant) is None or _mark_of(reply) in self._looked_at:
            return
        unsettled = self._unsettled.get(principal_id) or _Unsettled()
        if len(self._waiting) >= REPLIES_MAX or unsettled.left_count >= REPLIES_OF_ONE_MAX:
            self.dropped_count += 1
            return
        unsettled.left_count += 1
        self._unsettled[principal_id] = unsettled
        self._waiting.append((reply, unsettled))
        self._wake.set()

    async def settled(self, principal: Principal) -> None:
        """Wait until the replies to this principal are checked and their cases have ended."""
        unsettled = self._unsettled.get(principal.principal_id)
        if unsettled is None:
            return
        try:
            async with asyncio.timeout(SETTLED_S):
                await unsettled.over.wait()
        except TimeoutError:
            # A slow search delays one request only, so the next requests do not wait for it.
            if self._unsettled.get(principal.principal_id) is unsettled:
                del self._unsettled[principal.principal_id]

    @asynccontextmanager
    async def checking(self) -> AsyncGenerator[None]:
        """Check queued replies while the block runs."""
        async with beside(self._for_ever()):
            yield

    async def _for_ever(self) -> None:
        # A task of its own waits for the end of each case, so that a slow case delays no other
        # reply.
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wake.wait()
                while self._waiting:
                    reply, unsettled = self._waiting.popleft()
                    opened: list[str] = []
                    await going_on(self._look_at(reply, opened))
                    if opened:
                        group.create_task(self._until_over(reply, unsettled, opened))
                    else:
                        self._looked(reply, unsettled)
                self._wake.clear()

    async def _look_at(self, reply: FinishedReply, opened: list[str]) -> None:
        _, by_rule = await asyncio.to_thread(self._failing, reply)
        opened += await self._opened(reply, by_rule)

    async def _until_over(
        self, reply: FinishedReply, unsettled: _Unsettled, case_ids: list[str]
    ) -> None:
        for case_id in case_ids:
            await self._cases.over(case_id)
        self._looked(reply, unsettled)

    def _looked(self, reply: FinishedReply, unsettled: _Unsettled) -> None:
        unsettled.left_count -= 1
        if not unsettled.left_count:
            unsettled.over.set()
            if self._unsettled.get(reply.principal_id) is unsettled:
                del self._unsettled[reply.principal_id]

    # ---- replies that are not shown yet ----------------------------------------------------------

    async def has_suspects(self, principal: Principal, memory_ids: tuple[MemoryId, ...]) -> bool:
        """Whether one of these memories contradicts an anchor of a higher label."""
        rules = self._rules.of(principal.tenant)
        if rules is None or not memory_ids:
            return False
        by_rule = await asyncio.to_thread(self._suspects, rules, principal.tenant, memory_ids)
        return bool(by_rule)

    async def wrong(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
        note: Callable[[], None],
    ) -> WrongReply | None:
        """Check a reply that is not shown yet; return what is wrong with it, or None."""
        reply = _finished(principal, reply_id, said, memory_ids)
        # If the check raises an error, the reply is not marked as checked, so that it is checked
        # again after it was shown.
        told = await self._verdict(reply, note)
        if reply_id:
            self._looked_at[_mark_of(reply)] = None
        return told

    async def _verdict(self, reply: FinishedReply, note: Callable[[], None]) -> WrongReply | None:
        failed, by_rule = await asyncio.to_thread(self._failing, reply)
        if not by_rule:
            return WrongReply(why="no_memory") if failed else None
        note()
        opened = await self._opened(reply, by_rule)
        if not opened:
            return WrongReply(why="day_full")
        try:
            async with asyncio.timeout(HEALED_S):
                for case_id in opened:
                    await self._cases.over(case_id)
        except TimeoutError:
            return WrongReply(case_id=opened[0], why="too_late")
        _, left = await asyncio.to_thread(self._failing, reply)
        if left:
            return WrongReply(case_id=opened[0], why="needs_person")
        return WrongReply(case_id=opened[0], mended=True)

    async def still_wrong(self, case_id: str) -> None:
        """Mark a case as needing a person, because hiding its culprits did not help."""
        await self._cases.still_wrong(case_id)

    # ---- what both have in common ----------------------------------------------------------------

    async def _opened(self, reply: FinishedReply, by_rule: dict[str, list[Memory]]) -> list[str]:
        """Open cases for a wrong reply, within the daily limits; return the ids of its cases."""
        opened: list[str] = []
        for rule_id, memories in by_rule.items():
            # A repeated request finds the case of the first one, so that it does not count towards
            # the anchor's limit of the day again.
            known = await self._known_cases(reply.tenant, rule_id, memories)
            if known:
                opened += known
            elif self._signals.writer_with_room(reply.tenant, rule_id, memories, of_reply=True):
                # A reply without an id is not in the recall ledger, so the case names one memory
                # instead.
                _, case_id = await self._signals.signal(
                    SignalKind.ANCHOR,
                    reply.tenant,
                    rule_id,
                    RULES,
                    reply_id=reply.reply_id,
                    memory_id="" if reply.reply_id else memories[0].memory_id,
                )
                opened += [case_id] if case_id else []
                for one in memories if case_id else ():
                    self._case_ids[(reply.tenant, rule_id, one.ordinal)] = case_id
        return opened

    async def _known_cases(self, tenant: Tenant, rule_id: str, memories: list[Memory]) -> list[str]:
        """The cases of an anchor about these memories; none unless each one is unfinished."""
        known = [self._case_ids.get((tenant, rule_id, one.ordinal), "") for one in memories]
        case_ids = list(dict.fromkeys(known))
        for case_id in case_ids:
            if not case_id or not await self._cases.unfinished(case_id):
                return []
        return case_ids

    def _failing(self, reply: FinishedReply) -> tuple[tuple[str, ...], dict[str, list[Memory]]]:
        """The anchors that a reply contradicts, and its request's memories that contradict them."""
        rules = self._rules.of(reply.tenant)
        said = () if rules is None else rules.failed_by_reply(reply.said)
        if rules is None or not said:
            return said, {}
        held = self._suspects(rules, reply.tenant, reply.memory_ids)
        return said, {one: held[one] for one in said if one in held}

    def _suspects(
        self, rules: TenantRules, tenant: Tenant, memory_ids: Iterable[MemoryId]
    ) -> dict[str, list[Memory]]:
        """A mapping of each anchor to the memories of a lower label that contradict it."""
        by_rule: dict[str, list[Memory]] = {}
        for memory_id in memory_ids:
            memory = self._reader.get(tenant, memory_id)
            if memory is not None:
                for rule_id in rules.failed_by(memory):
                    by_rule.setdefault(rule_id, []).append(memory)
        return by_rule


def _mark_of(reply: FinishedReply) -> bytes:
    """A hash that identifies a reply: of its words too, because a provider may use an id twice."""
    return blake2b(msgspec.msgpack.encode(reply), digest_size=16).digest()


def _finished(
    principal: Principal, reply_id: str, said: tuple[str, ...], memory_ids: tuple[MemoryId, ...]
) -> FinishedReply:
    return FinishedReply(
        tenant=principal.tenant,
        principal_id=principal.principal_id,
        reply_id=reply_id,
        said=said,
        memory_ids=memory_ids,
    )
