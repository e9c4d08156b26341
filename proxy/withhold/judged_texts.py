"""Anchors as rules, and memories in the form that rules judge. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policy.after.rule_judge import JudgedMemory, RegisteredRule
from policy.anchors import content_words, line_of_name, lines_of
from policy.model import HistoryEntry, Memory, MemoryId
from policy.text.skeleton import skeleton
from storage.values import Anchor

_CONTENT_WORDS_MIN: Final = 3


def rules_of(anchors: Iterable[Anchor]) -> list[RegisteredRule]:
    """Anchors as rules that may open cases by themselves: their matchers, and their statements.

    A statement with fewer than three words of content is left out, because honest texts that merely
    share these words would count as denials of it.
    """
    return [
        RegisteredRule(
            rule_id=one.anchor_id,
            statement=one.statement
            if content_words(skeleton(one.statement)) >= _CONTENT_WORDS_MIN
            else "",
            matcher=one.matcher,
        )
        for one in anchors
    ]


def judged_memory(memory: Memory) -> JudgedMemory:
    """A memory in the form that rules judge: its text, its metadata and its names as lines."""
    scope = memory.scope
    ids = (scope.user_id, scope.agent_id, scope.run_id, scope.app_id)
    return JudgedMemory(
        memory_id=memory.memory_id,
        text=judged_text(memory.text, memory.metadata_json, memory.role, memory.actor, *ids),
        label=memory.source,
        memory_class=memory.memory_class,
    )


def judged_step(memory_id: MemoryId, step: HistoryEntry, text: str | None) -> JudgedMemory:
    """One step of a memory's history in the form that rules judge, with the label of that step."""
    return JudgedMemory(
        memory_id=memory_id,
        text=judged_text(text or "", step.metadata_json, step.role, step.actor),
        label=step.source,
        memory_class=step.memory_class,
    )


def judged_text(text: str, metadata_json: str | None, *names: str | None) -> str:
    """A text in the form that rules judge, with its metadata and names as further lines."""
    beside = () if metadata_json is None else (lines_of(metadata_json),)
    return "\n".join((text, *beside, *(line_of_name(one) for one in names if one)))
