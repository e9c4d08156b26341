"""Names under a drift alarm: listed from the memories that mention them, and accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.query import EVERYTHING
from policy.text.names import mentioned_in
from storage.audit import OperatorLeaf
from storage.drift import DRIFT_ACCEPT, Alarm, Watched
from storage.tables.rows import memory_of, read_id, read_row
from storage.write.cells import CELLS_MAX, is_low

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.model import Memory, MemoryId, PrincipalId, Tenant
    from storage.tables.change import Change
    from storage.write.engine import Engine
    from storage.write.writer import EmbeddedWriter

_IDS_SHOWN: Final = 5


class EmbeddedDrift:
    """Implements `Drift` on the embedded engine."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter) -> None:
        self._engine = engine
        self._writer = writer
        self._names = engine.parts.names
        self._cells = engine.parts.judge.cells

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
        """How many names are counted in a tenant."""
        with self._engine.parts.store.reading() as view:
            tally = self._cells.tally(view, tenant)
        return Watched(
            names=tally.name_count,
            words=tally.word_count,
            floor=tally.floor,
            alarms=len(self._cells.alarmed(tenant)),
            names_max=CELLS_MAX,
        )

    async def accept(self, tenant: Tenant, name: str, by: PrincipalId) -> tuple[str, ...]:
        """Exempt the words of a name from holds (`Drift.accept`)."""
        words = sorted(mentioned_in(name).every)
        if not words:
            return ()

        def work(change: Change) -> tuple[str, ...]:
            cells = tuple(self._cells.accept(change, tenant, word) for word in words)
            for cell in cells:
                # A leaf stays after a purge, so it has the name's cell and not the name.
                change.log(
                    OperatorLeaf(
                        at_ms=change.now_ms,
                        action=DRIFT_ACCEPT,
                        subject=f"cell {cell}",
                        by=by,
                        detail=tenant,
                    )
                )
            return cells

        return await self._writer.run(lambda: self._engine.transact(work))

    def _low(self, tenant: Tenant) -> Iterator[Memory]:
        """The live memories of low trust, newest first."""
        catalogue, clock = self._engine.parts.derived.catalogue, self._engine.parts.clock
        self._engine.parts.derived.wait()
        found, _ = catalogue.candidates(tenant, EVERYTHING, clock())
        for ordinal in found[::-1].tolist():
            with self._engine.parts.store.reading() as view:
                row = read_row(view, ordinal)
                known = read_id(view, self._names.memory(tenant, row.memory_id))
                if known is not None and known.ordinal == ordinal and is_low(row):
                    yield memory_of(row, known.status)
