"""Closed keys: an upstream server may have a text under them that the gate erased or gave up.

A purge erases a memory in the store and sends nothing upstream, and a write whose answer was lost
may still arrive after a look-up found nothing. The server then has words that no row of the gate
knows, so their key is closed: its content is hidden from its own tenant, and from all others too.
The key is opened again by a change that the gate itself sends: a later write, or the deletion. A
key is stored as two keyed hashes, of target and key, and of the tenant. There are never more closed
keys than rows of memories on upstream servers, for which the tenants' shares are charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from policy.labels.forwarded_call import call_of
from policy.model import ChangeKind, MemoryStatus, Tenant
from storage.audit import candidate_of
from storage.tables.change import Change
from storage.tables.codec import ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.rows import guarded_rows
from storage.values import ClosedKey, Row

CLOSED: Final = b"closed"
_ON_SERVER: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED})
NOT_CLOSED: Final = ClosedKey(mine=False, others=False)


class UpstreamPlace(NamedTuple):
    """The target and key under which an upstream server files a memory of a tenant."""

    tenant: Tenant
    target: str
    key: str


def place_of(row: Row) -> UpstreamPlace | None:
    """The place of a row that was sent to a server; None if it has no key or is erased."""
    if not row.keyed or row.erased:
        return None
    candidate = candidate_of(row)
    call = call_of(candidate)
    key = row.assigned_key or ("" if call is None else call.key)
    return UpstreamPlace(row.tenant, candidate.target, key) if key else None


def close_key(
    change: Change,
    ordinal: int,
    row: Row,
    *,
    unless_after: int,
    hidden: bool = False,
) -> None:
    """Close the key of a memory that the gate forgets, and that its server may still have.

    `unless_after`: the key stays open if the server has a memory with a higher ordinal under it,
    because that memory replaced the words. `hidden`: the memory was in quarantine. The key is then
    closed all the same if the later memory is an update that may contain the old words too.
    """
    place = place_of(row)
    if place is None or row.change is ChangeKind.DELETE:
        return
    newest: Row | None = None
    until = 0
    for one in guarded_rows(change.draft, change.names, *place):
        later = one.ordinal > unless_after and one.ordinal != ordinal
        if later and one.status in _ON_SERVER and one.sent.change is not ChangeKind.DELETE:
            newest = one.sent
        # An update on its way was judged while the memory was there, and may contain its words.
        on_its_way = hidden and one.status is MemoryStatus.FORWARDING and one.ordinal != ordinal
        if on_its_way and _has_words_of(one.sent, row):
            until = one.ordinal + 1
    if newest is None or (hidden and _has_words_of(newest, row)):
        shut_key(change, place, until)


def _has_words_of(newer: Row, older: Row) -> bool:
    """Whether `newer` is an update that was merged with the memory of `older`."""
    if newer.change is not ChangeKind.UPDATE:
        return False
    calls = (call_of(candidate_of(newer)), call_of(candidate_of(older)))
    mine, theirs = (set[str]() if one is None else {*one.pieces} - {one.key} for one in calls)
    return not mine.isdisjoint(theirs)


def shut_key(change: Change, place: UpstreamPlace, until: int = 0) -> None:
    """Close a key under which the gate knows of no memory.

    `until`: no write with a lower ordinal opens the key again.
    """
    change.draft.put(CLOSED, change.names.closed(*place), ordinal_key(until) if until else b"")
    change.moved.add(CLOSED)


def open_key(change: Change, place: UpstreamPlace, ordinal: int | None = None) -> None:
    """Open a key again, because the gate knows what its server has under it.

    `ordinal` is the ordinal of the write that was done; None if the server has nothing there now.
    """
    key = change.names.closed(*place)
    until = change.draft.get(CLOSED, key)
    opens = ordinal is None or not until or ordinal_key(ordinal) >= until
    if opens and change.draft.delete(CLOSED, key):
        change.moved.add(CLOSED)


def closed_keys(
    view: View, names: KeyedNames, tenant: Tenant, target: str, keys: Iterable[str]
) -> tuple[ClosedKey, ...]:
    """For each key of a server: whether it is closed for this tenant, and for another one."""
    if not view.count(CLOSED):
        return tuple(NOT_CLOSED for _ in keys)
    return tuple(_closed(view, names, UpstreamPlace(tenant, target, key)) for key in keys)


def _closed(view: View, names: KeyedNames, place: UpstreamPlace) -> ClosedKey:
    own, prefix = names.closed(*place), names.closed_by_anybody(place.target, place.key)
    mine = others = False
    for found in view.keys(CLOSED, prefix):
        if not found.startswith(prefix):
            break
        mine, others = mine or found == own, others or found != own
    return ClosedKey(mine=mine, others=others)
