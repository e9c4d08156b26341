"""The catalogue of live rows, by tenant and ids: read from the tables and held in memory.

The writer appends to arrays. Readers use views of them, which never change below the length that
the reader saw. Only the marks of live rows change, so every reader checks its hits against the
store afterwards.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.model import Reads, Scope, SourceKind, Tenant
from policy.query import AllOf, AnyOf, Compare, Field, Filter, Test, is_under
from storage.tables.rows import expiry_ms
from storage.values import Row

Ordinals = NDArray[np.int64]
Mask = NDArray[np.bool_]
Ranks = NDArray[np.int8]
Version: TypeAlias = "tuple[int, Row]"
"""The ordinal of one row of a memory, and the row."""

_FIRST_CAPACITY: Final = 16
_MARKS_CAPACITY: Final = 4_096
_DEAD_SHARE: Final = 2
_DENSE_SHARE: Final = 16
MARKED_OVER: Final = 4_096
"""The number of rows in a store from which on long lists are held as masks as well."""
_ID_FIELDS: Final = {
    Field.USER_ID: "user",
    Field.AGENT_ID: "agent",
    Field.RUN_ID: "run",
    Field.APP_ID: "app",
}


class _Ordinals:
    """An ascending list that only grows. A view of it stays valid while the list grows."""

    __slots__ = ("_buffer", "_length", "_marking", "_marks", "dead")

    def __init__(self) -> None:
        self._buffer: Ordinals = np.empty(_FIRST_CAPACITY, dtype=np.int64)
        self._length = 0
        self.dead = 0
        self._marking = threading.Lock()
        # The list as a mask indexed by ordinal, with the number of entries that the mask includes.
        self._marks: tuple[Mask, int] | None = None

    def marks(self, reach: int) -> Mask:
        """A mask, at least `reach` long, that is True at each ordinal of the list.

        Ordinals that are added later may be marked in the same mask.
        """
        with self._marking:
            found = self.view()
            marks, known = self._marks or (np.zeros(0, dtype=np.bool_), 0)
            if len(found):
                reach = max(reach, int(found[-1]) + 1)
            if len(marks) < reach:
                grown: Mask = np.zeros(2 * reach, dtype=np.bool_)
                grown[: len(marks)] = marks
                marks = grown
            marks[found[known:]] = True
            self._marks = (marks, len(found))
            return marks

    def forget_marks(self) -> None:
        """Drop the mask, because an entry in the middle of the list has changed."""
        with self._marking:
            self._marks = None

    def append(self, ordinal: int) -> None:
        buffer, length = self._buffer, self._length
        if length == len(buffer):
            grown = np.empty(2 * length, dtype=np.int64)
            grown[:length] = buffer
            self._buffer = buffer = grown
        buffer[length] = ordinal
        self._length = length + 1

    def fill(self, ordinals: Ordinals) -> None:
        """Fill the empty list with ascending ordinals."""
        self._buffer = ordinals
        self._length = len(ordinals)

    def readmit(self, ordinal: int) -> None:
        kept = self.view()
        at = int(np.searchsorted(kept, ordinal))
        if at < len(kept) and kept[at] == ordinal:
            self.dead -= 1
            return
        # The ordinal was removed from the list earlier. A new buffer is made, because a reader may
        # be using the old one.
        buffer: Ordinals = np.empty(max(_FIRST_CAPACITY, 2 * (len(kept) + 1)), dtype=np.int64)
        buffer[:at] = kept[:at]
        buffer[at] = ordinal
        buffer[at + 1 : len(kept) + 1] = kept[at:]
        self._buffer = buffer
        self._length = len(kept) + 1
        self.forget_marks()

    def view(self) -> Ordinals:
        # The length is read before the buffer, so that it never exceeds the buffer.
        length = self._length
        return self._buffer[:length]

    def __len__(self) -> int:
        return self._length

    def sift(self, masks: Iterable[Mask]) -> None:
        kept = self.view()
        kept = kept[np.logical_or.reduce([mask[kept] for mask in masks])]
        buffer: Ordinals = np.empty(max(_FIRST_CAPACITY, 2 * len(kept)), dtype=np.int64)
        buffer[: len(kept)] = kept
        # The length is set first, so that a reader in between sees fewer rows of the old buffer,
        # and never undefined ones.
        self._length = min(self._length, len(kept))
        self._buffer = buffer
        self.dead = 0
        self.forget_marks()


class Catalogue:
    """The live rows of a store. The writer thread changes the catalogue; any thread reads it.

    `stamp` is the `leaf_count` of the header with which the catalogue agrees, or -1 during a
    change; every visible change has a leaf. A reader has seen one generation if the stamp was the
    same before the read and after it, and equals the `leaf_count` in the reader's view of the
    store.
    """

    def __init__(self) -> None:
        self.stamp = -1
        # Maps each floor for reads to a mask of the rows that it shows, at most one of each memory.
        self._shown: dict[Reads, Mask] = {
            floor: np.zeros(_MARKS_CAPACITY, dtype=np.bool_) for floor in Reads
        }
        # The rank of each row's label (`SourceKind.trust`), by ordinal.
        self._ranks: Ranks = np.zeros(_MARKS_CAPACITY, dtype=np.int8)
        # Maps a memory's newest row to its earlier rows that only floors above the newest one show.
        self._earlier: dict[int, Sequence[Version]] = {}
        # One more than the highest ordinal of the store.
        self._reach = 0
        # A list is made where a row is added or removed; reads ask with `get`.
        self._tenants = defaultdict[Tenant, _Ordinals](_Ordinals)
        self._named = defaultdict[tuple[Tenant, str, str], _Ordinals](_Ordinals)
        self._expiry: dict[int, int] = {}

    def begin(
        self,
        groups: Iterable[tuple[Tenant, Scope, Ordinals]],
        expiring: Mapping[int, str],
        trusts: NDArray[np.int8],
    ) -> None:
        """Fill an empty catalogue with live rows; the rows of a group share tenant and ids.

        `trusts` has the trust of each row's label, indexed by ordinal.
        """
        self._reserve(len(trusts))
        self._ranks[: len(trusts)] = np.minimum(trusts, SourceKind.OPERATOR.trust)
        parts: defaultdict[int, list[Ordinals]] = defaultdict(list)
        entries: dict[int, _Ordinals] = {}
        for tenant, scope, ordinals in groups:
            self._reserve(int(ordinals[-1]) + 1)
            self._reach = max(self._reach, int(ordinals[-1]) + 1)
            for floor, shown in self._shown.items():
                shown[ordinals] = trusts[ordinals] >= floor.trust
            for entry in self._lists(tenant, scope):
                entries[id(entry)] = entry
                parts[id(entry)].append(ordinals)
        for name, entry in entries.items():
            entry.fill(np.sort(np.concatenate(parts[name])))
        for ordinal, expires_at in expiring.items():
            self._expiry[ordinal] = expiry_ms(expires_at)

    def add(self, ordinal: int, row: Row) -> None:
        """Add the row of a new memory or version that reads show. Ordinals must ascend."""
        self._reserve(ordinal + 1)
        for entry in self._lists(row.tenant, row.scope):
            entry.append(ordinal)
        if row.expires_at is not None:
            self._expiry[ordinal] = expiry_ms(row.expires_at)
        self._mark(ordinal, row)
        self._reach = ordinal + 1

    def supersede(self, ordinal: int, row: Row, newest: Version) -> None:
        """Replace a memory's newest row by a newer row.

        A row whose label is more trusted than all newer ones stays, for floors above the newer
        ones.
        """
        for one in ((ordinal, row), *self._earlier.get(ordinal, ())):
            self._hide(*one, trust=newest[1].source.trust)
        self.follow(ordinal, row, newest)

    def follow(self, ordinal: int, row: Row, newest: Version) -> None:
        """Note the newest row of a memory; rows before it that are more trusted stay available."""
        earlier = ((ordinal, row), *self._earlier.pop(ordinal, ()))
        trust = newest[1].source.trust
        self.keep_earlier(newest, [one for one in earlier if one[1].source.trust > trust])

    def retire(self, ordinal: int, row: Row) -> None:
        """Remove a memory, by its newest row, because reads show it no longer."""
        for one in ((ordinal, row), *self._earlier.get(ordinal, ())):
            self._hide(*one)

    def readmit(self, ordinal: int, row: Row) -> None:
        """Add a memory, by its newest row, that was removed before or never shown."""
        self._reserve(ordinal + 1)
        above = -1
        for one, version in ((ordinal, row), *self._earlier.get(ordinal, ())):
            if version.source.trust <= above:
                # The label of a newer row is at least as trusted, because it was raised meanwhile.
                continue
            for entry in self._lists(version.tenant, version.scope):
                entry.readmit(one)
            if version.expires_at is not None:
                self._expiry[one] = expiry_ms(version.expires_at)
            self._mark(one, version, above=above)
            above = version.source.trust

    def keep_earlier(
        self, newest: Version, earlier: Sequence[Version], *, live: bool = False
    ) -> None:
        """Note the earlier rows of a memory that floors above its newest row show, newest first.

        `live`: reads show the memory, and its earlier rows are not in the lists yet.
        """
        if not earlier:
            return
        # A purge may erase these rows, so their content is not held here.
        self._earlier[newest[0]] = [
            (at, msgspec.structs.replace(row, canonical=b"", kept=None)) for at, row in earlier
        ]
        if live:
            self.retire(*newest)
            self.readmit(*newest)

    def _mark(self, ordinal: int, row: Row, *, above: int = -1) -> None:
        trust = row.source.trust
        self._ranks[ordinal] = trust
        for floor, shown in self._shown.items():
            shown[ordinal] = above < floor.trust <= trust

    def _hide(self, ordinal: int, row: Row, *, trust: int | None = None) -> None:
        """Hide a row from floors up to the trust of a newer row, or (None) from all floors."""
        for floor, shown in self._shown.items():
            if trust is None or floor.trust <= trust:
                shown[ordinal] = False
        if trust is not None and trust < row.source.trust:
            return
        self._expiry.pop(ordinal, None)
        for entry in self._lists(row.tenant, row.scope):
            entry.dead += 1
            if entry.dead * _DEAD_SHARE > len(entry) > _FIRST_CAPACITY:
                entry.sift(self._shown.values())

    def _reserve(self, length: int) -> None:
        if length > len(self._ranks):
            spare = max(length - len(self._ranks), len(self._ranks))
            for floor, shown in self._shown.items():
                self._shown[floor] = np.append(shown, np.zeros(spare, dtype=np.bool_))
            self._ranks = np.append(self._ranks, np.zeros(spare, dtype=np.int8))

    def _lists(self, tenant: Tenant, scope: Scope) -> list[_Ordinals]:
        names = (
            ("user", scope.user_id),
            ("agent", scope.agent_id),
            ("run", scope.run_id),
            ("app", scope.app_id),
        )
        named = self._named
        return [
            self._tenants[tenant],
            *[named[tenant, kind, name] for kind, name in names if name is not None],
        ]

    def candidates(
        self, tenant: Tenant, where: Filter, now_ms: int, reads: Reads = Reads.ALL
    ) -> tuple[Ordinals, bool]:
        """The live ordinals of a tenant that a floor shows and a filter may match, ascending.

        Returns them, and whether all of them are certain to match.
        """
        lists, exact = self._asked(tenant, where)
        if all(self._dense(entry) for entry in lists):
            return np.flatnonzero(self._marked(lists, now_ms, reads)), exact
        return self._listed(lists, now_ms, reads), exact

    def allowed(
        self, tenant: Tenant, where: Filter, now_ms: int, reads: Reads = Reads.ALL
    ) -> tuple[Mask, bool]:
        """Like `candidates`, but as a mask indexed by ordinal."""
        lists, exact = self._asked(tenant, where)
        if all(self._dense(entry) for entry in lists):
            return self._marked(lists, now_ms, reads), exact
        return self.mask(self._listed(lists, now_ms, reads)), exact

    def _asked(self, tenant: Tenant, where: Filter) -> tuple[list[_Ordinals], bool]:
        """Lists of ordinals, each with all matches in it, and whether the filter tests only ids."""
        narrowed = _narrow(where)
        lists = [self._tenants.get(tenant) or _Ordinals()]
        for kind, names in narrowed.ids:
            lists.append(self._union(tenant, kind, names))
        for kind, root in narrowed.roots:
            lists.append(self._union(tenant, kind, self._under(tenant, kind, root)))
        return lists, narrowed.exact

    def _dense(self, entry: _Ordinals) -> bool:
        """Whether this list is so long that a mask of it saves time; only few lists can be."""
        return self._reach > MARKED_OVER and len(entry) * _DENSE_SHARE >= self._reach

    def _marked(self, lists: Sequence[_Ordinals], now_ms: int, reads: Reads) -> Mask:
        reach = self._reach
        marks = self._shown[reads][:reach].copy()
        for entry in lists:
            marks &= entry.marks(reach)[:reach]
        expired = np.array(self._expired(now_ms), dtype=np.int64)
        marks[expired[expired < reach]] = False
        return marks

    def _listed(self, lists: Sequence[_Ordinals], now_ms: int, reads: Reads) -> Ordinals:
        shortest, *others = sorted(lists, key=len)
        found = shortest.view()
        for entry in others:
            if self._dense(entry):
                marks = entry.marks(self._reach)
                # Entries that were added after the mask was made belong to a later generation.
                found = found[found < len(marks)]
                found = found[marks[found]]
            else:
                found = np.intersect1d(found, entry.view(), assume_unique=True)
        found = found[self._shown[reads][found]]
        return self._unexpired(found, now_ms)

    def ranks(self, ordinals: Ordinals) -> Ranks:
        """The rank of the label (`SourceKind.trust`) of each row."""
        return self._ranks[ordinals]

    def mask(self, found: Ordinals) -> Mask:
        """A mask, indexed by ordinal, that is True at the given ordinals."""
        mask: Mask = np.zeros(int(found[-1]) + 1 if len(found) else 0, dtype=np.bool_)
        mask[found] = True
        return mask

    def entities(
        self, tenant: Tenant, now_ms: int, reads: Reads = Reads.ALL
    ) -> Iterator[tuple[str, str, Ordinals]]:
        """Every id under which a floor shows rows of a tenant, with the ordinals of these rows."""
        for (owner, kind, name), entry in tuple(self._named.items()):
            if owner != tenant:
                continue
            found = entry.view()
            found = self._unexpired(found[self._shown[reads][found]], now_ms)
            if len(found):
                yield kind, name, found

    def _union(self, tenant: Tenant, kind: str, names: Iterable[str]) -> _Ordinals:
        parts = [
            entry
            for name in set(names)
            if (entry := self._named.get((tenant, kind, name))) is not None
        ]
        if len(parts) == 1:
            return parts[0]
        union = _Ordinals()
        if parts:
            union.fill(np.unique(np.concatenate([entry.view() for entry in parts])))
        return union

    def _under(self, tenant: Tenant, kind: str, root: str) -> list[str]:
        """The names of a tenant that are `root`, or continue it after a full stop."""
        return [
            name
            for owner, named, name in tuple(self._named)
            if owner == tenant and named == kind and is_under(name, root)
        ]

    def _expired(self, now_ms: int) -> list[int]:
        return [ordinal for ordinal, at_ms in tuple(self._expiry.items()) if at_ms <= now_ms]

    def _unexpired(self, found: Ordinals, now_ms: int) -> Ordinals:
        if not self._expiry:
            return found
        expired = self._expired(now_ms)
        return found[~np.isin(found, expired)] if expired else found


class _Narrowed(NamedTuple):
    """The ids that every match of a filter must have, and whether the filter tests nothing else.

    `ids` pairs each kind with the allowed names; `roots` with a first part (`Compare.UNDER`).
    """

    ids: list[tuple[str, tuple[str, ...]]]
    roots: list[tuple[str, str]]
    exact: bool


def _narrow(where: Filter) -> _Narrowed:
    match where:
        case AllOf(parts=parts):
            narrowed = [_narrow(part) for part in parts]
            ids = [pair for part in narrowed for pair in part.ids]
            roots = [pair for part in narrowed for pair in part.roots]
            return _Narrowed(ids, roots, exact=all(part.exact for part in narrowed))
        case AnyOf(parts=(part,)):
            return _narrow(part)
        case Test(field=field, compare=Compare.EQ | Compare.IN, values=values) if (
            field in _ID_FIELDS
        ):
            names = tuple(value for value in values if isinstance(value, str))
            return _Narrowed([(_ID_FIELDS[field], names)], [], exact=len(names) == len(values))
        case Test(field=field, compare=Compare.UNDER, values=(str() as root,)) if (
            field in _ID_FIELDS
        ):
            return _Narrowed([], [(_ID_FIELDS[field], root)], exact=True)
        case _:
            return _Narrowed([], [], exact=False)
