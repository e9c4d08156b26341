"""The records of the session ledger's log: fingerprints, names and ids, no text.

The ledger's state is computed from its records, while it runs and after a restart, by the same
`proxy.ledger.state.LedgerState.apply`. A record is one tag byte and MessagePack. A snapshot
consists of the same records.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from policy.model import Basis, MemoryClass, SourceKind

Prints: TypeAlias = bytes
"""Fingerprints of 64 bits, in a row."""


def prints(data: bytes) -> array[int]:
    """Fingerprints, read from the bytes in a record."""
    return array("Q", data)


def packed(found: Iterable[int]) -> bytes:
    """Fingerprints in the form of bytes that records have."""
    return array("Q", found).tobytes()


class SegmentRow(msgspec.Struct, frozen=True, array_like=True):
    """One segment of a session in the form that an operator is shown.

    `reads` is True where the segment sets the session's read bit.
    """

    channel: str
    len: int
    reads: bool = False
    server: str = ""
    tool: str = ""
    call_id: str = ""
    # The id of the memory, for a segment that contains a recalled memory.
    memory_id: str = ""
    # When the segment came, and with which turn of its session.
    at_ms: int = 0
    turn: int = 0


class OriginRow(msgspec.Struct, frozen=True, array_like=True):
    """A segment that contains the text of a write."""

    kind: SourceKind
    server: str = ""
    tool: str = ""
    call_id: str = ""
    memory_id: str = ""


class CallRow(msgspec.Struct, frozen=True, array_like=True):
    """A call that a model made.

    `exact` has fingerprints of the call's strings, `parts` of the strings' sentences. `recalls`: a
    tool map says that the tool keeps memory, so that its answer brings nothing foreign.
    """

    key: int
    call_id: str
    tool: str
    server: str
    arguments: int
    exact: Prints
    parts: Prints
    recalls: bool = False


class SessionRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of a session's beginning, with the session under whose call it began."""

    principal: str
    session: str
    at_ms: int
    parent: str = ""


class SessionKeysRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of reply ids and history hashes by which a session is found again."""

    session: str
    keys: Prints


class MergeRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record that two sessions proved to be one: `gone` is merged into `into`."""

    gone: str
    into: str


class SegmentRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a request or a reply brought into a session's context.

    `turns` and `roots` are hashes of turns and of conversations' beginnings, `spoken` the sentences
    of the model, `answers` the ids of calls that have a result now. `reads` is True where foreign
    text came, and `read` names the tools and hosts that brought it.
    """

    session: str
    at_ms: int
    turns: Prints = b""
    roots: Prints = b""
    spoken: Prints = b""
    answers: Prints = b""
    rows: tuple[SegmentRow, ...] = ()
    calls: tuple[CallRow, ...] = ()
    reads: bool = False
    read: tuple[str, ...] = ()


class RecalledRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of a memory that was served to a principal's agent."""

    principal: str
    memory_id: str
    parts: Prints


class WriteRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of a session's write, and of its outcome."""

    principal: str
    # Empty if no session explains the write.
    session: str
    at_ms: int
    candidate_id: str
    decision: str
    source: SourceKind
    basis: Basis
    memory_class: MemoryClass
    called: bool = False
    after_reading: bool = False
    reason: str = ""
    origins: tuple[OriginRow, ...] = ()
    calls: Prints = b""


class DropRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of a session that was dropped for room; with an empty name, of a principal."""

    principal: str
    session: str
    at_ms: int


class LossRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of lost history: until `until_ms`, unexplained writes count as after reading."""

    until_ms: int
    # The principal whose history was lost; empty if all principals' was.
    principal: str = ""


class FetchRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record that a host got foreign text: sessions begun before `until_ms` may have it."""

    principal: str
    until_ms: int


Record: TypeAlias = (
    SessionRecord
    | SessionKeysRecord
    | MergeRecord
    | SegmentRecord
    | RecalledRecord
    | WriteRecord
    | DropRecord
    | LossRecord
    | FetchRecord
)

TAGS: Final[dict[int, type[Record]]] = {
    1: SessionRecord,
    2: SessionKeysRecord,
    3: MergeRecord,
    4: SegmentRecord,
    5: RecalledRecord,
    6: WriteRecord,
    7: DropRecord,
    8: LossRecord,
    9: FetchRecord,
}
"""The first byte of each kind of record; from 64 on, tags are of other users of the same log."""
OTHERS_FROM: Final = 64

_TAG_OF: Final = {kind: bytes([tag]) for tag, kind in TAGS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in TAGS.items()}


def encode(record: Record) -> bytes:
    """Encode a record of the ledger as bytes."""
    return _TAG_OF[type(record)] + _ENCODER.encode(record)


def decode(data: bytes) -> Record | None:
    """The record of these bytes; None for bytes that are no record of this version."""
    decoder = _DECODERS.get(data[0]) if data else None
    if decoder is None:
        return None
    try:
        return decoder.decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
