"""Whether an intent would be judged on the same ground when its call comes later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from policy.labels.effect import Effect, EffectKind
from policy.labels.forwarded_call import MCP, ForwardedCall, target_of, texts_of
from policy.model import CandidateId, ChangeKind, ForwardStatus
from storage.embedded import EmbeddedStore
from storage.features.upstream import forward_snapshot as module
from storage.values import GuardedServer
from tests.unit.storage.opening import (
    AGENT,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    write,
)

TARGET = target_of(MCP, "memory")
BEHIND = GuardedServer(tenant=TENANT, target=TARGET, by=AGENT.principal_id)
SET, APPEND = Effect(EffectKind.SET, 0), Effect(EffectKind.APPEND, 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = Bench(tmp_path).open()
    yield opened
    assert opened.reader.check().problems == ()
    opened.close()


def intend(
    store: EmbeddedStore, text: str, effect: Effect | None = APPEND, key: str = "Ada"
) -> CandidateId:
    call = ForwardedCall(tool="t", arguments="{}", key=key, pieces=(text,), effect=effect)
    pieces, metadata_json = texts_of(call)
    candidate = candidate_of(
        pieces, target=TARGET, metadata_json=metadata_json, change=ChangeKind.CREATE
    )
    (outcome,) = write(store, submission_of(candidate, guarded_key=key))
    return CandidateId(outcome.candidate_id)


def settle(store: EmbeddedStore, one: CandidateId, how: ForwardStatus = ForwardStatus.DONE) -> None:
    asyncio.run(store.forwards.settle(BEHIND, ((one, how),)))


def holds(store: EmbeddedStore, one: CandidateId, *waiting: CandidateId) -> bool:
    return store.forwards.unmoved(BEHIND, (one,), frozenset((one, *waiting)))


def test_what_nothing_happened_to_holds_however_much_else_was_written(store: EmbeddedStore) -> None:
    settle(store, intend(store, "zero", SET))
    one = intend(store, "one")
    settle(store, intend(store, "else", key="Grace"))
    assert holds(store, one)


def test_an_intent_that_ended_or_was_lost_or_is_another_s_holds_no_more(
    store: EmbeddedStore,
) -> None:
    for how in ForwardStatus:
        one = intend(store, how.value)
        assert holds(store, one), "control"
        settle(store, one, how)
        assert not holds(store, one)
    one = intend(store, "one", SET)
    elsewhere = msgspec.structs.replace(BEHIND, target=target_of(MCP, "other"))
    assert not store.forwards.unmoved(elsewhere, (one,), frozenset())
    assert not holds(store, CandidateId("no id"))


def test_calls_for_one_key_are_taken_in_the_order_in_which_they_were_judged(
    store: EmbeddedStore,
) -> None:
    settle(store, intend(store, "zero", SET))
    one, two = intend(store, "one"), intend(store, "two")
    assert holds(store, one, two)
    assert not holds(store, two, one)
    settle(store, one)
    assert holds(store, two)


def test_what_the_server_refused_before_it_moved_the_text(store: EmbeddedStore) -> None:
    settle(store, intend(store, "zero", SET))
    one, two = intend(store, "one"), intend(store, "two")
    settle(store, one, ForwardStatus.FAILED)
    assert not holds(store, two)


def test_what_another_relay_wrote_under_the_key_moved_it(store: EmbeddedStore) -> None:
    settle(store, intend(store, "zero", SET))
    one = intend(store, "one")
    settle(store, intend(store, "refused by the server"), ForwardStatus.FAILED)
    assert holds(store, one)
    settle(store, intend(store, "two"))
    assert not holds(store, one)


def test_a_new_thing_stands_on_nothing_under_its_key(store: EmbeddedStore) -> None:
    one = intend(store, "one", None)
    settle(store, intend(store, "two"))
    assert holds(store, one)


def test_behind_too_long_a_log_nobody_looks(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = intend(store, "one")
    monkeypatch.setattr(module, "LOOKED_BACK_MAX", 3)
    intend(store, "two", key="Grace")
    assert holds(store, one)
    intend(store, "three", key="Grace")
    assert not holds(store, one)
