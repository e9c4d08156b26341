"""Failures: reports by somebody, or by a rule, that an answer was wrong. They have no content."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from policy.after.signals import Grade, SignalKind
from policy.model import PrincipalId, Tenant

FAILURES_MAX: Final = 10_000
"""How many failures are kept of all tenants together; the oldest goes first."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One report about one answer. `at_ms`: Unix milliseconds.

    `failure_id`: 20 hex digits, of which the first 12 are the time, so ids sort by time. `case_id`
    is the case that the report opened or joined; "" where none was. What the answer should have
    said, or should not have, is in no field.
    """

    failure_id: str
    kind: SignalKind
    grade: Grade
    tenant: Tenant
    by: PrincipalId
    at_ms: int
    reply_id: str = ""
    recall_id: str = ""
    memory_id: str = ""
    rule_id: str = ""
    judge: str = ""
    case_id: str = ""


class Failures(Protocol):
    """The failures that a store keeps. Reads on any thread; each may read files."""

    async def record(self, failure: Failure, *, of_principal_max: int | None) -> bool:
        """Store a failure; returns whether it was stored. It is then on disk; the log gets no leaf.

        It is not stored where its principal reported `of_principal_max` failures in its tenant in
        the last 24 hours.

        Raises:
            StorageError: Nothing was stored.
        """
        ...

    async def join(self, failure_id: str, case_id: str) -> None:
        """Note the case to which a stored failure led; does nothing if the failure is gone."""
        ...

    def get(self, failure_id: str) -> Failure | None:
        """One failure; None where none has that id."""
        ...

    def newest(self, tenant: Tenant, limit: int) -> tuple[Failure, ...]:
        """Failures of a tenant, newest first."""
        ...
