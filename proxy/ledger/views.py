"""Sessions in the form that an operator is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from policy.model import SourceKind
from proxy.ledger.core import taint_now
from proxy.ledger.wire import (
    BeganUnderView,
    FallView,
    OriginView,
    SegmentView,
    SessionList,
    SessionRow,
    SessionView,
    SessionWriteView,
    UnknownView,
    UnplacedView,
)

if TYPE_CHECKING:
    from proxy.ledger.records import Wrote
    from proxy.ledger.state import Book, CallMade, SessionState, ShownSegment, State

READ_NAMED_MAX: Final = 8
_THE_MODELS_OWN: Final = frozenset({"model", "call"})
WHY: Final = {
    "rule": "the agent spliced it in: a rule explains it",
    "said_before": "said elsewhere before a person did",
    "copied": "a copy of something that entered before",
    "beside_results": "stands beside tool results, and no rule explains it",
    "unplaced": "a kind of block that no rule places",
    "unseen": "the model was not seen to say it",
    "lost": "stands before history that was not seen",
    "under_a_call": "the conversation began under an open call: the model's own words",
    "summary": "a summary of an earlier context",
    "recalled": "holds a memory with that label",
    "not_recalled": "no memory that was served here",
    "echo": "says what its call said, or what the gate says: an echo",
    "below": "brought by a conversation that began under its call, and as trusted as that one",
    "relayed": "a relay labelled the server's answer so",
    "changed": "not the description that was approved",
    "system_changed": "added to the prompt of a conversation that goes on: by nobody knows whom",
    "distrusted": "history was lost shortly before",
    "sealed": "a picture or a file: the model reads it, and nobody here can",
    "searches": "the provider may search by itself, and does not say what it found",
    "history_lost": "goes on from a reply that was not seen",
}

_SPLICE: Final = "splice", "a rule for it in proxy/ledger/splices.toml"
_WHOLE: Final = "history", "its requests through this sidecar from the beginning, turns unchanged"
NEEDED: Final = {
    "beside_results": _SPLICE,
    "unplaced": ("splice", "a version that knows where such a block comes from"),
    "unseen": _WHOLE,
    "lost": _WHOLE,
    "history_lost": _WHOLE,
    "summary": ("history", "the summary asked of a model behind this sidecar"),
    "under_a_call": (
        "person",
        "that call's result, its conversation going on after a cancel, or a key of its own",
    ),
    "not_recalled": (
        "map",
        "its memories served by this sidecar, or read through a relay with a map",
    ),
    "relayed": ("map", "a tool map that says what the server's answer is"),
    "system_changed": ("setting", '`system_text = "trusted"` in its [[model]] table'),
    "recalled": ("person", "`mnemogate review vouch` for the memory"),
    "said_before": ("none", "nothing: see where it was said first"),
    "rule": ("none", "nothing: a rule says that others wrote it"),
    "distrusted": ("none", "an hour: nothing is believed after history was lost"),
}
"""Which rule would be needed where a segment is unknown for that reason, and in which words."""


def listed(state: State, limit: int, now_ms: int) -> SessionList:
    """The most recently active sessions."""
    newest = sorted(state.sessions.values(), key=lambda one: (-one.used_ms, one.session))
    return SessionList(
        total=len(newest),
        sessions=tuple(_row(state, one) for one in newest[:limit]),
        unplaced=tuple(_unplaced(state, limit)),
        flooding=state.hearsay.flooding,
        distrusted_until_ms=_distrusted(state, None, now_ms),
    )


def _unplaced(state: State, limit: int) -> list[UnplacedView]:
    found = [one for book in state.books.values() for one in book.unplaced]
    found.sort(key=lambda one: -one.at_ms)
    return [UnplacedView(principal=one.principal, write=_write(one)) for one in found[:limit]]


def shown(state: State, session: SessionState, now_ms: int) -> SessionView:
    """Everything that an operator may be told of one session."""
    book = state.books.get(session.principal)
    return SessionView(
        session=session.session,
        principal=session.principal,
        taint=taint_now(session),
        began_at_ms=session.began_ms,
        used_at_ms=session.used_ms,
        turns=session.turns,
        unknown=_unknown(session),
        fell=tuple(FallView(taint=low, segment=_segment(one)) for low, one in session.falls),
        segments=tuple(_segment(one) for one in session.shown),
        segments_left_out=session.rows - len(session.shown),
        writes=tuple(_write(one) for one in session.writes),
        open_calls=tuple(_call(session, one) for one in _open_calls(book, session)),
        searchable=session.blind is None,
        distrusted_until_ms=_distrusted(state, book, now_ms),
        began_under=_began_under(book, session),
    )


def _began_under(book: Book | None, session: SessionState) -> BeganUnderView | UnsetType:
    """The newest call that the parent session had made when this session began."""
    under = any(one.row.why == "under_a_call" for one in session.shown)
    for one in reversed(book.all_calls()) if book is not None and under else ():
        if one.session == session.parent and one.at_ms <= session.began_ms and not one.used:
            return BeganUnderView(call=_call(session, one), needs=NEEDED["under_a_call"][1])
    return UNSET


def _unknown(session: SessionState) -> UnknownView | None:
    """The segment at which the taint fell to unknown, which is the lowest label."""
    if not session.falls or session.falls[-1][0] is not SourceKind.UNKNOWN:
        return None
    segment = _segment(session.falls[-1][1])
    rule, needs = NEEDED.get(segment.why, ("none", "nothing that is known here"))
    return UnknownView(segment=segment, rule=rule, needs=needs)


def read_before(state: State, candidate_id: str) -> tuple[tuple[str, ...], ...] | None:
    """What entered a session below `user_input` before it wrote this candidate, newest last.

    Each source is named by server and tool, or by the kind of segment. None where the writing
    session is no longer known.
    """
    for session in state.sessions.values():
        wrote = next((one for one in session.writes if one.candidate_id == candidate_id), None)
        if wrote is not None:
            entered = [one.row for one in session.shown if one.at_ms < wrote.at_ms]
            named = [
                tuple(name for name in (row.server, row.tool) if name) or (row.channel,)
                for row in entered
                if row.channel not in _THE_MODELS_OWN
                and row.label.trust < SourceKind.USER_INPUT.trust
            ]
            return tuple(dict.fromkeys(named))[-READ_NAMED_MAX:]
    return None


def beside(state: State, candidate_id: str) -> frozenset[str]:
    """Other writes of a candidate's conversation; none if the conversation is not known."""
    sessions = state.sessions.values()
    wrote = (one for one in sessions if any(w.candidate_id == candidate_id for w in one.writes))
    first = next(wrote, None)
    if first is None:
        return frozenset()
    root = state.root(first.session)
    kin = (one for one in sessions if state.root(one.session) == root)
    return frozenset(write.candidate_id for one in kin for write in one.writes)


