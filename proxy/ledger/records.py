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
    """One segment as an operator is shown it. `why` is a code that `session show` has words for."""

    channel: str
    label: SourceKind
    len: int
    why: str = ""
    server: str = ""
    tool: str = ""
    call_id: str = ""
    # The id of the memory, for a segment that is a recalled memory.
    memory_id: str = ""
    # The fingerprint of the memory file whose text a result shows (see `CallRow.file`); 0 if it
    # shows none.
    file: int = 0


class CallRow(msgspec.Struct, frozen=True, array_like=True):
    """A call that a model made.

    `exact` has fingerprints of its whole strings, `parts` those of their sentences, and `spelled`
    those of the strings in their order, character for character.
    """

    key: int
    call_id: str
    tool: str
    server: str
    arguments: int
    exact: Prints
    parts: Prints
    # The fingerprint of the memory file that the call reads or edits; 0 if it concerns none, and in
    # older logs.
    file: int = 0
    # Empty in older logs, where no answer counts as an echo of the call.
    spelled: Prints = b""


class Began(msgspec.Struct, frozen=True, array_like=True):
    """The record of a session's beginning, with the open call during which it began."""

    principal: str
    session: str
    at_ms: int
    parent: str = ""


class Keyed(msgspec.Struct, frozen=True, array_like=True):
    """The record of names, reply ids and history hashes by which a session is found again."""

    session: str
    keys: Prints


class Merged(msgspec.Struct, frozen=True, array_like=True):
    """The record that two sessions proved to be one."""

    gone: str
    into: str


class Conversed(msgspec.Struct, frozen=True, array_like=True):
    """The record of a session's conversation, with the highest label for its user turns."""

    session: str
    root: int
    most: SourceKind


class Typed(msgspec.Struct, frozen=True, array_like=True):
    """The record of what a person typed in one turn.

    It has fingerprints of the whole texts that the turn endorses.
    """

    # Older logs have fingerprints of single sentences here. They no longer endorse anything.
    sentences: Prints = b""
    pairs: Prints = b""
    parts: Prints = b""
    whole: Prints = b""
    # Whether the operator vouches that a person types these turns.
    by_person: bool = False
    # The fingerprint of the speaker's name; 0 without one.
    speaker: int = 0


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Something that entered a session's context: a turn, a system prompt, a reply.

    `typed` are a person's turns, `spoken` the model's words. The sentences are in `foreign`
    (somebody else's, by the trust of their label), `own` (a person's) and `host` (the agent's own
    program's).
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
    # The part of `foreign` that counts as heard by every principal of the tenant.
    tenant: str = ""
    shared: tuple[tuple[int, Prints], ...] = ()


class Recalled(msgspec.Struct, frozen=True, array_like=True):
    """The record of a memory that was served to a principal's agent."""

    principal: str
    at_ms: int
    memory_id: str
    label: SourceKind
    parts: Prints


class Relayed(msgspec.Struct, frozen=True, array_like=True):
    """The record of a server's answer to a call, which a relay saw on its way."""

    principal: str
    key: int
    server: str
    tool: str
    label: SourceKind
    exact: Prints


class Pinned(msgspec.Struct, frozen=True, array_like=True):
    """The record of a tool's description, as first seen or later approved."""

    tenant: str
    tool: str
    digest: int


class Wrote(msgspec.Struct, frozen=True, array_like=True):
    """The record of a session's write, and of its outcome."""

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
    origins: tuple[Row, ...] = ()
    calls: Prints = b""
    # The principal that wrote, if no session was found.
    principal: str = ""


class Marked(msgspec.Struct, frozen=True, array_like=True):
    """In a snapshot: sentences of a principal, by the trust of their first speaker."""

    principal: str
    code: int
    prints: Prints


class Forgotten(msgspec.Struct, frozen=True, array_like=True):
    """In a snapshot: others' sentences that were dropped for lack of room, as a bit filter."""

    principal: str
    bits: bytes


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """The record of sentences that an agent got without a session, such as a search's results."""

    principal: str
    at_ms: int
    foreign: tuple[tuple[int, Prints], ...]
    tenant: str = ""
    shared: tuple[tuple[int, Prints], ...] = ()


class Gave(msgspec.Struct, frozen=True, array_like=True):
    """Texts that the gate itself gave a principal's agent, in place of what it refused."""

    principal: str
    texts: Prints
    # The call that they answer; 0 if no call is known, and in older logs.
    call: int = 0


BITS_BEFORE: Final = 24


class Sieved(msgspec.Struct, frozen=True, array_like=True):
    """In a snapshot: a piece of a sentence filter (see `proxy.ledger.hearsay`).

    `owner` is empty for the tenant's common filter.
    """

    owner: str
    began_ms: int
    young: bool
    part: int
    room: int
    start: int
    bits: bytes
    # The number of bits for each sentence; a record without the member is of a version in which
    # every filter had this number.
    each: int = BITS_BEFORE


class KeptRow(msgspec.Struct, frozen=True, array_like=True):
    """In a snapshot: a segment, with the turn that it came in."""

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
    # For each memory file, by its fingerprint, the lowest label that it brought in; key 0 has the
    # rest. Empty in older logs.
    brought: tuple[tuple[int, SourceKind], ...] = ()


class KeptCall(msgspec.Struct, frozen=True, array_like=True):
    """In a snapshot: a call, and its outcome."""

    session: str
    at_ms: int
    row: CallRow
    open: bool
    used: bool
    mapped: bool = False


class KeptBook(msgspec.Struct, frozen=True, array_like=True):
    """In a snapshot: everything known of a principal, apart from sessions and sentences."""

    principal: str
    ambiguous: Prints
    dropped: SourceKind | None
    dropped_ms: int
    calls: tuple[KeptCall, ...]
    unplaced: tuple[Wrote, ...] = ()
    # About calls without a result that were dropped for lack of room: the lowest taint of their
    # sessions, and the time of the newest call. Absent in older logs.
    unanswered: tuple[SourceKind, int] | None = None


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """A session that was dropped for room, or with an empty name a whole principal."""

    principal: str
    session: str
    at_ms: int


class Distrusted(msgspec.Struct, frozen=True, array_like=True):
    """History was lost: until a given time nothing is endorsed, and new text counts as unknown."""

    until_ms: int
    # The principal whose history was lost; empty if all principals' was.
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
    | Gave
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
    18: Gave,
}
"""The first byte of each; 64 and above belong to others that keep something in the same log."""
OTHERS_FROM: Final = 64

_TAG_OF: Final = {kind: bytes([tag]) for tag, kind in TAGS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in TAGS.items()}


def encode(record: Record) -> bytes:
    """Encode a record of the ledger as bytes."""
    return _TAG_OF[type(record)] + _ENCODER.encode(record)


def decode(data: bytes) -> Record | None:
    """The record of these bytes; None for the bytes of another version."""
    decoder = _DECODERS.get(data[0]) if data else None
    if decoder is None:
        return None
    try:
        return decoder.decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
