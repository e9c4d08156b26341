"""Judges a model's calls of memory-writing tools before the calls reach the agent.

The agent may carry out a write without the sidecar: in a file, or in its own database. So a refused
call never reaches the agent, and an admitted call is stored on disk as an intent before it is
forwarded. The relay that gets the call settles the intent, or else the call's result in the agent's
next request.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from policy.model import NAME_LEN_MAX, Channel, Principal, PrincipalId
from policy.verdict import Reason
from proxy.dialects.mcp.calls import ToolCall, read_call
from proxy.dialects.mcp.maps import ToolKind, ToolMap
from proxy.dialects.model.api import ANTHROPIC
from proxy.dialects.model.memory_tools import Maps, MemoryTool, OfferedTools
from proxy.dialects.model.reading import arguments_of
from proxy.dialects.model.tools import outcomes_of, tools_of
from proxy.dialects.model.transcript import ModelCall, ModelRequest
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.unmapped_tools import UnmappedTools
from proxy.model.files_judged import NamedCall, file_write
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import (
    CallIdentity,
    ForwardStatus,
    GuardAhead,
    GuardedCall,
    HostCall,
    ItemVerdict,
    Join,
    RefusedCall,
)
from proxy.seams.observations import MODEL_SERVERS, observation_of_call
from proxy.settle.forwarder import UNDECIDED, admitted_of, judge, record
from telemetry.events import TraceContext
from telemetry.propagation import format_traceparent

_CHANGES: Final = frozenset({ToolKind.WRITE, ToolKind.DELETE})
_ADMIT: Final = "admit"


class _ReplyOf(NamedTuple):
    """What the calls of one reply are judged with; `traceparent` is the verdicts' parent span."""

    principal: Principal
    catalogue: OfferedTools
    traceparent: str | None
    prepared: PreparedRequest | None


class CallJudge:
    """Judges the calls of all model fronts; one object serves all of them.

    Event loop only; any number of replies at once.
    """

    def __init__(self, guard: GuardAhead) -> None:
        self._guard = guard

    async def judge(
        self,
        principal: Principal,
        catalogue: OfferedTools,
        calls: tuple[ModelCall, ...],
        traceparent: str | None = None,
        prepared: PreparedRequest | None = None,
    ) -> tuple[str | None, ...]:
        """Judge calls; return None for each one to forward, else the text that replaces the call.

        The items of admitted calls are stored as intents when this returns. Without the request
        (`prepared`) calls of the agent's own file tools are not judged. A call that a hook reports
        and that a front has admitted is not judged a second time.
        """
        asked = _ReplyOf(principal, catalogue, traceparent, prepared)
        return tuple([await self._one(asked, call) for call in calls])

    async def withdrawn(self, principal: Principal, call: ModelCall) -> None:
        """Settle an admitted call as not sent, because it does not reach the agent after all."""
        await self._ended(principal, call.call_id, ForwardStatus.FAILED)

    async def results(self, principal: Principal, body: dict[str, Json]) -> None:
        """Settle admitted calls as done or failed, by their results in the agent's request.

        Calls without a result stay unsettled.
        """
        waiting = self._guard.handed_over(principal)
        if not waiting:
            return
        for call_id, failed in outcomes_of(body, waiting).items():
            await self._ended(
                principal, call_id, ForwardStatus.FAILED if failed else ForwardStatus.DONE
            )

    async def _ended(self, principal: Principal, call_id: str, state: ForwardStatus) -> None:
        # If an outcome cannot be recorded now, it is recorded with the next request.
        with contextlib.suppress(*UNDECIDED):
            await self._guard.ended(principal, call_id, state)

    async def _one(self, asked: _ReplyOf, call: ModelCall) -> str | None:
        principal = asked.principal
        found = asked.catalogue.find(call)
        outer, call = call, asked.catalogue.meant(call)
        if call is not outer and call.arguments is None:
            return await self._refused(asked, Reason.CALL_MALFORMED)
        if found is not None and (found.tool_map is None or found.tool is None):
            return await self._refused(asked, Reason.UNKNOWN_TOOL)
        try:
            named = await _named(asked.prepared, found, call)
        except MalformedRequest as error:
            # The error's detail names paths of the tool map, never a value that was sent.
            text = await self._refused(asked, Reason.CALL_MALFORMED)
            return f"{text} ({error.detail})"
        if named is None:
            return None
        if named.call.kind in _CHANGES:
            # The item is filed under the name that relays use for the server, so that it is the
            # same item whether the call is judged here or at a relay.
            relayed = self._guard.server_of(principal, named.server)
            server = relayed or MODEL_SERVERS + named.map_name
            return await self._write(asked, server, call, named)
        closed = named.call.closed(by_agent=principal.channel is Channel.AGENT)
        return None if closed is None else await self._refused(asked, closed)

    async def _refused(self, asked: _ReplyOf, reason: Reason) -> str:
        """Record a call that is not judged; return the text that replaces the call."""
        refused = RefusedCall(reason=reason, traceparent=asked.traceparent)
        await self._guard.refused(asked.principal, refused)
        return observation_of_call(reason)

    async def _write(
        self, asked: _ReplyOf, server: str, call: ModelCall, named: NamedCall
    ) -> str | None:
        principal, read = asked.principal, named.call
        hooked = None if asked.prepared is None else asked.prepared.hooked
        unnamed = hooked is not None and not hooked.call_id
        made = CallIdentity(call_id=call.call_id, digest=named.digest, unnamed=unnamed)
        if hooked is not None and self._guard.joined(principal, made):
            return None
        guarded = GuardedCall(
            server=server,
            tool=read.tool,
            items=read.items,
            join=Join(tool_use_id=_short(call.call_id)),
            traceparent=asked.traceparent,
        )
        try:
            judged = await judge(self._guard.judge_ahead, principal, guarded)
        except UNDECIDED:
            return observation_of_call(Reason.GATE_UNAVAILABLE)
        if any(one.decision != _ADMIT for one in judged):
            # If one item is refused, the whole call is: its admitted items are settled as not done.
            await record(self._guard, principal, server, admitted_of(judged), ForwardStatus.FAILED)
            return _text(judged)
        await self._guard.hand_over(principal, made, guarded, judged)
        return None


