"""Bytes on disk: every value is `format byte | 16-byte digest | payload`, checked on read.

LMDB has no page checksums, so a flipped bit is returned as another value. The digest is keyed under
`store.key`, and covers the table, the key and the payload: whoever edits the file without that key,
or moves a value to another key, is detected. A value that was stored earlier under its own key
matches; the total of all values in the header then differs, which a walk over all of them finds.
Payloads are msgpack arrays; a new field is only ever appended, with a default.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final

import msgspec

from policy.model import (
    Basis,
    ChangeKind,
    Digest,
    MemoryClass,
    MemoryStatus,
    PrincipalId,
    Reading,
    Scope,
    SourceKind,
    Tenant,
)
from policy.verdict import Reason
from storage.ground.errors import StoreCorrupt, UnknownFormat
from storage.ground.randomness import random_bytes
from storage.values import GatheredEvidence, OutcomeSummary

FORMAT: Final = b"\x02"
STORE_FORMAT: Final = 9
"""The format of the store as a whole: of its tables, their keys and the meaning of values."""
DIGEST_LEN: Final = 16
_PAYLOAD_AT: Final = 1 + DIGEST_LEN
TOTALS: Final = 1 << 8 * DIGEST_LEN
NO_ORDINAL: Final = -1
_ORDINAL_LEN: Final = 8
_NAMED_MAX: Final = 1_000


class _KeyedHashes(dict[bytes, blake2b]):
    """The state of a hash for each table after its key, which is copied for each value.

    So a value takes as long as without a key.
    """

    def __init__(self, secret: bytes | None) -> None:
        super().__init__()
        self._secret = secret

    def __missing__(self, table: bytes) -> blake2b:
        if self._secret is None:
            raise StoreCorrupt("no value can be stored without secrets/store.key")
        state = blake2b(digest_size=2 * DIGEST_LEN, key=self._secret, person=table)
        self[table] = state
        return state


class Digests:
    """Frames values under a key made of `store.key`, and checks them. Any thread.

    Without a key (`None`) digests are not compared, and nothing can be framed: a tool for auditors
    then relies on the log alone.
    """

    __slots__ = ("key", "mismatched", "tables")

    def __init__(self, store_key: bytes | None) -> None:
        self.key: bytes | None = None
        if store_key is not None:
            self.key = blake2b(b"digests", digest_size=32, key=store_key).digest()
        self.tables = _KeyedHashes(self.key)
        # The names of values that a read found not to match, as many as an operator may need.
        self.mismatched = set[str]()

    def digest(self, table: bytes, key: bytes, payload: bytes) -> bytes:
        """The digest of a value, in two halves: one that is stored with it, and its weight.

        No file contains a weight, so no one can choose values with the same sum of weights. All
        keys of one table have one length.

        Raises:
            StoreCorrupt: The store's key is not known.
        """
        digest = self.tables[table].copy()
        digest.update(key + payload)
        return digest.digest()

    def frame(self, table: bytes, key: bytes, payload: bytes) -> bytes:
        """The value to store for a payload.

        Raises:
            StoreCorrupt: The store's key is not known.
        """
        return FORMAT + self.digest(table, key, payload)[:DIGEST_LEN] + payload

    def unframe(self, table: bytes, key: bytes, value: bytes) -> bytes:
        """The payload of a stored value.

        Raises:
            StoreCorrupt: The format is unknown, or the digest does not fit table, key and payload.
        """
        payload = value[_PAYLOAD_AT:]
        if value[:1] == FORMAT:
            if self.key is None:
                return payload
            digest = self.digest(table, key, payload)
            if value[1:_PAYLOAD_AT] == digest[:DIGEST_LEN]:
                return payload
        place = str(int.from_bytes(key, "big")) if len(key) == _ORDINAL_LEN else key.hex()
        name = f"{table.decode()} {place}"
        self.note(name)
        raise StoreCorrupt(f"the value of {name} does not match its digest")

    def weight(self, table: bytes, key: bytes, value: bytes | memoryview) -> int:
        """The weight of a stored value."""
        return int.from_bytes(self.digest(table, key, bytes(value[_PAYLOAD_AT:]))[DIGEST_LEN:])

    def total(self, sealed: bytes) -> int:
        """The sum that `sealed` contains; 0 for b""."""
        nonce, masked = sealed[:DIGEST_LEN], sealed[DIGEST_LEN:]
        return self._mask(nonce) ^ int.from_bytes(masked) if sealed else 0

    def sealed(self, total: int) -> bytes:
        """A sum of weights to store. Two sums would show the weight of a value that changed."""
        nonce = random_bytes(DIGEST_LEN)
        return nonce + (self._mask(nonce) ^ total % TOTALS).to_bytes(DIGEST_LEN)

    def _mask(self, nonce: bytes) -> int:
        return int.from_bytes(blake2b(nonce, digest_size=16, key=self.key or b"").digest())

    def note(self, name: str) -> None:
        """Add the name of a mismatch, which operators are shown."""
        if len(self.mismatched) < _NAMED_MAX:
            self.mismatched.add(name)

    def of(self, name: bytes, data: bytes | memoryview) -> bytes:
        """The keyed digest of a file beside the tables: of what it is of, and its contents."""
        named = blake2b(name, digest_size=32, key=self.key or b"", person=b"file")
        return blake2b(data, digest_size=32, key=named.digest(), person=b"file").digest()


ordinal_key: Final = struct.Struct(">Q").pack
"""Packs an ordinal as big-endian bytes, so that LMDB's byte order is the numeric order."""


