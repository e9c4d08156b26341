"""What the operator API says of where a memory came from; names and leaves, never a text.

GET /memories/{memory_id}/provenance?tenant=   -> ProvenanceView
"""

from __future__ import annotations

import msgspec

from policy.model import (  # noqa: TC001 - msgspec reads the annotations
    Basis,
    ChangeKind,
    MemoryClass,
    SourceKind,
)
from proxy.admin.wire.store import ProofView  # noqa: TC001 - msgspec reads the annotation
from proxy.ledger.wire import OriginView  # noqa: TC001 - msgspec reads the annotation


class ProvenanceStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a memory: its candidate, both leaves, and what its session had read.

    `trust` is its writer's when it was judged. `session` None: it was joined to none. `known`
    False: the ledger has lost the session, so what it had read is not told.
    """

    change: ChangeKind
    version: int
    at_ms: int
    candidate_id: str
    principal: str
    trust: str
    target: str
    approved_by: str | None
    memory_class: MemoryClass
    source: SourceKind
    ceiling: SourceKind
    basis: Basis
    intercepted: ProofView
    verdict: ProofView
    culprit: OriginView | None
    session: str | None
    known: bool
    # The distinct origins of the session's segments, and older segments that are not told.
    segments: tuple[OriginView, ...]
    segments_left_out: int
    # Memories that its session recalled before.
    recalled: tuple[str, ...]


class ProvenanceNode(msgspec.Struct, frozen=True, kw_only=True):
    """One memory; `status`: "live", "quarantined", "gone" (deleted) or "lost" (purged, or no such).

    `parents`: what it names as `derived_from`. `steps` are the newest ones, oldest first; of a
    lost one there are none.
    """

    memory_id: str
    status: str
    parents: tuple[str, ...]
    steps: tuple[ProvenanceStep, ...]


class ProvenanceView(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, and those that it came from, the asked one first.

    `cut`: there are more than are told.
    """

    memories: tuple[ProvenanceNode, ...]
    cut: bool
