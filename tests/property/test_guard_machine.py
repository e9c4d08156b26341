"""Guard mode against an obvious model of it: any order of verdicts, answers, losses and crashes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
)

from policy.labels.forwarded_call import MCP, ForwardedCall, target_of, texts_of
from policy.model import CandidateId, ChangeKind, ForwardStatus
from policy.query import EVERYTHING
from storage.audit import ResultLeaf, decode_leaf
from storage.ground.errors import StoreUnavailable, TransactionFailed, UnknownCandidate
from storage.tables.names import LEAVES
from storage.values import Decision, GuardedServer
from tests.unit.storage.opening import (
    BY,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    write,
)

TARGET = target_of(MCP, "memory")
BEHIND = GuardedServer(tenant=TENANT, target=TARGET, by=BY)
KEYS = st.sampled_from(["Ada", "Bob", "Eve"])
NOTES = st.sampled_from(["sings", "plays", "paints", "swims"])
ANSWERS = st.sampled_from(tuple(ForwardStatus))


class _Item:
    """The model's view of one change: its key, its note and its state."""

    def __init__(self, key: str, note: str, change: ChangeKind) -> None:
        self.key, self.note, self.change = key, note, change
        self.held = False
        self.asked = False  # a person was asked about it; let in, it is hers
        self.open = True  # on its way, or waiting for a person
        self.sent = True
        self.results: list[ForwardStatus] = []
        self.live = False


