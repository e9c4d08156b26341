"""Notes in the recall ledger which memories the request of each model reply contained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from policy.bounded import Bounded
from policy.model import Memory, MemoryId, Principal, PrincipalId
from proxy.dialects.model.transcript import ContextText, ModelReply, ModelRequest
from proxy.ledger.core import RequestFindings
from proxy.ledger.turn_reader import RecalledSpan
from proxy.model.memory_seam import PreparedRequest
from storage.features.recalls import ContextSpan, InContext, ReplyRecord, Where
from storage.features.recalls.ledger import RecallLedger

SERVED_MAX: Final = 65_536
"""The number of memories, over all principals, whose last recall is remembered."""
MEMORIES_MAX: Final = 1_000
"""The number of memories that are noted of one request, those of the newest turns first."""


class ReplyNotes:
    """Notes the memories that each reply was based on. Event loop only; no method waits."""

    def __init__(self, ledger: RecallLedger, now_ms: Callable[[], int]) -> None:
        self._ledger = ledger
        self._now_ms = now_ms
        # For each memory that was served: the ordinal of its version in the store, and the id of
        # the last recall that showed it.
        self._served = Bounded[tuple[PrincipalId, MemoryId], tuple[int, str]](SERVED_MAX)

    def recalled(self, principal: Principal, memories: tuple[Memory, ...], recall_id: str) -> None:
        """Note the recall that serves these memories; `recall_id` is "" if it is not stored."""
        for memory in memories:
            name = (principal.principal_id, memory.memory_id)
            self._served[name] = (memory.ordinal, recall_id)

    def in_context(
        self, principal: Principal, request: ModelRequest, entered: RequestFindings
    ) -> tuple[InContext, ...]:
        """The memories that a request contains, each with the places of its text there."""
        spans: dict[MemoryId, list[ContextSpan]] = {}
        for memory_id, span in _standing(request, entered):
            if memory_id in spans or len(spans) < MEMORIES_MAX:
                spans.setdefault(memory_id, []).append(span)
        found: list[InContext] = []
        for memory_id, stands in spans.items():
            # After a restart it is unknown which version was served, and by which recall. So the
            # newest version is named, and no recall.
            ordinal, recall_id = self._served.get((principal.principal_id, memory_id), (-1, ""))
            found.append(
                InContext(
                    ordinal=ordinal, memory_id=memory_id, recall_id=recall_id, spans=tuple(stands)
                )
            )
        return tuple(found)

    def replied(self, prepared: PreparedRequest, reply: ModelReply) -> None:
        """Note a reply, before the agent gets the end of the reply."""
        principal = prepared.asked.principal
        self._ledger.note(
            ReplyRecord(
                reply_id=reply.reply_id or "",
                at_ms=self._now_ms(),
                tenant=principal.tenant,
                principal_id=principal.principal_id,
                model=prepared.asked.upstream,
                session=prepared.session,
                turn=len(prepared.request.turns),
                memories=prepared.memories,
                calls=tuple(call.name for call in reply.calls),
                incomplete=any(not one.recall_id for one in prepared.memories),
            )
        )


def _standing(
    request: ModelRequest, entered: RequestFindings
) -> Iterator[tuple[MemoryId, ContextSpan]]:
    """Each memory in a request, with the place of the string that contains it.

    The newest turns come first.
    """
    for at in sorted(entered.turns, reverse=True):
        yield from _spans(entered.turns[at], request.turns[at].said, (*request.prefix, at))
    yield from _spans(entered.system, request.system, ())


def _spans(
    recalled: tuple[RecalledSpan, ...], strings: tuple[ContextText, ...], before: Where
) -> Iterator[tuple[MemoryId, ContextSpan]]:
    for one in recalled:
        if one.said < len(strings):
            where = (*before, *strings[one.said].where)
            yield one.memory_id, ContextSpan(where=where, start=one.start, end=one.end)
