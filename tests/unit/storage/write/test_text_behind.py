"""What the store's own rows say of the text under a key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.labels.effect import EDITS_MAX, Effect, EffectKind
from policy.labels.forwarded_call import MCP, ForwardedCall, target_of, texts_of
from policy.model import CandidateId, ChangeKind, ForwardStatus
from storage.embedded import EmbeddedStore
from storage.values import GuardedServer
from storage.write import keyed_text
from tests.unit.storage.opening import (
    AGENT,
    BY,
    TENANT,
    Bench,
    candidate_of,
    say,
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


def do(
    store: EmbeddedStore,
    text: str,
    effect: Effect | None,
    result: ForwardStatus | None = ForwardStatus.DONE,
    change: ChangeKind = ChangeKind.CREATE,
) -> CandidateId:
    call = ForwardedCall(tool="t", arguments="{}", key="Ada", pieces=(text,), effect=effect)
    pieces, metadata_json = texts_of(call)
    candidate = candidate_of(pieces, target=TARGET, metadata_json=metadata_json, change=change)
    (outcome,) = write(store, submission_of(candidate, guarded_key="Ada"))
    candidate_id = CandidateId(outcome.candidate_id)
    if result is not None:
        asyncio.run(store.forwards.settle(BEHIND, ((candidate_id, result),)))
    return candidate_id


def known(store: EmbeddedStore, behind: GuardedServer = BEHIND) -> str | None:
    return store.forwards.text(behind, "Ada")


def test_of_a_key_that_was_never_seen_no_text_is_known(store: EmbeddedStore) -> None:
    say(store, "Ada")
    assert known(store) is None


def test_a_text_is_what_each_call_made_of_it(store: EmbeddedStore) -> None:
    do(store, "one", SET)
    do(store, "two", APPEND)
    assert known(store) == "one\ntwo"
    assert known(store, GuardedServer(tenant=TENANT, target="mcp/x", by=BY)) is None
    do(store, "three", SET)
    assert known(store) == "three"


def test_an_addition_to_what_nobody_saw_and_a_call_without_an_effect_leave_nothing_known(
    store: EmbeddedStore,
) -> None:
    do(store, "two", APPEND)
    assert known(store) is None
    do(store, "one", SET)
    assert known(store) == "one"
    do(store, "moved", None)
    assert known(store) is None


def test_what_the_server_refused_changed_nothing(store: EmbeddedStore) -> None:
    do(store, "one", SET)
    do(store, "two", SET, ForwardStatus.FAILED)
    assert known(store) == "one"


@pytest.mark.parametrize("result", [None, ForwardStatus.UNKNOWN])
def test_while_an_answer_is_out_a_text_is_read_as_if_it_were_there(
    store: EmbeddedStore, result: ForwardStatus | None
) -> None:
    do(store, "one", SET)
    do(store, "two", APPEND, result)
    assert known(store) == "one\ntwo"


@pytest.mark.parametrize("result", [ForwardStatus.DONE, ForwardStatus.FAILED, None])
def test_after_a_deletion_nothing_is_known(
    store: EmbeddedStore, result: ForwardStatus | None
) -> None:
    do(store, "one", SET)
    do(store, "Ada", SET, result, change=ChangeKind.DELETE)
    assert known(store) is None


def test_a_text_changed_too_often_is_known_to_nobody(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert EDITS_MAX > 3
    monkeypatch.setattr(keyed_text, "EDITS_MAX", 2)
    do(store, "one", SET)
    do(store, "two", APPEND)
    assert known(store) == "one\ntwo"
    do(store, "three", APPEND)
    assert known(store) is None
    do(store, "one", SET)
    assert known(store) == "one"
