"""Isolation hides what is in reach and nothing else, and is taken back whole, over crashes."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest

from policy.model import (
    Basis,
    ChangeKind,
    MemoryId,
    Origin,
    Principal,
    PrincipalId,
    Provenance,
    Scope,
    SourceKind,
    Tenant,
)
from policy.query import EVERYTHING
from storage.audit import OperatorLeaf, decode_leaf
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.features.incidents import (
    Incident,
    IncidentKind,
    IncidentStage,
    IsolationReport,
)
from storage.features.incidents.incident_orders import (
    BeginIncident,
    HideBatch,
    MoveIncident,
    ReleasedMemories,
)
from storage.features.quarantine.hiding import QUARANTINES, EndQuarantine, Quarantine
from storage.ground.errors import UnknownIncident
from storage.questions import Selection
from storage.tables.names import CHILDREN
from storage.values import Outcome
from tests.conftest import HEAVY
from tests.unit.storage.opening import (
    AGENT,
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)

SMALL = EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26, incident_batch_len=2)
LEAKED = Principal(principal_id=PrincipalId("leaked"), tenant=TENANT)
OF_LEAKED = Selection(tenant=TENANT, principal_id=LEAKED.principal_id)


def id_of(outcome: Outcome) -> MemoryId:
    assert outcome.memory is not None
    return outcome.memory.memory_id


def shown(store: EmbeddedStore) -> dict[MemoryId, str]:
    """What every read shows: listing, search and `get` agree."""
    page = store.reader.page(TENANT, EVERYTHING, 0, 1_000)
    listed = {one.memory_id: one.text for one in page.memories}
    hits = store.reader.search(TENANT, vector_of("x"), EVERYTHING, 1_000, -1.0)
    assert {hit.memory.memory_id for hit in hits} == set(listed)
    assert all(store.reader.get(TENANT, memory_id) is not None for memory_id in listed)
    assert store.reader.status().live_count == len(listed)
    assert store.reader.check().problems == ()
    return listed


def leaves_of(store: EmbeddedStore, incident_id: str) -> list[tuple[str, str]]:
    """Action and subject of each leaf that names an incident."""
    leaves = (decode_leaf(data) for data in store.audit.leaves(0, 10_000))
    return [
        (leaf.action, leaf.subject)
        for leaf in leaves
        if isinstance(leaf, OperatorLeaf) and incident_id in f"{leaf.subject} {leaf.detail}"
    ]


def derived(store: EmbeddedStore, text: str, *parents: MemoryId) -> MemoryId:
    return id_of(say(store, text, derived_from=parents))


def recorded(report: IsolationReport) -> Incident:
    """The incident that the store recorded for what was done."""
    assert report.incident is not None
    return report.incident


def test_undo_shows_nothing_that_somebody_else_hides(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    before_it, after_it, twice, mine, gone = (
        id_of(say(store, f"lie {n}", LEAKED)) for n in range(5)
    )
    asyncio.run(store.writer.order(Quarantine(before_it, TENANT, BY)))
    first = recorded(asyncio.run(store.incidents.isolate(OF_LEAKED, BY)))
    asyncio.run(store.writer.order(Quarantine(after_it, TENANT, BY)))
    second = asyncio.run(
        store.incidents.isolate(
            Selection(tenant=TENANT, principal_id=LEAKED.principal_id, under="memories"), BY
        )
    )
    assert (second.changed, second.kept) == (0, 5)
    write(
        store,
        submission_of(
            candidate_of(None, OPERATOR, change=ChangeKind.DELETE, memory_id=gone, scope=Scope()),
            OPERATOR,
        ),
    )
    assert shown(store) == {}
    back = asyncio.run(store.incidents.undo(first.incident_id, BY))
    assert (back.changed, back.kept) == (0, 4)
    assert shown(store) == {}
    asyncio.run(store.writer.order(EndQuarantine(twice, TENANT, BY)))
    assert set(shown(store)) == {twice}  # an operator's word for one memory ends every hiding
    asyncio.run(store.incidents.undo(recorded(second).incident_id, BY))
    assert set(shown(store)) == {twice, mine}
    asyncio.run(store.writer.order(EndQuarantine(before_it, TENANT, BY)))
    asyncio.run(store.writer.order(EndQuarantine(after_it, TENANT, BY)))
    assert set(shown(store)) == {twice, mine, before_it, after_it}
    store.close()


def test_a_batch_behind_the_undoing_of_its_incident_hides_nothing(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    memory_id = id_of(say(store, "poison", LEAKED))
    begun = recorded(asyncio.run(store.incidents.isolate(OF_LEAKED, BY)))
    undone = recorded(asyncio.run(store.incidents.undo(begun.incident_id, BY)))
    name = store._engine.parts.names.memory(TENANT, memory_id)
    late = HideBatch(begun, [name], ReleasedMemories(begun))
    assert asyncio.run(store.writer.order(late)) == (0, 0)
    done = MoveIncident(begun.incident_id, IncidentStage.DONE, BY, "1 hidden")
    stays = asyncio.run(store.writer.order(done))
    assert stays == undone
    assert store.incidents.all() == (undone,)
    assert shown(store) == {memory_id: "poison"}
    store.close()


def test_reach_is_by_step_and_narrowed_by_all_that_is_given(bench: Bench) -> None:
    store = bench.open()
    came = Provenance(
        source=SourceKind.TOOL_RESULT,
        basis=Basis.UNPROVEN,
        culprits=(Origin(kind=SourceKind.TOOL_RESULT, server="web", tool="fetch"),),
        session="a" * 32,
    )
    fetched = id_of(write(store, submission_of(candidate_of("from the web"), provenance=came))[0])
    plain = id_of(say(store, "plain", target="notes/home"))
    foreign = say(
        store, "elsewhere", Principal(principal_id=LEAKED.principal_id, tenant=Tenant("other"))
    )
    bench.clock.now_ms += 1_000
    late = id_of(say(store, "late", LEAKED, target="notes2"))
    edited = submission_of(
        candidate_of("edited", OPERATOR, change=ChangeKind.UPDATE, memory_id=plain, scope=Scope()),
        OPERATOR,
    )
    write(store, edited)

    def found(**reach: object) -> set[MemoryId]:
        asked = Selection(tenant=TENANT, **reach)  # type: ignore[arg-type]
        return {one.memory_id for one in store.incidents.reached(asked)}

    assert found() == {fetched, plain, late}
    assert found(principal_id=AGENT.principal_id) == {fetched, plain}
    assert found(principal_id=OPERATOR.principal_id) == {plain}  # a step of it is hers
    assert found(server="web") == found(server="web", tool="fetch") == {fetched}
    assert found(server="web", tool="other") == found(server="fetch") == set()
    assert found(session="a" * 32) == {fetched}
    assert found(under="notes") == {plain}  # and not `notes2`
    assert found(since_ms=bench.clock.now_ms) == {plain, late}
    assert found(since_ms=bench.clock.now_ms, principal_id=AGENT.principal_id) == set()
    assert id_of(foreign) not in found()
    store.close()


def test_a_chain_of_five_descendants_is_reached_also_past_a_deleted_one(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    root = id_of(say(store, "root", LEAKED))
    chain = [root]
    for n in range(5):
        chain.append(derived(store, f"child {n}", chain[-1]))
    other = id_of(say(store, "unrelated"))
    both = derived(store, "of two", other, chain[-1])
    gone = submission_of(
        candidate_of(None, OPERATOR, change=ChangeKind.DELETE, memory_id=chain[2], scope=Scope()),
        OPERATOR,
    )
    write(store, gone)
    alone = asyncio.run(store.incidents.isolate(OF_LEAKED, BY))
    assert alone.changed == 1  # control: without being asked, nobody follows lineage
    asyncio.run(store.incidents.undo(recorded(alone).incident_id, BY))
    with_them = Selection(tenant=TENANT, principal_id=LEAKED.principal_id, with_descendants=True)
    told = {one.memory_id: one.descendant for one in store.incidents.reached(with_them)}
    expected = {*chain, both} - {chain[2]}
    assert told == {one: one != root for one in expected}
    done = asyncio.run(store.incidents.isolate(with_them, BY))
    assert done.changed == len(expected)
    assert set(shown(store)) == {other}
    store.close()


def test_a_purge_leaves_neither_lineage_nor_who_hid_it(bench: Bench) -> None:
    store = bench.open()
    root = id_of(say(store, "root", LEAKED))
    child = derived(store, "child", root)
    asyncio.run(
        store.incidents.isolate(
            Selection(tenant=TENANT, with_descendants=True, under="memories"), BY
        )
    )
    with store.lmdb.reading() as view:
        assert (view.count(CHILDREN), view.count(QUARANTINES)) == (1, 2)
    for one in (root, child):
        purge = candidate_of(None, OPERATOR, change=ChangeKind.PURGE, memory_id=one, scope=Scope())
        write(store, submission_of(purge, OPERATOR))
    with store.lmdb.reading() as view:
        assert (view.count(CHILDREN), view.count(QUARANTINES)) == (0, 0)
    assert store.reader.check().problems == ()
    store.close()


def test_what_was_changed_while_hidden_is_found_by_search_when_it_is_shown_again(
    bench: Bench,
) -> None:
    store = bench.open()
    memory_id = id_of(say(store, "first", LEAKED))
    done = asyncio.run(store.incidents.isolate(OF_LEAKED, BY))
    edit = candidate_of(
        "second", OPERATOR, change=ChangeKind.UPDATE, memory_id=memory_id, scope=Scope()
    )
    write(store, submission_of(edit, OPERATOR))
    assert shown(store) == {}
    asyncio.run(store.incidents.undo(recorded(done).incident_id, BY))
    assert shown(store) == {memory_id: "second"}
    store.close()


class Copies:
    """A failpoint that keeps what a killed process would leave at the n-th time it is passed."""

    def __init__(self, bench: Bench, root: Path) -> None:
        self._bench = bench
        self._root = root
        self.armed = False
        self.kept: list[Bench] = []

    def __call__(self, name: str) -> None:
        # What is on disk changes with a commit alone; the heavy share tries every point.
        if not self.armed or not (HEAVY or name in {"before_commit", "after_commit"}):
            return
        after = Bench(self._root / f"{len(self.kept)}-{name}")
        for before, there in (
            (self._bench.checkpoint.parent, after.checkpoint.parent),
            (self._bench.state, after.state),
        ):
            if before.exists():
                shutil.copytree(before, there, ignore=shutil.ignore_patterns(".*"))
        self.kept.append(after)


def test_an_isolation_that_a_crash_cut_short_anywhere_is_finished_under_its_id(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "live")
    copies = Copies(bench, tmp_path / "crashed")
    store = bench.open(copies, options=SMALL)
    for n in range(3):
        say(store, f"lie {n}", LEAKED)
    kept = id_of(say(store, "fact"))
    before = shown(store)
    copies.armed = True
    done = asyncio.run(store.incidents.isolate(OF_LEAKED, BY))
    at_undo = len(copies.kept)
    asyncio.run(store.incidents.undo(recorded(done).incident_id, BY))
    copies.armed = False
    after = shown(store)
    store.close()
    assert after == before
    halves = 0
    for number, crashed in enumerate(copies.kept):
        again = crashed.open(options=SMALL)
        there = shown(again)
        halves += 1 < len(there) < len(before)
        # A batch is there or it is not, whatever the moment.
        assert len(there) in ({4, 2, 1} if number < at_undo else {1, 3, 4})
        for incident in again.incidents.all():
            asyncio.run(again.incidents.resume(incident.incident_id, BY))
            undoing = number >= at_undo and incident.stage in {
                IncidentStage.UNDOING,
                IncidentStage.UNDONE,
            }
            assert shown(again) == (before if undoing else {kept: "fact"})
            asyncio.run(again.incidents.undo(incident.incident_id, BY))
            assert shown(again) == before
        again.close()
    assert halves  # some of them did die between two batches


def test_what_a_person_paroled_meanwhile_stays_shown_when_an_isolation_is_finished(
    bench: Bench,
) -> None:
    store = bench.open(options=SMALL)
    plain = id_of(say(store, "plain", LEAKED))
    named = id_of(say(store, "named by a client", LEAKED, memory_id=MemoryId("notes/1")))
    regretted, undone, other = (id_of(say(store, f"lie {n}", LEAKED)) for n in range(3))
    # What a crash leaves after the last batch, and before the record of it.
    begun = asyncio.run(store.writer.order(BeginIncident(IncidentKind.ISOLATE, OF_LEAKED, BY, "")))
    names = [store._engine.parts.names.memory(TENANT, one) for one in (plain, named, regretted)]
    asyncio.run(store.writer.order(HideBatch(begun, names, ReleasedMemories(begun))))
    for one in (plain, named, regretted):
        asyncio.run(store.writer.order(EndQuarantine(one, TENANT, BY, "read it: it is true")))
    edit = candidate_of("edited", OPERATOR, change=ChangeKind.UPDATE, memory_id=named)
    write(store, submission_of(edit, OPERATOR))
    asyncio.run(store.writer.order(Quarantine(regretted, TENANT, BY)))
    asyncio.run(store.writer.order(EndQuarantine(regretted, TENANT, BY)))
    asyncio.run(store.writer.order(Quarantine(regretted, TENANT, BY)))
    # Control: what another undoing shows is nobody's word for it.
    second = asyncio.run(store.incidents.isolate(Selection(tenant=TENANT, under="memories"), BY))
    asyncio.run(store.incidents.undo(recorded(second).incident_id, BY))
    assert set(shown(store)) == {plain, named, undone, other}
    store.close()

    store = bench.open(options=SMALL)
    done = asyncio.run(store.incidents.resume(begun.incident_id, BY))
    assert (done.changed, done.kept, recorded(done).stage) == (2, 1, IncidentStage.DONE)
    assert set(shown(store)) == {plain, named}
    store.close()


def test_what_was_derived_from_a_purged_memory_is_reached(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    root = id_of(say(store, "root", LEAKED))
    child = derived(store, "child", root)
    grandchild = derived(store, "grandchild", child)
    id_of(say(store, "unrelated"))
    purge = candidate_of(None, OPERATOR, change=ChangeKind.PURGE, memory_id=root, scope=Scope())
    write(store, submission_of(purge, OPERATOR))
    with_them = Selection(tenant=TENANT, principal_id=LEAKED.principal_id, with_descendants=True)
    assert {one.memory_id for one in store.incidents.reached(with_them)} == {child, grandchild}
    for narrower in ({"with_descendants": False}, {"under": "memories"}, {"session": "a" * 32}):
        asked = msgspec.structs.replace(with_them, **narrower)
        assert store.incidents.reached(asked) == ()  # control
    store.close()


def test_an_incident_that_nobody_knows_is_refused(bench: Bench) -> None:
    store = bench.open()
    for nothing in ("", "zz", "0" * 16, "0" * 15, "ab"):
        for command in (store.incidents.undo, store.incidents.resume):
            with pytest.raises(UnknownIncident):
                asyncio.run(command(nothing, BY))
    assert store.incidents.all() == ()
    done = asyncio.run(store.incidents.isolate(OF_LEAKED, BY))
    assert (done.changed, done.kept) == (0, 0)
    store.close()
