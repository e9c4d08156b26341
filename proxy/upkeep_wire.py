"""What the operator API says and hears about a sidecar's upkeep, beside `proxy.admin_wire`.

POST /policy/reload    PolicyReloadRequest -> PolicyReloadView
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from proxy.admin_wire import MemoryView  # noqa: TC001 - msgspec reads the annotation


class PolicyReloadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read the ruleset's file again; `digest` (hex SHA-256) is what it must be."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None


class PolicyReloadView(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force now."""

    digest: str
    epoch: int
    changed: bool


class ObservedView(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that observe mode let in, and what an enforcing gate would have answered."""

    memory: MemoryView
    decision: str  # "hold" | "reject"
    reason: str | None
    step: int | None
    leaf_index: int


class ObservedList(msgspec.Struct, frozen=True, kw_only=True):
    """Every such memory of a tenant, oldest first."""

    observed: tuple[ObservedView, ...]
