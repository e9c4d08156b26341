"""Leaves out of each read the memories that contradict an anchor of a higher label.

A text is judged once for each state of the anchors, by the thread that reads the text from the
store. The next hit takes the place of a hit that is left out (`MemoryReader.searched`).
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
from proxy.withhold.judged_texts import judged_memory, judged_step, rules_of
from storage.values import Anchor, UpstreamChange

_TENANTS_MAX: Final = 4_096
"""How many tenants' rules are held; those of the least recently read tenant are dropped first."""
_VERDICTS_MAX: Final = 200_000
"""How many verdicts are held for all tenants together."""

# The key of a verdict. For a row: ordinal and label, because a row's text never changes but a
# person may raise its label. For a memory on an upstream server: name, hash of the text, and label,
# because its text may change.
_Row = tuple[int, SourceKind] | tuple[str, int, SourceKind]
# A mapping of the rules that were applied and a row to the ids of the anchors that the row
# contradicts.
_Verdicts = dict[tuple[object, _Row], tuple[str, ...]]


class TenantRules:
    """The anchors of one tenant as rules, with their verdicts on the rows that were judged.

    Any thread, because two threads that judge the same row reach the same verdict.
    """

    def __init__(self, anchors: tuple[Anchor, ...], verdicts: _Verdicts | None = None) -> None:
        """`verdicts` holds earlier verdicts, and may be shared by several tenants."""
        self.anchors = anchors
        # The ordinals of rows for which a case was opened; only the event loop adds to this set.
        self.told: set[int] = set()
        self._judge: RuleJudge | None = None
        self._verdicts: _Verdicts = {} if verdicts is None else verdicts
        self._mark = object()
        self._alone: dict[tuple[str, ...], RuleJudge] = {}

    def failed_by(self, memory: Memory) -> tuple[str, ...]:
        """The ids of the anchors of a higher label that a memory contradicts."""
        row = (memory.ordinal, memory.source)
        known = self._verdicts.get((self._mark, row))
        if known is None:
            known = self._noted(row, self._tried(judged_memory(memory)))
        return known

    def deny(self, entry: HistoryEntry, text: str | None) -> bool:
        """Whether one step of a memory's history contradicts an anchor of a higher label."""
        tried = judged_step(MemoryId(""), entry, text)
        return bool(self._tried(tried))

    def deny_name(self, name: str) -> bool:
        """Whether a name (a user id, say) under which memories are filed contradicts an anchor."""
        tried = JudgedMemory(
            memory_id=MemoryId(""), text=line_of_name(name), label=SourceKind.UNKNOWN
        )
        return bool(self._tried(tried))

    def failed_by_reply(self, said: tuple[str, ...]) -> tuple[str, ...]:
        """The ids of the anchors that the texts `said` of a finished reply contradict."""
        return self._judging().failed_by("\n".join(said))

    def failed_by_row(self, moved: UpstreamChange) -> tuple[str, ...]:
        """The ids of the anchors that a memory on an upstream server contradicts by its text."""
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
        """The sentences of the given texts that fail these rules; all texts if no sentence does."""
        rules = self._alone.get(rule_ids)
        if rules is None:
            # The matchers' memory class is ignored, because it was compared with the whole memory
            # before.
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
            # The rules are parsed at their first use, which is not on the event loop.
            self._judge = RuleJudge(rules_of(self.anchors))
        return self._judge


class KnownRules:
    """Holds the rules of each tenant until an anchor of the tenant changes. Any thread."""

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
            # After a change of another tenant's anchors this tenant's equal anchors are a new
            # tuple.
            known.anchors = anchors
            self._known[tenant] = known
        return known


class Screen:
    """Decides which memories, steps and names one read may show.

    One thread at a time; not on the event loop.
    """

    def __init__(self, rules: TenantRules) -> None:
        self._rules = rules
        self._left_out: dict[MemoryId, Memory] = {}

    @property
    def left_out(self) -> tuple[Memory, ...]:
        """The memories that this read left out and for which no case was opened yet."""
        return tuple(self._left_out.values())

    def shows(self, memory: Memory) -> bool:
        """Whether the read may show a memory; if not, the memory is added to `left_out`."""
        if not self._rules.failed_by(memory):
            return True
        if memory.ordinal not in self._rules.told:
            self._left_out[memory.memory_id] = memory
        return False

    def history(self, entries: tuple[HistoryEntry, ...]) -> tuple[HistoryEntry, ...]:
        """The steps of a memory's history, without steps that contain a text that is not shown."""
        denied = {one.new_text for one in entries if self._rules.deny(one, one.new_text)}
        # A step without a text may contradict an anchor in its metadata or in a name.
        beside = {
            one.version for one in entries if one.new_text is None and self._rules.deny(one, None)
        }
        # The old text of the first step was written by a step that the history no longer contains,
        # so it is judged here.
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
        """Whether the read may show a name (such as a user id) under which memories are filed."""
        return not self._rules.deny_name(name)


class ScreenMaker:
    """Makes the screens of reads, and judges upstream memories. Any thread."""

    def __init__(self, rules: KnownRules) -> None:
        self._rules = rules

    def screen(self, principal: Principal) -> Screen | None:
        """The screen of one read; None if the read may show everything.

        An operator's read shows everything, because operators decide on what is left out, and so
        does every read of a tenant without anchors.
        """
        if principal.channel is Channel.OPERATOR:
            return None
        rules = self._rules.of(principal.tenant)
        return None if rules is None else Screen(rules)

    def rules(self, tenant: Tenant) -> object:
        """A value that is a new object after each change of the tenant's anchors; may be None."""
        return self._rules.of(tenant)

    def failed_by(self, moved: UpstreamChange, tenant: Tenant) -> tuple[str, ...]:
        """The ids of the anchors that forbid a server's answer to show a memory; () if none."""
        rules = self._rules.of(tenant)
        return () if rules is None else rules.failed_by_row(moved)

    def convicting(
        self, tenant: Tenant, texts: tuple[str, ...], rule_ids: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The sentences of a memory's texts that fail these rules; all texts if none fails.

        None fails alone where a memory fails a rule only as a whole, or a rule was removed.
        """
        rules = self._rules.of(tenant)
        return texts if rules is None else rules.convicting(texts, rule_ids)
