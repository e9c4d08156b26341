"""The ledger's state, computed from the ledger's records. No I/O, no clock, no randomness."""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeVar

from policy.model import MemoryId, SourceKind, meet
from policy.verdict import InvariantBroken
from proxy.ledger.hearsay import Hearsay
from proxy.ledger.records import (
    Began,
    CallRow,
    Conversed,
    Distrusted,
    Dropped,
    Entry,
    Forgotten,
    Gave,
    Heard,
    KeptBook,
    KeptSession,
    Keyed,
    Marked,
    Merged,
    Pinned,
    Recalled,
    Relayed,
    Row,
    Sieved,
    Typed,
    Wrote,
)
from proxy.ledger.sentences import Recalls, Sentences, prints

if TYPE_CHECKING:
    from proxy.ledger.records import Record

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

SESSIONS_MAX: Final = 256
"""Of one principal."""
SESSIONS_IN_ALL_MAX: Final = 2_048
CALLS_MAX: Final = 4_096
OPEN_MS: Final = 3_600_000
"""How long a call without a result counts as under way."""
FILES_MAX: Final = 256
"""Files of memory of one session that are told apart; others count as everything else."""
RELAYED_MAX: Final = 4_096
GAVE_MAX: Final = 4_096
READ_ORIGINS_MAX: Final = 8
PINS_MAX: Final = 16_384
CHANGED_MAX: Final = 1_000
ROWS_MAX: Final = 400
WRITES_MAX: Final = 400
TYPED_MAX: Final = 1_000
SPOKEN_MAX: Final = 50_000
DIGESTS_MAX: Final = 20_000
KEYS_MAX: Final = 20_000
CONVERSATIONS_MAX: Final = 2_000
LOST_PRINCIPALS_MAX: Final = 10_000


class ShownSegment:
    """A segment as `session show` lists it, with the turn that it came in."""

    __slots__ = ("at_ms", "row", "turn")

    def __init__(self, turn: int, at_ms: int, row: Row) -> None:
        self.turn = turn
        self.at_ms = at_ms
        self.row = row


class TypedTurn:
    """A turn that a person typed: the whole texts that it endorses, and its sentences."""

    __slots__ = ("parts", "record", "whole")

    def __init__(self, record: Typed) -> None:
        self.record = record
        self.whole = frozenset(prints(record.whole))
        self.parts = frozenset(prints(record.parts))


class CallMade:
    """A call that a model of a session made."""

    __slots__ = (
        "at_ms",
        "exact",
        "key",
        "mapped",
        "open",
        "parts",
        "row",
        "session",
        "spelled",
        "used",
    )

    def __init__(self, session: str, at_ms: int, row: CallRow) -> None:
        self.session = session
        self.at_ms = at_ms
        self.row = row
        # What identifies the call: the print of its id, and for a call in `Book.repeated`
        # `key_with_arguments`.
        self.key = row.key
        self.exact = frozenset(prints(row.exact))
        self.parts = frozenset(prints(row.parts))
        self.spelled = tuple(prints(row.spelled))
        self.open = True
        self.used = False
        # Whether a tool map says that this call writes a memory. A write that arrives over a relay
        # then names this call by its id.
        self.mapped = False


def key_with_arguments(key: int, arguments: int) -> int:
    """What tells calls with one id apart: the print of the id, together with the arguments'."""
    return key ^ arguments


