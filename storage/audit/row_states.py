"""The state of a memory after each of its rows, and what of a row contradicts the log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from policy.canonical import decode_canonical, digest_of
from policy.model import Candidate, ChangeKind, Scope
from storage.audit.leaves import InterceptedLeaf, Labels, VerdictLeaf, commitment
from storage.ground.errors import StoreCorrupt
from storage.values import InheritedFields, Row

# What a row that was put back has of the row that it copies. Its label is in its own leaf, and the
# key on another server may have become known after the copy.
_COPIED: Final = (
    "canonical",
    "salt",
    "scope",
    "kept",
    "created_at_ms",
    "after_reading",
    "read_origins",
    "was_unread",
)


class Inheritance(msgspec.Struct, frozen=True):
    """The fields of a new row that follow from its candidate and the row before it."""

    scope: Scope
    expires_at: str | None
    kept: InheritedFields | None


def candidate_of(row: Row) -> Candidate:
    """The judged candidate of a row.

    Raises:
        StoreCorrupt: The row was erased, or its canonical bytes are not a candidate's.
    """
    try:
        return decode_canonical(row.canonical)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt("a row does not hold a candidate") from error


def state_after(row: Row, candidate: Candidate) -> InheritedFields:
    """The fields of a memory after a row's change; `candidate` is the row's own."""
    kept = row.kept
    if kept is None:
        kept = InheritedFields(None, None, row.scope, candidate.target, None, None, None, ())
    text, metadata_json = candidate.text, candidate.metadata_json
    return InheritedFields(
        text=kept.text if text is None else text,
        metadata_json=kept.metadata_json if metadata_json is None else metadata_json,
        scope=row.scope,
        target=kept.target,
        role=candidate.role or kept.role,
        actor=candidate.actor or kept.actor,
        expires_at=row.expires_at,
        derived_from=candidate.derived_from or kept.derived_from,
    )


def inherit(candidate: Candidate, before: Row | None) -> Inheritance:
    """The fields that a row of `candidate` has after the row before it; only updates inherit.

    Raises:
        StoreCorrupt: The canonical bytes of the row before it are not a candidate's.
    """
    if before is None or before.erased or candidate.change is not ChangeKind.UPDATE:
        return Inheritance(candidate.scope, candidate.expires_at, None)
    state = state_after(before, candidate_of(before))
    return Inheritance(
        scope=state.scope if candidate.scope == Scope() else candidate.scope,
        expires_at=candidate.expires_at or state.expires_at,
        kept=msgspec.structs.replace(
            state,
            text=state.text if candidate.text is None else None,
            metadata_json=state.metadata_json if candidate.metadata_json is None else None,
        ),
    )


def expiry_at(at_ms: int) -> str:
    """The expiry (RFC 3339) of a memory that an incident lets expire at a time in Unix ms."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def contradiction(
    row: Row,
    leaf: VerdictLeaf,
    seen: InterceptedLeaf | None,
    labels: Labels,
    earlier: Iterable[Row],
) -> str | None:
    """What of a row contradicts the log, or the rows before it; None if nothing does.

    `leaf` admitted the row, and `seen` is the interception that the leaf decides. `earlier` are the
    memory's rows before it, newest first.

    Raises:
        StoreCorrupt: The row, or one before it, cannot be read.
    """
    # An erased row has no id, and a leaf contains no id that a client chose, so in both cases the
    # ids cannot be compared.
    renamed = not row.erased and leaf.memory_id not in {None, row.memory_id}
    if renamed or row.at_ms != leaf.at_ms or not labels.fit(leaf, row):
        return "its labels, ids or time are not those of its verdict leaf"
    if seen is None:
        return "its verdict leaf points at no interception"
    asked = (row.tenant, row.principal_id, row.change)
    if (seen.tenant, seen.principal_id, seen.change) != asked:
        return "not the principal, tenant or change intercepted"
    return None if row.erased else _content_contradiction(row, seen, earlier)


def _content_contradiction(row: Row, seen: InterceptedLeaf, earlier: Iterable[Row]) -> str | None:
    if commitment(row.salt, digest_of(row.canonical)) != seen.commitment:
        return "its bytes do not open the commitment in the log"
    candidate = candidate_of(row)
    if candidate.memory_id not in {None, row.memory_id}:
        return "its id is not the one that its candidate names"
    # Only a row that was put back is of no request, and so of no nonce.
    follows = _follows(row, candidate, earlier) if seen.nonce_key else _copies(row, earlier)
    return None if follows else "it has inherited fields that no row before it has"


def _follows(row: Row, candidate: Candidate, earlier: Iterable[Row]) -> bool:
    """Whether the fields that no leaf contains follow from the candidate and the row before it."""
    before = next(iter(earlier), None)
    times = set[int]()
    if before is None or candidate.change is not ChangeKind.UPDATE:
        times.add(row.at_ms)
    if before is not None:
        # A creation under an id in use keeps the memory's first time, if the memory was shown.
        times.add(before.created_at_ms)
    inherited = Inheritance(row.scope, row.expires_at, row.kept)
    return (
        row.created_at_ms in times
        and inherited == inherit(candidate, before)
        and (before is None or candidate.text is not None or _still_marked(row, before))
    )


def _still_marked(row: Row, before: Row) -> bool:
    """Whether a text that was kept still has the marks of what its writer had read."""
    kept = row.after_reading >= before.after_reading
    return kept and bool(row.read_origins) >= bool(before.read_origins)


def _copies(row: Row, earlier: Iterable[Row]) -> bool:
    """Whether a row that was put back copies an earlier row, but for an expiry at that time."""
    expired = row.expires_at == expiry_at(row.at_ms)
    return any(
        (expired or one.expires_at == row.expires_at)
        and all(getattr(one, name) == getattr(row, name) for name in _COPIED)
        for one in earlier
    )
