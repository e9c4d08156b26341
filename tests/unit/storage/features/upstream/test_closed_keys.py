"""Keys of a server behind whose memories were erased here, or given up, and may stand there."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio

import pytest

from policy.labels.forwarded_call import ForwardedCall, texts_of
from policy.model import ChangeKind, ForwardStatus, Tenant
from storage.embedded import EmbeddedStore
from storage.features.quarantine.hiding import Quarantine
from storage.values import ClosedKey, Outcome
from tests.unit.storage.features.upstream.test_intents import TARGET, end, intend, settle
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    write,
)

KEY = "Ada"
THEIRS = Tenant("another")


def closed(store: EmbeddedStore, tenant: Tenant = TENANT, key: str = KEY) -> ClosedKey:
    (found,) = store.forwards.closed(tenant, TARGET, (key,))
    return found


def mine(store: EmbeddedStore) -> bool:
    return closed(store).mine


def stored(store: EmbeddedStore, text: str = "Ada sings") -> Outcome:
    """One memory that the server has."""
    outcome = intend(store, text)
    settle(store, outcome.candidate_id, ForwardStatus.DONE)
    return outcome


def take_away(store: EmbeddedStore, *pieces: str) -> None:
    """A deletion through the gate, of the key or of some pieces, that its server has done."""
    call = ForwardedCall(tool="t", arguments="{}", key=KEY, pieces=(KEY, *pieces))
    text, metadata_json = texts_of(call)
    candidate = candidate_of(
        text, OPERATOR, change=ChangeKind.DELETE, target=TARGET, metadata_json=metadata_json
    )
    (outcome,) = write(store, submission_of(candidate, OPERATOR, guarded_key=KEY))
    settle(store, outcome.candidate_id, ForwardStatus.DONE)


def quarantine(store: EmbeddedStore, outcome: Outcome) -> None:
    assert outcome.memory is not None
    asyncio.run(store.writer.order(Quarantine(outcome.memory.memory_id, TENANT, BY)))


@pytest.mark.parametrize("change", [ChangeKind.PURGE, ChangeKind.DELETE])
@pytest.mark.parametrize("hidden", [True, False])
def test_a_memory_that_ends_here_and_not_on_its_server_closes_its_key(
    bench: Bench, change: ChangeKind, *, hidden: bool
) -> None:
    store = bench.open()
    outcome = stored(store)
    if hidden:
        quarantine(store, outcome)
    assert closed(store) == ClosedKey(mine=False, others=False)
    end(store, outcome, change)
    for opened in (store, None):
        again = opened or bench.open()
        assert closed(again) == ClosedKey(mine=True, others=False)
        assert closed(again, THEIRS) == ClosedKey(mine=False, others=True)
        # Control: another key, and the same one of another server, are open.
        assert closed(again, key="Grace") == ClosedKey(mine=False, others=False)
        assert not any(again.forwards.closed(TENANT, TARGET + "2", (KEY,))[0])
        assert again.reader.check().problems == ()
        again.close()


def test_the_purge_of_an_earlier_memory_leaves_the_key_of_a_later_one_open(
    store: EmbeddedStore,
) -> None:
    first, second = stored(store), stored(store, "Ada dances")
    end(store, first, ChangeKind.PURGE)
    assert not mine(store)
    end(store, second, ChangeKind.PURGE)
    assert mine(store)


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("left", [("Ada sings",), ()])
def test_the_purge_of_a_hidden_memory_whose_words_an_update_left_standing_closes_the_key(
    store: EmbeddedStore, left: tuple[str, ...], *, hidden: bool
) -> None:
    first = stored(store)
    call = ForwardedCall(tool="t", arguments="{}", key=KEY, pieces=("Ada dances", *left))
    text, metadata_json = texts_of(call)
    update = candidate_of(
        text, change=ChangeKind.UPDATE, target=TARGET, metadata_json=metadata_json
    )
    (second,) = write(store, submission_of(update, guarded_key=KEY))
    settle(store, second.candidate_id, ForwardStatus.DONE)
    if hidden:
        quarantine(store, first)
    end(store, first, ChangeKind.PURGE)
    # The controls: a person hid nothing, or the update left nothing of it.
    assert mine(store) == (hidden and left != ())


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("left", [("Ada sings",), ()])
def test_an_update_that_was_judged_beside_what_was_purged_meanwhile_leaves_its_key_closed(
    store: EmbeddedStore, left: tuple[str, ...], *, hidden: bool
) -> None:
    first = stored(store)
    call = ForwardedCall(tool="t", arguments="{}", key=KEY, pieces=("Ada dances", *left))
    text, metadata_json = texts_of(call)
    update = candidate_of(
        text, change=ChangeKind.UPDATE, target=TARGET, metadata_json=metadata_json
    )
    (second,) = write(store, submission_of(update, guarded_key=KEY))
    if hidden:
        quarantine(store, first)
    end(store, first, ChangeKind.PURGE)
    assert mine(store)
    settle(store, second.candidate_id, ForwardStatus.DONE)
    # The controls: a person hid nothing, or the update brings nothing of it.
    assert mine(store) == (hidden and left != ())
    # A later write was judged without it.
    stored(store, "Ada swims")
    assert not mine(store)


def test_the_purge_of_the_latest_memory_closes_the_key_of_an_earlier_one(
    store: EmbeddedStore,
) -> None:
    stored(store)
    end(store, stored(store, "Ada dances"), ChangeKind.PURGE)
    assert mine(store)


def test_a_later_write_that_is_done_and_a_deletion_of_the_key_open_it(store: EmbeddedStore) -> None:
    end(store, stored(store), ChangeKind.PURGE)
    later = intend(store, "Ada dances")
    assert mine(store), "nobody knows yet that the server has it"
    settle(store, later.candidate_id, ForwardStatus.DONE)
    assert not mine(store)
    end(store, later, ChangeKind.PURGE)
    take_away(store, "one piece of it")
    assert mine(store), "a deletion of a piece leaves the rest"
    take_away(store)
    assert not mine(store)


@pytest.mark.parametrize("lost", [True, False])
def test_a_write_that_failed_closes_its_key_only_if_its_answer_was_lost(
    store: EmbeddedStore, *, lost: bool
) -> None:
    outcome = intend(store, "Ada sings")
    if lost:
        settle(store, outcome.candidate_id, ForwardStatus.UNKNOWN)
    settle(store, outcome.candidate_id, ForwardStatus.FAILED)
    assert mine(store) is lost


def test_a_lost_write_over_a_memory_that_the_server_has_leaves_its_key_open(
    store: EmbeddedStore,
) -> None:
    first = stored(store)
    lost = intend(store, "Ada dances")
    settle(store, lost.candidate_id, ForwardStatus.UNKNOWN)
    settle(store, lost.candidate_id, ForwardStatus.FAILED)
    assert not mine(store)
    end(store, first, ChangeKind.PURGE)
    assert mine(store)


def test_a_purge_of_what_the_server_took_away_closes_nothing(store: EmbeddedStore) -> None:
    outcome = stored(store)
    take_away(store)
    end(store, outcome, ChangeKind.PURGE)
    assert not mine(store)
