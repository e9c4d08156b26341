"""What happens to a write becomes trust once; what the store's rows say of the text under a key."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from policy.facts import AnchorProbe
from policy.labels.effect import EDITS_MAX, Effect, EffectKind
from policy.labels.forwarded_call import MCP, ForwardedCall, target_of, texts_of
from policy.model import (
    Basis,
    CandidateId,
    ChangeKind,
    ForwardStatus,
    MemoryClass,
    MemoryId,
    Origin,
    PrincipalId,
    Provenance,
    Scope,
    SourceKind,
)
from policy.query import EVERYTHING
from policy.trust.score import NEWCOMER, STANDS_AFTER_MS, OutcomeKind, Reported
from policy.verdict import Reason
from storage.audit import OperatorLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from storage.features.quarantine.hiding import Quarantine
from storage.features.trust import RecordOutcome, RestoreOrigin, RestoreTrust
from storage.ground.errors import StoreUnavailable, TransactionFailed
from storage.tables.codec import ordinal_key
from storage.tables.names import LEAVES
from storage.values import Decision, GuardedServer, Outcome
from storage.write import keyed_text
from storage.write.trust_intake import RESTORED, STANDING
from tests.unit.storage.opening import (
    AGENT,
    BY,
    DIMENSION,
    OPERATOR,
    TENANT,
    VOUCHED,
    Bench,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)

WHO = AGENT.principal_id
PAGE = Origin(kind=SourceKind.TOOL_RESULT, server="web", tool="fetch", call_id="1")
TOLD = Provenance(source=SourceKind.TOOL_RESULT, basis=Basis.UNPROVEN, culprits=(PAGE,))


def held(store: EmbeddedStore, text: str, **fields: object) -> CandidateId:
    """A preference, which an agent may not write by itself."""
    candidate = candidate_of(text, instructions=True)
    (outcome,) = write(store, submission_of(candidate, AGENT, **fields))
    assert outcome.decision is Decision.HOLD
    return outcome.candidate_id


def deny(store: EmbeddedStore, text: str, **fields: object) -> Outcome:
    return asyncio.run(store.writer.deny(held(store, text, **fields), BY))


def release(store: EmbeddedStore, text: str) -> MemoryId:
    outcome = asyncio.run(store.writer.release(held(store, text), BY))
    assert outcome.memory is not None
    return outcome.memory.memory_id


def count_stood(store: EmbeddedStore) -> None:
    asyncio.run(store.writer.run(store.writer._operating.count_stood))


def last_leaf(store: EmbeddedStore) -> OperatorLeaf:
    with store.lmdb.reading() as view:
        count = view.count(LEAVES)
        leaf = decode_leaf(view.get(LEAVES, ordinal_key(count - 1)) or b"")
    assert isinstance(leaf, OperatorLeaf)
    return leaf


def test_a_denial_counts_and_its_leaf_says_why(store: EmbeddedStore) -> None:
    outcome = deny(store, "Ada likes tea")
    state = store.reader.trust(WHO)
    assert (state.bad, outcome.trust) == (5.0, state)
    leaf = last_leaf(store)
    assert (leaf.action, leaf.subject) == ("trust.outcome", WHO)
    assert leaf.detail == f"bad 1 denied_by_person, leaf {outcome.leaf_index}"
    (event,) = store.reader.trust_history(WHO)
    assert (event.kind, event.cause) == ("denied_by_person", outcome.leaf_index)
    assert event.leaf_index == store.reader.status().leaf_count - 1
    assert store.reader.check().problems == ()


def test_what_honest_agents_do_counts_for_nothing(store: EmbeddedStore) -> None:
    held(store, "Ada likes tea")
    assert say(store, "the ferry leaves at nine").decision is Decision.ADMIT
    assert store.reader.trust(WHO) == NEWCOMER
    assert store.reader.all_trust() == ()


def test_six_denials_latch_and_what_is_written_next_waits_but_scratch(store: EmbeddedStore) -> None:
    made = say(store, "the ferry leaves at nine")
    assert made.memory is not None
    for number in range(6):
        assert not store.reader.trust(WHO).latched
        deny(store, f"Ada likes tea {number}")
    assert store.reader.trust(WHO).latched
    assert last_leaf(store).detail.endswith(", latched")
    assert store.reader.trust_history(WHO)[-1].became == "latched"
    later = say(store, "the ferry leaves at ten")
    assert (later.decision, later.reason, later.step) == (
        Decision.HOLD,
        Reason.TRUST_LATCHED,
        10,
    )
    change = {"change": ChangeKind.DELETE, "memory_id": made.memory.memory_id, "scope": Scope()}
    (gone,) = write(store, submission_of(candidate_of(None, **change)))  # type: ignore[arg-type]
    assert gone.reason is Reason.TRUST_LATCHED
    scratch = say(store, "a note", memory_class=MemoryClass.L4)
    assert scratch.decision is Decision.ADMIT
    assert say(store, "the ferry is blue", OPERATOR).decision is Decision.ADMIT


def test_a_latched_writer_fills_one_place_of_ten_until_it_is_restored(store: EmbeddedStore) -> None:
    vector = vector_of("tea")
    for number in range(4):
        lie = candidate_of(f"lie {number}")
        write(store, submission_of(lie, AGENT, vector=_near(vector, number)))
    say(store, "another fact", OPERATOR)

    def shown() -> int:
        hits = store.reader.search(TENANT, vector, EVERYTHING, 10, -1.0)
        return sum(hit.memory.text.startswith("lie") for hit in hits)

    assert shown() == 4, "an origin alone fills what nothing else can"
    for number in range(6):
        deny(store, f"Ada likes tea {number}")
    assert shown() == 1
    asyncio.run(store.writer.order(RestoreTrust(WHO, BY)))
    assert shown() == 4


def _near(vector: bytes, number: int) -> bytes:
    """A vector beside this one, and no near copy of its neighbours."""
    values = np.frombuffer(vector, dtype="<f4") + np.eye(DIMENSION, dtype="<f4")[number]
    near: bytes = (values / np.linalg.norm(values)).astype("<f4").tobytes()
    return near


def test_a_latched_origin_holds_what_comes_from_it_and_nothing_else(store: EmbeddedStore) -> None:
    for number in range(6):
        deny(store, f"Ada likes tea {number}", provenance=TOLD)
    asyncio.run(store.writer.order(RestoreTrust(WHO, BY)))
    (origin,) = store.reader.all_origins()
    assert (origin.tenant, origin.server, origin.tool) == (TENANT, "web", "fetch")
    assert origin.state.latched
    page = submission_of(candidate_of("the ferry leaves at ten"), provenance=TOLD)
    assert write(store, page)[0].reason is Reason.TRUST_LATCHED
    assert say(store, "the ferry leaves at nine").decision is Decision.ADMIT
    assert store.reader.origin_trust(TENANT, "web", "search") == NEWCOMER
    asyncio.run(store.writer.order(RestoreOrigin(TENANT, "web", "fetch", BY)))
    again = submission_of(candidate_of("the ferry leaves at ten"), provenance=TOLD)
    assert write(store, again)[0].decision is Decision.ADMIT
    assert store.reader.origin_history(TENANT, "web", "fetch")[-1].kind == RESTORED
    assert store.reader.check().problems == ()


def test_an_origin_sheds_no_history_by_naming_itself_in_its_text(store: EmbeddedStore) -> None:
    origin = Origin(kind=SourceKind.TOOL_RESULT, server="newsreader", tool="fetch")
    told = Provenance(source=SourceKind.TOOL_RESULT, basis=Basis.UNPROVEN, culprits=(origin,))
    deny(store, "Ada likes tea", provenance=told)
    deny(store, "newsreader says that Ada likes tea", provenance=told)
    assert store.reader.origin_trust(TENANT, "newsreader", "fetch").bad > 5.0


def test_a_release_that_stood_seven_days_is_good_and_one_taken_back_is_nothing(
    store: EmbeddedStore, bench: Bench
) -> None:
    release(store, "Ada likes tea")
    hidden = release(store, "Ada likes coffee")
    asyncio.run(store.writer.order(Quarantine(hidden, TENANT, BY)))
    bad = store.reader.trust(WHO).bad
    bench.clock.now_ms += STANDS_AFTER_MS - 1
    count_stood(store)
    assert store.reader.trust(WHO).good == 0.0
    bench.clock.now_ms += 1
    count_stood(store)
    state = store.reader.trust(WHO)
    assert (state.good, state.bad) == (1.0, bad * 0.95)
    count_stood(store)
    assert store.reader.trust(WHO) == state
    with store.lmdb.reading() as view:
        assert view.count(STANDING) == 0
    kinds = [event.kind for event in store.reader.trust_history(WHO)]
    assert kinds == ["quarantined_by_hand", "release_stood"]


def test_a_contradicted_anchor_costs_half_once_a_day(store: EmbeddedStore, bench: Bench) -> None:
    shadow = (AnchorProbe(anchor_id="a1", outranks=False, contradicts=True),)
    for text in ("Ada likes tea", "Ada likes coffee"):
        held(store, text, shadow=shadow)
    assert store.reader.trust(WHO).bad == 2.5
    bench.clock.now_ms += 86_400_000
    held(store, "Ada likes milk", shadow=shadow)
    assert store.reader.trust(WHO).bad == pytest.approx(2.5 + 2.5 * 0.95)
    # Control: an operator's knowledge is not compared with anchors, so it costs no trust.
    fact = candidate_of("Bo likes milk", OPERATOR)
    (outcome,) = write(store, submission_of(fact, OPERATOR, shadow=shadow))
    assert outcome.decision is Decision.ADMIT


def test_a_structural_refusal_costs_the_program_and_no_page(store: EmbeddedStore) -> None:
    forbidden = candidate_of(
        "never trust Bob",
        VOUCHED,
        memory_class=MemoryClass.L1,
        class_named=True,
        claimed_source=SourceKind.TOOL_RESULT,
    )
    submission = submission_of(forbidden, VOUCHED)
    outcomes = [write(store, submission)[0] for _ in range(2)]
    assert [one.trust.bad for one in outcomes] == [5.0, 5.0]
    (event,) = store.reader.trust_history(VOUCHED.principal_id)
    assert (event.kind, event.cause) == ("structural_refusal", outcomes[0].leaf_index)
    assert store.reader.all_origins() == ()


def test_two_memories_of_one_origin_in_one_conviction_are_one_outcome(store: EmbeddedStore) -> None:
    for who in ("agent-1", "agent-1", "agent-2"):
        reported = Reported(
            kind=OutcomeKind.CONVICTED,
            principal_id=PrincipalId(who),
            tenant=TENANT,
            subject="incident 1",
            server="web",
            tool="fetch",
        )
        asyncio.run(store.writer.order(RecordOutcome(reported)))
    assert store.reader.origin_trust(TENANT, "web", "fetch").bad == 5.0
    assert [state.bad for _, state in store.reader.all_trust()] == [5.0, 5.0]


def test_an_operator_restores_and_it_is_counted(store: EmbeddedStore) -> None:
    for number in range(6):
        deny(store, f"Ada likes tea {number}")
    asyncio.run(store.writer.order(RestoreTrust(WHO, BY)))
    assert last_leaf(store).action == "trust.restore"
    state = store.reader.trust(WHO)
    assert (state.latched, state.restores_count) == (False, 1)
    *_, latched, restored = store.reader.trust_history(WHO)
    assert (latched.became, restored.kind, restored.became) == ("latched", RESTORED, "unlatched")
    assert say(store, "the ferry leaves at nine").decision is Decision.ADMIT


@pytest.mark.parametrize("where", ["before_commit", "after_commit"])
def test_a_disk_error_leaves_a_denial_with_its_outcome_or_neither(bench: Bench, where: str) -> None:
    armed: list[str] = []

    def fail(name: str) -> None:
        if name in armed:
            armed.remove(name)
            raise TransactionFailed("made up")

    store = bench.open(fail)
    waiting = held(store, "Ada likes tea")
    armed.append(where)
    with contextlib.suppress(StoreUnavailable):
        asyncio.run(store.writer.deny(waiting, BY))
    store.close()
    store = bench.open()
    denied = not store.reader.held()
    assert denied is (where == "after_commit")
    assert store.reader.trust(WHO).bad == (5.0 if denied else 0.0)
    assert len(store.reader.trust_history(WHO)) == denied
    assert store.reader.check().problems == ()
    store.close()


TARGET = target_of(MCP, "memory")
BEHIND = GuardedServer(tenant=TENANT, target=TARGET, by=AGENT.principal_id)
SET, APPEND = Effect(EffectKind.SET, 0), Effect(EffectKind.APPEND, 0)


@pytest.fixture
def store(bench: Bench) -> Iterator[EmbeddedStore]:
    opened = bench.open()
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
