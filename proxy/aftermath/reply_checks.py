"""Holds finished replies of a model against anchors, and hides the memories that made one wrong.

A reply that contradicts an anchor opens a case only where a memory in its request contradicts the
same anchor: otherwise the model said it of its own. The next request of the same principal waits
until the case has ended, so that the memory's text is taken out of that request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from policy.after.signals import SignalKind
from policy.model import MemoryId, PrincipalId, Tenant  # noqa: TC001 - msgspec reads it
from proxy.aftermath.rule_watch import going_on
from proxy.seams.cases import RULES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from policy.model import Principal
    from proxy.aftermath.rule_signals import RuleSignals
    from proxy.aftermath.screening import KnownRules
    from storage.interfaces import MemoryReader

REPLIES_MAX: Final = 256
"""How many replies wait to be looked at; further ones are not looked at."""
SETTLED_S: Final = 10.0
"""How long a request waits for the replies before it."""


class FinishedReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said in one reply, and the memories in its request."""

    tenant: Tenant
    principal_id: PrincipalId
    reply_id: str
    said: tuple[str, ...]
    memory_ids: tuple[MemoryId, ...]


class ReplyChecks:
    """Implements `ChecksReplies`; rules are tried on another thread."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        rules: KnownRules,
        signals: RuleSignals,
        over: Callable[[str], Awaitable[None]],
    ) -> None:
        """`over` waits until a case goes no further without a person."""
        self._reader = reader
        self._rules = rules
        self._signals = signals
        self._over = over
        self._waiting: deque[FinishedReply] = deque()
        self._wake = asyncio.Event()
        # By principal, the event that is set when none of its replies waits any more.
        self._settled: dict[PrincipalId, asyncio.Event] = {}

    def replied(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
    ) -> None:
        """Note what a model said in a finished reply; see `ChecksReplies`."""
        if len(self._waiting) < REPLIES_MAX and self._rules.of(principal.tenant) is not None:
            self._waiting.append(
                FinishedReply(
                    tenant=principal.tenant,
                    principal_id=principal.principal_id,
                    reply_id=reply_id,
                    said=said,
                    memory_ids=memory_ids,
                )
            )
            self._settled.setdefault(principal.principal_id, asyncio.Event())
            self._wake.set()

    async def settled(self, principal: Principal) -> None:
        """Wait until the replies to this principal are looked at; see `ChecksReplies`."""
        settled = self._settled.get(principal.principal_id)
        if settled is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLED_S):
                    await settled.wait()

    @asynccontextmanager
    async def checking(self) -> AsyncGenerator[None]:
        """Look at replies while the block runs."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._for_ever())
            try:
                yield
            finally:
                task.cancel()

    async def _for_ever(self) -> None:
        while True:
            await self._wake.wait()
            while self._waiting:
                reply = self._waiting[0]
                await going_on(self._look_at(reply))
                self._waiting.popleft()
                if not any(one.principal_id == reply.principal_id for one in self._waiting):
                    self._settled.pop(reply.principal_id).set()
            self._wake.clear()

    async def _look_at(self, reply: FinishedReply) -> None:
        for rule_id in await asyncio.to_thread(self._failing, reply):
            if self._signals.may_open(reply.tenant, rule_id):
                _, case_id = await self._signals.signal(
                    SignalKind.ANCHOR, reply.tenant, rule_id, RULES, reply_id=reply.reply_id
                )
                await self._over(case_id)

    def _failing(self, reply: FinishedReply) -> tuple[str, ...]:
        """The anchors that both the reply and a memory in its request contradict."""
        rules = self._rules.of(reply.tenant)
        if rules is None:
            return ()
        said = rules.failed_by_reply(reply.said)
        if not said:
            return ()
        found = (self._reader.get(reply.tenant, one) for one in reply.memory_ids)
        held = {rule for one in found if one is not None for rule in rules.failed_by(one)}
        return tuple(one for one in said if one in held)
