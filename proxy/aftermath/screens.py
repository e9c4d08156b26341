"""Leaves out of each read what contradicts an anchor that is trusted more, before it is served.

A text is judged once for each state of the anchors, by the thread that reads it from the store. The
place of a hit that is left out is filled by the next one (`MemoryReader.searched`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from policy.after.rule_judge import JudgedMemory, RuleJudge
from policy.anchors import line_of_name
from policy.bounded import Bounded
from policy.labels.forwarded_call import call_of
from policy.model import Channel, HistoryEntry, Memory, MemoryId, Principal, SourceKind, Tenant
from policy.withheld.pieces import sentences_of
from proxy.aftermath.rule_signals import judged_memory, judged_step, rules_of
from storage.values import Anchor, UpstreamChange

_TENANTS_MAX: Final = 4_096
"""Tenants whose rules are kept; the rules of the tenant that was read longest ago go first."""
_VERDICTS_MAX: Final = 200_000
"""Verdicts that are kept for all tenants together."""

# The name of a verdict. A row of the store keeps its text for good, but a person may raise its
# label; a memory behind a server may have another text at any time.
_Row = tuple[int, SourceKind] | tuple[str, int, SourceKind]
# By the rules that were tried, and the row: the ids of the anchors that the row contradicts.
_Verdicts = dict[tuple[object, _Row], tuple[str, ...]]


class TenantRules:
    """The anchors of one tenant as rules, with their verdicts on the rows that were tried.

    Any thread: two threads that try the same row come to the same verdict.
    """

    def __init__(self, anchors: tuple[Anchor, ...], verdicts: _Verdicts | None = None) -> None:
        """`verdicts` may be shared by several tenants."""
        self.anchors = anchors
        # The rows for which a case was opened; only the event loop adds to them.
        self.told: set[int] = set()
        self._judge: RuleJudge | None = None
        self._verdicts: _Verdicts = {} if verdicts is None else verdicts
        self._mark = object()
        self._alone: dict[tuple[str, ...], RuleJudge] = {}

    def failed_by(self, memory: Memory) -> tuple[str, ...]:
        """The ids of the anchors that a memory contradicts and that are trusted more than it is."""
        row = (memory.ordinal, memory.source)
        known = self._verdicts.get((self._mark, row))
        if known is None:
            known = self._noted(row, self._tried(judged_memory(memory)))
        return known

    def deny(self, entry: HistoryEntry, text: str | None) -> bool:
        """Whether one step in a memory's life, with this text, contradicts an anchor above it."""
        tried = judged_step(MemoryId(""), entry, text)
        return bool(self._tried(tried))

    def deny_name(self, name: str) -> bool:
        """Whether a name that memories are filed under contradicts an anchor."""
        tried = JudgedMemory(
            memory_id=MemoryId(""), text=line_of_name(name), label=SourceKind.UNKNOWN
        )
        return bool(self._tried(tried))

    def failed_by_reply(self, said: tuple[str, ...]) -> tuple[str, ...]:
        """The ids of the anchors that a finished reply contradicts by what it says."""
        return self._judging().failed_by("\n".join(said))

    def failed_by_row(self, moved: UpstreamChange) -> tuple[str, ...]:
        """The anchors that a memory behind a server contradicts by what it sent there."""
        call = None if moved.candidate is None else call_of(moved.candidate)
        if call is None or moved.candidate is None or moved.source is None:
            return ()
        text = "\n".join(call.pieces)
        row = (moved.name, hash(text), moved.source)
        known = self._verdicts.get((self._mark, row))
        if known is None:
            tried = JudgedMemory(
                memory_id=MemoryId(moved.name),
                text=text,
                label=moved.source,
                memory_class=moved.candidate.memory_class,
            )
            known = self._noted(row, self._tried(tried))
        return known

    def convicting(self, texts: tuple[str, ...], rule_ids: tuple[str, ...]) -> tuple[str, ...]:
        """The sentences of some texts that fail these rules; all the texts if no sentence does."""
        rules = self._alone.get(rule_ids)
        if rules is None:
            # The class for which a matcher is meant was that of the memory.
            rules = self._alone[rule_ids] = RuleJudge(
                [
                    replace(one, matcher=one.matcher and replace(one.matcher, memory_class=None))
                    for one in self._judging().rules
                    if one.rule_id in rule_ids
                ]
            )
        said = dict.fromkeys(one for text in texts for one in sentences_of(text))
        guilty = rules.failing(
            JudgedMemory(memory_id=MemoryId(one), text=one, label=SourceKind.UNKNOWN)
            for one in said
        )
        return tuple(str(one.memory_id) for one in guilty) or texts

    def _noted(self, row: _Row, verdict: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._verdicts) >= _VERDICTS_MAX:
            self._verdicts.clear()
        self._verdicts[self._mark, row] = verdict
        return verdict

    def _tried(self, memory: JudgedMemory) -> tuple[str, ...]:
        failing = self._judging().failing((memory,))
        return failing[0].rule_ids if failing else ()

    def _judging(self) -> RuleJudge:
        if self._judge is None:
            # The rules are parsed where they are first used: not on the event loop.
            self._judge = RuleJudge(rules_of(self.anchors))
        return self._judge


