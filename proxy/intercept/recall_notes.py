"""Reports each read to the recall ledger, and to the model front what enters a context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from policy.model import Channel, Memory, Principal, Tenant
from proxy.seams.cases import RULES
from proxy.seams.operation import HistoryResult, ListResult, Search, SearchResult, memories_of
from proxy.seams.recalls import ReadAnswer, Shown
from storage.features.recalls import Recall, RecalledMemory
from storage.features.recalls.ledger import RecallLedger

_LEFT_OUT: Final = "left out"


class RecallNotes:
    """Records every read of memories, through every front. Event loop only; it never waits.

    `contexts` is called with what will enter an agent's context, and the recall's id; None where no
    model front is configured.
    """

    def __init__(
        self,
        ledger: RecallLedger,
        contexts: Callable[[Principal, Shown, str], None] | None,
        version: Callable[[], int],
        now_ms: Callable[[], int],
        seen: Callable[[Tenant, str, tuple[Memory, ...]], None] | None = None,
    ) -> None:
        """`seen` is called with the memories that a recall shows or leaves out; it never waits.

        `version` returns the store's version, for answers without the version that they read.
        """
        self._ledger = ledger
        self._contexts = contexts
        self._version = version
        self._now_ms = now_ms
        self._seen = seen

    def served(self, principal: Principal, answered: ReadAnswer, *, dialect: str) -> str:
        """Note that an answer is about to show memories to a principal; return the recall's id.

        The id is "" if no recall is recorded.
        """
        shown, recall_id = answered.shown, ""
        # A search without results is recorded too: an agent's answer may be wrong because a memory
        # was not found.
        if answered.count or isinstance(answered.read, Search):
            recall_id = self._noted(principal, answered, _hits(shown), dialect)
        if self._contexts is not None:
            self._contexts(principal, shown, recall_id)
        if principal.channel is not Channel.OPERATOR:
            self._told(principal.tenant, recall_id, memories_of(shown))
            self._leave_out(principal, answered)
        return recall_id

    def _leave_out(self, principal: Principal, answered: ReadAnswer) -> None:
        """Note the memories that rules left out of an answer, as a read by the principal `RULES`.

        The search for a cause repeats the read, and so finds copies of these memories too. The note
        contains the shown memories as well: a newer one among them may show which is outdated.
        """
        found = answered.left_out
        if found:
            rules = replace(principal, principal_id=RULES)
            beside = found + memories_of(answered.shown)
            hits = _hits(ListResult(total=len(beside), memories=beside))
            recall_id = self._noted(rules, answered, hits, _LEFT_OUT)
            self._told(principal.tenant, recall_id, found)

    def _told(self, tenant: Tenant, recall_id: str, memories: tuple[Memory, ...]) -> None:
        if self._seen is not None:
            self._seen(tenant, recall_id, memories)

    def _noted(
        self,
        principal: Principal,
        answered: ReadAnswer,
        hits: tuple[RecalledMemory, ...],
        front: str,
    ) -> str:
        read = answered.read
        return self._ledger.note(
            Recall(
                recall_id="",
                at_ms=self._now_ms(),
                tenant=principal.tenant,
                principal_id=principal.principal_id,
                front=front,
                operation=answered.name,
                session="",
                version=answered.version or self._version(),
                limit=getattr(read, "limit", len(hits)),
                hits=hits,
                nearest=answered.nearest,
                vector=answered.vector,
                words=answered.words,
                where=read.where if isinstance(read, Search) else None,
                query=read.query if isinstance(read, Search) else None,
            )
        )


def _hits(shown: Shown) -> tuple[RecalledMemory, ...]:
    if isinstance(shown, SearchResult):
        ranked = [(hit.memory, hit.score) for hit in shown.hits]
        return tuple(
            [
                RecalledMemory(ordinal=one.ordinal, memory_id=one.memory_id, score=score)
                for one, score in ranked
            ]
        )
    if isinstance(shown, HistoryResult):
        return (RecalledMemory(ordinal=-1, memory_id=shown.memory_id),)
    return tuple(
        [RecalledMemory(ordinal=one.ordinal, memory_id=one.memory_id) for one in memories_of(shown)]
    )
