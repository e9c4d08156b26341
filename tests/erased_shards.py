"""A shared store with keys of segments: its holders, and what rows contain for who has the keys.

The journal is one of files, or one in a PostgreSQL server.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

import msgspec

from policy.labels.forwarded_call import MCP, ForwardedCall, target_of, texts_of
from policy.model import ChangeKind, ForwardStatus, MemoryClass, Scope, SourceKind
from policy.query import EVERYTHING
from storage.embedded import EmbeddedStore
from storage.features.confirm_memory import ConfirmMemory
from storage.journal.protocol import Journal, JournalRow, Stream
from storage.journal.sealing import Sealing, key_id_of
from storage.journal.segment_keys import SegmentKeys
from storage.shipped import Shipping
from storage.tables.codec import STORE_FORMAT
from storage.values import Decision, GuardedServer, Outcome
from tests.fault.crashing import OPTIONS
from tests.files_journal import FilesJournal
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    VOUCHED,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

SECRET: Final = b"j" * 32
NAME: Final = "shard"
OTHERS: Final = {f"{word} {number}" for word in ("before", "after") for number in range(6)}
_encode: Final = msgspec.msgpack.Encoder().encode
_TARGET: Final = target_of(MCP, "memory")
_BEHIND: Final = GuardedServer(tenant=TENANT, target=_TARGET, by=BY)


class OpenEnded(FilesJournal):
    """A journal of files whose lease another process may take at once: the fence alone decides."""

    def holds(self) -> bool:
        return True


class ErasedShard:
    """One shared store; `journal` makes the journal of one process, which holds nothing yet."""

    def __init__(
        self,
        root: Path,
        journal: Callable[[], Journal] | None = None,
        journal_type: type[Journal] = OpenEnded,
    ) -> None:
        self.root = root
        self.keys = root / "keys"
        self.keys.mkdir(mode=0o700)
        self.journal_type = journal_type
        self._make = journal or self._files
        self._journals: list[Journal] = []

    def close(self) -> None:
        """Close all journals that this process has used."""
        for journal in self._journals:
            journal.close()

    def _journal(self) -> Journal:
        self._journals.append(self._make())
        return self._journals[-1]

    def _files(self) -> Journal:
        return OpenEnded(self.root / "journal", address="", store_format=STORE_FORMAT, lease_s=0.0)

    def sealing(self, keys: Path | None = None) -> Sealing:
        return Sealing(SECRET, NAME, Stream.STORE, SegmentKeys(keys or self.keys, SECRET, NAME))

    def shipping(self) -> Shipping:
        """A journal of one process, and its sealing; no lease is taken."""
        return Shipping(journal=self._journal(), sealing=self.sealing())

    def open(self, name: str, shipping: Shipping | None = None) -> EmbeddedStore:
        """The store in the directory of one process, which takes it over."""
        shipping = shipping or self.shipping()
        assert shipping.journal.acquire()
        bench = Bench(self.root / name)
        bench.checkpoint = self.root / "checkpoint.txt"
        secrets = self.root / "secrets"
        if secrets.exists() and not bench.state.exists():
            bench.state.mkdir(mode=0o700, parents=True)
            shutil.copytree(secrets, bench.state / "secrets")
        store = bench.open(options=OPTIONS, shipping=shipping)
        if not secrets.exists():
            shutil.copytree(bench.state / "secrets", secrets)
        return store

    def rows(self) -> list[JournalRow]:
        """The rows that the journal has now."""
        journal = self._journal()
        try:
            return list(journal.since(Stream.STORE, 0))
        finally:
            # A process that forks has no thread of a journal.
            self._journals.pop().close()

    def opened(self, rows: list[JournalRow] | None = None, keys: Path | None = None) -> bytes:
        """All that rows contain for who has the secret and the keys that are left."""
        sealing = self.sealing(keys)
        return b"".join(_encode(sealing.read(row)) for row in rows or self.rows())

    def used(self) -> set[bytes]:
        """The ids of the keys under which the rows are sealed."""
        return {key_id_of(row) for row in self.rows()}

    def left(self) -> set[bytes]:
        """The ids of the keys that are there."""
        return SegmentKeys(self.keys, SECRET, NAME).ids()


@contextmanager
def short_segments(length: int = 4) -> Generator[None]:
    """Begin a new key after a few rows."""
    with (
        patch("storage.journal.sealing.SEGMENT_LEN", length),
        patch("storage.shipped.SEGMENT_LEN", length),
    ):
        yield


def texts(store: EmbeddedStore) -> set[str]:
    """The texts of all live memories."""
    return {one.text or "" for one in store.reader.page(TENANT, EVERYTHING, 0, 999).memories}


def filled(
    store: EmbeddedStore, canary: str, kind: Callable[[EmbeddedStore, str], Outcome] | None = None
) -> Outcome:
    """A memory with a canary, among `OTHERS`; it is a plain one unless `kind` makes another."""
    for number in range(6):
        say(store, f"before {number}")
    outcome = (kind or plain)(store, canary)
    for number in range(6):
        say(store, f"after {number}")
    return outcome


def purge(store: EmbeddedStore, written: Outcome) -> Outcome:
    """Purge a memory, as an operator."""
    assert written.memory is not None
    fields = {"change": ChangeKind.PURGE, "memory_id": written.memory.memory_id, "scope": Scope()}
    return write(store, submission_of(candidate_of(None, OPERATOR, **fields), OPERATOR))[0]


def plain(store: EmbeddedStore, canary: str) -> Outcome:
    """A memory of an agent, and one version of it that was replaced since."""
    first = say(store, f"{canary} was written first")
    assert first.memory is not None
    fields = {"change": ChangeKind.UPDATE, "memory_id": first.memory.memory_id, "scope": Scope()}
    update = candidate_of(f"{canary} is written", OPERATOR, **fields)
    return write(store, submission_of(update, OPERATOR))[0]


def vouched(store: EmbeddedStore, canary: str) -> Outcome:
    """A memory that a person vouched for: its whole row is in a later batch once more."""
    outcome = say(store, f"{canary} is vouched for")
    assert outcome.memory is not None
    version = outcome.memory.version
    confirm = ConfirmMemory(outcome.memory.memory_id, TENANT, BY, version)
    done = asyncio.run(store.writer.order(confirm))
    assert done.changed
    return outcome


def server_keyed(store: EmbeddedStore, canary: str) -> Outcome:
    """A memory on an MCP server, which gave it a key: rows and records are in three batches."""
    call = ForwardedCall(tool="t", arguments=f'{{"a":"{canary}"}}', key="", pieces=(canary,))
    pieces, metadata_json = texts_of(call)
    candidate = candidate_of(pieces, target=_TARGET, metadata_json=metadata_json)
    (outcome,) = write(store, submission_of(candidate, guarded_key=""))
    settled = ((outcome.candidate_id, ForwardStatus.DONE),)
    keys = {outcome.candidate_id: "key-of-the-server"}
    asyncio.run(store.forwards.settle(_BEHIND, settled, keys))
    return outcome


def rejected_and_denied(
    store: EmbeddedStore, rejected: list[str], denied: list[str], admitted: list[str]
) -> None:
    """Write texts that the gate rejects, that a person denies, and that are stored."""
    forbidden = {
        "memory_class": MemoryClass.L1,
        "class_named": True,
        "claimed_source": SourceKind.TOOL_RESULT,
    }
    for text in rejected:
        named = candidate_of(
            text, VOUCHED, target=text, metadata_json=f'{{"k":"{text}"}}', **forbidden
        )
        assert write(store, submission_of(named, VOUCHED))[0].decision is Decision.REJECT
    for text in admitted:
        assert say(store, text).decision is Decision.ADMIT
    for text in denied:
        held = say(store, text, instructions=True, target=f"{text}-target")
        assert held.decision is Decision.HOLD
        asyncio.run(store.writer.deny(held.candidate_id, BY))
