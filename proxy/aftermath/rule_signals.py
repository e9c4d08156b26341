"""Records what a registered rule found wrong as a failure, and opens cases within daily limits."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from policy.after.matchers import Grade, SignalKind
from policy.model import Memory, PrincipalId, Tenant
from proxy.seams.cases import Signal
from proxy.seams.environment import Environment
from storage.features.failures import Failure, Failures, JoinCase

_LOG: Final = logging.getLogger("mnemogate.aftermath")
RULE_DAY_MAX: Final = 20
"""How many cases one anchor or canary may open by itself in 24 hours."""
WRITER_DAY_MAX: Final = 10
"""How many of these cases are about memories of one writer, so that others' cases can open too."""
TENANT_DAY_MAX: Final = 100
"""How many cases all rules of one tenant may open by themselves in 24 hours."""

_DAY_MS: Final = 86_400_000
_RANDOM_BYTES: Final = 4


class RuleSignals:
    """Records signals of rules as failures, and opens cases for them. Event loop only."""

    def __init__(
        self,
        *,
        failures: Failures,
        open_case: Callable[[Signal], Awaitable[str | None]],
        surroundings: Environment,
    ) -> None:
        """`open_case` is `BlameSearch.open_case`."""
        self._failures = failures
        self._open_case = open_case
        self._out = surroundings
        # The times of cases in the last 24 hours, keyed by tenant, rule, writer ("" for all rules
        # or all writers) and whether a reply was wrong.
        self._opened: dict[tuple[Tenant, str, str, bool], deque[int]] = {}
        # The rules for which the log already contains a warning that their daily limit is used up.
        self._full: set[tuple[Tenant, str]] = set()

    def may_open(
        self, tenant: Tenant, rule_id: str, writer: str = "", *, of_reply: bool = False
    ) -> bool:
        """Count one case that a rule opens by itself; return False if a daily limit is used up.

        `writer` is the writer of the memory that the case is about, or "". Cases of wrong replies
        (`of_reply`) have limits of their own: memories that contradict an anchor are left out of
        reads, so they cannot make a reply wrong, and the cases about them must not use up the
        limits of cases that heal replies.
        """
        now_ms = self._out.now_ms()
        rule, tenants = (tenant, rule_id, "", of_reply), (tenant, "", "", of_reply)
        counts = [(rule, RULE_DAY_MAX), (tenants, TENANT_DAY_MAX)]
        if writer:
            counts.append(((tenant, rule_id, writer, of_reply), WRITER_DAY_MAX))
        days = [(self._opened.setdefault(key, deque()), most) for key, most in counts]
        for day, _ in days:
            while day and day[0] <= now_ms - _DAY_MS:
                day.popleft()
        full = [len(day) >= most for day, most in days]
        if any(full):
            if any(full[:2]) and (tenant, rule_id) not in self._full:
                self._full.add((tenant, rule_id))
                _LOG.warning("a rule has opened its cases of the day")
            return False
        self._full.discard((tenant, rule_id))
        for day, _ in days:
            day.append(now_ms)
        return True

    def writer_with_room(
        self, tenant: Tenant, rule_id: str, memories: Iterable[Memory], *, of_reply: bool = False
    ) -> PrincipalId | None:
        """Count one case about a memory of the first writer whose daily limit is not used up.

        Returns that writer, or None if there is none.
        """
        writers = dict.fromkeys(one.principal_id for one in memories)
        rooms = (one for one in writers if self.may_open(tenant, rule_id, one, of_reply=of_reply))
        return next(rooms, None)

    async def signal(
        self,
        kind: SignalKind,
        tenant: Tenant,
        rule_id: str,
        by: PrincipalId,
        *,
        recall_id: str = "",
        reply_id: str = "",
        memory_id: str = "",
    ) -> tuple[str, str]:
        """Record a failure of a rule; return its id and the id of its case ("" if none was opened).

        A case is opened only if a read, reply or memory is named, because otherwise there is no
        suspect.

        Raises:
            StorageError: The failure was not recorded, or no case could be opened.
        """
        now_ms = self._out.now_ms()
        failure = Failure(
            failure_id=f"{now_ms:012x}{self._out.random_hex(_RANDOM_BYTES)}",
            kind=kind,
            grade=Grade.WRONG,
            tenant=tenant,
            by=by,
            at_ms=now_ms,
            recall_id=recall_id,
            reply_id=reply_id,
            memory_id="" if recall_id else memory_id,
            rule_id=rule_id,
        )
        await self._failures.record(failure, of_principal_max=None)
        if not recall_id and not reply_id and not memory_id:
            return failure.failure_id, ""
        signal = Signal(
            signal_id=failure.failure_id,
            kind=kind,
            grade=failure.grade,
            tenant=tenant,
            by=by,
            at_ms=now_ms,
            recall_id=recall_id or None,
            reply_id=reply_id or None,
            memory_id=failure.memory_id or None,
            rule_id=rule_id,
        )
        case_id = await self._open_case(signal) or ""
        if case_id:
            await self._failures.order(JoinCase(failure.failure_id, case_id))
        return failure.failure_id, case_id
