"""Requests and answers of the operator API about anchors, canaries and judges."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.after.matchers import Applies, Entries, Matcher
from policy.model import MemoryClass
from proxy.admin.wire.route import Empty, TenantQuery, get, post
from proxy.seams.cases import CanaryOutcome, Opinion
from proxy.seams.tenants import TenantName

Questions = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=1_024)], ...],
    Meta(min_length=1, max_length=16),
]


class _RuleRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    questions: Questions
    must: Entries = ()
    must_not: Entries = ()
    memory_class: MemoryClass | None = None


class AnchorRequest(_RuleRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statement to compare memories with, and the questions that it answers.

    With `must` or `must_not`, memories are searched for these words as well.
    """

    statement: Annotated[str, Meta(min_length=1, max_length=4_096)]
    anchor_id: TenantName | None = None
    applies: Applies = Applies.BOTH


class AnchorView(Matcher, frozen=True, kw_only=True):
    """One anchor.

    `caught` counts the entries of `must_not` that the comparison alone finds to deny the statement.
    `notes` are sentences that the anchor's author should read.
    """

    anchor_id: str
    tenant: str
    statement: str
    questions: tuple[str, ...]
    created_at_ms: int
    caught: int = 0
    notes: tuple[str, ...] = ()


class AnchorList(msgspec.Struct, frozen=True, kw_only=True):
    """The anchors of one tenant."""

    anchors: tuple[AnchorView, ...]


class CanaryRequest(_RuleRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Questions that are asked of retrieval, and what they must and must not find."""

    canary_id: TenantName | None = None


class CanaryView(Matcher, frozen=True, kw_only=True, omit_defaults=False):
    """One registered canary, as the operator API shows it."""

    canary_id: str
    tenant: str
    questions: tuple[str, ...]
    created_at_ms: int


class CanaryRunView(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of every canary of a tenant."""

    outcomes: tuple[CanaryOutcome, ...]


class CanaryList(msgspec.Struct, frozen=True, kw_only=True):
    """The canaries of one tenant."""

    canaries: tuple[CanaryView, ...]


ANCHORS: Final = get("/anchors", TenantQuery, AnchorList, "The anchors of a tenant.")
ANCHOR_PUT: Final = post(
    "/anchors", AnchorRequest, AnchorView, "Register a statement that memories are compared with."
)
CANARIES: Final = get("/canaries", TenantQuery, CanaryList, "The canaries of a tenant.")
CANARY_PUT: Final = post(
    "/canaries",
    CanaryRequest,
    CanaryView,
    "Register a question, and what memories may not answer to it.",
)
CANARIES_RUN: Final = post(
    "/canaries/run",
    TenantQuery,
    CanaryRunView,
    "Ask retrieval the questions of a tenant's canaries.",
)


class JudgeTestView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of asking a judge about one set twice.

    `same`: both answers could be read, and are equal.
    """

    name: str
    deterministic: bool
    answers: tuple[Opinion, ...]
    same: bool


JUDGE_TEST: Final = post(
    "/judges/{judge}/test",
    Empty,
    JudgeTestView,
    "Ask a caller's judge the same question about one set of memories twice.",
)
