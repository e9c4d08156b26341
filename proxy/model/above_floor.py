"""Takes out of a model request what a memory front served below the floor of its reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from policy.model import Reads
from proxy.withhold.left_out import without

if TYPE_CHECKING:
    from policy.model import Memory
    from proxy.dialects.model.withheld import Leave
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.model.memory_seam import Asked
    from storage.interfaces import MemoryReader
    from storage.recalls import InContext


class AboveFloor:
    """The floors of model requests. Event loop only.

    A key of the same principal without a floor, or the same key beside a `[[model]]` table that
    has one, may have been served more than the model is to read.
    """

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader

    async def of(
        self, asked: Asked, body: dict[str, Json], served: tuple[InContext, ...], leave: Leave
    ) -> dict[str, Json]:
        """The body without what the served memories below the floor say, and nothing else says."""
        if asked.principal.reads is Reads.ALL or not served:
            return body
        return await asyncio.to_thread(self._above, asked, body, served, leave)

    def _above(
        self, asked: Asked, body: dict[str, Json], served: tuple[InContext, ...], leave: Leave
    ) -> dict[str, Json]:
        present: list[Memory] = []
        below: list[Memory] = []
        for memory_id in (one.memory_id for one in served if one.memory_id is not None):
            memory = self._reader.get(asked.principal.tenant, memory_id)
            if memory is not None:
                shows = asked.principal.reads.shows(memory.source)
                (present if shows else below).append(memory)
        if not below:
            return body
        return without(body, asked.api.name, leave, out=below, present=present)
