"""The state of each memory at an earlier point of the log, and the steps that restore it."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from policy.model import ChangeKind, MemoryId, MemoryStatus, Tenant
from storage.audit import InterceptedLeaf, OperatorLeaf, VerdictLeaf, decode_leaf
from storage.features.incidents import (
    INCIDENTS,
    IncidentKind,
    PastState,
    RewindEffect,
    RewindReport,
)
from storage.features.incidents.rewind_steps import RewindStep
from storage.features.quarantine.hiding import hidden_by
from storage.features.selections import Selector, paced
from storage.ground.errors import NoSuchPast
from storage.questions import Selection
from storage.tables.change import read_leaf
from storage.tables.codec import NO_ORDINAL
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import LEAVES, ROWS
from storage.tables.rows import read_id, read_row, subject_of
from storage.values import QUARANTINE, QUARANTINE_END, Decision, Row

_BIRTHS: Final = frozenset({"store.create", "store.restore"})
_GONE: Final = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})


class PastPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the store before leaf `index`, which is the state of `version`.

    `hidden` maps a tenant and a subject to the earlier leaves that hid the memory or showed it
    again: the index of each leaf, and whether it hid the memory.
    """

    index: int
    version: int
    newest: int
    hidden: dict[tuple[str, str], list[tuple[int, bool]]]


class RewindPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a rewind for each memory, and the report about them.

    The report counts memories by what happens to them; `touched` maps the key of each of these
    memories to the counts that include it.
    """

    point: int
    steps: tuple[RewindStep, ...]
    touched: dict[bytes, RewindEffect]
    told: RewindReport


class _Life(msgspec.Struct):
    """The rows of one memory: all rows from before the point to rewind to, and the newest one."""

    # For each row: its ordinal, the index of its leaf, and the kind of its change.
    before: list[tuple[int, int, ChangeKind]]
    subjects: list[str]
    memory_id: MemoryId
    reached: bool = False
    newest_leaf: int = 0


def point_of(view: View, to: PastState, now_ms: int) -> PastPoint:
    """The point of the log at which the store had the state to rewind to.

    Raises:
        NoSuchPast: There is no such point; the error names the nearest one.
    """
    walk = _Walk(to)
    for key, data in view.scan(LEAVES):
        walk.take(int.from_bytes(key, "big"), data)
    return walk.found(now_ms)


def point_at(view: View, index: int) -> PastPoint:
    """The state before leaf `index`, for a rewind whose point is known by that leaf."""
    walk = _Walk(None)
    for key, data in view.scan(LEAVES):
        at = int.from_bytes(key, "big")
        if at >= index:
            break
        walk.take(at, data)
    return PastPoint(index=index, version=walk.version, newest=walk.version, hidden=walk.hidden)


class _Walk:
    """Reads the leaves of the log once, in order, to find the point to rewind to."""

    def __init__(self, to: PastState | None) -> None:
        self._to = to
        self.version = 0
        self.hidden: dict[tuple[str, str], list[tuple[int, bool]]] = {}
        # The version and the time (Unix ms) at which this incarnation of the store began.
        self._birth = (0, 0)
        # Index and version of the point to rewind to; None until its leaf was read.
        self._point: tuple[int, int] | None = None

    def take(self, index: int, data: bytes) -> None:
        """Read the next leaf; note whether it ends the state to rewind to, or hides a memory."""
        leaf = decode_leaf(data)
        if isinstance(leaf, InterceptedLeaf):
            return
        if isinstance(leaf, VerdictLeaf) and leaf.decision is Decision.ADMIT:
            self.version = leaf.version
        if isinstance(leaf, OperatorLeaf):
            self._operator(index, leaf)
        to = self._to
        if to is None:
            return
        if to.at_ms is not None:
            if leaf.at_ms <= to.at_ms:
                self._point = index + 1, self.version
        # The first leaf of a version is part of its commit; the point to rewind to is the state
        # after that commit.
        elif self.version == to.version and (
            self._point is None or self._point[0] <= self._birth[0]
        ):
            self._point = index + 1, self.version

    def _operator(self, index: int, leaf: OperatorLeaf) -> None:
        if leaf.action in _BIRTHS:
            self._birth = self.version, leaf.at_ms
            self._point = None
        elif leaf.action in {QUARANTINE, QUARANTINE_END}:
            tenant = leaf.detail.partition(":")[0]
            hid = leaf.action == QUARANTINE
            self.hidden.setdefault((tenant, leaf.subject), []).append((index, hid))

    def found(self, now_ms: int) -> PastPoint:
        """The point to rewind to, after all leaves were read.

        Raises:
            NoSuchPast: The point is in the future, or in an earlier incarnation of the store.
        """
        to = self._to
        first, since_ms = self._birth
        version = None if to is None else to.version
        at_ms = None if to is None else to.at_ms
        newest = f"the newest is version {self.version}"
        if version is not None and version > self.version:
            raise NoSuchPast(f"version {version} is in the future: {newest}")
        if at_ms is not None and at_ms > now_ms:
            raise NoSuchPast(f"that time is in the future: {newest}")
        earlier = (version is not None and version < first) or (
            at_ms is not None and at_ms < since_ms
        )
        if earlier or self._point is None:
            raise NoSuchPast(
                f"that is before this life of the store: its earliest state is version {first}"
            )
        index, reached = self._point
        return PastPoint(index=index, version=reached, newest=self.version, hidden=self.hidden)


def planned(
    view: View,
    names: KeyedNames,
    reach: Selection,
    point: PastPoint,
    until: int | None = None,
    undoes: str = "",
) -> RewindPlan:
    """The plan that restores the state at `point` for the memories that the filter matches.

    A memory whose newest leaf is `until` or later is not changed. `undoes` is the id of the rewind
    that is taken back: it hides no memory any more, also none that others hid before it.

    Raises:
        NoSuchPast: All memories that existed at that point are purged.
    """
    rows = _Rows(view, names, reach, point)
    for key, row in paced(view.records(ROWS)):
        rows.take(key, row)
    gone = tuple(name for name, stood in rows.lost.items() if stood)
    mine = {name: life for name, life in rows.lives.items() if life.reached}
    if gone and not any(life.before for life in mine.values()):
        near = rows.nearest
        there = "there is no later one" if near is None else f"the nearest is version {near}"
        raise NoSuchPast(f"all that was there at version {point.version} is purged: {there}")
    rewinds = _rewinds(view)
    counts: Counter[str] = Counter()
    steps: list[RewindStep] = []
    touched: dict[bytes, RewindEffect] = {}
    for name, life in mine.items():
        if until is not None and life.newest_leaf >= until:
            continue
        step, under = _step(view, reach.tenant, name, life, point, rewinds=rewinds, undoes=undoes)
        counts.update(under)
        if step is not None:
            steps.append(step)
        if under:
            touched[name] = RewindEffect(memory_id=life.memory_id, became=tuple(under))
    told = RewindReport(
        incident=None,
        version=point.version,
        newest=point.newest,
        reached=len(mine) + len(gone),
        lost=gone,
        touched=tuple(touched.values()),
        **counts,
    )
    return RewindPlan(point=point.index, steps=tuple(steps), touched=touched, told=told)


class _Rows:
    """Reads the rows of a tenant once, in order, and groups them by memory."""

    def __init__(self, view: View, names: KeyedNames, reach: Selection, point: PastPoint) -> None:
        self._view = view
        self._names = names
        self._tenant = reach.tenant
        self._selector = Selector(view, names, reach)
        self._point = point
        self.lives: dict[bytes, _Life] = {}
        # Maps each purged memory to whether it existed at the point to rewind to.
        self.lost: dict[str, bool] = {}
        # The first version after the point to rewind to of which a text is left.
        self.nearest: int | None = None

    def take(self, key: bytes, row: Row) -> None:
        """Read the next row, and add it to the history of its memory."""
        if row.tenant != self._tenant:
            return
        meant = self._selector.takes(key, row)
        before = row.leaf_index < self._point.index
        if row.erased:
            if meant and before:
                self.lost[_name_in_log(self._view, row)] = row.change not in _GONE
            return
        name = self._names.memory(row.tenant, row.memory_id)
        born = _Life(before=[], subjects=[], memory_id=row.memory_id)
        life = self.lives.setdefault(name, born)
        life.reached |= meant
        life.newest_leaf = row.leaf_index
        if not before:
            if meant and self.nearest is None:
                self.nearest = row.version
            return
        life.before.append((int.from_bytes(key, "big"), row.leaf_index, row.change))
        subject = subject_of(row.memory_id, row.candidate_id)
        if subject not in life.subjects:
            life.subjects.append(subject)


def _step(
    view: View,
    tenant: Tenant,
    name: bytes,
    life: _Life,
    point: PastPoint,
    *,
    rewinds: frozenset[str],
    undoes: str,
) -> tuple[RewindStep | None, list[str]]:
    """The step of a rewind for one memory, or None, and the counts that include the memory."""
    known = read_id(view, name)
    if known is None or known.status is MemoryStatus.FORWARDING:
        return None, []
    newest = read_row(view, known.ordinal)
    by = hidden_by(view, name, known)
    deleted = known.status is MemoryStatus.DELETED
    if not life.before or life.before[-1][2] in _GONE:
        if deleted:
            return None, []
        step = RewindStep(name=name, seen=known.ordinal, put_back=NO_ORDINAL, hide=True, release=())
        return step, [*_kept_hidden(by - rewinds), *([] if by else ["hidden"])]
    then = life.before[-1][0]
    changed = deleted or not _same(read_row(view, then), newest)
    if changed and newest.keyed:
        return None, ["behind"]
    was_hidden = _was_hidden(tenant, life, point)
    hide = was_hidden and not by
    release = tuple(sorted(by & ({undoes} if was_hidden else rewinds)))
    counts = ["put_back"] if changed else []
    counts += ["hidden"] if hide else []
    counts += ["shown"] if release and not by - rewinds and not deleted else []
    counts += [] if deleted and not changed else _kept_hidden(by - rewinds)
    if not (changed or hide or release):
        return None, counts
    put_back = then if changed else NO_ORDINAL
    step = RewindStep(name=name, seen=known.ordinal, put_back=put_back, hide=hide, release=release)
    return step, counts


def _kept_hidden(others: frozenset[str]) -> list[str]:
    """The count for a memory that a person or an isolation hides, so that no rewind shows it."""
    return ["kept_hidden"] if others else []


def _was_hidden(tenant: Tenant, life: _Life, point: PastPoint) -> bool:
    """Whether the last leaf about a memory before the point to rewind to put it in quarantine."""
    deleted = max((leaf for _, leaf, kind in life.before if kind in _GONE), default=-1)
    said = [
        one
        for subject in life.subjects
        for one in point.hidden.get((tenant, subject), ())
        if deleted < one[0] < point.index
    ]
    return max(said)[1] if said else False


def _same(one: Row, other: Row) -> bool:
    """Whether two rows of one memory have the same content, so that a rewind writes no row."""
    return (
        one.canonical == other.canonical
        and one.salt == other.salt
        and one.kept == other.kept
        and one.scope == other.scope
        and one.expires_at == other.expires_at
    )


def _name_in_log(view: View, row: Row) -> str:
    leaf = read_leaf(view, row.leaf_index)
    known = leaf.memory_id if isinstance(leaf, VerdictLeaf) else None
    return known or f"candidate {row.candidate_id}"


def _rewinds(view: View) -> frozenset[str]:
    found = (one for _, one in view.records(INCIDENTS))
    return frozenset(one.incident_id for one in found if one.kind is IncidentKind.REWIND)
