"""Watches, off every path, whether memories that agents are shown fail what operators registered.

Memories that a read shows are held against the tenant's anchors after the answer left. Canaries are
asked again when a commit may have changed what their questions find, and every so often.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from policy.after.rule_judge import RuleJudge
from policy.after.signals import SignalKind
from policy.model import PrincipalId
from policy.verdict import InvariantBroken
from proxy.aftermath.rule_signals import judged_memory, rules_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

    from policy.after.rule_judge import Failing
    from policy.model import Memory, Tenant
    from proxy.aftermath.canaries import Canaries
    from proxy.aftermath.rule_signals import RuleSignals
    from proxy.seams.surroundings import Surroundings
    from storage.interfaces import MemoryReader
    from storage.values import Anchor

_LOG: Final = logging.getLogger("mnemogate.aftermath")
RULES: Final = PrincipalId("mnemogate:rules")
READS_MAX: Final = 1_000
"""How many reads wait to be looked at; further ones are left out, and their memories come again."""
LOOK_S: Final = 10.0
"""Seconds between two looks at whether commits may have changed what canaries find."""
CANARIES_MAX: Final = 64
"""How many canaries are asked at one look; the others have their turn at the next ones."""

_TENANTS_MAX: Final = 64
_SEEN_MAX: Final = 50_000


class ShownRead(msgspec.Struct, frozen=True, kw_only=True):
    """One read's memories; `recall_id` is "" where the ledger did not keep the read."""

    tenant: Tenant
    recall_id: str
    memories: tuple[Memory, ...]


class _Known:
    """The rules of one tenant's anchors, and the rows that these rules have no more to say of."""

    def __init__(self, anchors: tuple[Anchor, ...]) -> None:
        self.anchors = anchors
        self.judge = RuleJudge(rules_of(anchors))
        self.seen: set[int] = set()


class RuleWatch:
    """Looks at what is shown. `shown` on the event loop; rules are tried on another thread."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        signals: RuleSignals,
        canaries: Canaries | None,
        surroundings: Surroundings,
        canary_seconds: float,
    ) -> None:
        """`canary_seconds`: between two rounds of all canaries; 0: only an operator asks them."""
        self._reader = reader
        self._signals = signals
        self._canaries = canaries
        self._out = surroundings
        self._every_ms = int(canary_seconds * 1_000)
        self._reads: deque[ShownRead] = deque()
        self._ready = asyncio.Event()
        self._known: dict[Tenant, _Known] = {}

    def shown(self, tenant: Tenant, recall_id: str, memories: tuple[Memory, ...]) -> None:
        """These memories were shown by a read. Never waits."""
        if memories and len(self._reads) < READS_MAX:
            self._reads.append(ShownRead(tenant=tenant, recall_id=recall_id, memories=memories))
            self._ready.set()

    @property
    def waiting(self) -> int:
        """How many reads were not looked at yet, or are looked at now."""
        return len(self._reads)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Look at what is shown, and ask canaries, while the block runs."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._reads_for_ever())]
            if self._canaries is not None and self._every_ms:
                tasks.append(group.create_task(self._canaries_for_ever(self._canaries)))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _reads_for_ever(self) -> None:
        while True:
            await self._ready.wait()
            while self._reads:
                await _going_on(self._look_at(self._reads[0]))
                self._reads.popleft()
            self._ready.clear()

    async def _look_at(self, read: ShownRead) -> None:
        failing = await asyncio.to_thread(self._failing, read)
        ordinals = {one.memory_id: one.ordinal for one in read.memories}
        by_rule: dict[str, list[Failing]] = {}
        for one in failing:
            by_rule.setdefault(one.rule_ids[0], []).append(one)
        for rule_id, found in by_rule.items():
            if not self._signals.may_open(read.tenant, rule_id):
                _LOG.warning("a rule has opened its cases of the day")
                continue
            # A read that the ledger did not keep is no evidence: then one memory is accused.
            accused = found if read.recall_id else found[:1]
            await self._signals.signal(
                SignalKind.ANCHOR,
                read.tenant,
                rule_id,
                RULES,
                recall_id=read.recall_id,
                memory_id=accused[0].memory_id,
            )
            # A row opens no second case: what a person has to decide on stays shown until then.
            known = self._known.get(read.tenant)
            if known is not None:
                known.seen.update(ordinals[one.memory_id] for one in accused)

    def _failing(self, read: ShownRead) -> tuple[Failing, ...]:
        """The memories that fail an anchor above them; each row is tried once for each anchor."""
        anchors = self._reader.anchors(read.tenant)
        if not anchors:
            return ()
        known = self._known.get(read.tenant)
        if known is None or known.anchors is not anchors or len(known.seen) > _SEEN_MAX:
            if len(self._known) >= _TENANTS_MAX:
                self._known.clear()
            known = self._known[read.tenant] = _Known(anchors)
        fresh = [one for one in read.memories if one.ordinal not in known.seen]
        verdicts = known.judge.judged(map(judged_memory, fresh))
        failing = {one.memory_id for one in verdicts.failing}
        known.seen.update(one.ordinal for one in fresh if one.memory_id not in failing)
        return verdicts.failing

    async def _canaries_for_ever(self, canaries: Canaries) -> None:
        left: deque[Anchor] = deque()
        version, asked_ms = -1, self._out.now_ms()
        while True:
            await self._out.wait(LOOK_S)
            now_ms, now_at = self._out.now_ms(), self._reader.status().version
            if not left and (now_at != version or now_ms - asked_ms >= self._every_ms):
                left.extend(await asyncio.to_thread(self._reader.canaries))
                version, asked_ms = now_at, now_ms
            for _ in range(min(len(left), CANARIES_MAX)):
                await _going_on(canaries.watched(left.popleft(), RULES))


async def _going_on(work: Coroutine[None, None, object]) -> None:
    """Do one piece of work; a fault in it is logged, opens nothing, and ends nothing else."""
    try:
        await work
    except InvariantBroken:
        raise
    except Exception as error:  # noqa: BLE001 - nothing is opened, and the watch goes on
        _LOG.error("a rule could not be tried", exc_info=error)
