"""Names under a drift alarm: listed from the memories that mention them, and accepted."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from policy.query import EVERYTHING
from policy.text.names import CROWD, mentioned_in
from storage.audit import OperatorLeaf
from storage.drift import DRIFT_ACCEPT, DRIFT_REVOKE, Alarm, Watched
from storage.tables.rows import memory_of, read_id, read_row
from storage.write.cells import CELLS_MAX, is_low

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.model import Memory, MemoryId, PrincipalId, Tenant
    from storage.tables.change import Change
    from storage.write.engine import Engine
    from storage.write.writer import EmbeddedWriter

_IDS_SHOWN: Final = 5
_LONG: Final = 4_096
_TOLD_MAX: Final = 65_536


class EmbeddedDrift:
    """Implements `Drift` (names under alarm) on the embedded engine."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter) -> None:
        self._engine = engine
        self._writer = writer
        self._names = engine.parts.names
        self._cells = engine.parts.judge.cells
        # Numbers (hashes) of texts that were processed already, the oldest first. Where two texts
        # have the same number, the second is skipped: then its names are not exempt, which is safe.
        self._told: OrderedDict[tuple[Tenant, int], None] = OrderedDict()

    def alarms(self, tenant: Tenant) -> tuple[Alarm, ...]:
        """Every name under alarm, the most mentioned first (`Drift.alarms`)."""
        words = self._cells.alarmed(tenant)
        hashed = self._names.cells(tenant).word
        names: dict[bytes, str] = {}
        ids: dict[bytes, list[MemoryId]] = {word: [] for word in words}
        for memory in self._low(tenant) if words else ():
            for word in mentioned_in(memory.text).every:
                name = hashed(word)
                if name in ids and len(ids[name]) < _IDS_SHOWN:
                    names[name] = word
                    ids[name].append(memory.memory_id)
        with self._engine.parts.store.reading() as view:
            counts = {word: self._cells.count(view, tenant, word) for word in words}
        now_ms = self._engine.parts.clock()
        found = (
            Alarm(
                cell=word.hex(),
                name=names.get(word),
                count=counts[word].live_count(now_ms),
                accepted=accepted,
                memory_ids=tuple(ids[word]),
            )
            for word, accepted in words.items()
        )
        return tuple(sorted(found, key=lambda one: (-one.count, one.cell)))

    def watched(self, tenant: Tenant) -> Watched:
        """How many different names are counted in a tenant."""
        with self._engine.parts.store.reading() as view:
            tally = self._cells.tally(view, tenant)
        return Watched(
            names=tally.name_count,
            words=tally.word_count,
            floor=tally.floor_now(self._engine.parts.clock()),
            alarms=len(self._cells.alarmed(tenant)),
            names_max=CELLS_MAX,
        )

    def raised(self, tenant: Tenant, text: str) -> tuple[str, ...]:
        """The names in a text that are under alarm and accepted by nobody (`Drift.raised`)."""
        with self._engine.parts.store.reading() as view:
            return self._cells.raised_by(view, tenant, text, self._engine.parts.clock())

    async def said(self, tenant: Tenant, texts: Iterable[str]) -> None:
        """Exempt the names in what persons said (`Drift.said`)."""
        # Each request brings its whole conversation again, so known texts are skipped.
        new = [text for text in texts if (tenant, hash(text)) not in self._told]
        if sum(map(len, new)) > _LONG:
            await asyncio.to_thread(self._cells.heard, tenant, new)
        else:
            self._cells.heard(tenant, new)
        for text in new:
            self._told[tenant, hash(text)] = None
        while len(self._told) > _TOLD_MAX:
            self._told.popitem(last=False)

    async def accept(self, tenant: Tenant, name: str, by: PrincipalId) -> tuple[str, ...]:
        """Exempt the words of a name from holds (`Drift.accept`)."""
        return await self._rule(tenant, name, by, accepted=True)

    async def revoke(self, tenant: Tenant, name: str, by: PrincipalId) -> tuple[str, ...]:
        """Take acceptances of names back (`Drift.revoke`)."""
        return await self._rule(tenant, name, by, accepted=False)

    async def _rule(
        self, tenant: Tenant, name: str, by: PrincipalId, *, accepted: bool
    ) -> tuple[str, ...]:
        words = [CROWD] if name == CROWD else sorted(mentioned_in(name).every)

        def work(change: Change) -> tuple[str, ...]:
            found = (self._cells.accept(change, tenant, one, accepted=accepted) for one in words)
            cells = tuple(cell for cell in found if cell is not None)
            for cell in cells:
                # A leaf stays after a purge, so it identifies the name by its cell's key, and does
                # not contain the name.
                change.log(
                    OperatorLeaf(
                        at_ms=change.now_ms,
                        action=DRIFT_ACCEPT if accepted else DRIFT_REVOKE,
                        subject=f"cell {cell}",
                        by=by,
                        detail=tenant,
                    )
                )
            return cells

        return await self._writer.run(lambda: self._engine.transact(work)) if words else ()

    def _low(self, tenant: Tenant) -> Iterator[Memory]:
        """The live memories of low trust, the newest first."""
        catalogue, clock = self._engine.parts.derived.catalogue, self._engine.parts.clock
        self._engine.parts.derived.wait()
        found, _ = catalogue.candidates(tenant, EVERYTHING, clock())
        for ordinal in found[::-1].tolist():
            with self._engine.parts.store.reading() as view:
                row = read_row(view, ordinal)
                known = read_id(view, self._names.memory(tenant, row.memory_id))
                if known is not None and known.ordinal == ordinal and is_low(row):
                    yield memory_of(row, known.status)
