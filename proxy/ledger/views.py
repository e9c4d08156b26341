"""Sessions in the form that an operator is shown."""

from __future__ import annotations

from typing import Final

from proxy.ledger.records import SegmentRow, WriteRecord
from proxy.ledger.state import Book, LedgerState, Session, SessionCall
from proxy.ledger.wire import (
    CallView,
    OriginView,
    SegmentView,
    SessionList,
    SessionRow,
    SessionView,
    SessionWriteView,
    UnplacedView,
)

READ_NAMED_MAX: Final = 8


def listed(state: LedgerState, limit: int, now_ms: int) -> SessionList:
    """The most recently active sessions, at most `limit`, and as many writes without a session."""
    newest = sorted(state.sessions.values(), key=lambda one: (-one.used_ms, one.session))
    return SessionList(
        total=len(newest),
        sessions=tuple(_row(state, one) for one in newest[:limit]),
        unplaced=tuple(_unplaced(state, limit)),
        lost_until_ms=_lost(state, None, now_ms),
    )


def _unplaced(state: LedgerState, limit: int) -> list[UnplacedView]:
    found = [one for book in state.books.values() for one in book.unplaced]
    found.sort(key=lambda one: -one.at_ms)
    return [UnplacedView(principal=one.principal, write=_write(one)) for one in found[:limit]]


def shown(state: LedgerState, session: Session, now_ms: int) -> SessionView:
    """Everything that an operator is shown of one session."""
    book = state.books.get(session.principal)
    return SessionView(
        session=session.session,
        principal=session.principal,
        began_under=session.parent or None,
        has_read=session.has_read,
        read_origins=tuple(session.read_origins),
        began_at_ms=session.began_ms,
        used_at_ms=session.used_ms,
        turns=len(session.turns),
        segments=tuple(map(_segment, session.shown)),
        segments_left_out=session.rows - len(session.shown),
        writes=tuple(map(_write, session.writes)),
        open_calls=tuple(_call(one) for one in _open_calls(book, session)),
        lost_until_ms=_lost(state, book, now_ms),
    )


def read_before(state: LedgerState, candidate_id: str) -> tuple[tuple[str, ...], ...] | None:
    """The foreign texts that entered a session before it wrote this candidate, newest last.

    Each is named by server and tool, or by the kind of segment. None where the writing session is
    no longer known.
    """
    for session in state.sessions.values():
        wrote = next((one for one in session.writes if one.candidate_id == candidate_id), None)
        if wrote is not None:
            named = [
                tuple(name for name in (row.server, row.tool) if name) or (row.channel,)
                for row in session.shown
                if row.reads and row.at_ms < wrote.at_ms
            ]
            return tuple(dict.fromkeys(named))[-READ_NAMED_MAX:]
    return None


def _lost(state: LedgerState, book: Book | None, now_ms: int) -> int | None:
    until_ms = max(state.lost_until_ms, 0 if book is None else book.read_until_ms)
    return until_ms if until_ms > now_ms else None


def _row(state: LedgerState, session: Session) -> SessionRow:
    book = state.books.get(session.principal)
    return SessionRow(
        session=session.session,
        principal=session.principal,
        has_read=session.has_read,
        began_at_ms=session.began_ms,
        used_at_ms=session.used_ms,
        turns=len(session.turns),
        segments=session.rows,
        writes=len(session.writes),
        open_calls=len(_open_calls(book, session)),
    )


def _open_calls(book: Book | None, session: Session) -> list[SessionCall]:
    if book is None:
        return []
    return [one for one in book.all_calls() if one.open and one.session == session.session]


def _call(call: SessionCall) -> CallView:
    return CallView(server=call.row.server, tool=call.row.tool, call_id=call.row.call_id)


def _segment(row: SegmentRow) -> SegmentView:
    return SegmentView(
        turn=row.turn,
        at_ms=row.at_ms,
        channel=row.channel,
        reads=row.reads,
        characters=row.len,
        server=row.server,
        tool=row.tool,
        call_id=row.call_id,
        memory_id=row.memory_id,
    )


def _write(wrote: WriteRecord) -> SessionWriteView:
    return SessionWriteView(
        at_ms=wrote.at_ms,
        candidate_id=wrote.candidate_id,
        decision=wrote.decision,
        reason=wrote.reason or None,
        memory_class=wrote.memory_class,
        source=wrote.source,
        basis=wrote.basis,
        called=wrote.called,
        after_reading=wrote.after_reading,
        derived_from=tuple(
            OriginView(
                kind=row.kind,
                server=row.server,
                tool=row.tool,
                call_id=row.call_id,
                memory_id=row.memory_id,
            )
            for row in wrote.origins
        ),
    )
