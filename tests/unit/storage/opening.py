"""Opens real stores for tests, and makes submissions as the interceptor would."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import numpy as np

from policy.canonical import canonical_bytes, digest_of
from policy.facts import BudgetState, TokenState
from policy.gate import GATE, Gate
from policy.labels.derive import derive_provenance, read_candidate
from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    Channel,
    Claims,
    Principal,
    PrincipalId,
    Scope,
    Tenant,
)
from policy.ruleset import parse_ruleset
from storage.embedded import EmbeddedOptions, EmbeddedStore, open_embedded
from storage.shipped import Shipping
from storage.tables.codec import Digests
from storage.tables.names import META, TABLES
from storage.values import Outcome, Submission
from tests.fault.contradictions import compare_tables_too
from tests.shipped_stores import ship_if_chosen

compare_tables_too()
ship_if_chosen()

DIMENSION = 8
EMBEDDER = "test-8d"
RULESET_TEXT = (Path(__file__).parents[3] / "policy" / "default.toml").read_text(encoding="utf-8")
RULESET = parse_ruleset(RULESET_TEXT)
TENANT = Tenant("default")
AGENT = Principal(principal_id=PrincipalId("agent-1"), tenant=TENANT)
VOUCHED = Principal(principal_id=PrincipalId("harness-1"), tenant=TENANT, claims=Claims.TRUSTED)
OPERATOR = Principal(
    principal_id=PrincipalId("operator-1"), tenant=TENANT, channel=Channel.OPERATOR
)
BY = PrincipalId("operator-1")
HELD_S = 30.0


class Clock:
    """Unix milliseconds, moved by hand."""

    def __init__(self, now_ms: int = 1_750_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def vector_of(text: str) -> bytes:
    """A unit vector that depends on the text alone."""
    seed = int.from_bytes(digest_of(text.encode())[:4], "big")
    values = np.random.default_rng(seed).standard_normal(DIMENSION)
    return (values / np.linalg.norm(values)).astype("<f4").tobytes()


def candidate_of(
    text: str | None = "", principal: Principal = AGENT, **fields: object
) -> Candidate:
    """A candidate of a principal; a create of `text` unless the fields say otherwise."""
    values: dict[str, object] = {
        "change": ChangeKind.CREATE,
        "principal_id": principal.principal_id,
        "tenant": principal.tenant,
        "nonce": secrets.token_hex(16),
        "text": text,
        "scope": Scope(user_id="ada"),
    }
    return Candidate(**(values | fields))  # type: ignore[arg-type]


def submission_of(
    candidate: Candidate, principal: Principal = AGENT, **fields: object
) -> Submission:
    """What the interceptor hands to the writer for a candidate."""
    canonical = canonical_bytes(candidate)
    values: dict[str, object] = {
        "candidate_id": CandidateId(secrets.token_hex(16)),
        "candidate": candidate,
        "canonical": canonical,
        "digest": digest_of(canonical),
        "provenance": derive_provenance(principal, candidate, None),
        "intercepted_at_ms": 1_750_000_000_000,
        "reading": read_candidate(candidate),
        "token": TokenState.ABSENT,
        "token_key": None,
        "shadow": (),
        "budget": BudgetState(writes_in_window_count=0, text_bytes=0, metadata_bytes=0),
        "vector": vector_of(candidate.text) if candidate.text else b"",
        "embedder_id": EMBEDDER,
        "trace_id": secrets.token_hex(16),
    }
    return Submission(**(values | fields))  # type: ignore[arg-type]


class Bench:
    """A state directory that can be opened, crashed and opened again."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.state = root / "state"
        self.checkpoint = root / "beside" / "checkpoint.txt"
        self.clock = clock or Clock()
        self._opened: list[EmbeddedStore] = []

    def close(self) -> None:
        """Close what is still open: another test may ask which threads and files there are."""
        for store in self._opened:
            if store.writer.running:
                store.close()

    def open(
        self,
        failpoint: Callable[[str], None] | None = None,
        gate: Gate = GATE,
        options: EmbeddedOptions | None = None,
        shipping: Shipping | None = None,
    ) -> EmbeddedStore:
        """The store, opened or made."""
        store = open_embedded(
            state=self.state,
            checkpoint=self.checkpoint,
            gate=gate,
            ruleset=RULESET,
            embedder_id=EMBEDDER,
            dimension=DIMENSION,
            clock=self.clock,
            failpoint=failpoint or (lambda name: None),
            options=options or EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26),
            shipping=shipping,
        )
        self._opened.append(store)
        return store


def digests_of(state: Path) -> Digests:
    """The digests of the values of a store, under its key."""
    return Digests((state / "secrets" / "store.key").read_bytes())


def put_header(bench: Bench, payload: bytes) -> None:
    """Rewrite the header of a closed store as another version would have."""
    value = digests_of(bench.state).frame(META, b"header", payload)
    env = lmdb.open(str(bench.state / "store"), max_dbs=len(TABLES), map_size=1 << 28)
    with env.begin(write=True) as txn:
        txn.put(b"header", value, db=env.open_db(META, txn=txn))
    env.close()


def write(store: EmbeddedStore, *submissions: Submission) -> list[Outcome]:
    """The outcomes of submissions that are one batch of the writer, on any machine.

    They are handed over one by one. The thread that the first of them wakes may not run before the
    last: on a busy machine it would find a shorter batch, and that is another life of the store.
    """
    interval = sys.getswitchinterval()

    async def all_of_them() -> list[Outcome]:
        sys.setswitchinterval(HELD_S)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(store.writer.submit(one)) for one in submissions]
            # They put themselves in a row, and are handed over behind that.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            sys.setswitchinterval(interval)
        return [task.result() for task in tasks]

    try:
        return asyncio.run(all_of_them())
    finally:
        sys.setswitchinterval(interval)


def say(store: EmbeddedStore, text: str, principal: Principal = AGENT, **fields: object) -> Outcome:
    """The outcome of one create."""
    return write(store, submission_of(candidate_of(text, principal, **fields), principal))[0]
