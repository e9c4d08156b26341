"""Writes and checks a file of memories with proofs of their steps, without need of the store.

The first line contains the signed head of the log, each further line one memory with all its steps.
A step contains the bytes that were judged, the salt that opens their commitment, and the leaves of
its interception and verdict with their paths (RFC 6962) to the signed root. The verdict leaf of a
step names that of the step before, so no step before the last one in the file is missing. A file
cannot show that no later step followed, and that no memory was left out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.canonical import decode_canonical, digest_of
from policy.model import ChangeKind, MemoryClass, MemoryStatus, SourceKind
from proxy.admin.wire.provenance import (
    Sha256,
)
from storage.audit import (
    NO_STEP_BEFORE,
    AuditedView,
    BadCheckpoint,
    Checkpoint,
    InterceptedLeaf,
    Leaf,
    OperatorLeaf,
    VerdictLeaf,
    VerifierKey,
    commitment,
    confirmed_subject,
    decode_leaf,
    inclusion_proof,
    open_checkpoint,
    verify_inclusion,
)
from storage.ground.errors import StoreCorrupt
from storage.values import CONFIRM, Decision, Row

FORM: Final = "mnemogate.memories.1"
LINE_LEN_MAX: Final = 64 * 1024 * 1024
_Base64 = Annotated[str, Meta(max_length=LINE_LEN_MAX)]


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of the file: the signed head of the log, and the number of further lines."""

    form: str
    tenant: str
    memories: int
    checkpoint: Annotated[str, Meta(max_length=65_536)]
    verifier_key: Annotated[str, Meta(max_length=512)]


class ProvenLeaf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bytes of one leaf as they are hashed, and the leaf's path to the root."""

    index: Annotated[int, Meta(ge=0)]
    leaf_base64: Annotated[str, Meta(max_length=8192)]
    hashes: Annotated[tuple[Sha256, ...], Meta(max_length=64)]


class ProvenStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One admitted change of a memory.

    `confirmed` is the leaf of a person's later confirmation of the memory, if there is one.
    """

    canonical_base64: _Base64
    salt: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    intercepted: ProvenLeaf
    verdict: ProvenLeaf
    confirmed: ProvenLeaf | None = None


class ProvenMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One memory with its present text and label, and all its steps, oldest first."""

    memory_id: str
    text: str
    memory_class: MemoryClass
    source: SourceKind
    steps: Annotated[tuple[ProvenStep, ...], Meta(min_length=1)]


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a file's proofs, with at most the first hundred problems."""

    sound: bool
    tenant: str
    memories: int
    steps: int
    tree_size: int
    vkey: str
    vkey_pinned: bool
    problems: tuple[str, ...]


class Wrong(Exception):  # noqa: N818 - reads as what is said of a step
    """The error that a line of the file contains something that its proofs do not confirm."""


def proven(view: AuditedView, tenant: str, vkey: VerifierKey) -> Iterator[Head | ProvenMemory]:
    """Yield the head, and then every live memory of a tenant, oldest first, with its proofs.

    Raises:
        StoreCorrupt: A part of the store cannot be read, or the log has no signed head.
        BadCheckpoint: The head was signed by another key.
    """
    note = view.checkpoint()
    if note is None:
        raise StoreCorrupt("the log has no signed head")
    size = open_checkpoint(note, vkey).size
    named = view.named()
    rows: dict[int, Row] = {}
    confirmed: dict[str, int] = {}
    for ordinal, row in view.rows():
        if isinstance(row, StoreCorrupt):
            raise row
        if row.tenant == tenant and not row.erased:
            rows[ordinal] = row
    wanted = [ordinal for ordinal in rows if named.get(ordinal) is MemoryStatus.LIVE]
    for index in range(size):
        leaf = _leaf_at(view, index)
        if isinstance(leaf, OperatorLeaf) and leaf.action == CONFIRM:
            confirmed[leaf.subject] = index
    yield Head(
        form=FORM,
        tenant=tenant,
        memories=len(wanted),
        checkpoint=note.decode(),
        verifier_key=vkey.text(),
    )
    for ordinal in wanted:
        newest = rows[ordinal]
        steps = tuple(_step(view, row, size, confirmed) for row in _chain(rows, ordinal))
        yield ProvenMemory(
            memory_id=newest.memory_id,
            text=_texts(steps),
            memory_class=newest.memory_class,
            source=newest.source,
            steps=steps,
        )


