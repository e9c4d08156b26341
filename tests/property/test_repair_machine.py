"""Isolation, its undoing and rewind against an obvious model: a copy of everything, each time.

The quick suite draws a few short lives. `MNEMOGATE_WHOLE=1` walks a hundred thousand steps:

    MNEMOGATE_WHOLE=1 .venv/bin/pytest -n0 --timeout 0 tests/property/test_repair_machine.py
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from policy.model import ChangeKind, MemoryId, Principal, PrincipalId, Scope
from policy.query import EVERYTHING
from storage.embedded import EmbeddedOptions
from storage.features.incidents import PastState
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.questions import Selection
from storage.values import Decision
from storage.write.writer import WriterOptions
from tests.conftest import WHOLE
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
)

WRITERS = tuple(Principal(principal_id=PrincipalId(name), tenant=TENANT) for name in ("ada", "eve"))
# Hours of patience: on a loaded machine the process may stand still for longer than a user waits.
SMALL = EmbeddedOptions(
    quota_bytes=1 << 28,
    staging_quota_bytes=1 << 26,
    incident_batch_len=3,
    writer=WriterOptions(answer_timeout_s=3600.0, stop_timeout_s=3600.0),
)
STEPS_WHOLE = 100_000
_LIFE_LEN = 50
IN_MEMORY = next((one for one in ("/dev/shm",) if os.access(one, os.W_OK)), None)  # noqa: S108
_BY_HAND = "by hand"
PICK = st.integers(min_value=0, max_value=10**6)


class Item(msgspec.Struct):
    """One memory of the model: what it says, whether it was deleted, and who hides it."""

    text: str
    deleted: bool
    purged: bool
    by: set[str]
    authors: set[str]
    parents: tuple[MemoryId, ...]


class RepairMachine(RuleBasedStateMachine):
    """What writers and an operator do; `_past[v]` is the whole model right after version v."""

    def __init__(self) -> None:
        super().__init__()
        # In memory where there is such a place: no step here is about what a disk does.
        self._root = Path(tempfile.mkdtemp(prefix="mnemogate-repair-", dir=IN_MEMORY))
        self._runner = asyncio.Runner()
        self._bench = Bench(self._root)
        self._store = self._bench.open(options=SMALL)
        self.items: dict[MemoryId, Item] = {}
        # None: a version in the middle of a rewind, when some texts were back and others not.
        self._past: list[dict[MemoryId, Item] | None] = [{}]
        self._incidents: list[str] = []
        self._count = 0

    def _step(self) -> None:
        """A version came: remember how everything is."""
        self._past.append(
            {
                one: msgspec.structs.replace(item, by=set(item.by), authors=set(item.authors))
                for one, item in self.items.items()
            }
        )

    def _pick(self, number: int, *, deleted: bool = False) -> MemoryId | None:
        found = [
            one
            for one, item in self.items.items()
            if not item.purged and (deleted or not item.deleted)
        ]
        return found[number % len(found)] if found else None

    @initialize()
    def begin(self) -> None:
        """Something to isolate and to go back to."""
        for number, who in enumerate((*WRITERS, *WRITERS)):
            self.create(who, number or None)

    @rule(who=st.sampled_from(WRITERS), parent=st.none() | PICK)
    def create(self, who: Principal, parent: int | None) -> None:
        self._count += 1
        text = f"note {self._count}"
        named = None if parent is None else self._pick(parent)
        parents = () if named is None else (named,)
        candidate = candidate_of(text, who, derived_from=parents)
        outcome = self._runner.run(self._store.writer.submit(submission_of(candidate, who)))
        assert outcome.memory is not None
        self.items[outcome.memory.memory_id] = Item(
            text=text,
            deleted=False,
            purged=False,
            by=set(),
            authors={who.principal_id},
            parents=parents,
        )
        self._step()

    def _change(self, kind: ChangeKind, memory_id: MemoryId, text: str | None) -> None:
        candidate = candidate_of(text, OPERATOR, change=kind, memory_id=memory_id, scope=Scope())
        outcome = self._runner.run(self._store.writer.submit(submission_of(candidate, OPERATOR)))
        assert outcome.decision is Decision.ADMIT
        self.items[memory_id].authors.add(OPERATOR.principal_id)

    @rule(number=PICK)
    def update(self, number: int) -> None:
        if (memory_id := self._pick(number)) is None:
            return
        self._count += 1
        text = f"edited {self._count}"
        self._change(ChangeKind.UPDATE, memory_id, text)
        self.items[memory_id].text = text
        self._step()

    @rule(number=PICK)
    def delete(self, number: int) -> None:
        if (memory_id := self._pick(number)) is None:
            return
        self._change(ChangeKind.DELETE, memory_id, None)
        self.items[memory_id].deleted = True
        self._step()

    @rule(number=PICK, sure=st.integers(0, 3))
    def purge(self, number: int, sure: int) -> None:
        if sure or (memory_id := self._pick(number, deleted=True)) is None:
            return
        self._change(ChangeKind.PURGE, memory_id, None)
        self.items[memory_id] = msgspec.structs.replace(
            self.items[memory_id], deleted=True, purged=True, by=set()
        )
        self._step()

    @rule(number=PICK)
    def quarantine(self, number: int) -> None:
        if (memory_id := self._pick(number)) is not None:
            self._runner.run(self._store.writer.order(Quarantine(memory_id, TENANT, BY)))
            self.items[memory_id].by.add(_BY_HAND)

    @rule(number=PICK)
    def parole(self, number: int) -> None:
        if (memory_id := self._pick(number)) is not None:
            self._runner.run(self._store.writer.order(EndQuarantine(memory_id, TENANT, BY)))
            self.items[memory_id].by.clear()

    @rule(who=st.sampled_from((*WRITERS, OPERATOR)), with_them=st.booleans())
    def isolate(self, who: Principal, *, with_them: bool) -> None:
        reach = Selection(tenant=TENANT, principal_id=who.principal_id, with_descendants=with_them)
        done = self._runner.run(self._store.incidents.isolate(reach, BY))
        assert done.incident is not None
        self._incidents.append(done.incident.incident_id)
        reached = {one for one, item in self.items.items() if who.principal_id in item.authors}
        while with_them:
            more = {
                one
                for one, item in self.items.items()
                if not item.purged and reached.intersection(item.parents)
            }
            if more <= reached:
                break
            reached |= more
        for one in reached:
            if not self.items[one].deleted:
                assert done.incident is not None
                self.items[one].by.add(done.incident.incident_id)

    @rule(number=PICK)
    def undo(self, number: int) -> None:
        if not self._incidents:
            return
        incident_id = self._incidents[number % len(self._incidents)]
        self._runner.run(self._store.incidents.undo(incident_id, BY))
        for item in self.items.values():
            item.by.discard(incident_id)

    @rule(number=PICK)
    def rewind(self, number: int) -> None:
        version = number % len(self._past)
        then = self._past[version]
        if then is None:
            return
        stood = [one for one, item in then.items() if not item.deleted]
        purged = [one for one in stood if self.items[one].purged]
        if purged and all(self.items[one].purged for one in then):
            return
        done = self._runner.run(
            self._store.incidents.rewind(Selection(tenant=TENANT), PastState(version=version), BY)
        )
        assert set(done.lost) == set(purged)
        assert done.incident is not None
        mine = f"rewind {done.incident.incident_id}"
        for memory_id, item in self.items.items():
            if not item.purged:
                self._rewound(item, then.get(memory_id), mine)
        self._past += [None] * done.put_back

    @staticmethod
    def _rewound(item: Item, was: Item | None, mine: str) -> None:
        """What the words of the command say of one memory."""
        if was is None or was.deleted:
            if not item.deleted:
                item.by.add(mine)
            return
        item.text, item.deleted = was.text, False
        if was.by:
            item.by = item.by or {mine}
        else:
            item.by = {one for one in item.by if not one.startswith("rewind ")}

    @rule(sure=st.integers(0, 3))
    def reopen(self, sure: int) -> None:
        if sure:
            return
        self._store.close()
        self._store = self._bench.open(options=SMALL)

    @invariant()
    def every_row_is_that_of_the_model(self) -> None:
        reader, hidden = self._store.reader, self._store.quarantined
        shown = {
            one.memory_id: one.text for one in reader.page(TENANT, EVERYTHING, 0, 1000).memories
        }
        kept = {one.memory_id: one.text for one in hidden.find(TENANT)}
        expected_shown = {
            one: item.text for one, item in self.items.items() if not item.deleted and not item.by
        }
        expected_kept = {
            one: item.text for one, item in self.items.items() if not item.deleted and item.by
        }
        assert _digest(shown) == _digest(expected_shown), (shown, expected_shown)
        assert _digest(kept) == _digest(expected_kept), (kept, expected_kept)
        assert reader.status().version == len(self._past) - 1

    def teardown(self) -> None:
        problems = self._store.reader.check().problems
        self._store.close()
        self._runner.close()
        shutil.rmtree(self._root)
        assert problems == ()


def _digest(memories: dict[MemoryId, str]) -> str:
    """One digest over every row that a reader gets."""
    listed = msgspec.json.encode(sorted(memories.items()))
    return hashlib.sha256(listed).hexdigest()


# Without shrinking: a life is short enough to read, and a red run must end soon.
SHORT = settings(
    settings.get_profile("quick"),
    max_examples=6,
    stateful_step_count=20,
    deadline=None,
    phases=[Phase.generate],
)
TestRepairMachine = RepairMachine.TestCase
TestRepairMachine.settings = SHORT


@pytest.mark.whole
@pytest.mark.skipif(not WHOLE, reason="ten minutes: set MNEMOGATE_WHOLE=1")
@pytest.mark.timeout(0)
def test_a_hundred_thousand_steps_are_those_of_the_model() -> None:
    run_state_machine_as_test(
        RepairMachine,
        settings=settings(
            max_examples=STEPS_WHOLE // _LIFE_LEN,
            stateful_step_count=_LIFE_LEN,
            deadline=None,
            phases=[Phase.generate],
        ),
    )


def test_a_model_that_says_something_else_is_noticed() -> None:
    machine = RepairMachine()
    try:
        machine.begin()
        machine.update(0)
        machine.every_row_is_that_of_the_model()  # control: it agrees with the store
        forgotten = copy.deepcopy(machine.items)
        machine.rewind(1)
        machine.every_row_is_that_of_the_model()
        machine.items = forgotten
        with pytest.raises(AssertionError):
            machine.every_row_is_that_of_the_model()
    finally:
        machine.teardown()
