"""Judges the facts that a memory backend's own model extracts, before the backend gets them.

With `infer=true` the stored text does not exist yet when the write crosses a memory front, because
the backend's model makes the text later. So the model's answer is the write, and each fact in the
answer is a candidate. Refused facts are removed, and the backend's parser gets an answer in its own
format with fewer facts.
"""

from __future__ import annotations

import msgspec

from policy.model import ChangeKind, Channel, Principal
from proxy.dialects.mcp.calls import ToolCall, kept_of, read_call
from proxy.dialects.mcp.maps import ToolKind, ToolMap, path
from proxy.dialects.model.outputs import (
    Output,
    ReplacedOutput,
    bare,
    object_in,
    outputs_of,
    spelled,
    spells_object,
    with_outputs,
)
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, GuardAhead, GuardedCall, ItemVerdict, Join
from proxy.seams.observations import MODEL_SERVERS
from proxy.settle.forwarder import UNDECIDED, admitted_of, judge, record


class BackendReply(msgspec.Struct, frozen=True, kw_only=True):
    """One model's whole reply to a memory backend. The ledger finds its session by `call_id`."""

    principal: Principal
    api: str
    call_id: str
    tool_map: ToolMap
    # Whether the ledger noted the model's words. If not, nothing of the reply is forwarded.
    told: bool = True
    # The parent span of the verdicts.
    traceparent: str | None = None


class Extraction:
    """Removes refused facts from models' replies to memory backends.

    Event loop only; any number of replies at once.
    """

    def __init__(self, guard: GuardAhead) -> None:
        self._guard = guard

    async def edited(self, replied: BackendReply, body: dict[str, Json]) -> dict[str, Json]:
        """The reply without refused facts, as its memory backend gets it.

        An answer of unknown form is withheld whole.
        """
        changed: dict[int, ReplacedOutput] = {}
        for output in outputs_of(replied.api, body):
            if replied.told:
                changed[output.key] = await self._one(replied, output)
            else:
                changed[output.key] = ReplacedOutput(text=replied.tool_map.model.empty)
        return with_outputs(replied.api, body, changed)

    async def _one(self, replied: BackendReply, output: Output) -> ReplacedOutput:
        if output.text is None:
            read = _read_call(replied.tool_map, output)
            return ReplacedOutput(
                arguments=None if read is None else await self._kept(replied, read)
            )
        text = bare(output.text)
        if not text:
            return ReplacedOutput(text="")
        if not spells_object(text):
            nothing = replied.tool_map.model.empty if replied.tool_map.model.text is None else ""
            return ReplacedOutput(text=text if await self._passes(replied, text) else nothing)
        read = _read_text(replied.tool_map, text)
        kept = None if read is None else await self._kept(replied, read)
        return ReplacedOutput(text=replied.tool_map.model.empty if kept is None else spelled(kept))

    async def _passes(self, replied: BackendReply, text: str) -> bool:
        """Whether a model's answer that is no JSON may be forwarded to the memory backend.

        The answer may if the tool map names a tool for such answers, and the gate admits the answer
        as a call of that tool.
        """
        name = replied.tool_map.model.text
        if name is None:
            return False
        try:
            read = read_call(replied.tool_map, {"name": name, "arguments": {"text": text}})
        except MalformedRequest:
            return False
        return await self._kept(replied, read) is not None

    async def _kept(self, replied: BackendReply, read: ToolCall) -> dict[str, Json] | None:
        """The arguments of a model's output without refused facts; None if none may be sent."""
        if read.kind in {ToolKind.READ, ToolKind.CONTEXT}:
            return read.arguments
        if read.kind is ToolKind.ADMIN and replied.principal.channel is not Channel.AGENT:
            return read.arguments
        if read.kind not in {ToolKind.WRITE, ToolKind.DELETE}:
            return None
        wanted = [at for at in range(len(read.items)) if _changes(read, at)]
        try:
            judged = await self._judged(replied, read, wanted) if wanted else ()
        except UNDECIDED:
            return None
        refused = frozenset(
            at for at, one in zip(wanted, judged, strict=True) if one.decision != "admit"
        )
        if refused and len(refused) == len(read.items):
            return None
        return kept_of(read, refused) if refused else read.arguments

    async def _judged(
        self, replied: BackendReply, read: ToolCall, wanted: list[int]
    ) -> tuple[ItemVerdict, ...]:
        server = MODEL_SERVERS + replied.tool_map.name
        call = GuardedCall(
            server=server,
            tool=read.tool,
            items=tuple(read.items[at] for at in wanted),
            join=Join(tool_use_id=replied.call_id),
            traceparent=replied.traceparent,
        )
        judged = await judge(self._guard.judge_ahead, replied.principal, call)
        # The backend never reports what it stored, so an admitted fact counts as stored once the
        # backend has it. If that cannot be recorded, the intent stays on disk without an outcome.
        admitted = admitted_of(judged)
        await record(self._guard, replied.principal, server, admitted, ForwardStatus.DONE)
        return judged


def _read_call(tool_map: ToolMap, output: Output) -> ToolCall | None:
    if output.arguments is None or output.name not in tool_map.tools:
        return None
    try:
        return read_call(tool_map, {"name": output.name, "arguments": output.arguments})
    except MalformedRequest:
        return None


def _read_text(tool_map: ToolMap, text: str) -> ToolCall | None:
    """A JSON answer as a call of the first output tool of the map that it fits, else None."""
    try:
        value = object_in(text)
    except MalformedRequest:
        return None
    for name in tool_map.model.outputs:
        if any(path(text)[0] not in value for text in tool_map.tools[name].required):
            continue
        try:
            return read_call(tool_map, {"name": name, "arguments": value})
        except MalformedRequest:
            continue
    return None


def _changes(read: ToolCall, at: int) -> bool:
    item = read.items[at]
    # An empty list of facts is read as one item without content, which changes nothing.
    return at not in read.idle and (bool(item.pieces) or item.change is not ChangeKind.CREATE)
