"""Judges the memory writes that a model asks its agent for, before the agent hears of them.

The write itself may never pass the sidecar: the agent may write a file in its folder, or a block in
its database. So a refused call never reaches the agent, and an admitted one is an intent on disk
before it goes on. A relay that gets the call settles it, or else the call's result in the agent's
next request.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from policy.model import NAME_LEN_MAX, Channel
from policy.verdict import Reason
from proxy.dialects.mcp.calls import Call, read_call
from proxy.dialects.mcp.maps import ToolKind
from proxy.dialects.model.tools import outcomes_of
from proxy.seams.delivery import MODEL_SERVERS
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Forwarded, GuardedCall, Join
from proxy.seams.observations import observation_of_call
from proxy.settle.forwarding import UNDECIDED, admitted_of, judge, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.model import CandidateId, Principal, PrincipalId
    from proxy.dialects.mcp.maps import ToolMap
    from proxy.dialects.model.memory_tools import MemoryTool, OfferedTools
    from proxy.dialects.model.transcript import ModelCall
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.model.files_judged import ConversationFiles
    from proxy.seams.guard import GuardAhead, Item, Judged

HELD_MAX: Final = 1_024
_CHANGES: Final = frozenset({ToolKind.WRITE, ToolKind.DELETE})
_ADMIT: Final = "admit"
_HOLD: Final = "hold"

_K = TypeVar("_K")
_V = TypeVar("_V")


class _ReplyOf(NamedTuple):
    """The reply whose calls are judged: principal, tools, and the verdicts' parent span."""

    principal: Principal
    catalogue: OfferedTools
    traceparent: str | None
    files: ConversationFiles | None


class Veto:
    """Judges the calls of all model fronts; there is one.

    Event loop only; any number of replies at once.
    """

    def __init__(
        self,
        guard: GuardAhead,
        is_forgiven: Callable[[PrincipalId, CandidateId], bool] | None = None,
    ) -> None:
        """`is_forgiven` tells whether a person took back the denial of a principal's candidate."""
        self._guard = guard
        self._is_forgiven = is_forgiven
        # Held items by their content: an item that is proposed again counts as the same candidate.
        self._held: OrderedDict[bytes, CandidateId] = OrderedDict()
        # Items that a person released and that no relay sends: the next call with such an item goes
        # on.
        self._released: OrderedDict[CandidateId, None] = OrderedDict()

    async def judge(
        self,
        principal: Principal,
        catalogue: OfferedTools,
        calls: tuple[ModelCall, ...],
        traceparent: str | None = None,
        files: ConversationFiles | None = None,
    ) -> tuple[str | None, ...]:
        """For each call: None if it goes on, else the text that replaces it.

        The items of admitted calls are intents on disk when this returns. `files` knows the agent's
        own file tools; without it, calls of file tools are not judged.
        """
        asked = _ReplyOf(principal, catalogue, traceparent, files)
        texts: list[str | None] = []
        for call in calls:
            texts.append(await self._one(asked, call))
            if files is not None and texts[-1] is None:
                files.goes_on(call)
        return tuple(texts)

    async def withdrawn(self, principal: Principal, call: ModelCall) -> None:
        """Settle an admitted call as not sent, because it does not reach the agent after all."""
        await self._ended(principal, call.call_id, Forwarded.FAILED)

    async def results(self, principal: Principal, body: dict[str, Json]) -> None:
        """Settle admitted calls by the results in a request.

        Calls without a result stay unsettled.
        """
        waiting = self._guard.handed_over(principal)
        if not waiting:
            return
        for call_id, failed in outcomes_of(body, waiting).items():
            await self._ended(principal, call_id, Forwarded.FAILED if failed else Forwarded.DONE)

    async def _ended(self, principal: Principal, call_id: str, state: Forwarded) -> None:
        # If an outcome cannot be recorded now, it is recorded with the next request.
        with contextlib.suppress(*UNDECIDED):
            await self._guard.ended(principal, call_id, state)

    async def _one(self, asked: _ReplyOf, call: ModelCall) -> str | None:
        principal = asked.principal
        found = asked.catalogue.find(call)
        if found is not None and (found.tool_map is None or found.tool is None):
            return observation_of_call(Reason.UNKNOWN_TOOL)
        try:
            named = await _named(asked.files, found, call)
        except MalformedRequest as error:
            # The error's detail names paths of the map, never a value that was sent.
            return f"{observation_of_call(Reason.CALL_MALFORMED)} ({error.detail})"
        if named is None:
            return None
        if named.call.kind in _CHANGES:
            # The item is filed under the name that relays use for the server, so that it is the
            # same item whether the call is judged here or at a relay.
            relayed = self._guard.server_of(principal, named.server)
            server = relayed or MODEL_SERVERS + named.map_name
            return await self._write(asked, server, call, named.call)
        closed = _closed(principal, named.call.kind)
        return None if closed is None else observation_of_call(closed)

    async def _write(self, asked: _ReplyOf, server: str, call: ModelCall, read: Call) -> str | None:
        principal = asked.principal
        prints = [_print_of(principal, server, read.tool, item) for item in read.items]
        guarded = GuardedCall(
            server=server,
            tool=read.tool,
            items=read.items,
            join=Join(tool_use_id=_short(call.call_id)),
            traceparent=asked.traceparent,
        )
        try:
            judged = await self._judged(principal, guarded, prints)
        except UNDECIDED:
            return observation_of_call(Reason.GATE_UNAVAILABLE)
        for content, one in zip(prints, judged, strict=True):
            if one.decision == _HOLD and one.candidate_id is not None:
                _keep(self._held, content, one.candidate_id, HELD_MAX)
        admitted = admitted_of(judged)
        if any(one.decision != _ADMIT for one in judged):
            # A call goes on whole or not at all. An item that a person released stays released if
            # its call is refused, and waits for another call.
            undone = tuple(one for one in admitted if one not in self._released)
            await record(self._guard, principal, server, undone, Forwarded.FAILED)
            return _text(judged)
        for content, candidate_id in zip(prints, admitted, strict=True):
            # A person's release lets one call through, so it is used up here.
            if candidate_id in self._released:
                del self._released[candidate_id]
                self._held.pop(content, None)
        await self._guard.hand_over(principal, call.call_id, guarded, judged)
        return None

    async def _judged(
        self, principal: Principal, call: GuardedCall, prints: list[bytes]
    ) -> tuple[Judged, ...]:
        """One verdict per item; an item that is held already gets its candidate's decision."""
        known = [await self._known(principal, call.server, one) for one in prints]
        fresh = [item for item, one in zip(call.items, known, strict=True) if one is None]
        judged: tuple[Judged, ...] = ()
        if fresh:
            part = msgspec.structs.replace(call, items=tuple(fresh))
            judged = await judge(self._guard.judge_ahead, principal, part)
        rest = iter(judged)
        return tuple(next(rest) if one is None else one for one in known)

    async def _known(self, principal: Principal, server: str, held: bytes) -> Judged | None:
        candidate_id = self._held.get(held)
        if candidate_id is None:
            return None
        try:
            judged = await self._guard.decided(principal, candidate_id)
            forgives = self._is_forgiven
            forgiven = forgives is not None and forgives(principal.principal_id, candidate_id)
            if forgiven or judged.reason is Reason.HOLD_EXPIRED:
                # No person's denial stands: the hold has expired, or a person took the denial back.
                # So the item is judged anew, and may wait again.
                del self._held[held]
                return None
            if judged.decision != _ADMIT or candidate_id in self._released:
                return judged
            # A relay of that server may have taken the released item already, to send it.
            if not await self._guard.claim(principal, server, candidate_id):
                return None
        except UNDECIDED:
            return None
        _keep(self._released, candidate_id, None, HELD_MAX)
        return judged


