"""Checks in the background whether memories that reads show fail registered anchors or canaries.

Memories that a read shows or leaves out are compared with the tenant's anchors after the answer was
sent. Canaries are run again after commits, which may change what their questions find, and at a
fixed interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from policy.after.matchers import SignalKind
from policy.model import Memory, MemoryId, Tenant
from policy.verdict import InvariantBroken
from proxy.aftermath.canaries import Canaries
from proxy.aftermath.rule_signals import RuleSignals
from proxy.seams.cases import RULES
from proxy.seams.environment import Environment
from proxy.seams.waits import beside
from proxy.withhold.screens import KnownRules, TenantRules
from storage.interfaces import MemoryReader
from storage.values import Anchor

_LOG: Final = logging.getLogger("mnemogate.aftermath")
READS_MAX: Final = 1_000
"""How many reads may wait for their check; further reads are skipped until a later read."""
LOOK_S: Final = 10.0
"""Seconds between two checks whether a commit may have changed what canaries find."""
CANARIES_MAX: Final = 64
"""How many canaries are run at one such check; the other canaries follow at the next checks."""


class ShownRead(msgspec.Struct, frozen=True, kw_only=True):
    """The memories of one read; `recall_id` is "" if the recall ledger lacks the read."""

    tenant: Tenant
    recall_id: str
    memories: tuple[Memory, ...]
    # The id of a further memory, which the check reads from the store.
    memory_id: MemoryId | None = None


class RuleWatch:
    """Checks shown memories in the background. Event loop only; rules run on other threads."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        rules: KnownRules,
        signals: RuleSignals,
        canaries: Canaries | None,
        surroundings: Environment,
        canary_seconds: float,
    ) -> None:
        """`canary_seconds` separates two rounds of all canaries; 0: only operators run them."""
        self._reader = reader
        self.rules = rules
        self.signals = signals
        self._canaries = canaries
        self._out = surroundings
        self._every_ms = int(canary_seconds * 1_000)
        # Canaries of the present round that were not run yet; the time at which the round began,
        # and the version of the store at that time.
        self._left: deque[Anchor] = deque()
        self._asked_ms, self._asked_at = surroundings.now_ms(), -1
        self._reads: deque[ShownRead] = deque()
        self._ready = asyncio.Event()

    def shown(self, tenant: Tenant, recall_id: str, memories: tuple[Memory, ...]) -> None:
        """Queue the memories that a read showed or left out for their check, and return at once."""
        if memories and len(self._reads) < READS_MAX:
            self._reads.append(ShownRead(tenant=tenant, recall_id=recall_id, memories=memories))
            self._ready.set()

    def left_out(self, tenant: Tenant, memory_id: MemoryId) -> None:
        """Queue a memory that a server's answer left out for its check, and return at once."""
        if len(self._reads) < READS_MAX:
            self._reads.append(
                ShownRead(tenant=tenant, recall_id="", memories=(), memory_id=memory_id)
            )
            self._ready.set()

    @property
    def waiting(self) -> int:
        """How many reads are not checked yet, including the read that is being checked."""
        return len(self._reads)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Check queued reads while the block runs."""
        async with beside(self._reads_for_ever()):
            yield

    async def _reads_for_ever(self) -> None:
        while True:
            await self._ready.wait()
            while self._reads:
                await going_on(self._look_at(self._reads[0]))
                self._reads.popleft()
            self._ready.clear()

    async def _look_at(self, read: ShownRead) -> None:
        rules = self.rules.of(read.tenant)
        if rules is None:
            return
        # A row for which a case was opened opens no second one, because a person may still have to
        # decide.
        by_rule = await asyncio.to_thread(self._failing, read, rules)
        for rule_id, found in by_rule.items():
            writer = self.signals.writer_with_room(read.tenant, rule_id, found)
            if writer is None:
                continue
            # A read that is not in the recall ledger is no evidence, so the case names one memory
            # instead.
            of_writer = [one for one in found if one.principal_id == writer]
            accused = found if read.recall_id else of_writer[:1]
            await self.signals.signal(
                SignalKind.ANCHOR,
                read.tenant,
                rule_id,
                RULES,
                recall_id=read.recall_id,
                memory_id=accused[0].memory_id,
            )
            rules.told.update(one.ordinal for one in accused)

    def _failing(self, read: ShownRead, rules: TenantRules) -> dict[str, list[Memory]]:
        """A mapping of an anchor of a higher label to failing memories that have no case yet."""
        found = list(read.memories)
        if read.memory_id is not None:
            memory = self._reader.get(read.tenant, read.memory_id)
            found += () if memory is None else (memory,)
        by_rule: dict[str, list[Memory]] = {}
        for one in found:
            rule_ids = () if one.ordinal in rules.told else rules.failed_by(one)
            if rule_ids:
                by_rule.setdefault(rule_ids[0], []).append(one)
        return by_rule

    async def ask_canaries(self) -> None:
        """Run the canaries that are due: all of them after a commit, and once in every interval."""
        if self._canaries is None:
            return
        now_ms, now_at = self._out.now_ms(), self._reader.status().version
        is_due = now_at != self._asked_at or now_ms - self._asked_ms >= self._every_ms
        if not self._left and is_due:
            self._left.extend(await asyncio.to_thread(self._reader.canaries))
            self._asked_at, self._asked_ms = now_at, now_ms
        for _ in range(min(len(self._left), CANARIES_MAX)):
            await going_on(self._canaries.watched(self._left.popleft(), RULES))


async def going_on(work: Coroutine[None, None, object]) -> None:
    """Await `work`; an error in it is logged and opens no case, and the caller continues."""
    try:
        await work
    except InvariantBroken:
        raise
    except Exception as error:  # noqa: BLE001 - nothing is opened, and the watch continues
        _LOG.error("a rule could not be tried", exc_info=error)