class StoreHeader(msgspec.Struct, frozen=True, array_like=True):
    """The generation of the whole store; every transaction rewrites it.

    The order of the fields never changes, so that every later version can read the format.
    """

    incarnation: str  # random part of the incarnation's name: 16 hex digits
    restores: int
    version: int
    epoch: int
    ruleset_digest: str
    embedder_id: str
    dimension: int
    next_ordinal: int
    leaf_count: int
    live_count: int
    held_count: int
    created_at_ms: int
    format: int = 0  # a header that ends before this field names no format, and is refused
    observing: bool = False  # whether the last gate on this store only observed (decision 010)
    # The time of the last transaction, in Unix milliseconds.
    time_ms: int = 0
    # The number of values in each table of `COUNTED`, so that a start notices one that was taken
    # out or put in.
    counts: tuple[int, ...] = ()
    # The weights of those values, added up and masked, so that a walk over all of them notices an
    # earlier value under its own key.
    total: bytes = b""

    @property
    def incarnation_name(self) -> str:
        """Random part and restore counter, the name to which nonces are bound."""
        return f"{self.incarnation}-{self.restores}"


class RowBrief(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The fields of a `Row` for listings and the index; the other fields are not decoded.

    A start reads every row, and takes a third of the time without the other fields.
    """

    change: ChangeKind
    tenant: Tenant
    principal_id: msgspec.Raw
    memory_id: msgspec.Raw
    candidate_id: msgspec.Raw
    memory_class: msgspec.Raw
    source: SourceKind
    basis: msgspec.Raw
    version: msgspec.Raw
    at_ms: msgspec.Raw
    created_at_ms: msgspec.Raw
    prev_ordinal: int
    leaf_index: msgspec.Raw
    salt: msgspec.Raw
    embedder_id: str
    scope: msgspec.Raw
    expires_at: str | None


class IdRecord(msgspec.Struct, frozen=True, array_like=True):
    """The ordinal of a memory's newest row, and whether reads may show the memory."""

    ordinal: int
    status: MemoryStatus


class FirstOutcome(OutcomeSummary, frozen=True, kw_only=True, array_like=True):
    """The first verdict for a nonce, without content, which is the answer to a repeated request."""

    source: SourceKind
    basis: Basis
    passed: tuple[int, ...]
    structural: bool
    ordinal: int  # the ordinal of the memory's row, or NO_ORDINAL


class NonceRecord(msgspec.Struct, frozen=True, array_like=True):
    """The request that used a nonce, as a keyed hash (`KeyedNames.binding`), and its outcome."""

    binding: bytes
    outcome: FirstOutcome


class HeldRow(msgspec.Struct, frozen=True, array_like=True):
    """One candidate that waits for a person.

    `sealed` is the intercept record and the salt, encrypted under the candidate's own key, because
    the client's text in the target, and the digest, must be unreadable once the candidate is denied
    and its key destroyed.
    """

    principal_id: PrincipalId
    tenant: Tenant
    reason: Reason
    step: int
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    held_at_ms: int
    nonce_key: bytes
    intercepted_index: int
    sealed: bytes
    origin: str = ""  # the origin, as `storage.write.held_queue` names it
    origin_key: bytes = b""  # the key in the table of origins; empty if no tool is known
    after_reading: bool = False  # whether the session that wrote it had read foreign text
    # The keys of the candidate's lines in the table `lines`. A candidate with the same keys is not
    # held a second time.
    lines: tuple[bytes, ...] = ()


class SealedIntercept(msgspec.Struct, frozen=True, array_like=True):
    """The decrypted content of `HeldRow.sealed`."""

    digest: Digest
    target: str
    salt: bytes


class HeldEvidence(GatheredEvidence, frozen=True, kw_only=True, array_like=True):
    """The evidence about a candidate at the time when it was held; encrypted in staging."""

    # The version of the memory to change; 0 if there is none.
    target_version: int = 0


class StagedEvidence(msgspec.Struct, frozen=True, array_like=True):
    """The evidence about an undecided candidate; in staging, and never readable on disk."""

    held: HeldEvidence
    reading: Reading
    text_after: str | None
    repeats_hidden: bool = False


encode = msgspec.msgpack.Encoder().encode

decode_header = msgspec.msgpack.Decoder(StoreHeader).decode
decode_brief = msgspec.msgpack.Decoder(RowBrief).decode
decode_scope = msgspec.msgpack.Decoder(Scope).decode
decode_intercept = msgspec.msgpack.Decoder(SealedIntercept).decode
decode_evidence = msgspec.msgpack.Decoder(HeldEvidence).decode
decode_staged = msgspec.msgpack.Decoder(StagedEvidence).decode


def refuse_unknown(header: StoreHeader | None) -> None:
    """Refuse a store whose format is not this version's.

    Raises:
        UnknownFormat: The store's format is newer or older.
    """
    if header is None or header.format == STORE_FORMAT:
        return
    raise UnknownFormat(
        f"the store has format {header.format}, and this version reads format {STORE_FORMAT} "
        "alone: run the version that wrote it, or start with another state directory"
    )
