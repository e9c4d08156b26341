"""What a caller receives for each change: judged, or never brought before the gate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from policy.model import Candidate, MemoryId
from policy.verdict import Reason
from proxy.seams.observations import Way, way_of
from proxy.seams.operation import Proposal, WrittenItem
from proxy.transport.responses import observation_for
from storage.values import Decision, Outcome

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""The most characters of memories in one answer; a change beyond is reported without its memory."""


def within_one_answer(items: Iterable[WrittenItem]) -> tuple[WrittenItem, ...]:
    """The items, with only as many memories as fit into one answer.

    The first memory is always in the answer. A change of metadata alone returns the whole text,
    so a thousand such changes in one request would return a thousand times that text.
    """
    told: list[WrittenItem] = []
    left = ANSWER_BYTES_MAX
    for item in items:
        if item.memory is not None:
            left -= len(item.memory.text) + len(item.memory.metadata_json or "")
        full = left < 0 and bool(told) and item.memory is not None
        told.append(msgspec.structs.replace(item, memory=None) if full else item)
    return tuple(told)


def judged(
    candidate: Candidate,
    outcome: Outcome,
    memory_id: MemoryId | None,
    page: str | None,
    *,
    lowered: bool,
) -> WrittenItem:
    """The outcome of a change that the gate decided; `memory_id` is what the caller may name.

    `lowered`: the memory got a lower class than its client named (`is_lowered`).
    """
    memory = outcome.memory
    missing = outcome.reason is Reason.TARGET_MISSING
    decision = "missing" if missing else outcome.decision.value
    return WrittenItem(
        decision=decision,
        change=candidate.change,
        memory_id=memory_id,
        candidate_id=outcome.candidate_id,
        reason=outcome.reason,
        step=outcome.step,
        memory_class=outcome.memory_class,
        source=outcome.source,
        observation=observation_for(
            decision,
            outcome.reason,
            outcome.memory_class,
            candidate.change,
            lowered=lowered,
            page=page,
            # Of an admitted change it says nothing.
            way=Way.STORE if decision == "admit" else way_of(candidate.target),
            again=outcome.replayed,
        ),
        version=outcome.version,
        leaf_index=outcome.leaf_index,
        replayed=outcome.replayed,
        # After a delete there is no memory to show, and a refused candidate is never shown.
        memory=memory if outcome.decision is Decision.ADMIT else None,
        class_lowered=lowered,
    )


def not_judged(proposal: Proposal, decision: str, reason: Reason, detail: str = "") -> WrittenItem:
    """The outcome of a change that never reached the gate: nothing was done."""
    return WrittenItem(
        decision=decision,
        change=proposal.change,
        memory_id=None,
        candidate_id=None,
        reason=reason,
        step=None,
        memory_class=proposal.memory_class,
        source=None,
        observation=observation_for(decision, reason, proposal.memory_class, detail=detail),
    )
