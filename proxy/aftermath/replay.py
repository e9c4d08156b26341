"""Reconstructs the memories that a reader or a model was shown, and judges them again.

The texts are those of the rows that were served, which may differ from the present texts. A memory
that was hidden, deleted or changed since is left out, because no later answer can contain it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np

from policy.after.attribution import Control, Done, Ending, OpenCause, Suspect, believed_first
from policy.after.rule_judge import RuleJudge
from policy.model import Hit, Memory, MemoryId, SourceKind, Tenant
from proxy.seams.cases import Signal
from proxy.withhold.judged_texts import judged_memory
from storage.features.recalls import Recall, RecalledMemory
from storage.features.recalls.ledger import RecallLedger
from storage.interfaces import MemoryReader

_LISTED_MAX: Final = 50


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that were shown for an answer, in order, and the searches that found them.

    `lost` is true if a shown memory was purged, or the memory's record was dropped. `question` is
    "" if queries are not recorded. `by_vectors`: a search can be repeated by likeness alone.
    """

    tenant: Tenant
    shown: tuple[Hit, ...]
    searches: tuple[Recall, ...]
    lost: bool = False
    question: str = ""
    by_vectors: bool = False


class NothingKept(Exception):  # noqa: N818 - reads as what happened
    """The error that the record of the memories shown for an answer expired or never existed."""


class Replays:
    """Reconstructs which memories an agent was shown before an answer.

    Not on the event loop, because each call may read files.
    """

    def __init__(self, recalls: RecallLedger, reader: MemoryReader) -> None:
        self._recalls = recalls
        self._reader = reader

    def evidence(self, signal: Signal) -> Evidence:
        """The memories that were shown for the answer that a signal is about.

        Raises:
            NothingKept: There is no record of the answer.
        """
        if signal.recall_id:
            recall = self._recalls.recall(signal.recall_id)
            if recall is None or recall.tenant != signal.tenant:
                raise NothingKept("no such recall is kept")
            return self._of(signal.tenant, recall.hits, (recall,))
        if signal.reply_id:
            reply = self._recalls.reply(signal.tenant, signal.reply_id)
            if reply is None:
                raise NothingKept("no such reply is kept")
            ids = dict.fromkeys(one.recall_id for one in reply.memories if one.recall_id)
            found = (self._recalls.recall(one) for one in ids)
            searches = tuple(one for one in found if one is not None)
            scores = {hit.ordinal: hit.score for one in searches for hit in one.hits}
            hits = (
                RecalledMemory(
                    ordinal=one.ordinal,
                    memory_id=one.memory_id,
                    score=scores.get(one.ordinal),
                )
                for one in reply.memories
            )
            return self._of(signal.tenant, hits, searches, lost=reply.incomplete)
        memory = self._reader.get(signal.tenant, MemoryId(signal.memory_id or ""))
        if memory is None:
            raise NothingKept("there is no such memory")
        return Evidence(tenant=signal.tenant, shown=(Hit(memory=memory, score=1.0),), searches=())

    def still_shown(self, evidence: Evidence) -> tuple[Hit, ...]:
        """The shown memories that a read could still show with the same text."""
        return tuple(one for one in evidence.shown if self._stands(one.memory))

    def fresh(self, evidence: Evidence) -> tuple[Hit, ...]:
        """Repeat the searches; return the memories that they find now, each once.

        Memories that were shown without a search are included with their present texts.
        """
        found: dict[MemoryId, Hit] = {}
        searched: set[int] = set()
        for search in evidence.searches:
            if search.vector is None or search.where is None:
                continue
            searched.update(hit.ordinal for hit in search.hits)
            hits = self._reader.search(
                evidence.tenant,
                _unit(search.vector),
                search.where,
                min(search.limit or len(search.hits), _LISTED_MAX),
                -1.0,
                words=search.words,
                exact=True,
            )
            for hit in hits:
                found.setdefault(hit.memory.memory_id, hit)
        for place in evidence.shown:
            if place.memory.ordinal in searched:
                continue
            now = self._reader.get(evidence.tenant, place.memory.memory_id)
            if now is not None:
                found.setdefault(now.memory_id, Hit(memory=now, score=place.score))
        return tuple(found.values())

    def _of(
        self,
        tenant: Tenant,
        hits: Iterable[RecalledMemory],
        searches: tuple[Recall, ...],
        *,
        lost: bool = False,
    ) -> Evidence:
        hits = tuple(hits)
        rows = self._recalls.memories(tenant, [one.ordinal for one in hits])
        shown: dict[MemoryId, Hit] = {}
        for one in hits:
            memory = rows.get(one.ordinal)
            if memory is None:
                lost = True
                continue
            shown.setdefault(memory.memory_id, Hit(memory=memory, score=one.score or 0.0))
        question = next((one.query for one in searches if one.query), "")
        return Evidence(
            tenant=tenant,
            shown=tuple(shown.values()),
            searches=searches,
            lost=lost,
            question=question,
            by_vectors=any(one.by_vector for one in searches),
        )

    def _stands(self, memory: Memory) -> bool:
        now = self._reader.get(memory.tenant, memory.memory_id)
        return now is not None and now.text == memory.text


