"""Requests and answers about wrong answers: which memories are to blame, and what was done."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import (
    Basis,
    MemoryClass,
    SourceKind,
)
from proxy.admin.wire.route import Empty, NoQuery, get, post
from proxy.seams.cases import SaidText
from proxy.seams.tenants import DEFAULT_TENANT, TenantName

SAID_MAX = 16
_Id = Annotated[str, Meta(min_length=1, max_length=128)]
_Said = Annotated[tuple[SaidText, ...], Meta(max_length=SAID_MAX)]


class BlameRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request to search for the memories that caused a wrong answer.

    Exactly one of the three ids is given. `expect` are statements that are true, `forbid` words
    that must not be said; with `judge` a configured judge is asked instead. With `through` the
    model is asked again, and judged by the words of its replies.
    """

    tenant: TenantName = DEFAULT_TENANT
    reply_id: _Id | None = None
    recall_id: _Id | None = None
    memory_id: _Id | None = None
    expect: _Said = ()
    forbid: _Said = ()
    judge: Annotated[str, Meta(max_length=64)] | None = None
    through: Annotated[str, Meta(max_length=64)] | None = None
    whole_cause: bool = False
    dry_run: bool = False


class NamedView(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of an incident.

    `relation` tells why the incident names the memory, `act` what was done about it.
    """

    memory: str
    candidate_id: str
    relation: str
    act: str
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    leaf_index: int
    server: str
    tool: str
    call_id: str


class CaseView(msgspec.Struct, frozen=True, kw_only=True):
    """The incident of one wrong answer. No content is in it."""

    incident_id: str
    tenant: str
    signal: str
    state: str
    why: str
    opened_at_ms: int
    at_ms: int
    by: str
    reply_id: str
    recall_id: str
    anchor_id: str
    mode: str
    suspects: int
    asks: int
    rounds: int
    controls: dict[str, bool]
    culprits: tuple[NamedView, ...]
    listed: tuple[NamedView, ...]
    listed_count: int


class BlameView(msgspec.Struct, frozen=True, kw_only=True):
    """The incident of a wrong answer.

    For a dry run, the result of one round and what would follow.
    """

    incident: CaseView | None
    ending: str
    why: str
    suspects: int
    asks: int
    controls: dict[str, bool]
    named: tuple[NamedView, ...]


BLAME: Final = post(
    "/blame",
    BlameRequest,
    BlameView,
    "Search for the memories that caused a wrong answer; `dry_run` only names them.",
    slow=True,
)
INCIDENT: Final = get(
    "/incidents/{incident_id}",
    NoQuery,
    CaseView,
    "Answer with the incident of one wrong answer.",
)
CLOSE: Final = post(
    "/incidents/{incident_id}/close",
    Empty,
    CaseView,
    "Say that a person has dealt with a wrong answer.",
)
