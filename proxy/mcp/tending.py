"""What is left over between the gate and the server: released items to send, lost ones to find."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from proxy.dialects.mcp.message import Kind, Message, Object
from proxy.dialects.mcp.pieces import arguments_of
from proxy.dialects.operation import MalformedRequest
from proxy.guard import Forwarded
from proxy.mcp.answers import CALL, outcome_of
from proxy.mcp.ground import LOG, UNDECIDED, Ground, ServerGone, Side
from proxy.mcp.reconciling import question_of, told

if TYPE_CHECKING:
    from policy.model import CandidateId
    from proxy.guard import Unsettled
    from proxy.mcp.catalogue import Catalogue

# What no read can tell is asked again after so many rounds, then twice as many, and so on.
_FIRST_PAUSE: Final = 2
_PAUSE_MAX: Final = 720


class Tending:
    """Sends and looks up on one connection. Event loop only."""

    def __init__(self, ground: Ground, catalogue: Catalogue) -> None:
        self._ground = ground
        self._catalogue = catalogue
        self._meta: Object = {}
        self._round = 0
        # Items that no read could tell anything of: the round before which they are left alone.
        self._paused: dict[CandidateId, tuple[int, int]] = {}
        self._answers: dict[CandidateId, Message] = {}

    def speak_as(self, meta: Object) -> None:
        """Our own requests say this of themselves from now on."""
        self._meta = meta

    async def run(self) -> None:
        """Tend until cancelled: once the server is ready, and then every few seconds."""
        await self._ground.ready.wait()
        while not self._ground.gone.is_set():
            await self.round()
            await asyncio.sleep(self._ground.limits.tend_seconds)

    async def send_released(self, candidate_id: CandidateId) -> Message | None:
        """Send what was released; the server's answer for this item, where we were the sender."""
        await self.round()
        return self._answers.pop(candidate_id, None)

    async def round(self) -> None:
        """Send and look up what there is now."""
        ground = self._ground
        async with ground.server.tending:
            self._round += 1
            if ground.server.is_context or ground.gone.is_set():
                return
            if ground.server.tools(ground.principal.tenant) is None:
                return  # its client has not asked for them yet, and needs not be hurried
            if await self._catalogue.refusal(self._meta) is not None or ground.tool_map is None:
                return
            try:
                found = await ground.guard.unsettled(ground.principal, ground.server.name)
            except UNDECIDED:
                return
            for one in found:
                if one.sent:
                    await self._look_up(one)
                else:
                    await self._send(one)

    async def _send(self, one: Unsettled) -> None:
        """It was given to us alone, and is sent once."""
        try:
            arguments = arguments_of(one.arguments, one.pieces)
        except MalformedRequest:
            LOG.error("a released item cannot be sent", extra={"candidate_id": one.candidate_id})
            await self._ground.settle((one.candidate_id,), Forwarded.FAILED)
            return
        params: Object = {"name": one.tool, "arguments": arguments, **self._own_meta()}
        try:
            answer = await self._ground.ask(Side.SERVER, CALL, params, admitted=(one.candidate_id,))
        except ServerGone:
            await self._ground.settle((one.candidate_id,), Forwarded.UNKNOWN)
            return
        await self._ground.settle((one.candidate_id,), outcome_of(answer))
        self._answers = {one.candidate_id: answer, **dict(list(self._answers.items())[:15])}

    async def _look_up(self, one: Unsettled) -> None:
        if one.candidate_id in self._ground.open_writes:
            return  # its answer may still come
        until, pause = self._paused.get(one.candidate_id, (0, _FIRST_PAUSE))
        if self._round < until:
            return
        state = await self._found(one)
        if state is None:
            self._paused[one.candidate_id] = (self._round + pause, min(pause * 2, _PAUSE_MAX))
            return
        self._paused.pop(one.candidate_id, None)
        await self._ground.settle((one.candidate_id,), state)

    async def _found(self, one: Unsettled) -> Forwarded | None:
        """What a read of the server tells of an item whose answer was lost."""
        tool_map = self._ground.tool_map
        question = None if tool_map is None else question_of(tool_map, one)
        if question is None:
            return None
        params: Object = {
            "name": question.tool,
            "arguments": question.arguments,
            **self._own_meta(),
        }
        try:
            answer = await self._ground.ask(Side.SERVER, CALL, params)
            if answer.kind is not Kind.RESULT or answer.result.get("isError") is True:
                return None
            return told(question, answer.result)
        except (ServerGone, MalformedRequest):
            return None

    def _own_meta(self) -> Object:
        return {"_meta": self._meta} if self._meta else {}
