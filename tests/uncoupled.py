"""A coupling of the model front that protects nothing, for the positive controls of attacks."""

from __future__ import annotations

from policy.model import Principal
from proxy.dialects.model.replies_withheld import ReplyFilter
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest


class _Everything(ReplyFilter):
    def __init__(self) -> None:
        pass

    def feed(self, event: Event) -> list[Event]:
        return [event]

    def end(self) -> list[Event]:
        return []


class UnsafeUncoupled(LedgerCoupling):
    """Protects nothing: tests use it to show that an attack works without Mnemogate."""

    def __init__(self) -> None:
        pass

    async def prepare(self, asked: PrincipalRequest) -> PreparedRequest:
        """Return the request as it came."""
        request = asked.api.read_request(asked.body, asked.readings)
        return PreparedRequest(asked=asked, request=request, body=asked.body, session="")

    async def judge(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """None for each call, so that every call is forwarded."""
        del prepared
        return (None,) * len(calls)

    async def replied(self, prepared: PreparedRequest, reply: ModelReply) -> None:
        """Note nothing of the reply."""
        del prepared, reply

    def filter(self, prepared: PreparedRequest) -> ReplyFilter:
        """A filter that passes every event."""
        del prepared
        return _Everything()

    async def settled(self, principal: Principal) -> None:
        """Return at once, without waiting for any candidate."""
        del principal

    def withholds(self, principal: Principal) -> bool:
        """False: nothing is withheld."""
        del principal
        return False

    def carries(self, principal: Principal, text: str) -> bool:
        """False: no text counts as withheld."""
        del principal, text
        return False

    def sieved(self, principal: Principal, value: Json) -> Json:
        """The same JSON, unchanged."""
        del principal
        return value

    def said(self, prepared: PreparedRequest, body: dict[str, Json]) -> dict[str, Json]:
        """The same reply, unchanged."""
        del prepared
        return body

    def passing(self, principal: Principal) -> ReplyFilter:
        """A filter that passes every event."""
        del principal
        return _Everything()
