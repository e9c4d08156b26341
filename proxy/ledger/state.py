"""The ledger's state, computed from the ledger's records. No I/O, no clock, no randomness."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from policy.labels.derive import HOST
from policy.model import MemoryId
from proxy.ledger.records import (
    CallRow,
    DropRecord,
    FetchRecord,
    LossRecord,
    MergeRecord,
    RecalledRecord,
    Record,
    SegmentRecord,
    SegmentRow,
    SessionKeysRecord,
    SessionRecord,
    WriteRecord,
    packed,
    prints,
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

SESSIONS_MAX: Final = 256
"""The most sessions of one principal."""
SESSIONS_IN_ALL_MAX: Final = 2_048
LIVE_MS: Final = 24 * 3_600_000
"""How long foreign text in one session counts for writes that no session explains."""
CALLS_MAX: Final = 4_096
OPEN_MS: Final = 3_600_000
"""How long a call without a result counts as under way."""
RECALLS_MAX: Final = 40_000
READ_ORIGINS_MAX: Final = 8
"""The most tools, and the most hosts, that one session names as read."""
ROWS_MAX: Final = 400
WRITES_MAX: Final = 400
SPOKEN_MAX: Final = 50_000
TURNS_MAX: Final = 20_000
KEYS_MAX: Final = 20_000
ROOTS_MAX: Final = 2_000
LOST_PRINCIPALS_MAX: Final = 10_000


class SessionCall:
    """A call that a model of a session made."""

    __slots__ = ("at_ms", "exact", "open", "parts", "row", "session", "used")

    def __init__(self, session: str, at_ms: int, row: CallRow) -> None:
        self.session = session
        self.at_ms = at_ms
        self.row = row
        self.exact = frozenset(prints(row.exact))
        self.parts = frozenset(prints(row.parts))
        self.open = not row.recalls
        self.used = False


class Session:
    """One session of one principal: what entered its context, and what it wrote."""

    def __init__(self, began: SessionRecord) -> None:
        self.principal = began.principal
        self.session = began.session
        self.parent = began.parent
        self.began_ms = began.at_ms
        self.used_ms = began.at_ms
        # Whether foreign text entered the session; set once, and never taken back.
        self.has_read = False
        self.read_origins: dict[str, None] = {}
        self.shown: deque[SegmentRow] = deque(maxlen=ROWS_MAX)
        self.rows = 0
        self.keys: OrderedDict[int, None] = OrderedDict()
        self.roots: OrderedDict[int, None] = OrderedDict()
        self.turns: OrderedDict[int, None] = OrderedDict()
        self.spoken: OrderedDict[int, None] = OrderedDict()
        self.writes: deque[WriteRecord] = deque(maxlen=WRITES_MAX)

    def read(self, origins: Iterable[str]) -> None:
        """Set the read bit, with the tools and hosts whose texts were read."""
        self.has_read = True
        for one in origins:
            # Hosts have a limit of their own, so that a session with many tools still names hosts.
            is_host = one.startswith(HOST)
            count = sum(name.startswith(HOST) is is_host for name in self.read_origins)
            if count < READ_ORIGINS_MAX:
                self.read_origins[one] = None


class Book:
    """Everything that the ledger knows about one principal."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        # Reply ids and history hashes, with the newest session that has them.
        self.keys: dict[int, str] = {}
        # Calls by the fingerprint of their id, the newest last: hosts repeat ids.
        self.calls: OrderedDict[int, list[SessionCall]] = OrderedDict()
        # The sentences of memories that were served, each with the memory's id.
        self.recalls: OrderedDict[int, MemoryId] = OrderedDict()
        self.unplaced: deque[WriteRecord] = deque(maxlen=WRITES_MAX)
        # Until when a write that no session explains counts as written after reading, because a
        # session that had read was dropped, or history was lost.
        self.read_until_ms = 0
        # Until when a new session counts as having read, because a host may have begun it with a
        # resource or a prompt.
        self.fetched_until_ms = 0

    def call(self, key: int, arguments: int) -> SessionCall | None:
        """The newest call with this id and these arguments."""
        found = (one for one in reversed(self.calls.get(key, ())))
        return next((one for one in found if one.row.arguments == arguments), None)

    def all_calls(self) -> Iterator[SessionCall]:
        """All calls of the principal's models that the ledger still stores."""
        for calls in self.calls.values():
            yield from calls

    def has_read_lately(self, now_ms: int) -> bool:
        """Whether any session, known or lost, had read foreign text within the last day."""
        return now_ms < self.read_until_ms or any(
            one.has_read and one.used_ms + LIVE_MS >= now_ms for one in self.sessions.values()
        )