class SessionState:
    """One session of one principal."""

    def __init__(self, principal: str, began: Began) -> None:
        self.principal = principal
        self.session = began.session
        self.parent = began.parent
        self.began_ms = began.at_ms
        self.used_ms = began.at_ms
        self.taint: SourceKind | None = None
        # For each memory file, by its fingerprint, the lowest label of what it brought in; key 0
        # has all the rest.
        self.brought: dict[int, SourceKind] = {}
        # Each fall of the session's taint: the label that it fell to, and the segment that lowered
        # it.
        self.falls: list[tuple[SourceKind, ShownSegment]] = []
        self.shown: deque[ShownSegment] = deque(maxlen=ROWS_MAX)
        self.turns = 0
        self.rows = 0
        self.keys: OrderedDict[int, None] = OrderedDict()
        self.conversations: OrderedDict[int, SourceKind] = OrderedDict()
        # For each turn the label that it had when it first came, and its conversation.
        self.labels: OrderedDict[int, tuple[SourceKind, int]] = OrderedDict()
        self.typed: deque[TypedTurn] = deque(maxlen=TYPED_MAX)
        self.spoken: OrderedDict[int, SourceKind] = OrderedDict()
        self.writes: deque[Wrote] = deque(maxlen=WRITES_MAX)
        # The turns whose text can no longer be searched, each with its lowest label.
        self.unread: dict[int, SourceKind] = {}

    def lower(self, label: SourceKind, shown: ShownSegment) -> None:
        """Lower the session's taint; it never rises."""
        low = label if self.taint is None else meet(self.taint, label)
        if self.taint is None or low is not self.taint:
            self.falls.append((low, shown))
            self.taint = low

    def bring(self, file: int, label: SourceKind) -> None:
        """Note the label of a text that a memory file brought into the context.

        With `file` 0, note any other text.
        """
        if file not in self.brought and len(self.brought) >= FILES_MAX:
            file = 0
        self.brought[file] = meet(self.brought.get(file, label), label)

    def taint_but(self, file: int) -> SourceKind:
        """The session's taint without what one file brought in.

        An edit of a file is not lowered by what was read from that same file.
        """
        taint = SourceKind.UNKNOWN if self.taint is None else self.taint
        if file not in self.brought:
            return taint
        others = [label for one, label in self.brought.items() if one != file]
        return reduce(meet, others, SourceKind.MODEL_INFERENCE)

    @property
    def has_read(self) -> bool:
        """Whether the session has read foreign text; a session of which that is not known has."""
        return self.taint is None or self.taint.trust == 0

    @property
    def read_origins(self) -> tuple[str, ...]:
        """The tools that the session has read."""
        found = dict.fromkeys(one.row.tool for _, one in self.falls if one.row.tool)
        return tuple(found)[:READ_ORIGINS_MAX]

    def hide(self, digest: int, label: SourceKind) -> None:
        """Note that some text of the given turn can no longer be searched."""
        self.unread[digest] = meet(self.unread.get(digest, label), label)

    @property
    def blind(self) -> SourceKind | None:
        """The lowest label among the texts of the session that cannot be searched."""
        lowest: SourceKind | None = None
        for label in self.unread.values():
            lowest = label if lowest is None else meet(lowest, label)
        return lowest


