"""Requests and answers about many held candidates at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX, MemoryClass, OperatorScope
from policy.verdict import Reason
from proxy.admin.wire.route import NoQuery, get, post
from proxy.admin.wire.store import (
    HeldView,
)
from proxy.seams.tenants import TenantName
from storage.values import HeldCandidate

LINES_SHOWN = 50
BYTES_SHOWN = 65_536
"""How much of a group is shown to a person, and decided, at once: lines, and bytes of text."""
GROUPS_MAX = 100
BEGINNINGS_SHOWN = 3
SINCE_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999, because `datetime` represents no later time."""
_Name = Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)]


class ReviewFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter for held candidates: all given fields must match.

    `origin` is spelt as in a listing.
    """

    tenant: TenantName | None = None
    memory_class: MemoryClass | None = msgspec.field(default=None, name="class")
    reason: Reason | None = None
    principal: _Name | None = None
    origin: Annotated[str, Meta(min_length=1, max_length=1_024)] | None = None
    since_ms: Annotated[int, Meta(ge=0, le=SINCE_MS_MAX)] | None = None
    # The beginning of the candidate's id.
    id: Annotated[str, Meta(pattern="^[0-9a-f]{4,32}$")] | None = None
    group: Annotated[str, Meta(pattern="^g[0-9a-f]{14}$")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100

    @property
    def said(self) -> str:
        """The filter in words, such as `class=L1, origin=user`; "" if no field is given."""
        given = dict(self._given())
        if self.since_ms is not None:
            since = datetime.fromtimestamp(self.since_ms // 1_000, UTC)
            given["since"] = since.isoformat().replace("+00:00", "Z")
        return ", ".join(f"{name}={value}" for name, value in given.items())

    def _given(self) -> list[tuple[str, str]]:
        fields: dict[str, object] = msgspec.to_builtins(self)
        return [
            (name, str(value))
            for name, value in fields.items()
            if value is not None and name not in {"limit", "since_ms", "until_ms", "count"}
        ]

    def fits(self, held: HeldCandidate) -> bool:
        """Whether a held candidate matches all given fields."""
        return (
            (self.tenant is None or held.tenant == self.tenant)
            and (self.group is None or held.group == self.group)
            and (self.id is None or held.candidate_id.startswith(self.id))
            and (self.memory_class is None or held.memory_class is self.memory_class)
            and (self.reason is None or held.reason is self.reason)
            and (self.principal is None or held.principal_id == self.principal)
            and (self.origin is None or held.origin == self.origin)
            and (self.since_ms is None or held.held_at_ms >= self.since_ms)
        )


class ReviewPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the held candidates that match a filter, oldest first.

    `total` counts all that match, and `waiting` all that are held. `fits` is the filter in words,
    empty if none was given.
    """

    held: tuple[HeldView, ...]
    total: int
    waiting: int
    fits: str


class GroupsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which groups to list: those after the group whose `cursor` is `after`, oldest first."""

    after: Annotated[str, Meta(pattern="^[0-9]{15}-g[0-9a-f]{14}$")] | None = None
    limit: Annotated[int, Meta(ge=1, le=GROUPS_MAX)] = 20


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """One group in a listing: how much waits in it, since when, and the beginnings of some texts.

    `after_reading` counts the candidates of sessions that had read foreign text. `first` is the
    oldest candidate: the log knows it after its decision, and never the group.
    """

    cursor: str
    group: str
    first: str
    tenant: str
    principal: str
    place: str
    waiting: int
    after_reading: int
    oldest_ms: int
    reasons: tuple[Reason, ...]
    origins: tuple[str, ...]
    begins: tuple[str, ...]


class GroupList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the groups that wait for a person; `total` and `waiting` count all of them."""

    groups: tuple[GroupRow, ...]
    total: int
    waiting: int
    more: bool


class DenyMany(ReviewFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The denial of all that fits a filter and was held by a time, if it is exactly so many."""

    until_ms: Annotated[int, Meta(ge=0, le=SINCE_MS_MAX)] = SINCE_MS_MAX
    count: Annotated[int, Meta(ge=1)]


class DeniedView(msgspec.Struct, frozen=True, kw_only=True):
    """How many candidates an act denied, and how many wait."""

    denied: int
    waiting: int


class LineView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a group, or one whole candidate; `id` names it in an act.

    A line comes or goes. `after_reading`: a session that had read foreign text proposed it.
    `stored`: the text of the memory that it would change or remove, as it is now.
    """

    id: str
    text: str
    whole: bool
    comes: bool
    after_reading: bool
    sessions: tuple[str, ...]
    candidates: tuple[str, ...]
    stored: str | None = None


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """All that waits of a principal for a place. `shown` names exactly these lines in an act."""

    group: str
    tenant: str
    principal: str
    place: str
    shown: str
    lines: tuple[LineView, ...]
    more: int = 0  # how many further lines wait; an act on `lines` does not decide them


class Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision on the lines that `shown` names; struck-out ones are denied.

    `applied`: the person writes the others herself, so no relay and no agent may.
    """

    shown: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    strike: Annotated[tuple[_Name, ...], Meta(max_length=LINES_SHOWN)] = ()
    applied: bool = False


class ActView(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an act on a group.

    `lines` came in, `denied` were not; `waiting` counts the candidates that still wait there.
    `admitted` counts candidates that the gate let in, `ways` how many of them each way writes,
    `refused` those that it or the person refused. `lifted`: ids of candidates denied earlier whose
    text is withheld no longer.
    """

    lines: tuple[LineView, ...]
    denied: tuple[LineView, ...]
    admitted: int = 0
    refused: int = 0
    waiting: int = 0
    lifted: tuple[str, ...] = ()
    ways: dict[str, int] = {}
    # The memories that were stored by the act.
    memory_ids: tuple[str, ...] = ()


WAITING: Final = get(
    "/review", ReviewFilter, ReviewPage, "Held candidates that fit the query, oldest first."
)
GROUP: Final = get(
    "/groups/{group}",
    NoQuery,
    GroupView,
    "What waits of one principal for one place, by its lines; also for the id of a candidate.",
)
RELEASE_LINES: Final = post(
    "/groups/{group}/release",
    Act,
    ActView,
    "Let in the lines of a group that were shown, without those that are struck out.",
    slow=True,
    least=OperatorScope.REVIEW,
)
DENY_LINES: Final = post(
    "/groups/{group}/deny",
    Act,
    ActView,
    "Deny the lines of a group that were shown.",
    slow=True,
    least=OperatorScope.REVIEW,
)
GROUPS: Final = get(
    "/groups", GroupsQuery, GroupList, "The groups that wait for a person, oldest first."
)
DENY_MANY: Final = post(
    "/denials",
    DenyMany,
    DeniedView,
    "Deny all that fits a filter, if it is exactly so many.",
    slow=True,
    least=OperatorScope.REVIEW,
)
