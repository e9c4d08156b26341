"""Requests and answers of the operator API about failures; no answer contains a memory's text."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.incidents import AnswerRequest
from proxy.admin.wire.route import NoQuery, TenantQuery, get, post
from storage.features.failures import Failure


class FailureList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest failures of one tenant, newest first, claims of agents among them."""

    failures: tuple[Failure, ...]


FAILURES: Final = get(
    "/failures",
    TenantQuery,
    FailureList,
    "The newest failures of a tenant: signals that an answer was wrong, claims of agents too.",
)
FAILURE: Final = get(
    "/failures/{failure_id}", NoQuery, Failure, "One report that an answer was wrong."
)
FAILURE_FILE: Final = post("/failures", AnswerRequest, Failure, "Report that an answer was wrong.")