class Book:
    """Everything that is known of one principal."""

    def __init__(self, principal: str, hearsay: Hearsay) -> None:
        self.principal = principal
        self.sentences = Sentences(principal, hearsay)
        self.recalls = Recalls()
        self.sessions: OrderedDict[str, SessionState] = OrderedDict()
        # Names, reply ids and history hashes, with the newest session that has them.
        self.keys: dict[int, str] = {}
        self.calls: OrderedDict[int, CallMade] = OrderedDict()
        # Ids of calls that occurred in two replies: they identify no call any more.
        self.ambiguous: OrderedDict[int, None] = OrderedDict()
        # The calls with such ids, by `CallMade.key` and session. They say nothing about a write;
        # they are kept to know which of them has no result yet.
        self.repeated: OrderedDict[tuple[int, str], CallMade] = OrderedDict()
        # About calls without a result that were dropped for lack of room: the lowest taint of their
        # sessions, and the time of the newest call.
        self.unanswered: tuple[SourceKind, int] | None = None
        self.relayed: OrderedDict[int, Relayed] = OrderedDict()
        self.unplaced: deque[Wrote] = deque(maxlen=WRITES_MAX)
        # Prints of the texts that the gate itself gave this principal's agent, each with the call
        # that it answered (0: not known). A dropped one is no longer known as the gate's, so that
        # it counts as the words of the tool that shows it.
        self.gave: OrderedDict[tuple[int, int], None] = OrderedDict()
        self.distrusted_until_ms = 0
        # The lowest taint of the sessions that were dropped, and until when that taint counts.
        self.dropped: tuple[SourceKind, int] | None = None

    def make_room(self, now_ms: int) -> None:
        """Keep a bounded number of calls. Those that are over go first; the others still count."""
        self._make_room_in(self.calls, now_ms)
        self._make_room_in(self.repeated, now_ms)

    def _make_room_in(self, calls: OrderedDict[_Key, CallMade], now_ms: int) -> None:
        while len(calls) > CALLS_MAX:
            over = (
                key for key, call in calls.items() if not call.open or call.at_ms + OPEN_MS < now_ms
            )
            gone = calls.pop(next(over, next(iter(calls))))
            if gone.open:
                self._lose(gone.session, gone.at_ms)

    def repeat(self, call: CallMade) -> CallMade:
        """Keep a call whose id occurred in two replies; returns the one that is kept.

        The same call once more, in the same session, is the one that is kept already.
        """
        call.key = key_with_arguments(call.row.key, call.row.arguments)
        return self.repeated.setdefault((call.key, call.session), call)

    def all_calls(self) -> list[CallMade]:
        """All calls that are kept, oldest first."""
        return sorted((*self.calls.values(), *self.repeated.values()), key=lambda one: one.at_ms)

    def move_calls(self, gone: str, into: str) -> None:
        """Give the calls of a session to the session that it was merged into."""
        for call in self.all_calls():
            if call.session == gone:
                call.session = into
                if self.repeated.pop((call.key, gone), None) is not None:
                    self.repeat(call).open |= call.open

    def lose_calls(self, session: str) -> None:
        """Drop the calls of a session."""
        self._lose_in(self.calls, session)
        self._lose_in(self.repeated, session)

    def _lose_in(self, calls: OrderedDict[_Key, CallMade], session: str) -> None:
        for key in [key for key, call in calls.items() if call.session == session]:
            gone = calls.pop(key)
            if gone.open:
                self._lose(session, gone.at_ms)

    def _lose(self, session: str, at_ms: int) -> None:
        there = self.sessions.get(session)
        taint = SourceKind.UNKNOWN if there is None or there.taint is None else there.taint
        low, newest_ms = self.unanswered or (taint, 0)
        self.unanswered = (meet(low, taint), max(newest_ms, at_ms))

    def below(self, call: CallMade) -> SourceKind | None:
        """The lowest taint among the sessions that began during a given call."""
        lowest: SourceKind | None = None
        for one in self.sessions.values():
            if one.parent == call.session and one.began_ms >= call.at_ms:
                taint = SourceKind.UNKNOWN if one.taint is None else one.taint
                lowest = taint if lowest is None else meet(lowest, taint)
        return lowest


