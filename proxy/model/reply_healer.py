"""Heals a model's reply before the agent gets it: the model is asked again without false memories.

A reply that contradicts an anchor is held back, and the memories that made it wrong are hidden. The
same request is then sent without the text of these memories, and the model's new reply replaces the
first one. The sidecar changes no word of a reply: if no reply is right, the last one is forwarded
as it came, and a header reports that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from policy.model import MemoryId
from proxy.dialects.model.transcript import ModelReply
from proxy.model.memory_seam import PreparedRequest
from proxy.model.reply_notes import ReplyNotes
from proxy.seams.cases import HealsReplies
from proxy.transport.responses import AnswerFailure, attempt

ROUNDS_MAX: Final = 5
"""How often a model is asked again for one reply because memories made it wrong."""
HEALED: Final = "mnemogate-healed"
NOT_HEALED: Final = "mnemogate-not-healed"


class HealedReply:
    """Checks one reply, and counts how often the model was asked again for it.

    Event loop only. Its methods are called one after the other, by one task.
    """

    def __init__(self, replies: ReplyNotes, heals: HealsReplies, halt: Callable[[], None]) -> None:
        self._replies = replies
        self._heals = heals
        self._halt = halt
        self.rounds = 0
        self._case_id = ""
        self._why = ""

    async def holds_back(self, prepared: PreparedRequest) -> bool:
        """Whether a streamed reply has to be whole before any of it is shown.

        It has to if a memory in its request contradicts an anchor, or if that cannot be checked.
        """
        done = await attempt(
            self._heals.has_suspects(prepared.asked.principal, _ids(prepared)), self._halt
        )
        return isinstance(done, AnswerFailure) or done

    async def asks_again(self, prepared: PreparedRequest, reply: ModelReply) -> bool:
        """Check a reply; return whether memories made it wrong and the model is asked again."""
        memory_ids = _ids(prepared)
        if not memory_ids:
            return False
        done = await attempt(
            self._heals.wrong(
                prepared.asked.principal,
                reply.reply_id or "",
                reply.said,
                memory_ids,
                lambda: self._replies.replied(prepared, reply),
            ),
            self._halt,
        )
        if done is None:
            self._why = ""
            return False
        if isinstance(done, AnswerFailure):
            await self.gives_up("unchecked")
            return False
        self._case_id = done.case_id or self._case_id
        if done.why == "too_late":
            # The search for the memories that made the reply wrong continues, and may still hide
            # them.
            self._why = done.why
        elif not done.mended:
            # The memories that were hidden in earlier rounds did not make the reply right.
            await self.gives_up("still_wrong" if self.rounds else done.why)
        elif word := _unrepeatable(prepared, reply):
            # The memories that made the reply wrong are hidden, so its case needs no person.
            self._why = word
        elif self.rounds >= ROUNDS_MAX:
            await self.gives_up("rounds")
        else:
            self.rounds += 1
            return True
        return False

    async def gives_up(self, why: str) -> None:
        """Note why the reply is forwarded as it came; its case, if any, is left to a person."""
        self._why = why
        if self._case_id:
            await attempt(self._heals.still_wrong(self._case_id), self._halt)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that report the healing to the agent; none if the reply needed none."""
        if self._why:
            return ((NOT_HEALED, f"{self._why} {self._case_id}".strip()),)
        return ((HEALED, self._case_id),) if self.rounds else ()


def _unrepeatable(prepared: PreparedRequest, reply: ModelReply) -> str:
    """A fixed word for why a request may not be sent a second time; "" if it may.

    It may not if the provider ran a tool for it, because the tool would act twice.
    """
    return "tools_ran" if reply.ran_tools or prepared.request.searches else ""


def _ids(prepared: PreparedRequest) -> tuple[MemoryId, ...]:
    return tuple(one.memory_id for one in prepared.memories if one.memory_id is not None)