class LedgerState:
    """The state of all principals. Only `apply` changes it."""

    def __init__(self) -> None:
        self.books: OrderedDict[str, Book] = OrderedDict()
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.merged: OrderedDict[str, str] = OrderedDict()
        self.lost_until_ms = 0
        # Principals whose book was dropped: what they read before is unknown.
        self.lost_principals: OrderedDict[str, None] = OrderedDict()

    def book(self, principal: str) -> Book:
        """Everything that is known of a principal; an empty book is created if needed."""
        book = self.books.get(principal)
        if book is None:
            book = self.books[principal] = Book(principal)
        return book

    def session(self, session: str) -> Session | None:
        """The session with this id, or the one that it was merged into; None if unknown."""
        return self.sessions.get(self.merged.get(session, session))

    def root(self, session: str) -> str:
        """The id of the first session in the chain under which a session began, or its own id."""
        passed: set[str] = set()
        while session not in passed:
            passed.add(session)
            session = self.merged.get(session, session)
            there = self.sessions.get(session)
            session = there.parent if there is not None and there.parent else session
        return session

    def apply(self, record: Record) -> None:
        """Apply one record. Applying the same record twice changes nothing that counts."""
        match record:
            case SessionRecord():
                self._began(record)
            case SessionKeysRecord():
                self._keyed(record)
            case SegmentRecord():
                session = self.session(record.session)
                if session is not None:
                    _enter(session, self.book(session.principal), record)
            case WriteRecord():
                self._wrote(record)
            case MergeRecord():
                self._merge(record)
            case RecalledRecord():
                recalls = self.book(record.principal).recalls
                for one in prints(record.parts):
                    _renew(recalls, one, MemoryId(record.memory_id), RECALLS_MAX)
            case DropRecord() | LossRecord() | FetchRecord():
                self._unshown(record)

    def _began(self, record: SessionRecord) -> None:
        if record.session in self.sessions:
            return
        session = Session(record)
        parent = self.session(record.parent)
        if parent is not None and parent.has_read:
            session.read(parent.read_origins)
        book = self.book(record.principal)
        if record.at_ms < book.fetched_until_ms:
            session.read(())
        self.sessions[record.session] = session
        book.sessions[record.session] = session

    def _keyed(self, record: SessionKeysRecord) -> None:
        session = self.session(record.session)
        if session is None:
            return
        book = self.book(session.principal)
        for key in prints(record.keys):
            session.keys[key] = None
            book.keys[key] = session.session
        while len(session.keys) > KEYS_MAX:
            book.keys.pop(session.keys.popitem(last=False)[0], None)

    def _wrote(self, record: WriteRecord) -> None:
        book = self.book(record.principal)
        session = self.session(record.session)
        writes = book.unplaced if session is None else session.writes
        if all(one.candidate_id != record.candidate_id for one in writes):
            writes.append(record)
        for key in prints(record.calls):
            for call in book.calls.get(key, ()):
                # The call is one of a memory tool, so no conversation begins under it.
                call.used, call.open = True, False

    def _merge(self, record: MergeRecord) -> None:
        gone = self.sessions.pop(record.gone, None)
        into = self.session(record.into)
        if gone is None or into is None:
            return
        book = self.book(gone.principal)
        book.sessions.pop(gone.session, None)
        self.merged[record.gone] = into.session
        _bound(self.merged, SESSIONS_IN_ALL_MAX)
        if gone.has_read:
            into.read(gone.read_origins)
        into.shown.extend(gone.shown)
        into.rows += gone.rows
        into.used_ms = max(into.used_ms, gone.used_ms)
        for mine, theirs in (
            *((into.keys, gone.keys), (into.roots, gone.roots)),
            *((into.turns, gone.turns), (into.spoken, gone.spoken)),
        ):
            mine.update(theirs)
        into.writes.extend(gone.writes)
        for key, session in book.keys.items():
            if session == gone.session:
                book.keys[key] = into.session
        for call in book.all_calls():
            if call.session == gone.session:
                call.session = into.session

    def _unshown(self, record: DropRecord | LossRecord | FetchRecord) -> None:
        """Apply a record about lost history, or about a text that may be in any new session."""
        if isinstance(record, DropRecord):
            self._drop(record)
        elif isinstance(record, FetchRecord):
            book = self.book(record.principal)
            book.fetched_until_ms = max(book.fetched_until_ms, record.until_ms)
        elif record.principal:
            book = self.book(record.principal)
            book.read_until_ms = max(book.read_until_ms, record.until_ms)
            self.lost_principals.pop(record.principal, None)
        else:
            self.lost_until_ms = max(self.lost_until_ms, record.until_ms)

    def _drop(self, record: DropRecord) -> None:
        book = self.books.get(record.principal)
        if not record.session:
            self.lost_principals[record.principal] = None
            _bound(self.lost_principals, LOST_PRINCIPALS_MAX)
            for name in () if book is None else book.sessions:
                self.sessions.pop(name, None)
            self.books.pop(record.principal, None)
            return
        gone = None if book is None else book.sessions.pop(record.session, None)
        if book is None or gone is None:
            return
        del self.sessions[record.session]
        for key in gone.keys:
            if book.keys.get(key) == gone.session:
                del book.keys[key]
        for key in [*book.calls]:
            left = [one for one in book.calls[key] if one.session != gone.session]
            if left:
                book.calls[key] = left
            else:
                del book.calls[key]
        if gone.has_read:
            book.read_until_ms = max(book.read_until_ms, gone.used_ms + LIVE_MS)

    def snapshot(self) -> Iterator[Record]:
        """Records that make a new state equal to this one when applied."""
        if self.lost_until_ms:
            yield LossRecord(self.lost_until_ms)
        for principal in self.lost_principals:
            yield DropRecord(principal, "", 0)
        for book in self.books.values():
            yield from _records_of(book)
        for gone, into in self.merged.items():
            yield MergeRecord(gone, into)