class State:
    """The state of all principals. Only `apply` changes it, and `put` for a snapshot's session."""

    def __init__(self) -> None:
        self.books: OrderedDict[str, Book] = OrderedDict()
        self.hearsay = Hearsay()
        self.sessions: OrderedDict[str, SessionState] = OrderedDict()
        self.pins: OrderedDict[tuple[str, str], set[int]] = OrderedDict()
        # Tools whose description changed, with the digests of the new ones; not stored.
        self.changed: OrderedDict[tuple[str, str], int] = OrderedDict()
        self.merged: OrderedDict[str, str] = OrderedDict()
        self.distrusted_until_ms = 0
        # Principals whose book was dropped: what they read before is unknown.
        self.lost_principals: OrderedDict[str, None] = OrderedDict()

    @property
    def pins_full(self) -> bool:
        """Whether the table of known tool descriptions is full.

        While it is, a new tool is not approved by being seen.
        """
        return len(self.pins) >= PINS_MAX

    def change(self, tenant: str, tool: str, digest: int) -> None:
        """Note a tool with an unapproved description."""
        self.changed.pop((tenant, tool), None)
        self.changed[tenant, tool] = digest
        _bound(self.changed, CHANGED_MAX)

    def book(self, principal: str) -> Book:
        """Everything that is known of a principal; an empty book is created if needed."""
        book = self.books.get(principal)
        if book is None:
            book = self.books[principal] = Book(principal, self.hearsay)
        return book

    def session(self, session: str) -> SessionState | None:
        """The session with this id; also by the id of a session that was merged into it."""
        return self.sessions.get(self.merged.get(session, session))

    def root(self, session: str) -> str:
        """The session at the top of a chain of calls.

        If the session began under no call, it is the session itself.
        """
        passed: set[str] = set()
        while session not in passed:
            passed.add(session)
            session = self.merged.get(session, session)
            there = self.sessions.get(session)
            session = there.parent if there is not None and there.parent else session
        return session

    def apply(self, record: Record) -> None:
        """Apply one record. Applying the same record twice changes nothing."""
        match record:
            case Began():
                self._began(record)
            case Keyed() | Conversed() | Entry() | Wrote():
                self._told(record)
            case Merged():
                self._merge(record)
            case Pinned():
                self.pins.setdefault((record.tenant, record.tool), set()).add(record.digest)
                self.changed.pop((record.tenant, record.tool), None)
            case Dropped():
                self._drop(record)
            case Distrusted():
                self._distrust(record)
            case Recalled() | Relayed() | Heard() | Marked() | Forgotten() | Gave():
                self._noted(self.book(record.principal), record)
            case Sieved():
                self.hearsay.restore(record)
            case KeptSession() | KeptBook():
                raise InvariantBroken("a record of a snapshot is restored, not applied")

    def _began(self, record: Began) -> None:
        if record.session not in self.sessions:
            session = SessionState(record.principal, record)
            self.sessions[record.session] = session
            self.book(record.principal).sessions[record.session] = session

    def put(self, session: SessionState) -> None:
        """Insert a session from a snapshot."""
        book = self.book(session.principal)
        self.sessions[session.session] = book.sessions[session.session] = session
        for key in session.keys:
            book.keys[key] = session.session

    def _told(self, record: Keyed | Conversed | Entry | Wrote) -> None:
        session = self.session(record.session)
        if session is None:
            if isinstance(record, Wrote) and not record.session:
                _once(self.book(record.principal).unplaced, record)
            return
        book = self.book(session.principal)
        match record:
            case Keyed():
                for key in prints(record.keys):
                    session.keys[key] = None
                    book.keys[key] = session.session
                while len(session.keys) > KEYS_MAX:
                    book.keys.pop(session.keys.popitem(last=False)[0], None)
            case Conversed():
                there = session.conversations.get(record.root)
                most = record.most if there is None else meet(there, record.most)
                session.conversations[record.root] = most
                _bound(session.conversations, CONVERSATIONS_MAX)
            case Entry():
                _enter(session, book, record)
            case Wrote():
                _wrote(session, book, record)

    def _noted(
        self, book: Book, record: Recalled | Relayed | Heard | Marked | Forgotten | Gave
    ) -> None:
        match record:
            case Heard():
                _hear(book, record)
            case Recalled():
                found = prints(record.parts)
                book.recalls.served(found, record.label, MemoryId(record.memory_id))
                book.sentences.heard(found, record.label.trust)
            case Relayed():
                book.relayed[record.key] = record
                call = book.calls.get(record.key)
                if call is not None:
                    call.open = False
                _bound(book.relayed, RELAYED_MAX)
            case Gave():
                for one in prints(record.texts):
                    book.gave[record.call, one] = None
                    book.gave.move_to_end((record.call, one))
                _bound(book.gave, GAVE_MAX)
            case Marked():
                book.sentences.restore(record.code, prints(record.prints))
            case Forgotten():
                book.sentences.forgotten.restore(record.bits)

    def _merge(self, record: Merged) -> None:
        gone = self.sessions.pop(record.gone, None)
        into = self.session(record.into)
        if gone is None or into is None:
            return
        book = self.book(gone.principal)
        book.sessions.pop(gone.session, None)
        self.merged[record.gone] = into.session
        _bound(self.merged, SESSIONS_IN_ALL_MAX)
        for low, shown in gone.falls:
            into.lower(low, shown)
        for file, label in gone.brought.items():
            into.bring(file, label)
        into.shown.extend(gone.shown)
        into.turns += gone.turns
        into.rows += gone.rows
        into.used_ms = max(into.used_ms, gone.used_ms)
        into.keys |= gone.keys
        for digest, (label, root) in gone.labels.items():
            there, _ = into.labels.get(digest, (label, root))
            into.labels[digest] = (meet(there, label), root)
        into.typed.extend(gone.typed)
        into.writes.extend(gone.writes)
        # The texts of the merged session stay under its old id, which nobody asks for.
        for unread in (gone.unread, unread_of(gone)):
            _lower(into.unread, unread)
        _lower(into.conversations, gone.conversations)
        _lower(into.spoken, gone.spoken)
        for key, session in book.keys.items():
            if session == gone.session:
                book.keys[key] = into.session
        book.move_calls(gone.session, into.session)

    def _drop(self, record: Dropped) -> None:
        book = self.books.get(record.principal)
        if book is None:
            return
        if not record.session:
            del self.books[record.principal]
            self.lost_principals[record.principal] = None
            _bound(self.lost_principals, LOST_PRINCIPALS_MAX)
            for name in book.sessions:
                self.sessions.pop(name, None)
            return
        if record.session in book.sessions:
            book.lose_calls(record.session)
        gone = book.sessions.pop(record.session, None)
        if gone is None:
            return
        del self.sessions[record.session]
        for key in gone.keys:
            if book.keys.get(key) == gone.session:
                del book.keys[key]
        taint = SourceKind.UNKNOWN if gone.taint is None else gone.taint
        low, until_ms = book.dropped or (taint, 0)
        book.dropped = (meet(low, taint), max(until_ms, gone.used_ms))

    def _distrust(self, record: Distrusted) -> None:
        if record.principal:
            book = self.book(record.principal)
            book.distrusted_until_ms = max(book.distrusted_until_ms, record.until_ms)
            self.lost_principals.pop(record.principal, None)
        else:
            self.distrusted_until_ms = max(self.distrusted_until_ms, record.until_ms)