class _Named(NamedTuple):
    """A tool call as its map reads it, and the name that the host gives the tool's server."""

    call: Call
    map_name: str
    server: str


async def _named(
    files: ConversationFiles | None, found: MemoryTool | None, call: ModelCall
) -> _Named | None:
    """The call, if it is one of a memory tool or of a file tool on a memory file; else None."""
    if found is not None and found.tool_map is not None and found.tool is not None:
        read = _read(found.tool_map, found.tool, call)
        return _Named(read, found.tool_map.name, found.server)
    write = None if files is None else await files.read(call)
    if write is None or write.item is None:
        return None
    tool = write.tool
    read = Call(
        tool=tool.tool,
        kind=tool.rule.kind,
        rule=None,
        arguments=call.arguments or {},
        items=(write.item,),
    )
    return _Named(read, tool.tool_map.name, tool.server)


def _read(tool_map: ToolMap, tool: str, call: ModelCall) -> Call:
    if call.arguments is None:
        raise MalformedRequest("arguments: must be an object, with each name once")
    return read_call(tool_map, {"name": tool, "arguments": call.arguments})


def _closed(principal: Principal, kind: ToolKind | None) -> Reason | None:
    """Why a call is refused although its tool changes no memory; None if it is not refused."""
    if kind is None:
        return Reason.UNKNOWN_TOOL
    agent = principal.channel is Channel.AGENT
    return Reason.ADMIN_TOOL if kind is ToolKind.ADMIN and agent else None


def _print_of(principal: Principal, server: str, tool: str, item: Item) -> bytes:
    """A digest that is equal for items of one principal that write the same at one place."""
    parts = (principal.tenant, principal.principal_id, server, tool, item.change.value)
    said = msgspec.json.encode((*parts, item.arguments, item.pieces))
    return hashlib.sha256(said).digest()


def _text(judged: tuple[Judged, ...]) -> str:
    refused = [(at, one) for at, one in enumerate(judged, 1) if one.decision != _ADMIT]
    if len(judged) == 1:
        return refused[0][1].observation
    said = [f"Item {at} of {len(judged)}: {one.observation}" for at, one in refused]
    return "\n".join((*said, "Nothing of this call was done. Leave these out and call again."))


def _short(name: str) -> str | None:
    return name if 0 < len(name) <= NAME_LEN_MAX else None


def _keep(table: OrderedDict[_K, _V], key: _K, value: _V, most: int) -> None:
    """Keep one more entry in a bounded table; the oldest entry is dropped."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
