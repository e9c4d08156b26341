"""The veto as a part of loop coupling: around whatever else a model request goes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.dialects.model.memory_tools import Catalogue
from proxy.dialects.model.tools import tools_of

if TYPE_CHECKING:
    from policy.model import Principal
    from proxy.dialects.model.body import Json
    from proxy.dialects.model.transcript import ModelCall, ModelReply
    from proxy.model.coupling import Asked, Coupling, Filter, Prepared
    from proxy.model.veto import Veto


class Vetoing:
    """Implements `Coupling` on another one."""

    def __init__(self, inner: Coupling, veto: Veto) -> None:
        self._inner = inner
        self._veto = veto

    async def prepare(self, asked: Asked) -> Prepared:
        """The results that the request brings settle what was admitted; see `Coupling`."""
        await self._veto.results(asked.principal, asked.body)
        return await self._inner.prepare(asked)

    async def judge(
        self, prepared: Prepared, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """For each whole call: None, or the text that the agent gets instead of it."""
        asked = prepared.asked
        texts = await self._inner.judge(prepared, calls)
        catalogue = Catalogue(tools_of(asked.body), asked.maps)
        going_on = tuple(call for call, text in zip(calls, texts, strict=True) if text is None)
        judged = iter(await self._veto.judge(asked.principal, catalogue, going_on))
        return tuple(next(judged) if text is None else text for text in texts)

    async def replied(self, prepared: Prepared, reply: ModelReply) -> None:
        """See `Coupling`."""
        await self._inner.replied(prepared, reply)

    def filter(self, prepared: Prepared) -> Filter:
        """See `Coupling`."""
        return self._inner.filter(prepared)

    def sieved(self, principal: Principal, value: Json) -> Json:
        """See `Coupling`."""
        return self._inner.sieved(principal, value)
