"""The ledger's state as records, which replace a log that has become long."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from proxy.ledger.records import (
    Began,
    Distrusted,
    Dropped,
    Forgotten,
    Gave,
    KeptBook,
    KeptCall,
    KeptRow,
    KeptSession,
    Marked,
    Merged,
    Pinned,
    Recalled,
)
from proxy.ledger.sentences import packed, prints
from proxy.ledger.state import Book, CallMade, SessionState, ShownSegment, TypedTurn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.model import SourceKind
    from proxy.ledger.records import Record
    from proxy.ledger.state import State


def snapshot_of(state: State) -> Iterator[Record]:
    """Records from which a new state becomes equal to the given one."""
    if state.distrusted_until_ms:
        yield Distrusted(state.distrusted_until_ms)
    for (tenant, tool), digests in state.pins.items():
        for digest in sorted(digests):
            yield Pinned(tenant, tool, digest)
    yield from state.hearsay.records()
    for principal in state.lost_principals:
        yield Dropped(principal, "", 0)
    for book in state.books.values():
        yield from _records_of(book)
    for gone, into in state.merged.items():
        yield Merged(gone, into)


def _records_of(book: Book) -> Iterator[Record]:
    name = book.principal
    if book.distrusted_until_ms:
        yield Distrusted(book.distrusted_until_ms, name)
    if book.sentences.forgotten:
        yield Forgotten(name, bytes(book.sentences.forgotten))
    for code, found in book.sentences.by_mark().items():
        yield Marked(name, code, found)
    for (label, memory_id), found in book.recalls.entries().items():
        yield Recalled(name, 0, memory_id, label, found)
    for session in book.sessions.values():
        yield _kept(session)
    yield from book.relayed.values()
    for call, texts in groupby(book.gave, key=itemgetter(0)):
        yield Gave(name, packed(one for _, one in texts), call)
    dropped, until_ms = book.dropped or (None, 0)
    calls = tuple(
        KeptCall(call.session, call.at_ms, call.row, call.open, call.used, call.mapped)
        for call in book.all_calls()
    )
    unplaced = tuple(book.unplaced)
    ambiguous, unanswered = packed(book.ambiguous), book.unanswered
    yield KeptBook(name, ambiguous, dropped, until_ms, calls, unplaced, unanswered)


def _kept(session: SessionState) -> KeptSession:
    spoken: dict[SourceKind, list[int]] = {}
    for one, label in session.spoken.items():
        spoken.setdefault(label, []).append(one)
    return KeptSession(
        began=Began(session.principal, session.session, session.began_ms, session.parent),
        used_ms=session.used_ms,
        taint=session.taint,
        falls=tuple((low, _row(shown)) for low, shown in session.falls),
        shown=tuple(_row(shown) for shown in session.shown),
        turns=session.turns,
        rows=session.rows,
        keys=packed(session.keys),
        conversations=tuple(session.conversations.items()),
        labels=tuple((one, label, root) for one, (label, root) in session.labels.items()),
        typed=tuple(one.record for one in session.typed),
        spoken=tuple((label, packed(ones)) for label, ones in spoken.items()),
        writes=tuple(
            msgspec.structs.replace(wrote, session=session.session) for wrote in session.writes
        ),
        brought=tuple(session.brought.items()),
    )


def _row(shown: ShownSegment) -> KeptRow:
    return KeptRow(shown.turn, shown.at_ms, shown.row)


def _shown(kept: KeptRow) -> ShownSegment:
    return ShownSegment(kept.turn, kept.at_ms, kept.row)


def restored_session(kept: KeptSession) -> SessionState:
    """The session that a record of a snapshot describes."""
    session = SessionState(kept.began.principal, kept.began)
    session.used_ms = kept.used_ms
    session.taint = kept.taint
    session.falls = [(low, _shown(row)) for low, row in kept.falls]
    session.shown.extend(_shown(row) for row in kept.shown)
    session.turns = kept.turns
    session.rows = kept.rows
    session.keys.update(dict.fromkeys(prints(kept.keys)))
    session.conversations.update(kept.conversations)
    session.labels.update({one: (label, root) for one, label, root in kept.labels})
    session.typed.extend(map(TypedTurn, kept.typed))
    for label, ones in kept.spoken:
        session.spoken.update(dict.fromkeys(prints(ones), label))
    session.writes.extend(kept.writes)
    session.brought.update(kept.brought)
    if not session.brought and session.taint is not None:
        session.bring(0, session.taint)
    return session


def restore_book(book: Book, kept: KeptBook) -> None:
    """Restore a principal's data, apart from sessions and sentences."""
    book.ambiguous.update(dict.fromkeys(prints(kept.ambiguous)))
    if kept.dropped is not None:
        book.dropped = (kept.dropped, kept.dropped_ms)
    book.unplaced.extend(kept.unplaced)
    book.unanswered = kept.unanswered
    for one in kept.calls:
        call = CallMade(one.session, one.at_ms, one.row)
        call.open, call.used, call.mapped = one.open, one.used, one.mapped
        if one.row.key in book.ambiguous:
            book.repeat(call)
        else:
            book.calls[one.row.key] = call