def _lower(known: dict[int, SourceKind], more: dict[int, SourceKind]) -> None:
    """Set the label that a turn, or a conversation, has: the lower of the old and the new one."""
    for one, label in more.items():
        known[one] = meet(known.get(one, label), label)


def unread_of(session: SessionState) -> dict[int, SourceKind]:
    """Turns that a text may come from, although their own texts cannot be searched any more."""
    return {
        digest: label
        for digest, (label, _) in session.labels.items()
        if label.trust < SourceKind.MODEL_INFERENCE.trust
    }


def _enter(session: SessionState, book: Book, entry: Entry) -> None:
    session.used_ms = max(session.used_ms, entry.at_ms)
    known = session.labels.get(entry.digest)
    label = entry.label if known is None else meet(known[0], entry.label)
    session.labels[entry.digest] = (label, entry.root)
    _bound(session.labels, DIGESTS_MAX)
    if known is not None and label is known[0]:
        return
    session.turns += known is None
    # The model's own words get the label of what the session had read before they were said.
    is_reply = bool(entry.spoken or entry.calls)
    for row in entry.rows:
        shown = ShownSegment(session.turns, entry.at_ms, row)
        session.shown.append(shown)
        session.rows += 1
        session.lower(row.label, shown)
        if not is_reply:
            session.bring(row.file, row.label)
    for typed in entry.typed:
        session.typed.append(TypedTurn(typed))
    for one in prints(entry.spoken):
        session.spoken[one] = meet(session.spoken.get(one, entry.label), entry.label)
    _bound(session.spoken, SPOKEN_MAX)
    book.sentences.typed(prints(entry.own))
    book.sentences.told(prints(entry.host))
    _hear(book, entry)
    for made in entry.calls:
        _called(session, book, entry.at_ms, made)
    for key in prints(entry.answers):
        call = book.calls.get(key) or book.repeated.get((key, session.session))
        if call is not None:
            call.open = False


def _hear(book: Book, record: Entry | Heard) -> None:
    sentences = book.sentences
    sentences.tenant = record.tenant or sentences.tenant
    for trust, found in record.foreign:
        sentences.heard(prints(found), trust)
    for trust, found in record.shared:
        sentences.shared(prints(found), trust, record.at_ms)


def _called(session: SessionState, book: Book, at_ms: int, row: CallRow) -> None:
    there = book.calls.get(row.key)
    made = CallMade(session.session, at_ms, row)
    if there is not None and there.row == row and there.session == made.session:
        return
    if there is None and row.key not in book.ambiguous:
        book.calls[row.key] = made
    else:
        # An id that occurred in two replies does not identify a call.
        book.ambiguous[row.key] = None
        _bound(book.ambiguous, CALLS_MAX)
        if there is not None:
            book.repeat(book.calls.pop(row.key))
        book.repeat(made)
    book.make_room(at_ms)


def _wrote(session: SessionState, book: Book, wrote: Wrote) -> None:
    _once(session.writes, wrote)
    for key in prints(wrote.calls):
        call = book.calls.get(key)
        if call is not None:
            call.used = True
            # The call is one of a memory tool, so no conversation begins under it.
            call.open, call.mapped = False, True


def _once(writes: deque[Wrote], wrote: Wrote) -> None:
    if all(one.candidate_id != wrote.candidate_id for one in writes):
        writes.append(wrote)


def _bound(kept: OrderedDict[_Key, _Value], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
