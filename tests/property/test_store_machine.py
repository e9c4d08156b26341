"""The store against an obvious model of it, through crashes, disk faults and restarts."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from policy import query
from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    MemoryClass,
    MemoryId,
    Scope,
    SourceKind,
)
from policy.query import EVERYTHING, Compare, Field
from policy.trust.score import NEWCOMER
from policy.verdict import Reason
from storage.features.trust import RestoreTrust
from storage.ground.errors import StoreUnavailable, TransactionFailed
from storage.values import Decision, Outcome
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    VOUCHED,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
    write,
)

USERS = st.sampled_from(["ada", "bob"])
WORDS = st.text(alphabet="abcdefgh ", min_size=1, max_size=12).map(lambda text: f"note {text}")


class StoreMachine(RuleBasedStateMachine):
    """Every rule is one thing a client, a person or the disk may do."""

    memories = Bundle("memories")
    held = Bundle("held")
    spent = Bundle("spent")

    def __init__(self) -> None:
        super().__init__()
        self._root = Path(tempfile.mkdtemp(prefix="mnemogate-machine-"))
        self._lives = 0
        self._fault: str | None = None  # of the next batch
        self._armed: str | None = None  # of the batch under way
        self._bench = Bench(self._root / "life-0")
        self._store = self._bench.open(self._failpoint)
        self._live: dict[MemoryId, tuple[str, str]] = {}  # id -> (user, text)
        self._steps: dict[MemoryId, int] = {}
        self._purged: set[MemoryId] = set()
        self._waiting: set[CandidateId] = set()
        self._version = 0
        self._violations = 0
        self._asked = 0

    def _failpoint(self, name: str) -> None:
        # The commit of a batch, and not one with which the writer finds out by itself, once a
        # second, whether the disk takes writes again.
        if name == "before_transaction":
            self._armed, self._fault = self._fault, None
        if name == self._armed:
            self._armed = None
            raise TransactionFailed("Input/output error")

    def _write(self, candidate: Candidate, principal: object = OPERATOR) -> Outcome:
        return write(self._store, submission_of(candidate, principal))[0]  # type: ignore[arg-type]

    # ---- clients -------------------------------------------------------------------------------

    @rule(target=memories, user=USERS, text=WORDS)
    def create(self, user: str, text: str) -> MemoryId:
        outcome = self._write(candidate_of(text, OPERATOR, scope=Scope(user_id=user)))
        assert outcome.decision is Decision.ADMIT
        assert outcome.memory is not None
        memory_id = outcome.memory.memory_id
        self._live[memory_id] = (user, text)
        self._steps[memory_id] = 1
        self._version += 1
        return memory_id

    @rule(memory_id=memories, text=WORDS)
    def update(self, memory_id: MemoryId, text: str) -> None:
        outcome = self._change(ChangeKind.UPDATE, memory_id, text)
        if memory_id in self._live:
            self._live[memory_id] = (self._live[memory_id][0], text)
        else:
            assert outcome.reason is Reason.TARGET_MISSING

    @rule(memory_id=memories)
    def delete(self, memory_id: MemoryId) -> None:
        outcome = self._change(ChangeKind.DELETE, memory_id, None)
        if self._live.pop(memory_id, None) is None:
            assert outcome.reason is Reason.TARGET_MISSING

    @rule(memory_id=memories)
    def purge(self, memory_id: MemoryId) -> None:
        outcome = self._change(ChangeKind.PURGE, memory_id, None)
        assert (outcome.decision is Decision.ADMIT) == (memory_id not in self._purged)
        self._live.pop(memory_id, None)
        self._purged.add(memory_id)

    def _change(self, kind: ChangeKind, memory_id: MemoryId, text: str | None) -> Outcome:
        outcome = self._write(
            candidate_of(text, OPERATOR, change=kind, memory_id=memory_id, scope=Scope())
        )
        if outcome.decision is Decision.ADMIT:
            self._version += 1
            self._steps[memory_id] = 1 if kind is ChangeKind.PURGE else self._steps[memory_id] + 1
        return outcome

    @rule(text=WORDS)
    def forbidden(self, text: str) -> None:
        candidate = candidate_of(
            text,
            VOUCHED,
            memory_class=MemoryClass.L1,
            class_named=True,
            claimed_source=SourceKind.TOOL_RESULT,
        )
        for _ in range(2):  # the retry is answered, and charged no second time
            outcome = self._write(candidate, VOUCHED)
            assert outcome.decision is Decision.REJECT
        self._violations += 1

    @rule(target=spent, text=WORDS)
    def spend(self, text: str) -> Candidate:
        candidate = candidate_of(text, OPERATOR)
        outcome = self._write(candidate)
        assert outcome.memory is not None
        self._live[outcome.memory.memory_id] = ("ada", text)
        self._steps[outcome.memory.memory_id] = 1
        self._version += 1
        return candidate

    @rule(candidate=spent)
    def retry(self, candidate: Candidate) -> None:
        outcome = self._write(candidate)
        assert (outcome.decision, outcome.replayed) == (Decision.ADMIT, True)

    # ---- people --------------------------------------------------------------------------------

    @rule(target=held, text=WORDS)
    def hold(self, text: str) -> CandidateId:
        # Each has a text of its own, because a denial is also of what is asked again.
        self._asked += 1
        candidate = candidate_of(f"{text} {self._asked}", instructions=True)
        outcome = write(self._store, submission_of(candidate))[0]
        assert outcome.decision is Decision.HOLD
        self._waiting.add(outcome.candidate_id)
        return outcome.candidate_id

    @rule(candidate_id=consumes(held))
    def release(self, candidate_id: CandidateId) -> None:
        outcome = asyncio.run(self._store.writer.release(candidate_id, BY))
        assert outcome.memory is not None
        self._live[outcome.memory.memory_id] = ("ada", outcome.memory.text)
        self._steps[outcome.memory.memory_id] = 1
        self._waiting.discard(candidate_id)
        self._version += 1

    @rule(candidate_id=consumes(held))
    def deny(self, candidate_id: CandidateId) -> None:
        outcome = asyncio.run(self._store.writer.deny(candidate_id, BY))
        assert outcome.reason is Reason.DENIED_BY_PERSON
        self._waiting.discard(candidate_id)

    @rule()
    def restore_trust(self) -> None:
        asyncio.run(self._store.writer.order(RestoreTrust(VOUCHED.principal_id, BY)))
        self._violations = 0

    @rule()
    def compact(self) -> None:
        asyncio.run(self._store.writer.compact())

    # ---- the disk and the process --------------------------------------------------------------

    @rule(text=WORDS, durable=st.booleans())
    def disk_fault(self, text: str, *, durable: bool) -> None:
        self._fault = "after_commit" if durable else "before_commit"
        candidate = candidate_of(text, OPERATOR)
        try:
            outcome = self._write(candidate)
        except* StoreUnavailable:
            assert not durable
        else:
            assert durable
            assert outcome.memory is not None
            self._live[outcome.memory.memory_id] = ("ada", text)
            self._steps[outcome.memory.memory_id] = 1
            self._version += 1

    @rule()
    def crash_and_reopen(self) -> None:
        # Copy the files as a killed process leaves them: without what a close would write.
        self._lives += 1
        after = Bench(self._root / f"life-{self._lives}")
        # The checkpoint first: it may be behind the store, never ahead. Unfinished files are what
        # the writer is renaming at this moment.
        for before, there in (
            (self._bench.checkpoint.parent, after.checkpoint.parent),
            (self._bench.state, after.state),
        ):
            if before.exists():
                shutil.copytree(before, there, ignore=shutil.ignore_patterns(".*"))
        self._store.close()
        self._bench = after
        self._store = after.open(self._failpoint)

    @rule()
    def close_and_reopen(self) -> None:
        self._store.close()
        self._store = self._bench.open(self._failpoint)

    # ---- what always holds ---------------------------------------------------------------------

    @invariant()
    def reads_show_the_model(self) -> None:
        reader = self._store.reader
        page = reader.page(TENANT, EVERYTHING, 0, 1_000)
        shown = {one.memory_id: (one.scope.user_id, one.text) for one in page.memories}
        assert shown == self._live
        status = reader.status()
        assert (status.version, status.live_count) == (self._version, len(self._live))
        assert {one.candidate_id for one in reader.held()} == self._waiting
        expected = self._violations or NEWCOMER.violations_count
        assert reader.trust(VOUCHED.principal_id).violations_count == expected
        for memory_id, steps in self._steps.items():
            purged = memory_id in self._purged
            assert len(reader.history(TENANT, memory_id)) >= (1 if purged else steps)

    @invariant()
    def searches_find_every_live_text_and_no_other(self) -> None:
        bobs = query.Test(field=Field.USER_ID, compare=Compare.EQ, values=("bob",))
        for where, user in ((EVERYTHING, None), (bobs, "bob")):
            expected = {
                memory_id
                for memory_id, (owner, _) in self._live.items()
                if user is None or owner == user
            }
            hits = self._store.reader.search(TENANT, vector_of("note a"), where, 1_000, -1.0)
            assert {hit.memory.memory_id for hit in hits} == expected

    @rule()
    def store_is_sound(self) -> None:
        assert self._store.reader.check().problems == ()

    def teardown(self) -> None:
        # Not after each step: it compares every value of every table with all others.
        self.store_is_sound()
        self._store.close()
        shutil.rmtree(self._root)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    settings.get_profile("quick"), max_examples=15, stateful_step_count=25
)