def _chain(rows: dict[int, Row], newest: int) -> list[Row]:
    """The rows of one memory, oldest first, back to its first row or to a purge."""
    chain: list[Row] = []
    while newest in rows:
        chain.append(rows[newest])
        newest = rows[newest].prev_ordinal
    return chain[::-1]


def _step(view: AuditedView, row: Row, size: int, confirmed: dict[str, int]) -> ProvenStep:
    leaf = _leaf_at(view, row.leaf_index)
    if not isinstance(leaf, VerdictLeaf):
        raise StoreCorrupt(f"leaf {row.leaf_index} is no verdict")
    word = confirmed.get(confirmed_subject(row.candidate_id))
    return ProvenStep(
        canonical_base64=base64.b64encode(row.canonical).decode(),
        salt=row.salt.hex(),
        intercepted=_proof(view, leaf.intercepted_index, size),
        verdict=_proof(view, row.leaf_index, size),
        confirmed=None if word is None else _proof(view, word, size),
    )


def _proof(view: AuditedView, index: int, size: int) -> ProvenLeaf:
    hashes = inclusion_proof(index, size, lambda at: _stored(view, at), view.nodes)
    return ProvenLeaf(
        index=index,
        leaf_base64=base64.b64encode(_stored(view, index)).decode(),
        hashes=tuple(one.hex() for one in hashes),
    )


def _stored(view: AuditedView, index: int) -> bytes:
    data = view.leaf(index)
    if data is None:
        raise StoreCorrupt(f"leaf {index} is missing")
    return data


def _leaf_at(view: AuditedView, index: int) -> Leaf:
    return decode_leaf(_stored(view, index))


