"""What the shadow retrieval tells the gate about anchors, with the real embedder and a store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from policy.labels import read_text
from policy.model import Tenant
from proxy.evidence import Shadow
from storage.embedding import resolve_embedder
from storage.interfaces import Anchor
from tests.unit.storage.opening import BY, TENANT, Bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from policy.facts import AnchorProbe
    from storage.embedded import EmbeddedStore

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
    return shadow.probe(tenant, read_text(text, None), STATIC.embed([text])[0], 0.0)


def put(store: EmbeddedStore, *anchors: Anchor) -> None:
    async def all_of_them() -> None:
        for one in anchors:
            await store.writer.put_anchor(one, BY)

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
    assert shadow.probe(TENANT, read_text(None, None), b"", 0.0) == ()


def test_without_a_model_nobody_can_ask_and_that_is_said(store: EmbeddedStore) -> None:
    client = resolve_embedder("client:8")
    shadow = Shadow(store.reader, client)
    reading = read_text("Refunds take 60 days.", None)
    assert shadow.probe(TENANT, reading, b"\0" * 32, 0.0) == ()
    put(store, anchor())
    assert shadow.probe(TENANT, reading, b"\0" * 32, 0.0) is None
