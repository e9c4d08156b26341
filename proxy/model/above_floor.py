"""Takes out of a model request what a memory front served below the floor of its reader."""

from __future__ import annotations

import asyncio

from policy.model import Memory, Reads
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.strict_json.tolerant import Json
from proxy.model.memory_seam import PrincipalRequest
from proxy.withhold.left_out import without
from storage.features.recalls import InContext
from storage.interfaces import MemoryReader


class AboveFloor:
    """The floors of model requests. Event loop only.

    A key of the same principal without a floor, or the same key beside a `[[model]]` table that
    has one, may have been served more than the model is to read.
    """

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader

    async def of(
        self,
        asked: PrincipalRequest,
        body: dict[str, Json],
        served: tuple[InContext, ...],
        leave: LeftUnchanged,
    ) -> tuple[dict[str, Json], tuple[InContext, ...]]:
        """The body without what served memories below the floor say, and nothing else says.

        Returns also the served memories that are left in it.
        """
        if asked.principal.reads is Reads.ALL or not served:
            return body, served
        return await asyncio.to_thread(self._above, asked, body, served, leave)

    def _above(
        self,
        asked: PrincipalRequest,
        body: dict[str, Json],
        served: tuple[InContext, ...],
        leave: LeftUnchanged,
    ) -> tuple[dict[str, Json], tuple[InContext, ...]]:
        kept: list[InContext] = []
        present: list[Memory] = []
        below: list[Memory] = []
        for one in served:
            memory = self._memory(asked, one)
            if memory is not None and not asked.principal.reads.shows(memory.source):
                below.append(memory)
                continue
            kept.append(one)
            present += () if memory is None else (memory,)
        if not below:
            return body, served
        return without(body, asked.api.name, leave, out=below, present=present), tuple(kept)

    def _memory(self, asked: PrincipalRequest, served: InContext) -> Memory | None:
        if served.memory_id is None:
            return None
        return self._reader.get(asked.principal.tenant, served.memory_id)
