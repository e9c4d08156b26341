"""What the gate's own verdicts tell about a memory that another server keeps under a key."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec

from policy.facts import TargetState
from policy.labels.ceiling import ceiling_of
from policy.labels.editing import EDITS_MAX, NOBODY_KNOWS, TextStanding, text_after
from policy.labels.forwarded_call import call_of
from policy.model import ChangeKind, MemoryStatus, SourceKind, meet
from storage.tables.rows import candidate_of, guarded_rows

if TYPE_CHECKING:
    from policy.model import MemoryClass, PrincipalId, Tenant
    from storage.tables.keys import KeyedNames
    from storage.tables.lmdb_store import View
    from storage.tables.rows import GuardedRow
    from storage.values import Row

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.FORWARDING})


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """The rows under one key of another server, summed up.

    `state` and `row`, the newest, are None where no row is left. The label is that of the most
    trusted row, and the class that of the most powerful.
    """

    state: TargetState | None
    row: Row | None
    standing: TextStanding


NOTHING_THERE: Final = Thing(state=None, row=None, standing=NOBODY_KNOWS)


class _Text:
    """The text under one key, reconstructed call by call in the order of their admission."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._sources: list[SourceKind] = []
        self._ceilings: list[SourceKind] = []
        self._authors: set[PrincipalId] = set()
        self._waits = False

    def take(self, one: GuardedRow) -> None:
        """Follow the text and its labels through the next row, in the order of admission."""
        change, gone = one.sent.change, one.status is MemoryStatus.DELETED
        # The text is known whole only if nobody changed or removed this memory here.
        whole = one.row is one.sent
        self._waits = self._waits or one.status is MemoryStatus.FORWARDING
        if gone and whole and change is not ChangeKind.DELETE:
            # This row does not change the text: the server refused the call, or the memory was
            # deleted later.
            return
        if gone or not whole or change is ChangeKind.DELETE or one.status not in _STANDING:
            # The row does not say how much a deletion removed, or whether it was done, so the text
            # is unknown.
            self._text = None
            return
        call = call_of(candidate_of(one.sent))
        if call is not None and call.sets_all:
            self._sources, self._ceilings, self._authors = [], [], set()
        self._sources.append(one.sent.source)
        self._ceilings.append(ceiling_of(one.sent))
        self._authors.add(one.sent.principal_id)
        effect = None if call is None or len(self._sources) > EDITS_MAX else call.effect
        self._text = None if call is None else text_after(self._text, call.pieces, effect)

    def standing(self, by: PrincipalId, memory_class: MemoryClass | None) -> TextStanding:
        """The text and its labels, as far as one principal may rely on them."""
        if self._text is None:
            return NOBODY_KNOWS
        return TextStanding(
            text=self._text,
            mine=not self._waits and self._authors == {by},
            source=reduce(meet, self._sources),
            ceiling=reduce(meet, self._ceilings),
            memory_class=memory_class,
        )


def read_thing(
    view: View, names: KeyedNames, tenant: Tenant, target: str, key: str, by: PrincipalId
) -> Thing:
    """What is known of the memory under a key of a server behind, for a change by this principal.

    Raises:
        StoreCorrupt: A row is damaged.
    """
    text = _Text()
    found: list[Row] = []
    for one in guarded_rows(view, names, tenant, target, key):
        text.take(one)
        if one.status in _STANDING and one.sent.change is not ChangeKind.DELETE:
            found.append(one.row)
    state = None
    if found:
        state = TargetState(
            source=max((row.source for row in found), key=lambda source: source.trust),
            ceiling=max(map(ceiling_of, found), key=lambda source: source.trust),
            memory_class=max((row.memory_class for row in found), key=lambda one: one.power),
            status=MemoryStatus.LIVE,
            version=max(row.version for row in found),
        )
    standing = text.standing(by, None if state is None else state.memory_class)
    return Thing(state=state, row=found[-1] if found else None, standing=standing)
