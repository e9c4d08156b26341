"""A rewind puts memories back by new commits, and leaves alone all that must go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policy.model import ChangeKind, MemoryId, Scope
from policy.query import EVERYTHING
from policy.verdict import Reason
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.features.confirm_memory import ConfirmMemory
from storage.features.incidents import (
    Incident,
    IncidentStage,
    IsolationReport,
    PastState,
    RewindReport,
)
from storage.features.quarantine.hiding import QUARANTINES, Quarantine
from storage.features.registered import PutAnchor
from storage.features.trust import RestoreTrust
from storage.ground.errors import NoSuchPast
from storage.questions import Selection
from storage.values import Anchor, Decision, Outcome
from tests.unit.storage.features.incidents.test_isolation import (
    LEAKED,
    Copies,
    id_of,
    shown,
)
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

SMALL = EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26, incident_batch_len=2)
ALL = Selection(tenant=TENANT)


def change(
    store: EmbeddedStore, kind: ChangeKind, memory_id: MemoryId, text: str | None = None
) -> Outcome:
    candidate = candidate_of(text, OPERATOR, change=kind, memory_id=memory_id, scope=Scope())
    outcome = write(store, submission_of(candidate, OPERATOR))[0]
    assert outcome.decision is Decision.ADMIT
    return outcome


def rewind(store: EmbeddedStore, version: int, reach: Selection = ALL) -> RewindReport:
    dry = store.incidents.planned(reach, PastState(version=version))
    done = asyncio.run(store.incidents.rewind(reach, PastState(version=version), BY))
    told = (done.version, done.put_back, done.hidden, done.shown, done.behind, done.lost)
    assert told == (dry.version, dry.put_back, dry.hidden, dry.shown, dry.behind, dry.lost)
    assert done.moved == 0
    return done


def labelled(store: EmbeddedStore) -> dict[MemoryId, object]:
    """All that a read shows of each memory but when it was written last."""
    page = store.reader.page(TENANT, EVERYTHING, 0, 1_000)
    return {
        one.memory_id: (
            one.text,
            one.source,
            one.basis,
            one.memory_class,
            one.scope,
            one.created_at_ms,
            one.principal_id,
        )
        for one in page.memories
    }


def test_an_undo_is_undone_as_well_though_the_version_never_moved(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    kept, hidden, isolated = (id_of(say(store, text)) for text in ("one", "two", "three"))
    asyncio.run(store.writer.order(Quarantine(isolated, TENANT, BY)))
    everything, version = shown(store), store.reader.status().version

    done = rewind(store, 1)
    became = {one.memory_id: one.became for one in done.touched}
    assert became == {hidden: ("hidden",), isolated: ("kept_hidden",)}
    assert (done.hidden, done.kept_hidden) == (1, 1)
    assert shown(store) == {kept: "one"}

    back = undo(store, done.incident)
    assert (back.changed, back.kept, shown(store)) == (1, 1, everything)
    forth = undo(store, back.incident)
    assert (forth.changed, shown(store)) == (1, {kept: "one"})
    assert store.reader.status().version == version
    # Control: the version names the state before all of it, so the undo of an undo is not there.
    assert rewind(store, version).shown == 1
    assert shown(store) == everything
    store.close()


@pytest.mark.parametrize("isolated_first", [True, False])
@pytest.mark.parametrize("rewind_undone_first", [True, False])
def test_an_undo_takes_its_own_hiding_back_and_leaves_that_of_an_isolation(
    bench: Bench, *, isolated_first: bool, rewind_undone_first: bool
) -> None:
    store = bench.open(options=SMALL)
    kept = id_of(say(store, "one"))
    at = store.reader.status().version
    later = id_of(say(store, "two", LEAKED))
    reach = Selection(tenant=TENANT, principal_id=LEAKED.principal_id)

    def isolate() -> Incident | None:
        return asyncio.run(store.incidents.isolate(reach, BY)).incident

    isolated = isolate() if isolated_first else None
    rewound = rewind(store, at).incident
    isolated = isolated or isolate()
    assert isolated is not None
    assert rewound is not None
    first, second = (rewound, isolated) if rewind_undone_first else (isolated, rewound)

    undo(store, first)
    assert shown(store) == {kept: "one"}, "control: the other one still hides it"
    with store.lmdb.reading() as view:
        ((_, hidden),) = view.records(QUARANTINES)
    assert hidden.by == (second.incident_id,)
    undo(store, second)
    assert shown(store) == {kept: "one", later: "two"}
    assert store.reader.check().problems == ()
    store.close()


def test_an_undo_that_was_cut_short_takes_the_same_hiding_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open(options=SMALL)
    say(store, "one")
    at = store.reader.status().version
    later = id_of(say(store, "two", LEAKED))
    reach = Selection(tenant=TENANT, principal_id=LEAKED.principal_id)
    isolated = asyncio.run(store.incidents.isolate(reach, BY)).incident
    rewound = rewind(store, at).incident

    async def cut(*_: object) -> RewindReport:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(type(store.incidents), "_rewound", cut)
        with pytest.raises(ConnectionError):
            undo(store, rewound)
    begun = store.incidents.all()[-1]
    assert begun.stage.value == "open"
    asyncio.run(store.incidents.resume(begun.incident_id, BY))
    undo(store, isolated)
    assert later in shown(store)
    store.close()


def undo(store: EmbeddedStore, incident: Incident | None) -> IsolationReport:
    assert incident is not None
    return asyncio.run(store.incidents.undo(incident.incident_id, BY))


def test_a_time_is_the_state_that_stood_then(bench: Bench) -> None:
    store = bench.open()
    first = id_of(say(store, "first"))
    then_ms = bench.clock.now_ms
    bench.clock.now_ms += 5_000
    change(store, ChangeKind.UPDATE, first, "second")
    bench.clock.now_ms += 5_000
    done = asyncio.run(store.incidents.rewind(ALL, PastState(at_ms=then_ms + 4_999), BY))
    assert (done.version, done.put_back) == (1, 1)
    assert shown(store) == {first: "first"}
    asyncio.run(store.incidents.rewind(ALL, PastState(at_ms=then_ms + 5_000), BY))
    assert shown(store) == {first: "second"}
    store.close()


def test_trust_nonces_keys_anchors_and_what_is_held_go_on(bench: Bench) -> None:
    store = bench.open()
    memory_id = id_of(say(store, "one"))
    at = store.reader.status().version
    anchor = Anchor(anchor_id="a", tenant=TENANT, statement="s", questions=("q",), created_at_ms=1)
    asyncio.run(store.writer.order(PutAnchor(anchor, BY)))
    asyncio.run(store.writer.order(RestoreTrust(LEAKED.principal_id, BY)))
    held = write(store, submission_of(candidate_of("wait", instructions=True)))[0]
    assert held.decision is Decision.HOLD
    spent = candidate_of("spent", OPERATOR, change=ChangeKind.UPDATE, memory_id=memory_id)
    write(store, submission_of(spent, OPERATOR))
    trust = store.reader.all_trust()
    assert trust
    rewind(store, at)
    assert shown(store) == {memory_id: "one"}
    assert store.reader.all_trust() == trust
    assert store.reader.anchors(TENANT) == (anchor,)
    assert [one.candidate_id for one in store.reader.held()] == [held.candidate_id]
    assert write(store, submission_of(spent, OPERATOR))[0].replayed  # the nonce stays spent
    assert shown(store) == {memory_id: "one"}
    reused = candidate_of("other", OPERATOR, nonce=spent.nonce)
    assert write(store, submission_of(reused, OPERATOR))[0].reason is Reason.NONCE_REPLAYED
    store.close()


def test_only_what_is_in_reach_is_put_back(bench: Bench) -> None:
    store = bench.open()
    mine, theirs = id_of(say(store, "mine")), id_of(say(store, "theirs", LEAKED))
    at = store.reader.status().version
    for one in (mine, theirs):
        change(store, ChangeKind.UPDATE, one, "edited")
    rewind(store, at, Selection(tenant=TENANT, principal_id=LEAKED.principal_id))
    assert shown(store) == {mine: "edited", theirs: "theirs"}
    store.close()


def test_a_label_that_a_person_gave_since_stays_and_nothing_else_is_raised(bench: Bench) -> None:
    store = bench.open()
    memory_id = id_of(say(store, "from nobody knows where"))
    at, low = store.reader.status().version, labelled(store)
    change(store, ChangeKind.UPDATE, memory_id, "an operator's words")
    assert labelled(store) != low
    rewind(store, at)
    assert labelled(store) == low  # not the label of the operator who asked for the rewind
    version = store.reader.status().version
    asyncio.run(store.writer.order(ConfirmMemory(memory_id, TENANT, BY, version)))
    vouched = labelled(store)
    change(store, ChangeKind.UPDATE, memory_id, "more words")
    rewind(store, version)
    assert labelled(store) == vouched
    assert store.reader.check().problems == ()
    store.close()


def rewind_refused(store: EmbeddedStore, to: PastState) -> str:
    """What is said where there is no such past; nothing was changed."""
    before = store.reader.status()
    with pytest.raises(NoSuchPast) as refused:
        asyncio.run(store.incidents.rewind(ALL, to, BY))
    with pytest.raises(NoSuchPast):
        store.incidents.planned(ALL, to)
    assert store.reader.status() == before
    return str(refused.value)


def test_a_past_that_is_not_there_is_refused_with_the_nearest_and_changes_nothing(
    bench: Bench,
) -> None:
    store = bench.open()
    first = id_of(say(store, "first"))
    change(store, ChangeKind.PURGE, first)
    second = id_of(say(store, "second"))
    assert rewind_refused(store, PastState(version=9)) == (
        "version 9 is in the future: the newest is version 3"
    )
    assert "in the future" in rewind_refused(store, PastState(at_ms=bench.clock.now_ms + 1))
    assert "earliest state is version 0" in rewind_refused(store, PastState(at_ms=1))
    assert rewind_refused(store, PastState(version=1)) == (
        "all that was there at version 1 is purged: the nearest is version 3"
    )
    assert shown(store) == {second: "second"}
    store.close()
    restored = bench.open(options=EmbeddedOptions(quota_bytes=1 << 28, restored=True))
    assert "earliest state is version 3" in rewind_refused(restored, PastState(version=2))
    nonce = f"{restored.reader.status().incarnation}:third"
    assert id_of(say(restored, "third", nonce=nonce))
    assert rewind(restored, 3).hidden == 1  # control: the first state of this life
    restored.close()


def test_a_rewind_that_a_crash_cut_short_anywhere_is_finished_under_its_id(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "live")
    copies = Copies(bench, tmp_path / "crashed")
    store = bench.open(copies, options=SMALL)
    ids = [id_of(say(store, f"text {n}")) for n in range(3)]
    at, then = store.reader.status().version, labelled(store)
    for one in ids[:2]:
        change(store, ChangeKind.UPDATE, one, "poisoned")
    change(store, ChangeKind.DELETE, ids[2])
    later = id_of(say(store, "later"))
    before = labelled(store)
    copies.armed = True
    rewind(store, at)
    copies.armed = False
    assert labelled(store) == then
    store.close()
    halves = 0
    for crashed in copies.kept:
        again = crashed.open(options=SMALL)
        there = labelled(again)
        halves += there not in (before, then)
        new = id_of(say(again, "written after the crash"))
        for incident in again.incidents.all():
            asyncio.run(again.incidents.resume(incident.incident_id, BY))
            assert set(labelled(again)) == {*then, new}
            assert later not in labelled(again)
        for incident in again.incidents.all():
            assert incident.stage is IncidentStage.DONE
        assert again.reader.check().problems == ()
        again.close()
    assert halves
