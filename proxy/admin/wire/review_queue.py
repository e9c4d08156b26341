"""Requests and answers about many held candidates at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX, MemoryClass
from policy.verdict import Reason  # noqa: TC001 - msgspec reads the annotation
from proxy.admin.wire.store import HeldView  # noqa: TC001 - msgspec reads the annotation
from proxy.seams.tenants import TenantName  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from storage.values import HeldCandidate

SINCE_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: later ones have no date."""
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
    # Only candidates with exactly the content of this one, itself included.
    same: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")] | None = None
    # The beginning of the candidate's id.
    id: Annotated[str, Meta(pattern="^[0-9a-f]{4,32}$")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100

    @property
    def narrows(self) -> bool:
        """Whether any field besides the tenant is given."""
        return bool(self._given(besides={"tenant", "limit"}))

    @property
    def said(self) -> str:
        """The filter in words, as `class=L1, origin=user`; empty where none is given."""
        given = dict(self._given(besides={"limit", "since_ms"}))
        if self.since_ms is not None:
            since = datetime.fromtimestamp(self.since_ms // 1_000, UTC)
            given["since"] = since.isoformat().replace("+00:00", "Z")
        return ", ".join(f"{name}={value}" for name, value in given.items())

    def _given(self, besides: set[str]) -> list[tuple[str, str]]:
        fields: dict[str, object] = msgspec.to_builtins(self)
        return [
            (name, str(value))
            for name, value in fields.items()
            if value is not None and name not in besides
        ]

    def fits(self, held: HeldCandidate) -> bool:
        """Whether a candidate matches, apart from its content."""
        return (
            (self.tenant is None or held.tenant == self.tenant)
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


ONE_BY_ONE = "L1, L2, changes of what is stored, and orders are let in one by one"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen selection; the digest names exactly these candidates in their present state."""

    digest: str
    count: int
    until_ms: int
    # Whether the candidates may be released together; any selection may be refused together.
    releasable: bool


class SelectionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The frozen selection to be decided."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class DecidedMany(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for a selection.

    `changed`: ids of candidates that changed since the selection, and were left alone. `lifted`:
    ids of candidates denied earlier whose text equals a released one, so that it is withheld no
    longer. `ways`: how many of those that were admitted each one writes, as in `OutcomeView`.
    """

    admitted: int
    refused: int
    changed: tuple[str, ...]
    lifted: tuple[str, ...] = ()
    ways: dict[str, int] = {}
