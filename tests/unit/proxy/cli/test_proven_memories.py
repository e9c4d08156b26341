"""A file of memories or proofs is shown to whoever has the key, and nothing else passes."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import ChangeKind, MemoryId, Principal, PrincipalId, Scope, SourceKind, Tenant
from proxy.admin.wire.provenance import (
    Proof,
)
from proxy.cli.audit import check_proof
from proxy.cli.proven_memories import Head, ProofChecker, ProofReport, ProvenMemory, Wrong, proven
from storage.audit import (
    OperatorLeaf,
    VerdictLeaf,
    VerifierKey,
    decode_leaf,
    encode_leaf,
    leaf_hash,
    node_hash,
    sign_checkpoint,
)
from storage.embedded import EmbeddedStore
from storage.features.confirm_memory import ConfirmMemory
from storage.features.incidents import PastState
from storage.features.quarantine.hiding import Quarantine
from storage.opening import offline_store
from storage.questions import Selection
from storage.values import Decision, Row
from storage.write import commit
from tests.unit.storage.features.incidents.test_isolation import id_of
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

Lines = list[Head | ProvenMemory]


def _change(store: EmbeddedStore, kind: ChangeKind, memory_id: MemoryId, **fields: object) -> None:
    candidate = candidate_of(
        None, OPERATOR, change=kind, memory_id=memory_id, scope=Scope(), **fields
    )
    assert write(store, submission_of(candidate, OPERATOR))[0].decision is Decision.ADMIT


def _texted(store: EmbeddedStore, memory_id: MemoryId, text: str) -> None:
    candidate = candidate_of(
        text, OPERATOR, change=ChangeKind.UPDATE, memory_id=memory_id, scope=Scope()
    )
    assert write(store, submission_of(candidate, OPERATOR))[0].decision is Decision.ADMIT


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lines, VerifierKey]:
    """What a store with every kind of step gives away."""
    root: Path = tmp_path_factory.mktemp("life")
    bench = Bench(root)
    store = bench.open()
    edited, filed, gone, hidden = (id_of(say(store, f"memory {n}")) for n in range(4))
    _change(store, ChangeKind.UPDATE, filed, metadata_json='{"k":1}')
    at = store.reader.status().version
    _texted(store, edited, "edited")
    _texted(store, filed, "poisoned")
    asyncio.run(
        store.incidents.rewind(
            Selection(tenant=TENANT, principal_id=PrincipalId("agent-1")),
            PastState(version=at),
            BY,
        )
    )
    _texted(store, edited, "edited at last")
    _change(store, ChangeKind.DELETE, gone)
    asyncio.run(store.writer.order(Quarantine(hidden, TENANT, BY)))
    found = store.reader.get(TENANT, filed)
    assert found is not None
    asyncio.run(store.writer.order(ConfirmMemory(filed, TENANT, BY, found.version)))
    say(store, "a neighbour's", Principal(principal_id=PrincipalId("n"), tenant=Tenant("other")))
    key = VerifierKey.parse(store.audit.head().verifier_key)
    store.close()
    with offline_store(bench.state).viewed() as view:
        return list(proven(view, TENANT, key)), key


def _checked(lines: Lines, pinned: VerifierKey | None) -> ProofReport:
    checking = ProofChecker(pinned)
    for line in lines:
        checking.take(msgspec.json.encode(line))
    return checking.result()


def test_every_live_memory_of_the_tenant_is_there_as_it_reads_and_holds(
    life: tuple[Lines, VerifierKey],
) -> None:
    lines, key = life
    told = {one.text: one.source for one in lines if isinstance(one, ProvenMemory)}
    # Filed anew, poisoned and rewound: the text of the step that it went back to.
    assert set(told) == {"edited at last", "memory 1"}
    assert told["memory 1"] is SourceKind.USER_INPUT  # by a person's later word
    checked = _checked(lines, key)
    assert (checked.problems, checked.sound, checked.vkey_pinned) == ((), True, True)
    assert (checked.memories, checked.steps) == (2, 8)
    assert _checked(lines, None).sound
    assert not _checked(lines, None).vkey_pinned


def _altered(memory: ProvenMemory, **changes: object) -> ProvenMemory:
    return msgspec.structs.replace(memory, **changes)


def _step(memory: ProvenMemory, number: int, **changes: object) -> ProvenMemory:
    steps = list(memory.steps)
    steps[number] = msgspec.structs.replace(steps[number], **changes)
    return msgspec.structs.replace(memory, steps=tuple(steps))


def test_whatever_is_altered_is_named(life: tuple[Lines, VerifierKey]) -> None:
    lines, key = life
    head = lines[0]
    assert isinstance(head, Head)
    confirmed = next(
        one for one in lines if isinstance(one, ProvenMemory) and one.text == "memory 1"
    )
    other = next(one for one in lines[1:] if isinstance(one, ProvenMemory) and one is not confirmed)
    first = confirmed.steps[0]
    forged = base64.b64encode(
        base64.b64decode(first.canonical_base64).replace(b"memory 1", b"memory 9")
    ).decode()
    wrong = {
        "text": _altered(confirmed, text="memory 9"),
        "label": _altered(confirmed, source=SourceKind.OPERATOR),
        "another memory": _altered(confirmed, memory_id=other.memory_id),
        "bytes": _step(confirmed, 0, canonical_base64=forged),
        "salt": _step(confirmed, 0, salt="0" * 32),
        "another's leaves": _step(confirmed, 0, verdict=other.steps[0].verdict),
        "leaf": _step(
            confirmed, 0, verdict=msgspec.structs.replace(first.verdict, leaf_base64="AAAA")
        ),
        "place": _step(confirmed, 0, verdict=msgspec.structs.replace(first.verdict, index=3)),
        "no base64": _step(confirmed, 0, canonical_base64="!"),
        "without its first step": _altered(confirmed, steps=confirmed.steps[2:]),
        "without a step in the middle": _altered(
            confirmed, steps=(*confirmed.steps[:2], *confirmed.steps[3:])
        ),
        "without its last step": _altered(other, steps=other.steps[:-1]),
        "steps turned round": _altered(other, steps=other.steps[::-1]),
        "a word for another": _step(
            confirmed, len(confirmed.steps) - 1, confirmed=confirmed.steps[0].verdict
        ),
    }
    for what, memory in wrong.items():
        assert not _checked([head, memory], key).sound, what
        problems = _checked([msgspec.structs.replace(head, memories=1), memory], key).problems
        assert len(problems) == 1, what
    assert not _checked(lines[:-1], key).sound  # a line is missing
    assert not _checked([*lines, lines[-1]], key).sound
    assert not _checked([], key).sound


def test_a_step_in_the_middle_is_missed_and_one_at_the_end_is_not(
    life: tuple[Lines, VerifierKey],
) -> None:
    (head, *memories), key = life
    assert isinstance(head, Head)
    (rewound,) = (one for one in memories if one.text == "memory 1")  # type: ignore[union-attr]
    assert isinstance(rewound, ProvenMemory)
    one_line = msgspec.structs.replace(head, memories=1)
    assert _checked([one_line, rewound], key).problems == ()  # control: the whole history
    # What it said while it was poisoned: without that step the text and the label are the same.
    passed_over = _altered(rewound, steps=(*rewound.steps[:2], *rewound.steps[3:]))
    (problem,) = _checked([one_line, passed_over], key).problems
    left_out = rewound.steps[2].verdict.index
    assert f"follows leaf {left_out}" in problem
    # A limit: the leaves of a history say what came before each, and nothing of what comes after.
    last = decode_leaf(base64.b64decode(rewound.steps[2].verdict.leaf_base64))
    assert isinstance(last, VerdictLeaf)
    older = _altered(
        rewound,
        steps=rewound.steps[:3],
        text="poisoned",
        source=last.source,
        memory_class=last.memory_class,
    )
    assert _checked([one_line, older], key).problems == ()


def _unnamed(newest: Row | None) -> None:
    """How leaves were written before they named the step before."""
    del newest


def test_a_step_whose_leaf_names_no_step_before_it_is_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(commit, "step_before", _unnamed)
        store = bench.open()
        say(store, "first")
    key = VerifierKey.parse(store.audit.head().verifier_key)
    store.close()
    with offline_store(bench.state).viewed() as view:
        checked = _checked(list(proven(view, TENANT, key)), key)
    assert len(checked.problems) == 1


def test_a_memory_that_is_made_again_after_a_purge_begins_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    store = bench.open()
    memory_id = id_of(say(store, "first"))
    purge = candidate_of(
        None, OPERATOR, change=ChangeKind.PURGE, memory_id=memory_id, scope=Scope()
    )
    assert write(store, submission_of(purge, OPERATOR))[0].decision is Decision.ADMIT
    again = candidate_of("again", OPERATOR, memory_id=memory_id)
    assert write(store, submission_of(again, OPERATOR))[0].decision is Decision.ADMIT
    _texted(store, memory_id, "and again")
    key = VerifierKey.parse(store.audit.head().verifier_key)
    store.close()
    with offline_store(bench.state).viewed() as view:
        checked = _checked(list(proven(view, TENANT, key)), key)
    assert (checked.problems, checked.memories, checked.steps) == ((), 1, 2)


def test_another_logs_key_and_what_is_no_export_are_refused(
    life: tuple[Lines, VerifierKey],
) -> None:
    lines, _ = life
    head = lines[0]
    assert isinstance(head, Head)
    stranger = VerifierKey.of("mnemogate", Ed25519PrivateKey.from_private_bytes(b"\1" * 32))
    assert not _checked(lines, stranger).sound
    assert not _checked([msgspec.structs.replace(head, form="other"), *lines[1:]], None).sound
    for nothing in (b"", b"{}", b"[]", b"\xff", b'{"form":1}'):
        with pytest.raises((ValueError, Wrong)):
            ProofChecker(None).take(nothing)


SIGNER = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
VKEY = VerifierKey.of("log.example", SIGNER)
LEAVES = [
    encode_leaf(OperatorLeaf(at_ms=at, action="key.put", subject="k", by=PrincipalId("o")))
    for at in (1, 2)
]
ROOT = node_hash(leaf_hash(LEAVES[0]), leaf_hash(LEAVES[1]))
NOTE = sign_checkpoint("log.example", 2, ROOT, SIGNER)
PROOF = Proof(
    leaf_index=1,
    tree_size=2,
    leaf_base64=base64.b64encode(LEAVES[1]).decode(),
    leaf_hash=leaf_hash(LEAVES[1]).hex(),
    root_hash=ROOT.hex(),
    hashes=(leaf_hash(LEAVES[0]).hex(),),
    checkpoint=NOTE.decode(),
    verifier_key=VKEY.text(),
)


def test_a_true_proof_holds_and_says_what_was_proven() -> None:
    proven = check_proof(PROOF, NOTE, VKEY)

    assert proven.sound
    assert proven.vkey_pinned
    assert proven.leaf["at_ms"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"leaf_index": 0},
        {"tree_size": 3},
        {"leaf_base64": base64.b64encode(LEAVES[0]).decode()},
        {"leaf_base64": "!"},
        {"hashes": ()},
        {"hashes": ("0" * 64,)},
        {"leaf_hash": "0" * 64},
        {"root_hash": "0" * 64},
    ],
)
def test_a_changed_proof_does_not_hold(change: dict[str, object]) -> None:
    proven = check_proof(msgspec.structs.replace(PROOF, **change), NOTE, VKEY)

    assert not proven.sound
    assert proven.leaf == {}


def test_a_head_signed_by_another_key_proves_nothing_to_who_pinned_the_logs() -> None:
    forger = Ed25519PrivateKey.generate()
    note = sign_checkpoint("log.example", 2, ROOT, forger)
    forged = msgspec.structs.replace(
        PROOF, verifier_key=VerifierKey.of("log.example", forger).text()
    )

    assert check_proof(forged, note, None).sound, "control: it agrees with itself"
    assert not check_proof(forged, note, None).vkey_pinned
    assert not check_proof(forged, note, VKEY).sound