class KnownRules:
    """The rules of all tenants, kept until an anchor changes. Any thread."""

    def __init__(self, anchors: Callable[[Tenant], tuple[Anchor, ...]]) -> None:
        """`anchors` returns the anchors of a tenant, as the same tuple until an anchor changes."""
        self._anchors = anchors
        self._known = Bounded[Tenant, TenantRules](_TENANTS_MAX)
        self._verdicts: _Verdicts = {}
        self._turn = threading.Lock()

    def of(self, tenant: Tenant) -> TenantRules | None:
        """The rules of a tenant; None for a tenant without anchors."""
        anchors = self._anchors(tenant)
        if not anchors:
            return None
        with self._turn:
            known = self._known.get(tenant)
            if known is None or (known.anchors is not anchors and known.anchors != anchors):
                known = TenantRules(anchors, self._verdicts)
            # Another tenant's change gives equal anchors as another tuple.
            known.anchors = anchors
            self._known[tenant] = known
        return known


class Screen:
    """Implements `ScreensRead`: one read, as the anchors let an agent see it."""

    def __init__(self, rules: TenantRules) -> None:
        self._rules = rules
        self._left_out: dict[MemoryId, Memory] = {}

    @property
    def left_out(self) -> tuple[Memory, ...]:
        """The memories that were left out, and for which no case was opened yet."""
        return tuple(self._left_out.values())

    def shows(self, memory: Memory) -> bool:
        """Whether the read may show a memory; a memory that it may not show is left out."""
        if not self._rules.failed_by(memory):
            return True
        if memory.ordinal not in self._rules.told:
            self._left_out[memory.memory_id] = memory
        return False

    def history(self, entries: tuple[HistoryEntry, ...]) -> tuple[HistoryEntry, ...]:
        """The steps of a memory's life without those that tell a text which may not be shown."""
        denied = {one.new_text for one in entries if self._rules.deny(one, one.new_text)}
        # A step without a text may tell a lie in its metadata or in a name.
        beside = {
            one.version for one in entries if one.new_text is None and self._rules.deny(one, None)
        }
        # The text before the first step that is told belongs to a step that is not told.
        denied |= {one.old_text for one in entries[:1] if self._rules.deny(one, one.old_text)}
        denied.discard(None)
        return tuple(
            one
            for one in entries
            if one.new_text not in denied
            and one.old_text not in denied
            and one.version not in beside
        )

    def shows_name(self, name: str) -> bool:
        """Whether the read may show a name that memories are filed under."""
        return not self._rules.deny_name(name)


class ScreenMaker:
    """Implements `ScreensRows`, and makes the screens of reads. Any thread."""

    def __init__(self, rules: KnownRules) -> None:
        self._rules = rules

    def screen(self, principal: Principal) -> Screen | None:
        """The screen of one read; None where a read shows everything.

        That is the case for an operator, who decides on what is left out, and without anchors.
        """
        if principal.channel is Channel.OPERATOR:
            return None
        rules = self._rules.of(principal.tenant)
        return None if rules is None else Screen(rules)

    def rules(self, tenant: Tenant) -> object:
        """A value that is another one after each change of what the tenant's reads may show."""
        return self._rules.of(tenant)

    def failed_by(self, moved: UpstreamChange, tenant: Tenant) -> tuple[str, ...]:
        """The rules by which the answers of a server may not show a live memory; () if they may."""
        rules = self._rules.of(tenant)
        return () if rules is None else rules.failed_by_row(moved)

    def convicting(
        self, tenant: Tenant, texts: tuple[str, ...], rule_ids: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The sentences of a memory's texts that fail these rules; all texts if none does."""
        rules = self._rules.of(tenant)
        return texts if rules is None else rules.convicting(texts, rule_ids)
