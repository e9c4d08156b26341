"""The scripted life of a store: `python -m tests.fault.crashstates.workload ROOT CANARY [BUG]`.

Every step is announced on standard output before it starts and acknowledged with what it answered
and with the whole visible state after it. One step is one transaction, so that a crash leaves the
state before the step, or the one after it, and nothing between them.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from typing import Final

import msgspec

import storage.write.writer
from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    MemoryClass,
    MemoryId,
    Principal,
    Scope,
    SourceKind,
)
from policy.query import EVERYTHING
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.features.registered import PutAnchor
from storage.features.trust import RestoreTrust
from storage.values import Anchor, Outcome, Submission
from tests.fault.crashstates.planting import plant
from tests.unit.storage.opening import (
    AGENT,
    BY,
    OPERATOR,
    TENANT,
    VOUCHED,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
    write,
)

OPTIONS: Final = EmbeddedOptions(
    quota_bytes=64 << 20, staging_quota_bytes=32 << 20, segment_len=2, origin="crash"
)


class Answer(msgspec.Struct, frozen=True):
    """The answer to the request with this nonce."""

    decision: str
    version: int
    leaf_index: int


class Held(msgspec.Struct, frozen=True):
    candidate_id: str
    text: str | None


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    leaves: int
    texts: dict[str, str | None]
    steps: dict[str, int]
    found: list[str]
    held: list[Held]
    trust: dict[str, str]
    anchors: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the journal: a step that begins, or (with a picture) one that was answered.

    `keys` are the encryption keys of held candidates: once one is decided, its key is in no file.
    """

    step: int
    picture: Picture | None = None
    answers: dict[str, Answer] = {}
    keys: dict[str, str] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction: a batch of writes, or a command."""

    name: str
    writes: tuple[tuple[Candidate, Principal], ...] = ()
    release: str = ""
    deny: str = ""
    command: str = ""
    # A text that is in no file once this step was answered.
    erases: str = ""


def submission(candidate: Candidate, principal: Principal) -> Submission:
    """The first submission of a candidate, under an id that the checker can work out."""
    named = hashlib.sha256(candidate.nonce.encode()).hexdigest()[:32]
    return submission_of(candidate, principal, candidate_id=CandidateId(named))


def _candidate_id(nonce: str) -> CandidateId:
    return CandidateId(hashlib.sha256(nonce.encode()).hexdigest()[:32])


class Script:
    """The candidates and steps of one run. `canary` is in every text."""

    def __init__(self, canary: str) -> None:
        self.canary = canary
        # Texts of candidates that are refused, and of those that wait until they are released.
        self.refused = f"{canary}refused"
        self.waiting = tuple(f"{canary}waits{name}" for name in ("h1", "h2", "h3", "h4"))
        self.steps = tuple(self._steps())

    def _create(self, name: str, **fields: object) -> tuple[Candidate, Principal]:
        text = f"{self.canary}{name} was here"
        values = {"nonce": f"n-{name}", "memory_id": MemoryId(f"id-{name}")} | fields
        return candidate_of(text, **values), AGENT  # type: ignore[arg-type]

    def _refused(self, name: str) -> tuple[Candidate, Principal]:
        marked = f"{self.canary}refused{name}"
        candidate = candidate_of(
            f"{marked} was here",
            VOUCHED,
            nonce=marked,
            target=marked,
            memory_id=marked,
            metadata_json=f'{{"k":"{marked}"}}',
            memory_class=MemoryClass.L1,
            class_named=True,
            claimed_source=SourceKind.TOOL_RESULT,
        )
        return candidate, VOUCHED

    def _waits(self, name: str) -> tuple[Candidate, Principal]:
        marked = f"{self.canary}waits{name}"
        candidate = candidate_of(
            f"{marked} was here",
            nonce=f"n-{name}",
            target=marked,
            memory_id=MemoryId(f"id-{name}"),
            instructions=True,
        )
        return candidate, AGENT

    def _changes(self, kind: ChangeKind, name: str, text: str | None, nonce: str) -> Step:
        candidate = candidate_of(
            text, OPERATOR, change=kind, memory_id=f"id-{name}", scope=Scope(), nonce=nonce
        )
        erases = f"{self.canary}{name}" if kind is ChangeKind.PURGE else ""
        return Step(name=nonce, writes=((candidate, OPERATOR),), erases=erases)

    def _steps(self) -> list[Step]:
        return [
            Step(name="open", command="open"),
            Step(name="admit", writes=(self._create("a"),)),
            Step(name="batch", writes=(self._create("b"), self._create("c"), self._refused("one"))),
            Step(name="hold", writes=(self._waits("h1"),)),
            Step(name="hold again", writes=(self._waits("h2"),)),
            Step(name="reject", writes=(self._refused("two"),)),
            self._changes(ChangeKind.UPDATE, "a", f"{self.canary}a again", "n-update-a"),
            self._changes(ChangeKind.DELETE, "b", None, "n-delete-b"),
            Step(name="release", release="n-h1"),
            Step(name="deny", deny="n-h2"),
            Step(
                name="one of each",
                writes=(self._create("d"), self._waits("h3"), self._refused("three")),
            ),
            Step(name="anchor", command="anchor"),
            self._changes(ChangeKind.PURGE, "c", None, "n-purge-c"),
            Step(name="restart", command="restart"),
            Step(name="trust", command="trust"),
            Step(name="more", writes=tuple(self._create(f"m{n}") for n in range(4))),
            self._changes(ChangeKind.UPDATE, "d", f"{self.canary}d again", "n-update-d"),
            Step(name="snapshot", command="snapshot"),
            Step(name="compact", command="compact"),
            Step(name="hold a last one", writes=(self._waits("h4"),)),
            self._changes(ChangeKind.PURGE, "a", None, "n-purge-a"),
            Step(name="release the rest", release="n-h3"),
            Step(name="after the purge", writes=(self._create("e"), self._refused("four"))),
            Step(name="restart again", command="restart"),
            Step(name="the last", writes=(self._create("f"),)),
        ]


def picture_of(store: EmbeddedStore) -> Picture:
    reader = store.reader
    status = reader.status()
    live = reader.page(TENANT, EVERYTHING, 0, 1_000).memories
    hits = reader.search(TENANT, vector_of("anything"), EVERYTHING, 1_000, -1.0)
    held = [reader.held_candidate(one.candidate_id) for one in reader.held()]
    return Picture(
        version=status.version,
        leaves=status.leaf_count,
        texts={memory.memory_id: memory.text for memory in live},
        steps={memory.memory_id: len(reader.history(TENANT, memory.memory_id)) for memory in live},
        found=sorted(hit.memory.memory_id for hit in hits),
        held=[
            Held(one.candidate_id, one.candidate.text if one.candidate else None)
            for one in held
            if one is not None
        ],
        trust={name: state.level.value for name, state in reader.all_trust()},
        anchors=len(reader.anchors(TENANT)),
    )


def answer_of(outcome: Outcome) -> Answer:
    """The part of an outcome that a retry must repeat."""
    return Answer(outcome.decision.value, outcome.version, outcome.leaf_index)


class Run:
    """A store that is taken through the steps."""

    def __init__(self, root: Path, script: Script) -> None:
        self._bench = Bench(root)
        self._script = script
        self._store: EmbeddedStore | None = None

    @property
    def store(self) -> EmbeddedStore:
        if self._store is None:
            self._store = self._bench.open(options=OPTIONS)
        return self._store

    def take(self, step: Step) -> dict[str, Answer]:
        """Run one step; what the nonces in it were answered with."""
        if step.writes:
            outcomes = write(self.store, *(submission(*one) for one in step.writes))
            nonces = [candidate.nonce for candidate, _ in step.writes]
            return {nonce: answer_of(one) for nonce, one in zip(nonces, outcomes, strict=True)}
        writer = self.store.writer
        if step.release:
            released = asyncio.run(writer.release(_candidate_id(step.release), BY))
            return {step.release: answer_of(released)}
        if step.deny:
            denied = asyncio.run(writer.deny(_candidate_id(step.deny), BY))
            return {step.deny: answer_of(denied)}
        self._command(step.command)
        return {}

    def _command(self, command: str) -> None:
        store = self.store
        if command == "restart":
            self.close()
            self._store = self._bench.open(options=OPTIONS)
        elif command == "anchor":
            anchor = Anchor(
                anchor_id="one",
                tenant=TENANT,
                statement="Water is wet.",
                questions=("Is water wet?",),
                created_at_ms=1,
            )
            asyncio.run(store.writer.order(PutAnchor(anchor, BY)))
        elif command == "trust":
            asyncio.run(store.writer.order(RestoreTrust(VOUCHED.principal_id, BY)))
        elif command == "snapshot":
            store._engine.parts.derived.save()
        elif command == "compact":
            asyncio.run(store.writer.compact(BY))

    def keys(self) -> dict[str, str]:
        """The key of every held candidate, in hex."""
        staging = self.store.staging
        return {one: staging._keys[one].hex() for one in staging.held_ids()}

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _say(line: Line) -> None:
    os.write(1, msgspec.json.encode(line) + b"\n")


def main(root: str, canary: str, bug: str = "") -> None:
    plant(bug)
    # A copy after every transaction, not when 200 ms have passed: the record must not depend on
    # how fast this machine is.
    storage.write.writer._CHECKPOINT_EVERY_NS = 0  # type: ignore[misc]
    script = Script(canary)
    run = Run(Path(root), script)
    for number, step in enumerate(script.steps):
        _say(Line(step=number))
        answers = run.take(step)
        _say(Line(step=number, picture=picture_of(run.store), answers=answers, keys=run.keys()))
    run.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
