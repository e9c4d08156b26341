"""Requests and answers of the operator API about failures. No answer has content."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.after.matchers import Entries
from policy.after.signals import (
    Grade,
    SignalKind,
)
from proxy.admin.wire.queries import TenantQuery
from proxy.admin.wire.route import NoQuery, get, post
from proxy.admin.wire.store import Wide
from proxy.seams.tenants import DEFAULT_TENANT, TenantName


class FailureRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator says that an answer was wrong. Exactly one id is given.

    `expect` and `forbid` are words that a right answer has, or may not have: only the search for
    the cause keeps them.
    """

    tenant: TenantName = DEFAULT_TENANT
    reply_id: Wide | None = None
    recall_id: Wide | None = None
    memory_id: Wide | None = None
    expect: Entries = ()
    forbid: Entries = ()


class FailureView(msgspec.Struct, frozen=True, kw_only=True):
    """One signal about one answer; ids that it does not name are "". `at_ms`: Unix milliseconds.

    `incident` is the case that the signal led to. A signal of kind `agent` never leads to one.
    """

    failure_id: str
    kind: SignalKind
    verdict: Grade
    tenant: str
    by: str
    at_ms: int
    reply_id: str
    recall_id: str
    memory_id: str
    rule_id: str
    judge: str
    incident: str


class FailureList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest failures of one tenant, newest first, claims of agents among them."""

    failures: tuple[FailureView, ...]


FAILURES: Final = get(
    "/failures",
    TenantQuery,
    FailureList,
    "The newest failures of a tenant: signals that an answer was wrong, claims of agents too.",
)
FAILURE: Final = get(
    "/failures/{failure_id}", NoQuery, FailureView, "One report that an answer was wrong."
)
FAILURE_FILE: Final = post(
    "/failures", FailureRequest, FailureView, "Report that an answer was wrong."
)