def _distrusted(state: State, book: Book | None, now_ms: int) -> int | None:
    until_ms = state.distrusted_until_ms
    if book is not None:
        until_ms = max(until_ms, book.distrusted_until_ms)
    return until_ms if until_ms > now_ms else None


def _row(state: State, session: SessionState) -> SessionRow:
    book = state.books.get(session.principal)
    return SessionRow(
        session=session.session,
        principal=session.principal,
        taint=taint_now(session),
        began_at_ms=session.began_ms,
        used_at_ms=session.used_ms,
        turns=session.turns,
        segments=session.rows,
        writes=len(session.writes),
        open_calls=len(_open_calls(book, session)),
    )


def _open_calls(book: Book | None, session: SessionState) -> list[CallMade]:
    if book is None:
        return []
    return [one for one in book.all_calls() if one.open and one.session == session.session]


def _call(session: SessionState, call: CallMade) -> OriginView:
    row = call.row
    kind = taint_now(session)
    return OriginView(kind=kind, server=row.server, tool=row.tool, call_id=row.call_id)


def _segment(one: ShownSegment) -> SegmentView:
    row = one.row
    return SegmentView(
        turn=one.turn,
        at_ms=one.at_ms,
        channel=row.channel,
        label=row.label,
        characters=row.len,
        why=row.why,
        why_text=WHY.get(row.why, ""),
        server=row.server,
        tool=row.tool,
        call_id=row.call_id,
        memory_id=row.memory_id,
    )


def _write(wrote: Wrote) -> SessionWriteView:
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
                kind=row.label,
                server=row.server,
                tool=row.tool,
                call_id=row.call_id,
                memory_id=row.memory_id,
            )
            for row in wrote.origins
        ),
    )
