"""What the session ledger writes down, record by record: fingerprints, labels and ids, no text.

The ledger's state is computed from its records, while it runs and after a restart, by the same
`proxy.ledger.state.State.apply`. A record is one tag byte and MessagePack.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from policy.model import Basis, MemoryClass, SourceKind  # noqa: TC001 - msgspec reads them

Prints: TypeAlias = bytes
"""Fingerprints of 64 bits, in a row."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One segment as a person is shown it. `why` is a code that `session show` has words for."""

    channel: str
    label: SourceKind
    len: int
    why: str = ""
    server: str = ""
    tool: str = ""
    call_id: str = ""
    # The id of the memory, for a recalled one.
    memory_id: str = ""


class CallRow(msgspec.Struct, frozen=True, array_like=True):
    """A call that a model made. `exact` are prints of whole strings of it, `parts` of sentences."""

    key: int
    call_id: str
    tool: str
    server: str
    arguments: int
    exact: Prints
    parts: Prints


class Began(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a session, and the open call that it began under."""

    principal: str
    session: str
    at_ms: int
    parent: str = ""


class Keyed(msgspec.Struct, frozen=True, array_like=True):
    """Names, reply ids and history hashes that belong to a session."""

    session: str
    keys: Prints


class Merged(msgspec.Struct, frozen=True, array_like=True):
    """Two sessions that proved to be one."""

    gone: str
    into: str


class Conversed(msgspec.Struct, frozen=True, array_like=True):
    """A conversation of a session, and the highest label for its user turns."""

    session: str
    root: int
    most: SourceKind


class Typed(msgspec.Struct, frozen=True, array_like=True):
    """What a person typed in one turn.

    The whole texts it endorses, and the fingerprints to find it by.
    """

    # Fingerprints of single sentences in older logs. They no longer endorse anything.
    sentences: Prints = b""
    pairs: Prints = b""
    parts: Prints = b""
    whole: Prints = b""
    # Whether the operator vouches that a person types here.
    by_person: bool = False
    # The fingerprint of the speaker's name; 0 without one.
    speaker: int = 0


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Something that entered a session's context: a turn, a system prompt, a reply.

    `typed` are a person's turns, `spoken` the model's words. Sentences: `foreign` from elsewhere,
    by the trust of their label; `own` a person's; `host` the agent's own program's.
    """

    session: str
    digest: int
    at_ms: int
    label: SourceKind
    root: int = 0
    why: str = ""
    rows: tuple[Row, ...] = ()
    typed: tuple[Typed, ...] = ()
    spoken: Prints = b""
    foreign: tuple[tuple[int, Prints], ...] = ()
    own: Prints = b""
    host: Prints = b""
    calls: tuple[CallRow, ...] = ()
    answers: Prints = b""
    # The part of `foreign` that the whole tenant is told of.
    tenant: str = ""
    shared: tuple[tuple[int, Prints], ...] = ()


class Recalled(msgspec.Struct, frozen=True, array_like=True):
    """A memory that was served to a principal's agent."""

    principal: str
    at_ms: int
    memory_id: str
    label: SourceKind
    parts: Prints


class Relayed(msgspec.Struct, frozen=True, array_like=True):
    """A server's answer that a relay saw, for a call whose id the model's front may know."""

    principal: str
    key: int
    server: str
    tool: str
    label: SourceKind
    exact: Prints


class Pinned(msgspec.Struct, frozen=True, array_like=True):
    """A tool's description, as it was first seen or approved."""

    tenant: str
    tool: str
    digest: int


class Wrote(msgspec.Struct, frozen=True, array_like=True):
    """A write of a session, and its outcome."""

    session: str
    at_ms: int
    candidate_id: str
    decision: str
    source: SourceKind
    basis: Basis
    memory_class: MemoryClass
    joined: str
    endorsed: bool = False
    reason: str = ""
    origins: tuple[Row, ...] = ()
    calls: Prints = b""
    # Its principal, where no session was found.
    principal: str = ""
    ceiling: SourceKind | None = None
    # Its text is a person's own, and a name beside it is not.
    unsaid_name: bool = False


class Marked(msgspec.Struct, frozen=True, array_like=True):
    """Snapshot: sentences of a principal, by the trust of their first speaker."""

    principal: str
    code: int
    prints: Prints


class Forgotten(msgspec.Struct, frozen=True, array_like=True):
    """Snapshot: sentences from elsewhere that were dropped for room, as a bit filter."""

    principal: str
    bits: bytes


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """Sentences that a principal's agent was shown by a front without sessions."""

    principal: str
    at_ms: int
    foreign: tuple[tuple[int, Prints], ...]
    tenant: str = ""
    shared: tuple[tuple[int, Prints], ...] = ()


BITS_BEFORE: Final = 24


class Sieved(msgspec.Struct, frozen=True, array_like=True):
    """Snapshot: a piece of a sentence filter. `owner` is empty for the common one."""

    owner: str
    began_ms: int
    young: bool
    part: int
    room: int
    start: int
    bits: bytes
    # Bits for each sentence. Where they are not said, all parts had the same.
    each: int = BITS_BEFORE


class KeptRow(msgspec.Struct, frozen=True, array_like=True):
    """Snapshot: a segment, with the turn it came in."""

    turn: int
    at_ms: int
    row: Row


class KeptSession(msgspec.Struct, frozen=True, array_like=True):
    """In a snapshot: a whole session."""

    began: Began
    used_ms: int
    taint: SourceKind | None
    falls: tuple[tuple[SourceKind, KeptRow], ...]
    shown: tuple[KeptRow, ...]
    turns: int
    rows: int
    keys: Prints
    conversations: tuple[tuple[int, SourceKind], ...]
    labels: tuple[tuple[int, SourceKind, int], ...]
    typed: tuple[Typed, ...]
    spoken: tuple[tuple[SourceKind, Prints], ...]
    writes: tuple[Wrote, ...]


class KeptCall(msgspec.Struct, frozen=True, array_like=True):
    """Snapshot: a call, and its outcome."""

    session: str
    at_ms: int
    row: CallRow
    open: bool
    used: bool
    mapped: bool = False


class KeptBook(msgspec.Struct, frozen=True, array_like=True):
    """Snapshot: the rest of what is known of a principal."""

    principal: str
    ambiguous: Prints
    dropped: SourceKind | None
    dropped_ms: int
    calls: tuple[KeptCall, ...]
    unplaced: tuple[Wrote, ...] = ()


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """A session, or with an empty name a whole principal, that was dropped for room."""

    principal: str
    session: str
    at_ms: int


class Distrusted(msgspec.Struct, frozen=True, array_like=True):
    """History was lost: until the given time nothing is endorsed, and entering text is unknown."""

    until_ms: int
    # The one principal concerned; empty: all.
    principal: str = ""


Record: TypeAlias = (
    Began
    | Keyed
    | Merged
    | Conversed
    | Entry
    | Recalled
    | Relayed
    | Pinned
    | Wrote
    | Marked
    | Forgotten
    | Dropped
    | Distrusted
    | KeptSession
    | KeptBook
    | Heard
    | Sieved
)

TAGS: Final[dict[int, type[Record]]] = {
    1: Began,
    2: Keyed,
    3: Merged,
    4: Conversed,
    5: Entry,
    6: Recalled,
    7: Relayed,
    8: Pinned,
    9: Wrote,
    10: Marked,
    11: Forgotten,
    12: Dropped,
    13: Distrusted,
    14: KeptSession,
    15: KeptBook,
    16: Heard,
    17: Sieved,
}
"""The first byte of each; 64 and above belong to others that keep something in the same log."""
OTHERS_FROM: Final = 64

_TAG_OF: Final = {kind: bytes([tag]) for tag, kind in TAGS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in TAGS.items()}


def encode(record: Record) -> bytes:
    """The bytes of a record."""
    return _TAG_OF[type(record)] + _ENCODER.encode(record)


def decode(data: bytes) -> Record | None:
    """A record; None for bytes of another version."""
    decoder = _DECODERS.get(data[0]) if data else None
    if decoder is None:
        return None
    try:
        return decoder.decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
