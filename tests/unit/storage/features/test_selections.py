"""Selections match what every field says, and undo gives back exactly what likeness hid."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from policy.after.closure import Act, Relation
from policy.labels.forwarded_call import ForwardedCall, texts_of
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
from storage.embedded import EmbeddedStore
from storage.features.cases import ConvictedMemory
from storage.features.incidents import PastState
from storage.features.quarantine.hiding import Quarantine
from storage.features.views.tenant_views import Views
from storage.ground.errors import UnknownMemory
from storage.questions import Selection
from tests.unit.storage import opening
from tests.unit.storage.features.incidents.test_isolation import id_of, recorded, shown
from tests.unit.storage.opening import (
    AGENT,
    BY,
    DIMENSION,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

OTHER = Principal(principal_id=PrincipalId("agent-2"), tenant=Tenant("other"))
SESSION = "ab" * 16
FETCHED = Provenance(
    source=SourceKind.TOOL_RESULT,
    basis=Basis.UNPROVEN,
    culprits=(Origin(kind=SourceKind.TOOL_RESULT, server="web", tool="fetch", call_id="t1"),),
    session=SESSION,
)


def at_cosine(cosine: float) -> bytes:
    """A unit vector with this cosine to the first axis."""
    values = np.zeros(DIMENSION)
    values[0], values[1] = cosine, np.sqrt(1 - cosine * cosine)
    return values.astype("<f4").tobytes()


def said(
    store: EmbeddedStore,
    text: str,
    cosine: float,
    principal: Principal = AGENT,
    **fields: object,
) -> MemoryId:
    candidate = candidate_of(text, principal, **fields)
    (done,) = write(store, submission_of(candidate, principal, vector=at_cosine(cosine)))
    return id_of(done) if done.memory is not None else MemoryId(candidate.memory_id or "")


def names(store: EmbeddedStore, asked: Selection, *, hidden: bool = False) -> list[MemoryId]:
    """The memories of a selection, in its order."""
    ordinals = store.of(Views).select(asked, hidden=hidden)
    found = store.recalls.memories(asked.tenant, list(ordinals))
    return [one.memory_id for one in found.values()]


def test_what_is_like_a_memory_is_found_by_every_version_and_of_one_tenant(bench: Bench) -> None:
    store = bench.open()
    lie, near, far = said(store, "lie", 1.0), said(store, "near", 0.7), said(store, "far", 0.5)
    changed = said(store, "as the lie", 0.9)
    said(store, "edited", -0.5, change=ChangeKind.UPDATE, memory_id=changed)
    said(store, "as the lie", 1.0, OTHER)
    like = Selection(tenant=TENANT, like=lie)
    assert names(store, like) == [lie, changed, near]
    assert names(store, Selection(tenant=TENANT, like=lie, above=0.4)) == [lie, changed, near, far]
    assert [round(one or 0, 3) for one in store.of(Views).select(like).values()] == [1.0, 0.9, 0.7]
    assert {one.memory_id for one in store.incidents.reached(like)} == {lie, changed, near}
    for tenant, memory_id in ((TENANT, MemoryId("0" * 36)), (OTHER.tenant, lie)):
        with pytest.raises(UnknownMemory, match="like"):
            store.of(Views).select(Selection(tenant=tenant, like=memory_id))
    store.close()


def test_vectors_of_another_embedder_are_like_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open()
    old, older = said(store, "by the old embedder", 1.0), said(store, "by it too", 0.9)
    store.close()
    monkeypatch.setattr(opening, "EMBEDDER", "other-8d")
    store = bench.open()
    new = said(store, "by the new one", 1.0)
    assert names(store, Selection(tenant=TENANT, like=new)) == [new]
    assert names(store, Selection(tenant=TENANT, like=old)) == [old, older]  # control
    store.close()


def test_undo_gives_back_exactly_what_likeness_hid(bench: Bench) -> None:
    store = bench.open()
    lie, near, far = said(store, "lie", 1.0), said(store, "near", 0.7), said(store, "far", 0.5)
    mine = said(store, "near too", 0.8)
    asyncio.run(store.writer.order(Quarantine(mine, TENANT, BY)))
    before = set(shown(store))
    done = asyncio.run(store.incidents.isolate(Selection(tenant=TENANT, like=lie), BY))
    assert (done.changed, done.kept) == (2, 1)
    assert set(shown(store)) == {far}
    late = said(store, "near, and written later", 0.75)
    asyncio.run(store.incidents.undo(recorded(done).incident_id, BY))
    assert set(shown(store)) == before | {late}, "what a person hid stays hidden"
    assert {lie, near} < before  # control: likeness had hidden two that were shown
    store.close()


def test_a_rewind_of_what_is_like_a_memory_leaves_all_else(bench: Bench) -> None:
    store = bench.open()
    lie, near, far = said(store, "lie", 1.0), said(store, "near", 0.7), said(store, "far", 0.5)
    begin = PastState(version=0)
    like = Selection(tenant=TENANT, like=lie)
    assert store.incidents.planned(Selection(tenant=TENANT), begin).reached == 3  # control
    assert store.incidents.planned(like, begin).reached == 2
    asyncio.run(store.incidents.rewind(like, begin, BY))
    assert set(shown(store)) == {far}
    assert {lie, near}.isdisjoint(shown(store))
    store.close()


def test_a_case_names_what_is_like_its_culprit_and_hides_none_of_it(bench: Bench) -> None:
    store = bench.open()
    lie, near, far = said(store, "lie", 1.0), said(store, "near", 0.7), said(store, "far", 0.5)
    (ordinal, *_) = store.of(Views).select(Selection(tenant=TENANT, like=lie))
    listed = store.cases.related(TENANT, [ConvictedMemory(memory_id=lie, ordinal=ordinal)])
    assert [(one.memory, one.relation, one.act) for one in listed] == [
        (near, Relation.ALIKE, Act.NOTHING)
    ]
    assert {near, far} < set(shown(store))
    store.close()


def test_each_field_narrows_and_the_hidden_are_found_with_the_flag_alone(bench: Bench) -> None:
    store = bench.open()
    plain = id_of(say(store, "plain"))
    web = id_of(write(store, submission_of(candidate_of("from the web"), provenance=FETCHED))[0])
    note = id_of(say(store, "a note", target="notes/today"))
    at_ms = bench.clock.now_ms = bench.clock.now_ms + 1_000
    late = id_of(say(store, "late", target="notesbook"))
    fields: tuple[tuple[dict[str, object], list[MemoryId]], ...] = (
        ({}, [late, note, web, plain]),
        ({"principal_id": AGENT.principal_id}, [late, note, web, plain]),
        ({"principal_id": PrincipalId("nobody")}, []),
        ({"server": "web"}, [web]),
        ({"server": "web", "tool": "fetch"}, [web]),
        ({"server": "web", "tool": "post"}, []),
        ({"session": SESSION}, [web]),
        ({"session": "00" * 16}, []),
        ({"under": "notes"}, [note]),
        ({"label": SourceKind.TOOL_RESULT}, [web]),
        ({"label": SourceKind.USER_INPUT}, []),
        ({"since_ms": at_ms}, [late]),
        ({"since_ms": at_ms, "under": "notes"}, []),
    )
    for given, expected in fields:
        asked = Selection(tenant=TENANT, **given)  # type: ignore[arg-type]
        assert names(store, asked) == expected, given
        assert asked.whole_tenant is (not given)
    asyncio.run(store.writer.order(Quarantine(note, TENANT, BY)))
    under = Selection(tenant=TENANT, under="notes")
    assert (names(store, under), names(store, under, hidden=True)) == ([], [note])
    store.close()


def test_under_compares_targets_files_and_namespaces_at_whole_parts(bench: Bench) -> None:
    store = bench.open()
    filed, metadata_json = dict[str, MemoryId](), ""
    for path in ("/home/ada/notes.md", "/home/adam.md", ""):
        call = ForwardedCall(
            tool="Edit", arguments="{}", key="k", pieces=(f"of {path}",), place=path
        )
        text, metadata_json = texts_of(call)
        made = say(store, text, target="mcp/files", metadata_json=metadata_json)
        filed[path] = id_of(made)
    spaces = {
        name: id_of(say(store, name, target="store/items", scope=Scope(app_id=name)))
        for name in ("langgraph.users.ada", "langgraph.users.adam", "langgraph")
    }
    fake = id_of(say(store, "no call", target="mine", metadata_json=metadata_json))
    expected: dict[str, list[MemoryId]] = {
        "mcp/files": list(filed.values()),
        "mcp/files/home/ada": [filed["/home/ada/notes.md"]],
        "mcp/files/home/adam.md": [filed["/home/adam.md"]],
        "langgraph/users": [*spaces.values()][:2],
        "langgraph/users/ada": [spaces["langgraph.users.ada"]],
        "store": list(spaces.values()),
        "mine": [fake],
        "home/ada": [],
        "mcp/file": [],
        "/": [],
    }
    for path, ids in expected.items():
        assert names(store, Selection(tenant=TENANT, under=path)) == ids[::-1], path
    store.close()