async def _named(
    prepared: PreparedRequest | None, found: MemoryTool | None, call: ModelCall
) -> NamedCall | None:
    """The parsed call of a memory tool, or of a file tool that changes a place; else None."""
    if found is not None and found.tool_map is not None and found.tool is not None:
        read = _read(found.tool_map, found.tool, call)
        return NamedCall(read, found.tool_map.name, found.server, read.items)
    return None if prepared is None else await file_write(prepared, call)


def _read(tool_map: ToolMap, tool: str, call: ModelCall) -> ToolCall:
    if call.arguments is None:
        raise MalformedRequest("arguments: must be an object, with each name once")
    return read_call(tool_map, {"name": tool, "arguments": call.arguments})


def _text(judged: tuple[ItemVerdict, ...]) -> str:
    refused = [(at, one) for at, one in enumerate(judged, 1) if one.decision != _ADMIT]
    if len(judged) == 1:
        return refused[0][1].observation
    said = [f"Item {at} of {len(judged)}: {one.observation}" for at, one in refused]
    return "\n".join((*said, "Nothing of this call was done. Leave these out and call again."))


def _short(name: str) -> str | None:
    return name if 0 < len(name) <= NAME_LEN_MAX else None


_LOG: Final = logging.getLogger("mnemogate.model")
_UNMAPPED: Final = "a tool speaks of memory and no map takes it"
_PROGRAM: Final = (
    "a tool runs programs: calls inside are judged only at a relay, a hook and the next read"
)


class ReplyJudge:
    """Judges the calls of a model's replies, and warns of tools and keys that need a person."""

    def __init__(
        self,
        veto: CallJudge,
        unmapped: UnmappedTools,
        programs: UnmappedTools,
        people_with_agents: set[PrincipalId],
    ) -> None:
        """`unmapped` are tools about memory that no map describes, `programs` run programs.

        `people_with_agents` is filled with the principals of people whose models call tools.
        """
        self._people_with_agents = people_with_agents
        self._veto = veto
        self._unmapped = unmapped
        self._programs = programs

    async def results(self, asked: PrincipalRequest) -> None:
        """Settle earlier admitted calls that have results in the request."""
        await self._veto.results(asked.principal, asked.body)

    async def judge(
        self,
        prepared: PreparedRequest,
        calls: tuple[ModelCall, ...],
        withheld: Callable[[ModelCall], str | None],
    ) -> tuple[str | None, ...]:
        """For each complete call: None to forward it, or the text that the agent gets instead.

        Memory writes are judged first, so that `withheld` finds a text that was refused in one of
        them in the other calls; it returns the text in place of a call that has a withheld text.
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
            prepared,
        )
        texts: list[str | None] = []
        for call, verdict in zip(calls, verdicts, strict=True):
            texts.append(withheld(call) if verdict is None else verdict)
            if verdict is None and texts[-1] is not None:
                await self._veto.withdrawn(principal, call)
        return tuple(texts)

    def _tell_of(self, session: str, catalogue: OfferedTools) -> None:
        for known, tools, said in (
            (self._unmapped, catalogue.unmapped, _UNMAPPED),
            (self._programs, catalogue.programs, _PROGRAM),
        ):
            for tool in known.note(tools):
                _LOG.warning(said, extra={"fields": {"tool": tool, "session": session}})

    def _tell_of_person(self, who: PrincipalId) -> None:
        if who not in self._people_with_agents:
            self._people_with_agents.add(who)
            _LOG.warning("an agent has a person's key", extra={"fields": {"principal": who}})


_NOTHING: Final = ModelRequest(system=(), prefix=(), turns=(), catalogue=())


def nothing_withheld(_principal_id: PrincipalId, _call: ModelCall) -> None:
    """No text in place of a call, where no context is recorded."""


class HostCalls(msgspec.Struct, frozen=True):
    """Judges the calls that the hook of an agent's host reports before the host makes them.

    The hook gets calls that no reply of a model shows, such as those that a program makes. They are
    judged as calls of a reply, beside the files of this machine in place of a conversation.
    """

    judging: ReplyJudge
    maps: Maps
    # The text in place of a call that has a withheld text, else None.
    withheld: Callable[[PrincipalId, ModelCall], str | None]

    async def judge(
        self, principal: Principal, hooked: HostCall, trace: TraceContext
    ) -> str | None:
        """Judge one call; return None if the host may make the call, else the reason."""
        arguments = arguments_of(hooked.arguments)
        if arguments is None:
            return observation_of_call(Reason.CALL_MALFORMED)
        call_id = hooked.call_id or secrets.token_hex(16)
        call = ModelCall(call_id=call_id, name=hooked.tool, arguments=arguments)
        # No reply is edited, so it does not matter which API the request is of.
        asked = PrincipalRequest(
            principal=principal, api=ANTHROPIC, body={}, trace=trace, maps=self.maps
        )
        prepared = PreparedRequest(
            asked=asked, request=_NOTHING, body={}, session="", hooked=hooked
        )
        (refused,) = await self.judging.judge(
            prepared, (call,), lambda one: self.withheld(principal.principal_id, one)
        )
        return refused
