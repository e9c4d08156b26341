"""Judges the tool calls of a model's reply: one layer of what couples the model front to memory."""

from __future__ import annotations

import logging
from typing import Final

from policy.model import Channel, Principal, PrincipalId
from proxy.dialects.model.memory_tools import OfferedTools
from proxy.dialects.model.tools import tools_of
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.unmapped_tools import UnmappedTools
from proxy.model.call_judge import CallJudge
from proxy.model.files_judged import ConversationFiles
from proxy.model.memory_seam import Coupling, Filter, PreparedRequest, PrincipalRequest
from telemetry.propagation import format_traceparent

_LOG: Final = logging.getLogger("mnemogate.model")


class JudgingCoupling:
    """Implements `Coupling`: judges calls, and passes the rest to the coupling that it wraps."""

    def __init__(
        self,
        inner: Coupling,
        veto: CallJudge,
        unmapped: UnmappedTools,
        people_with_agents: set[PrincipalId],
    ) -> None:
        """`people_with_agents` is filled with the principals of people whose models call tools."""
        self._inner = inner
        self._people_with_agents = people_with_agents
        self._veto = veto
        self._unmapped = unmapped

    async def prepare(self, asked: PrincipalRequest) -> PreparedRequest:
        """First settle earlier admitted calls by their results in the request; see `Coupling`."""
        await self._veto.results(asked.principal, asked.body)
        return await self._inner.prepare(asked)

    async def judge(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """For each whole call: None, or the text that the agent gets instead of it.

        Memory writes are judged first: a text that was refused there is then withheld from the
        other calls.
        """
        principal = prepared.asked.principal
        catalogue = OfferedTools(tools_of(prepared.asked.body), prepared.asked.maps)
        self._tell_of(prepared.session, catalogue)
        if calls and principal.channel is Channel.USER:
            self._tell_of_person(principal.principal_id)
        verdicts = await self._veto.judge(
            principal,
            catalogue,
            calls,
            format_traceparent(prepared.asked.trace),
            ConversationFiles(prepared, catalogue),
        )
        others = await self._inner.judge(prepared, calls)
        texts: list[str | None] = []
        for call, verdict, other in zip(calls, verdicts, others, strict=True):
            if verdict is None and other is not None:
                await self._veto.withdrawn(principal, call)
            texts.append(other if verdict is None else verdict)
        return tuple(texts)

    def _tell_of(self, session: str, catalogue: OfferedTools) -> None:
        for tool in self._unmapped.note(catalogue.unmapped):
            fields = {"tool": tool, "session": session}
            _LOG.warning("a tool speaks of memory and no map takes it", extra={"fields": fields})

    def _tell_of_person(self, who: PrincipalId) -> None:
        if who not in self._people_with_agents:
            self._people_with_agents.add(who)
            _LOG.warning("an agent has a person's key", extra={"fields": {"principal": who}})

    async def replied(self, prepared: PreparedRequest, reply: ModelReply) -> None:
        """Note what the model said and called, before the agent can act on it."""
        await self._inner.replied(prepared, reply)

    def filter(self, prepared: PreparedRequest) -> Filter:
        """Implements `Coupling.filter`: a filter for the events of one streamed reply."""
        return self._inner.filter(prepared)

    async def settled(self, principal: Principal) -> None:
        """Wait for undecided candidates; what is sent afterwards respects their verdicts."""
        await self._inner.settled(principal)

    def withholds(self, principal: Principal) -> bool:
        """Implements `Coupling.withholds`: whether anything is withheld from this principal."""
        return self._inner.withholds(principal)

    def carries(self, principal: Principal, text: str) -> bool:
        """Whether a text contains a text that is withheld from this principal."""
        return self._inner.carries(principal, text)

    def sieved(self, principal: Principal, value: Json) -> Json:
        """Implements `Coupling.sieved`: JSON without refused texts, on routes that ask no model."""
        return self._inner.sieved(principal, value)

    def said(self, prepared: PreparedRequest, body: dict[str, Json]) -> dict[str, Json]:
        """A whole reply without what is withheld; its calls were judged before."""
        return self._inner.said(prepared, body)

    def passing(self, principal: Principal) -> Filter:
        """Implements `Coupling.passing`: a filter for the events of a stream in an unknown API."""
        return self._inner.passing(principal)
