"""Requests and answers about wrong answers: which memories are to blame, and what was done."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.route import Empty, NoQuery, Wide, get, post
from proxy.seams.cases import SaidText
from proxy.seams.tenants import DEFAULT_TENANT, TenantName
from storage.features.cases import Case, CaseMemory

SAID_MAX = 16
_Said = Annotated[tuple[SaidText, ...], Meta(max_length=SAID_MAX)]


class AnswerRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request about one wrong answer. Exactly one of the three ids is given.

    `expect` are statements that are true, `forbid` words that must not be said.
    """

    tenant: TenantName = DEFAULT_TENANT
    reply_id: Wide | None = None
    recall_id: Wide | None = None
    memory_id: Wide | None = None
    expect: _Said = ()
    forbid: _Said = ()


class BlameRequest(AnswerRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request to search for the memories that caused a wrong answer.

    With `judge` a configured judge is asked instead. With `through` the model is asked again, and
    judged by the words of its replies.
    """

    judge: Annotated[str, Meta(max_length=64)] | None = None
    through: Annotated[str, Meta(max_length=64)] | None = None
    whole_cause: bool = False
    dry_run: bool = False


class BlameView(msgspec.Struct, frozen=True, kw_only=True):
    """The incident of a wrong answer.

    For a dry run, the result of one round and what would follow.
    """

    incident: Case | None
    ending: str
    why: str
    suspects: int
    asks: int
    controls: dict[str, bool]
    named: tuple[CaseMemory, ...]


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
    Case,
    "Answer with the incident of one wrong answer.",
)
CLOSE: Final = post(
    "/incidents/{incident_id}/close",
    Empty,
    Case,
    "Say that a person has dealt with a wrong answer.",
)