def _enter(session: Session, book: Book, entry: SegmentRecord) -> None:
    session.used_ms = max(session.used_ms, entry.at_ms)
    if entry.reads:
        session.read(entry.read)
    for kept, found, most in (
        (session.turns, entry.turns, TURNS_MAX),
        (session.roots, entry.roots, ROOTS_MAX),
        (session.spoken, entry.spoken, SPOKEN_MAX),
    ):
        for one in prints(found):
            _renew(kept, one, None, most)
    session.shown.extend(entry.rows)
    session.rows += len(entry.rows)
    for made in entry.calls:
        calls = book.calls.setdefault(made.key, [])
        book.calls.move_to_end(made.key)
        if all(one.row != made or one.session != session.session for one in calls):
            calls.append(SessionCall(session.session, entry.at_ms, made))
        del calls[:-CALLS_MAX]
    _bound(book.calls, CALLS_MAX)
    for key in prints(entry.answers):
        for call in book.calls.get(key, ()):
            call.open = call.open and call.session != session.session


def _records_of(book: Book) -> Iterator[Record]:
    name = book.principal
    if book.read_until_ms:
        yield LossRecord(book.read_until_ms, name)
    if book.fetched_until_ms:
        yield FetchRecord(name, book.fetched_until_ms)
    parts: dict[MemoryId, list[int]] = {}
    for one, memory_id in book.recalls.items():
        parts.setdefault(memory_id, []).append(one)
    for memory_id, found in parts.items():
        yield RecalledRecord(name, memory_id, packed(found))
    for session in book.sessions.values():
        calls = tuple(one for one in book.all_calls() if one.session == session.session)
        yield SessionRecord(name, session.session, session.began_ms, session.parent)
        yield SessionKeysRecord(session.session, packed(session.keys))
        yield SegmentRecord(
            session.session,
            session.used_ms,
            turns=packed(session.turns),
            roots=packed(session.roots),
            spoken=packed(session.spoken),
            answers=packed({one.row.key for one in calls if not one.open}),
            rows=tuple(session.shown),
            calls=tuple(one.row for one in calls),
            reads=session.has_read,
            read=tuple(session.read_origins),
        )
        for wrote in session.writes:
            yield msgspec.structs.replace(wrote, session=session.session)
    yield from book.unplaced


def _renew(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    """Set a key as the newest; drop the oldest ones above `most`."""
    kept[key] = value
    kept.move_to_end(key)
    _bound(kept, most)


def _bound(kept: OrderedDict[_Key, _Value], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
