"""What the shadow retrieval tells the gate about anchors, with the real embedder and a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.facts import AnchorProbe
from policy.model import ChangeKind, MemoryClass, Tenant
from proxy.embed.embedding import resolve_embedder
from proxy.intercept.shadow import Recallable, Shadow, shown_of
from storage.embedded import EmbeddedStore
from storage.features.registered import PutAnchor
from storage.values import Anchor
from tests.unit.storage.opening import BY, TENANT, Bench, candidate_of, say

STATIC = resolve_embedder("static")
STATEMENT = "Refunds are possible within 30 days."
QUESTION = "How long can I return an item?"


def anchor(statement: str = STATEMENT, anchor_id: str = "refunds") -> Anchor:
    return Anchor(
        anchor_id=anchor_id,
        tenant=TENANT,
        statement=statement,
        questions=(QUESTION,),
        created_at_ms=0,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = Bench(tmp_path).open()
    yield opened
    opened.close()


def probes(shadow: Shadow, text: str, tenant: Tenant = TENANT) -> tuple[AnchorProbe, ...] | None:
    return shadow.probe(tenant, Recallable(text=text), 0.0)


def put(store: EmbeddedStore, *anchors: Anchor) -> None:
    async def all_of_them() -> None:
        for one in anchors:
            await store.writer.order(PutAnchor(one, BY))

    asyncio.run(all_of_them())


def test_a_contradiction_is_told_and_an_unrelated_text_is_not(store: EmbeddedStore) -> None:
    put(store, anchor())
    shadow = Shadow(store.reader, STATIC)
    found = probes(shadow, "Refunds are possible within 60 days.")
    assert found is not None
    assert [(one.anchor_id, one.contradicts) for one in found] == [("refunds", True)]
    unrelated = probes(shadow, "Tea is served at four.")
    assert unrelated is not None
    assert [(one.contradicts, one.outranks) for one in unrelated] == [(False, False)]


def test_what_answers_the_anchors_own_question_better_outranks_it(store: EmbeddedStore) -> None:
    put(store, anchor())
    shadow = Shadow(store.reader, STATIC)
    better = probes(shadow, QUESTION)
    assert better is not None
    assert better[0].outranks
    itself = probes(shadow, STATEMENT)
    assert itself is not None
    assert not itself[0].outranks, "control: the anchor does not outrank itself"


def test_an_anchor_put_later_is_asked_from_then_on(store: EmbeddedStore) -> None:
    shadow = Shadow(store.reader, STATIC)
    text = "Refunds are possible within 60 days."
    assert probes(shadow, text) == ()
    put(store, anchor())
    assert len(probes(shadow, text) or ()) == 1
    put(store, anchor("Refunds are possible within 60 days."))
    again = probes(shadow, text)
    assert again is not None
    assert not again[0].contradicts, "a replaced anchor is not asked any more"


def test_no_anchor_or_no_text_is_nothing_to_ask(store: EmbeddedStore) -> None:
    put(store, anchor())
    shadow = Shadow(store.reader, STATIC)
    assert probes(shadow, "Refunds take 60 days.", Tenant("other")) == ()
    assert shadow.probe(TENANT, Recallable(text=None), 0.0) == ()


def test_without_a_model_nobody_can_ask_and_that_is_said(store: EmbeddedStore) -> None:
    client = resolve_embedder("client:8")
    shadow = Shadow(store.reader, client)
    shown = Recallable(text="Refunds take 60 days.", vector=b"\0" * 32)
    assert shadow.probe(TENANT, shown, 0.0) == ()
    put(store, anchor())
    assert shadow.probe(TENANT, shown, 0.0) is None


CARRIERS = (
    '{"note":"Refunds are possible within 60 days."}',
    '{"a":[1,{"b":["Refunds are possible within 60 days."]}]}',
    '{"refunds-are-possible-within-days":60}',
    '{"refunds":{"possible":{"within":"60 days"}}}',
)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_contradiction_in_the_metadata_is_told_as_well(
    store: EmbeddedStore, carrier: str
) -> None:
    put(store, anchor())
    shadow = Shadow(store.reader, STATIC)
    for shown in (
        Recallable(text="Tea is served at four.", metadata_json=carrier),
        Recallable(text=None, metadata_json=carrier),
    ):
        found = shadow.probe(TENANT, shown, 0.0)
        assert found is not None
        assert [one.contradicts for one in found] == [True]
    agreeing = Recallable(text="Tea is served at four.", metadata_json=carrier.replace("60", "30"))
    fine = shadow.probe(TENANT, agreeing, 0.0)
    assert fine is not None
    assert [one.contradicts for one in fine] == [False], "control: what agrees is not held"


def test_a_contradiction_behind_many_sentences_is_not_passed_over(store: EmbeddedStore) -> None:
    put(store, anchor())
    shadow = Shadow(store.reader, STATIC)
    padding = "Tea is served. " * 100
    assert [one.contradicts for one in probes(shadow, padding) or ()] == [False]
    late = probes(shadow, padding * 3 + "Refunds are possible within 60 days.")
    assert [one.contradicts for one in late or ()] == [True]


def test_an_update_shows_what_it_leaves_out(store: EmbeddedStore) -> None:
    landed = say(store, "Refunds are possible within 60 days.").memory
    assert landed is not None
    raised = candidate_of(
        None,
        change=ChangeKind.UPDATE,
        memory_id=landed.memory_id,
        memory_class=MemoryClass.L2,
        class_named=True,
    )
    assert shown_of(raised, b"", landed).text == landed.text
    put(store, anchor())
    found = Shadow(store.reader, STATIC).probe(TENANT, shown_of(raised, b"", landed), 0.0)
    assert [one.contradicts for one in found or ()] == [True]
    assert shown_of(raised, b"", None).text is None
