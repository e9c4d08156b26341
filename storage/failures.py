# ruff: noqa: TC001 - msgspec reads these annotations when it builds the decoders
"""Failures: what somebody, or a rule, said of an answer. No content is in them."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from policy.after.signals import Grade, SignalKind
from policy.model import PrincipalId, Tenant

FAILURES_MAX: Final = 10_000
"""How many are kept in all tenants together; the oldest goes first."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One signal about one answer. `at_ms`: Unix milliseconds.

    `failure_id`: 20 hex digits, of which the first 12 are the time, so ids stand in order of time.
    `case_id` is the case that it opened, or joined; "" where none was. What the answer should have
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
    """The failures that are kept. Reads: any thread; each may read files."""

    async def record(self, failure: Failure, *, of_principal_max: int | None) -> bool:
        """Keep one; whether it was kept. Durable when this returns; no leaf, no new version.

        It is not where its principal has `of_principal_max` of the last 24 hours already.

        Raises:
            StorageError: Nothing was kept.
        """
        ...

    async def join(self, failure_id: str, case_id: str) -> None:
        """Note the case that a kept failure led to; nothing where it is kept no longer."""
        ...

    def get(self, failure_id: str) -> Failure | None:
        """One failure; None where there is none of that id."""
        ...

    def newest(self, tenant: Tenant, limit: int) -> tuple[Failure, ...]:
        """Failures of a tenant, newest first."""
        ...