class ProofChecker:
    """Checks the lines of one exported file, without a store.

    `pinned` is the log's verifier key, obtained when the log was first trusted. Without it the key
    in the file is used, which only shows that the parts of the file match each other.
    """

    def __init__(self, pinned: VerifierKey | None) -> None:
        self._pinned = pinned
        self._key = pinned
        self._head: Head | None = None
        self._signed: Checkpoint | None = None
        self._memories = 0
        self._steps = 0
        self._seen: set[str] = set()
        self._problems: list[str] = []

    def take(self, line: bytes) -> None:
        """Check the next line of the file, and record its problems for `result`."""
        try:
            if self._head is None:
                self._head = _HEAD(line)
                self._open(self._head)
            else:
                self._memories += 1
                self._memory(_MEMORY(line))
        except (Wrong, BadCheckpoint, StoreCorrupt, binascii.Error, ValueError) as error:
            if self._head is None:
                raise
            self._problem(f"line {self._memories + 1}: {error}")

    def result(self) -> ProofReport:
        """The result of the checks of all lines that `take` was given."""
        head, signed = self._head, self._signed
        if head is None:
            self._problem("the file is empty")
        elif head.memories != self._memories:
            self._problem(f"{head.memories} memories are announced, {self._memories} are there")
        return ProofReport(
            sound=not self._problems,
            tenant="" if head is None else head.tenant,
            memories=self._memories,
            steps=self._steps,
            tree_size=0 if signed is None else signed.size,
            vkey="" if self._key is None else self._key.text(),
            vkey_pinned=self._pinned is not None,
            problems=tuple(self._problems),
        )

    def _problem(self, text: str) -> None:
        if len(self._problems) < _PROBLEMS_MAX:
            self._problems.append(text)

    def _open(self, head: Head) -> None:
        if head.form != FORM:
            raise Wrong("it has another form than this version reads")
        self._key = self._pinned or VerifierKey.parse(head.verifier_key)
        self._signed = open_checkpoint(head.checkpoint.encode(), self._key)

    def _memory(self, memory: ProvenMemory) -> None:
        if self._head is None or self._signed is None:
            raise Wrong("there is no signed head to prove it by")
        if memory.memory_id in self._seen:
            raise Wrong("the memory is there twice")
        self._seen.add(memory.memory_id)
        at = NO_STEP_BEFORE
        label: tuple[MemoryClass, SourceKind] | None = None
        for step in memory.steps:
            verdict = self._step(self._head, memory, step)
            at = self._next(step.verdict.index, verdict.previous_index, at)
            label = verdict.memory_class, verdict.source
            if step.confirmed is not None:
                word = self._leaf(step.confirmed)
                subject = confirmed_subject(verdict.candidate_id)
                if not isinstance(word, OperatorLeaf) or (word.action, word.subject) != (
                    CONFIRM,
                    subject,
                ):
                    raise Wrong("what confirms it is no such leaf")
                label = verdict.memory_class, SourceKind.USER_INPUT
            self._steps += 1
        if label != (memory.memory_class, memory.source):
            raise Wrong("its label is not that of its last verdict")
        if _texts(memory.steps) != memory.text:
            raise Wrong("its text is not that of its steps")

    def _next(self, index: int, previous: int | None, at: int) -> int:
        """Check that the step at `index` directly follows the step at `at`; return `index`."""
        if index <= at:
            raise Wrong("its steps are not in the order of the log")
        if previous != at:
            raise Wrong(
                f"a step is left out: leaf {index} follows leaf {previous}, "
                "which is not the step before it here"
            )
        return index

    def _step(self, head: Head, memory: ProvenMemory, step: ProvenStep) -> VerdictLeaf:
        seen, verdict = self._leaf(step.intercepted), self._leaf(step.verdict)
        if not isinstance(seen, InterceptedLeaf) or not isinstance(verdict, VerdictLeaf):
            raise Wrong("its leaves are no interception and verdict")
        if verdict.decision is not Decision.ADMIT:
            raise Wrong("its verdict admits nothing")
        if (verdict.candidate_id, verdict.intercepted_index) != (
            seen.candidate_id,
            step.intercepted.index,
        ):
            raise Wrong("its verdict is of another interception")
        canonical = base64.b64decode(step.canonical_base64, validate=True)
        if commitment(bytes.fromhex(step.salt), digest_of(canonical)) != seen.commitment:
            raise Wrong("its bytes do not open the commitment in the log")
        candidate = decode_canonical(canonical)
        asked = (candidate.tenant, candidate.principal_id, candidate.change)
        if asked != (seen.tenant, seen.principal_id, seen.change) or seen.tenant != head.tenant:
            raise Wrong("not the principal, tenant or change that was intercepted")
        if memory.memory_id not in {candidate.memory_id, verdict.memory_id}:
            raise Wrong("its verdict is of another memory")
        return verdict

    def _leaf(self, proof: ProvenLeaf) -> Leaf:
        data = base64.b64decode(proof.leaf_base64, validate=True)
        hashes = tuple(bytes.fromhex(one) for one in proof.hashes)
        signed = self._signed
        if signed is None or not verify_inclusion(
            data, proof.index, signed.size, hashes, signed.root
        ):
            raise Wrong(f"leaf {proof.index} is not in the signed log")
        return decode_leaf(data)


def _texts(steps: tuple[ProvenStep, ...]) -> str:
    """The memory's text after these steps.

    A step equal to an earlier step restores the text that the memory had after the earlier step.
    """
    text = ""
    after: dict[tuple[str, str], str] = {}
    for step in steps:
        which = step.salt, step.canonical_base64
        if which not in after:
            candidate = decode_canonical(base64.b64decode(step.canonical_base64, validate=True))
            if candidate.change is ChangeKind.UPDATE and candidate.text is None:
                after[which] = text
            else:
                after[which] = candidate.text or ""
        text = after[which]
    return text


_PROBLEMS_MAX: Final = 100
_HEAD: Final = msgspec.json.Decoder(Head).decode
_MEMORY: Final = msgspec.json.Decoder(ProvenMemory).decode