class GuardMachine(RuleBasedStateMachine):
    """Every rule is one thing a relay, a server behind, a person or the disk may do."""

    items = Bundle("items")

    def __init__(self) -> None:
        super().__init__()
        self._root = Path(tempfile.mkdtemp(prefix="mnemogate-guard-"))
        self._fault: str | None = None
        self._bench = Bench(self._root)
        self._store = self._bench.open(self._failpoint)
        self._items: dict[CandidateId, _Item] = {}

    def _failpoint(self, name: str) -> None:
        if name == self._fault:
            self._fault = None
            raise TransactionFailed("Input/output error")

    # ---- relays and what is behind them --------------------------------------------------------

    @rule(target=items, key=KEYS, note=NOTES, held=st.booleans())
    def create(self, key: str, note: str, held: bool) -> CandidateId:  # noqa: FBT001
        # What waits or was denied is one with its equals, so each is another text.
        text = f"{note} number {len(self._items)}" if held else note
        return self._judge(_Item(key, text, ChangeKind.CREATE), held=held)

    @rule(target=items, key=KEYS, note=NOTES)
    def delete(self, key: str, note: str) -> CandidateId | MultipleResults[CandidateId]:
        same = [one for one in self._items.values() if (one.key, one.note) == (key, note)]
        if any(one.asked and one.change is ChangeKind.DELETE for one in same):
            return multiple()
        # While an answer is out, no one knows what the server has.
        known = any(one.live and one.change is ChangeKind.CREATE for one in same)
        return self._judge(_Item(key, note, ChangeKind.DELETE), held=not known)

    def _judge(self, item: _Item, *, held: bool) -> CandidateId:
        call = ForwardedCall(tool="t", arguments="{}", key=item.key, pieces=(item.note,))
        text, metadata_json = texts_of(call)
        # Two kinds of change wait for a person: one of a place of instructions, and one of an item
        # that was never seen.
        candidate = candidate_of(
            text,
            change=item.change,
            target=TARGET,
            metadata_json=metadata_json,
            instructions=held and item.change is ChangeKind.CREATE,
        )
        outcome = write(self._store, submission_of(candidate, guarded_key=item.key))[0]
        assert outcome.decision is (Decision.HOLD if held else Decision.ADMIT)
        item.held, item.sent, item.asked = held, not held, held
        self._items[outcome.candidate_id] = item
        return outcome.candidate_id

    @rule(candidate_id=items, answer=ANSWERS)
    def settle(self, candidate_id: CandidateId, answer: ForwardStatus) -> None:
        item = self._items[candidate_id]
        news = asyncio.run(self._store.forwards.settle(BEHIND, ((candidate_id, answer),)))
        expected = item.open and not item.held
        if answer is ForwardStatus.UNKNOWN:
            expected = expected and ForwardStatus.UNKNOWN not in item.results
        assert (candidate_id in news) is expected
        if expected:
            self._answered(item, answer)

    def _answered(self, item: _Item, answer: ForwardStatus) -> None:
        item.results.append(answer)
        item.sent = True
        if answer is ForwardStatus.UNKNOWN:
            return
        item.open = False
        if answer is not ForwardStatus.DONE:
            return
        item.live = item.change is ChangeKind.CREATE
        if item.change is ChangeKind.DELETE:
            for one in self._items.values():
                one.live = one.live and (one.key, one.note) != (item.key, item.note)

    @rule()
    def claim(self) -> None:
        waiting = {one for one, item in self._items.items() if item.open and not item.sent}
        waiting -= {one for one, item in self._items.items() if item.held}
        claimed = asyncio.run(self._store.forwards.claim(BEHIND, tuple(self._items)))
        assert claimed == waiting
        for one in waiting:
            self._items[one].sent = True

    # ---- people, the disk and the process ------------------------------------------------------

    @rule(candidate_id=items)
    def release(self, candidate_id: CandidateId) -> None:
        item = self._items[candidate_id]
        if not item.held:
            return
        outcome = asyncio.run(self._store.writer.release(candidate_id, BY))
        # The item that a deletion names may have come or gone since. Then it is another change, and
        # is refused.
        if outcome.decision is Decision.ADMIT:
            item.held = False
        else:
            assert item.change is ChangeKind.DELETE
            item.held = item.open = False

    @rule(candidate_id=items)
    def deny(self, candidate_id: CandidateId) -> None:
        item = self._items[candidate_id]
        try:
            asyncio.run(self._store.writer.deny(candidate_id, BY))
        except UnknownCandidate:
            assert not item.held
        else:
            assert item.held
            item.held = item.open = False

    @rule()
    def restart(self) -> None:
        self._store.close()
        self._store = self._bench.open(self._failpoint)

    @rule(candidate_id=items, answer=ANSWERS, durable=st.booleans())
    def the_disk_fails(
        self,
        candidate_id: CandidateId,
        answer: ForwardStatus,
        durable: bool,  # noqa: FBT001
    ) -> None:
        item = self._items[candidate_id]
        self._fault = "after_commit" if durable else "before_commit"
        before = len(self._results(candidate_id))
        try:
            asyncio.run(self._store.forwards.settle(BEHIND, ((candidate_id, answer),)))
        except StoreUnavailable:
            assert not durable
        self._fault = None
        if len(self._results(candidate_id)) > before:
            self._answered(item, answer)

    # ---- what must hold ------------------------------------------------------------------------

    def _results(self, candidate_id: CandidateId) -> list[ForwardStatus]:
        with self._store.lmdb.reading() as view:
            leaves = [decode_leaf(data) for _, data in view.scan(LEAVES)]
        return [
            leaf.result
            for leaf in leaves
            if isinstance(leaf, ResultLeaf) and leaf.candidate_id == candidate_id
        ]

    @invariant()
    def reads_show_what_the_servers_have(self) -> None:
        page = self._store.reader.page(TENANT, EVERYTHING, 0, 1_000)
        expected = sorted(one.note for one in self._items.values() if one.live)
        assert sorted(memory.text for memory in page.memories) == expected
        assert page.total == len(expected)

    @invariant()
    def everything_else_is_listed(self) -> None:
        listed = {one.candidate_id: one.sent for one in self._store.forwards.pending()}
        assert listed == {
            candidate_id: item.sent
            for candidate_id, item in self._items.items()
            if item.open and not item.held
        }
        for candidate_id, item in self._items.items():
            assert self._results(candidate_id) == item.results

    @invariant()
    def the_store_is_sound(self) -> None:
        assert self._store.reader.check().problems == ()

    def teardown(self) -> None:
        self._store.close()
        shutil.rmtree(self._root)


TestGuardMachine = GuardMachine.TestCase
TestGuardMachine.settings = settings(
    settings.get_profile("quick"), max_examples=15, stateful_step_count=25
)