def _unit(vector: bytes) -> bytes:
    """A recall's float16 vector, converted to the index's form: float32, scaled to length 1."""
    values = np.frombuffer(vector, dtype="<f2").astype(np.float64)
    return (values / np.linalg.norm(values)).astype("<f4").tobytes()


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one round of replays.

    `why` is a fixed word for the reason if the round found no culprit, else "".
    """

    ending: Ending
    places: tuple[Hit, ...]
    culprits: tuple[Hit, ...]
    suspects: int
    asks: int
    controls: dict[str, bool]
    why: str = ""
    # The judge that applied the rules; None if a caller's judge or a model was asked.
    judge: RuleJudge | None = None


def judged_alone(judge: RuleJudge, places: tuple[Hit, ...]) -> Round:
    """Judge each memory alone; the memories that fail are the culprits, and no set is replayed.

    If a rule contradicts a memory that is trusted as much as the rule itself, that rule blames no
    memory, and a person has to decide.
    """
    found = judge.judged(judged_memory(one.memory) for one in places)
    ids = {one.memory_id for one in found.blamed}
    culprits = tuple(one for one in places if one.memory.memory_id in ids)
    fails = bool(found.failing or found.doubted)
    ending = Ending.NEEDS_PERSON if fails else Ending.NOT_REPRODUCED
    controls = {Control.EVERYTHING.value: fails}
    if fails:
        controls[Control.NO_SUSPECT.value] = bool(found.doubted)
    if culprits:
        ending = Ending.CONVICTED
    return Round(
        ending=ending,
        places=places,
        culprits=culprits,
        suspects=len(places),
        asks=len(places),
        controls=controls,
        why=OpenCause.TRUSTED_MEMORY.value if ending is Ending.NEEDS_PERSON else "",
        judge=judge,
    )


def planned(done: Done, places: tuple[Hit, ...]) -> Round:
    """The result of a finished plan of replays, as a round over `places`."""
    named = frozenset((*done.culprits, *done.accomplices))
    return Round(
        ending=done.ending,
        places=places,
        culprits=tuple(one for one in places if one.memory.memory_id in named),
        suspects=len(places),
        asks=done.asks,
        controls=done.controls,
        why="" if done.open is None else done.open.value,
    )


def suspects_among(places: Iterable[Hit]) -> tuple[tuple[Suspect, ...], frozenset[str]]:
    """The suspects, the most believed first, and the ids of the trusted memories.

    A memory with the label of an operator is trusted; every other memory is a suspect.
    """
    trusted: set[str] = set()
    suspects: list[Suspect] = []
    for one in places:
        if one.memory.source is SourceKind.OPERATOR:
            trusted.add(one.memory.memory_id)
            continue
        suspects.append(
            Suspect(
                memory_id=one.memory.memory_id,
                trust=one.memory.source.trust / SourceKind.OPERATOR.trust,
                at_ms=one.memory.updated_at_ms,
                score=one.score,
            )
        )
    return believed_first(suspects), frozenset(trusted)


def nobody_judges(suspects: int) -> Round:
    """The result of a round for which no rule applies: a person is needed."""
    return Round(
        ending=Ending.NEEDS_PERSON,
        places=(),
        culprits=(),
        suspects=suspects,
        asks=0,
        controls={},
        why="no_judge",
    )
