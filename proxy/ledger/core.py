"""The session ledger without its file: what entered each context, and from where. Pure.

Time and random ids are passed in. Each change is a record that was applied; the caller makes the
records durable.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import msgspec

from policy.bounded import Bounded
from policy.model import Memory, Origin, PrincipalId
from policy.text.skeleton import skeleton
from proxy.dialects.model.transcript import ModelCall, ModelReply, ModelRequest, Turn
from proxy.ledger.fingerprinter import strings_in
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
    packed,
)
from proxy.ledger.ring import PRINTS_MAX, Ring, RingText
from proxy.ledger.session_match import TurnHashes, TurnHistory, place_of, summed_up
from proxy.ledger.state import (
    LIVE_MS,
    OPEN_MS,
    SESSIONS_IN_ALL_MAX,
    SESSIONS_MAX,
    Book,
    LedgerState,
    Session,
)
from proxy.ledger.turn_reader import (
    RecalledSpan,
    Text,
    TurnRead,
    TurnReader,
    name_of,
    origin_of,
)
from proxy.seams.by_identity import ByPast, past_of
from proxy.seams.guard import RelayedText
from proxy.seams.operation import EarlierText

PRINCIPALS_MAX: Final = 64
READS_MAX: Final = 20_000
"""The most turns whose readings are cached; a turn that is not cached is read again."""
INDEXED_MAX: Final = 50_000
SERVED_MAX: Final = 128
"""The most served memories whose fingerprints are cached, in at most 16 MB."""
ABOVE_MAX: Final = 65_536
"""How many characters a usual system prompt has; up to this length it does not count as unread."""
FOREIGN_METHODS: Final = frozenset({"resources/read", "prompts/get"})
"""Methods of MCP whose answers a host puts into a conversation without a call of the model."""


Spans: TypeAlias = tuple[RecalledSpan, ...]


class RequestFindings(NamedTuple):
    """The result of reading a request: its session, and the served memories in its turns.

    `turns` maps the index of a turn to the served memories in that turn.
    """

    session: str
    system: Spans = ()
    turns: Mapping[int, Spans] = {}


class Moment(NamedTuple):
    """When a request came, an id for a new session, and whether its user turns are foreign."""

    now_ms: int
    fresh_id: str
    reads_foreign: bool = False


class _UnderWay(threading.local):
    """The records of a request that is still being read, kept by the thread that reads it."""

    records: list[Record] | None = None


class Core:
    """The session ledgers of all principals.

    One caller at a time; a long request is read in slices. Between two slices requests of other
    tenants may read and change the ledger.
    """

    def __init__(self, key: bytes) -> None:
        self.state = LedgerState()
        self.reader = TurnReader(key)
        self._served = lru_cache(SERVED_MAX)(self.reader.served)
        self._numbering = TurnHashes(self.reader)
        self._rings: OrderedDict[str, Ring] = OrderedDict()
        # The memories that were found in a session's turn, by its digest: requests repeat turns.
        self._reads = Bounded[tuple[str, int], Spans](READS_MAX)
        # For each beginning of a conversation, the session that last read it, and the findings.
        self._pasts: ByPast[Turn, RequestFindings] = ByPast()
        # For each indexed text (principal, session, fingerprint) its key in the principal's ring.
        self._indexed = Bounded[tuple[str, str, int], int](INDEXED_MAX)
        self._records: list[Record] = []
        self._under_way = _UnderWay()

    @contextmanager
    def whole(self) -> Generator[None]:
        """While the block runs, collect the records of one request: the log gets all or none."""
        found = self._under_way.records = []
        try:
            yield
        finally:
            self._under_way.records = None
            self._records += found

    def take(self) -> list[Record]:
        """Remove the records that were made since the last call of this method; return them."""
        records, self._records = self._records, []
        return records

    def do(self, record: Record) -> None:
        """Apply a record, and queue it for the log."""
        self.state.apply(record)
        under_way = self._under_way.records
        (self._records if under_way is None else under_way).append(record)

    # ---- requests --------------------------------------------------------------------------------

    def history(self, request: ModelRequest) -> TurnHistory:
        """The hashes of a request's turns."""
        return self._numbering.history(request)

    def unread_len(
        self, principal_id: PrincipalId, request: ModelRequest, history: TurnHistory
    ) -> int:
        """How many characters of this request were not read yet; changes nothing in the ledger."""
        book = self.state.books.get(principal_id)
        known = () if book is None else (book.keys.get(history.chain[at]) for at in history.models)
        session = next((one for one in known if one), "")
        above = sum(len(said.text) for said in request.system)
        read, _ = self._before(request, session)
        fresh = zip(history.digests[read:], history.lengths[read:], strict=True)
        unread = sum(length for one, length in fresh if (session, one) not in self._reads)
        return (above if above > ABOVE_MAX else 0) + unread

    def _before(self, request: ModelRequest, session: str) -> tuple[int, RequestFindings]:
        """How many of the first turns this session has read before, and what was found in them."""
        read, entered = self._pasts.longest(request.turns, RequestFindings(session))
        return (read, entered) if entered.session == session else (0, RequestFindings(session))

    def entered(
        self,
        principal_id: PrincipalId,
        request: ModelRequest,
        moment: Moment,
        history: TurnHistory | None = None,
    ) -> RequestFindings:
        """Read the new parts of a request, and record them in the session that it continues."""
        history = history or self._numbering.history(request)
        book = self.book(principal_id, moment.now_ms)
        place = place_of(book, request, history, self.reader)
        parent = ""
        if not place.sessions:
            earlier = summed_up(book, request, self.reader)
            parent = self._parent(book, history, moment.now_ms) or (earlier or ("",))[0]
        session = self._one(book, place.sessions, parent, moment)
        book.sessions.move_to_end(session.session)
        read, before = self._before(request, session.session)
        models = history.models[bisect_left(history.models, read) :]
        unseen = place.astray or any(
            history.digests[at] not in session.turns
            and not self.reader.saw_reply(request.turns[at], session, book)
            for at in models
        )
        self._key(book, session, [history.chain[at] for at in models])
        found = _Brought(session, moment.now_ms)
        if unseen:
            found.row(SegmentRow("history", 0, reads=True))
        if request.searches and not session.has_read:
            # Results of a search by the model's provider show nowhere but in the model's words.
            found.row(SegmentRow("provider", 0, reads=True))
        told = (book, session, history.calls, found)
        system = self._turn(
            Turn(said=request.system),
            self.reader.digest(["system", *(said.text for said in request.system)]),
            *told,
            reads_foreign=False,
        )
        turns = {**before.turns}
        for at in range(read, len(request.turns)):
            turn, digest = request.turns[at], history.digests[at]
            spans = self._turn(turn, digest, *told, reads_foreign=moment.reads_foreign)
            if spans:
                turns[at] = spans
        if history.root not in session.roots:
            found.roots.append(history.root)
        self._note(found)
        past = past_of(request.turns)
        if past is not None and read < len(past.values):
            inside = {at: spans for at, spans in turns.items() if at < len(past.values)}
            self._pasts[past] = RequestFindings(session.session, turns=inside)
        return RequestFindings(session.session, system, turns)

    def _turn(
        self,
        turn: Turn,
        digest: int,
        book: Book,
        session: Session,
        calls: Mapping[str, ModelCall],
        found: _Brought,
        *,
        reads_foreign: bool,
    ) -> Spans:
        name = (session.session, digest)
        known = self._reads.get(name)
        if known is not None:
            self._reads.move_to_end(name)
            return known
        read = self.reader.turn(turn, book, session.session, calls, reads_foreign=reads_foreign)
        if digest not in session.turns:
            found.turn(digest, read)
        self._index(book.principal, session.session, read.texts)
        self._reads[name] = read.recalled
        return read.recalled

    @staticmethod
    def _parent(book: Book, history: TurnHistory, now_ms: int) -> str:
        """The session whose model made the newest call that is still open.

        A new conversation counts as begun by that call.
        """
        waiting = [
            one
            for one in book.all_calls()
            if one.open
            and one.row.key not in history.answered
            and one.at_ms + OPEN_MS >= now_ms
            and one.session in book.sessions
        ]
        return max(waiting, key=lambda one: one.at_ms).session if waiting else ""

    def _one(
        self, book: Book, sessions: tuple[Session, ...], parent: str, moment: Moment
    ) -> Session:
        if not sessions:
            self._make_room(book, moment.now_ms)
            self.do(SessionRecord(book.principal, moment.fresh_id, moment.now_ms, parent))
            return book.sessions[moment.fresh_id]
        for gone in sessions[1:]:
            self.do(MergeRecord(gone.session, sessions[0].session))
            self.ring_of(book.principal).merged(gone.session, sessions[0].session)
        return sessions[0]

    def _make_room(self, book: Book, now_ms: int) -> None:
        while len(book.sessions) >= SESSIONS_MAX:
            self.do(DropRecord(book.principal, next(iter(book.sessions)), now_ms))
        while len(self.state.sessions) >= SESSIONS_IN_ALL_MAX:
            other = next(one for one in self.state.books.values() if one.sessions)
            self.do(DropRecord(other.principal, next(iter(other.sessions)), now_ms))

    def _key(self, book: Book, session: Session, keys: list[int]) -> None:
        unknown = [key for key in keys if book.keys.get(key) != session.session]
        if unknown:
            self.do(SessionKeysRecord(session.session, packed(unknown)))

    def _note(self, found: _Brought) -> None:
        record = found.entry()
        if record is not None:
            self.do(record)

    # ---- replies of models -----------------------------------------------------------------------

    def replied(
        self,
        principal_id: PrincipalId,
        session_id: str,
        reply: ModelReply,
        now_ms: int,
        recalls: Collection[str] = (),
    ) -> None:
        """Record what a model said in a session, and the calls that it made.

        `recalls` are the ids of calls of tools that keep memory.
        """
        book = self.state.books.get(principal_id)
        session = self.state.session(session_id)
        if book is None or session is None or session.principal != principal_id:
            return
        found = _Brought(session, now_ms)
        if reply.heard:
            # The results of the provider's own tools are indexed before the model's words, because
            # the origins of the model's words are searched for in the index.
            read = self.reader.turn(
                Turn(said=reply.heard), book, session.session, {}, reads_foreign=True
            )
            found.turn(None, read)
            found.row(SegmentRow("provider", 0, reads=True))
            self._index(book.principal, session.session, read.texts)
        texts = [*reply.said]
        if any(reply.said):
            found.row(SegmentRow("model", sum(map(len, reply.said))))
        for call in reply.calls:
            found.calls.append(self._call_row(call, recalls=call.call_id in recalls))
            texts += strings_in(call.arguments)
        found.spoken += (one for text in texts for one in self.reader.parts(text))
        self._note(found)
        if reply.reply_id:
            key = self.reader.named("reply", reply.reply_id)
            self.do(SessionKeysRecord(session.session, packed([key])))
        ring = self.ring_of(principal_id)
        for text in texts:
            # A model's own words are no origin: the texts that they were made of are.
            derived = self.origins(ring.containing(text, session.session))
            if derived:
                self._add(principal_id, session.session, text, derived)

    def _call_row(self, call: ModelCall, *, recalls: bool) -> CallRow:
        strings = list(strings_in(call.arguments))
        return CallRow(
            key=self.reader.print(call.call_id),
            call_id=name_of(call.call_id),
            tool=name_of(call.name),
            server=name_of(call.server),
            arguments=self.reader.arguments(call.arguments),
            exact=packed(self.reader.print(skeleton(text)) for text in strings),
            parts=packed(one for text in strings for one in self.reader.parts(text)),
            recalls=recalls,
        )

    @staticmethod
    def origins(found: list[RingText]) -> tuple[Origin, ...]:
        """The origins of texts from which a text may have been copied or summarised."""
        return tuple(dict.fromkeys([origin for kept in found for origin in kept.origins]))

    # ---- served memories, and answers that relays saw --------------------------------------------

    def recalled(
        self, principal_id: PrincipalId, memories: tuple[Memory | EarlierText, ...], now_ms: int
    ) -> None:
        """Record memories that were served to this principal's agent."""
        recalls = self.book(principal_id, now_ms).recalls
        for memory in memories:
            beside = (memory.text, memory.metadata_json, memory.role, memory.actor)
            parts = self._served(tuple(filter(None, beside)))
            if set(map(recalls.get, parts)) - {memory.memory_id}:
                self.do(RecalledRecord(principal_id, memory.memory_id, packed(parts)))

    def saw(self, principal_id: PrincipalId, segment: RelayedText, now_ms: int) -> None:
        """Record a server's answer that a relay saw on its way to this principal's agent."""
        book = self.book(principal_id, now_ms)
        names = (segment.join.tool_use_id, segment.join.call_id)
        if any(self.reader.print(name) in book.calls for name in names if name):
            # The model front knows the call, so the answer is recorded with the session's next
            # request.
            return
        server, tool = name_of(segment.server), name_of(segment.tool)
        row = SegmentRow(
            "tool", 0, reads=True, server=server, tool=tool, call_id=name_of(segment.call_id)
        )
        if not self.knows(principal_id, segment):
            origin = msgspec.structs.replace(origin_of(row), kind=segment.kind)
            texts = (Text(text, origin) for text in segment.texts)
            self._indexed[self._segment(principal_id, segment)] = self._index(
                principal_id, "", texts
            )
        if segment.tool in FOREIGN_METHODS:
            # A host may put the answer into any of its conversations, most often into the next one
            # that it begins; no request shows which one.
            self.do(FetchRecord(principal_id, now_ms + LIVE_MS))
            for session in book.sessions.values():
                if not session.has_read and session.used_ms + LIVE_MS >= now_ms:
                    found = _Brought(session, session.used_ms)
                    found.row(msgspec.structs.replace(row, channel="resource"))
                    self._note(found)

    def knows(self, principal_id: str, segment: RelayedText) -> bool:
        """Whether an equal segment was recorded before, and all of its texts are indexed still."""
        name = self._segment(principal_id, segment)
        known = self._indexed.get(name)
        # Segments that have no print, because they are not JSON, are not equal for that.
        return name[2] != 0 and known is not None and self.ring_of(principal_id).keeps(known)

    def _segment(self, principal_id: str, segment: RelayedText) -> tuple[str, str, int]:
        said = [segment.server, segment.tool, segment.kind.value, *segment.texts]
        return principal_id, "", self.reader.arguments(said)

    def ring_of(self, principal_id: str) -> Ring:
        """The bounded index (ring) of the texts that entered a principal's contexts."""
        ring = self._rings.get(principal_id)
        if ring is None:
            ring = self._rings[principal_id] = Ring()
        self._rings.move_to_end(principal_id)
        return ring

    def _index(self, principal_id: str, session: str, texts: Iterable[Text]) -> int:
        """Index texts; return the key of the oldest one in the principal's ring."""
        added = [self._add(principal_id, session, text, (origin,)) for text, origin in texts]
        return min(added, default=0)

    def _add(self, principal_id: str, session: str, text: str, origins: tuple[Origin, ...]) -> int:
        ring = self.ring_of(principal_id)
        tools = [f"{one.server}\0{one.tool}" for one in origins]
        name = (principal_id, session, self.reader.digest([text, *tools]))
        known = self._indexed.get(name)
        if known is not None and ring.keeps(known):
            return known
        key = self._indexed[name] = ring.next
        ring.add(text, origins, session=session)
        self._bound_rings()
        return key

    @property
    def print_count(self) -> int:
        """The number of fingerprints in the indexes of all principals."""
        return sum(ring.print_count for ring in self._rings.values())

    def _bound_rings(self) -> None:
        """Keep the indexes of all principals within their common bound."""
        while self.print_count > PRINTS_MAX:
            largest = max(self._rings.values(), key=lambda ring: ring.print_count)
            largest.drop()

    # ---- erasing what the ledger has of a person -----------------------------------------------

    def forget(
        self,
        principal: str | None,
        sessions: Mapping[str, str],
        memory_ids: Collection[str],
        now_ms: int,
    ) -> None:
        """Drop a person's sessions, all else of the principal, and prints of served memories."""
        for session, whose in sessions.items():
            self.do(DropRecord(whose, session, now_ms))
        if principal is not None:
            self.do(DropRecord(principal, "", now_ms))
            self._rings.pop(principal, None)
            self._indexed.clear()
        # The next snapshot lacks these prints too.
        for book in self.state.books.values():
            for one in [one for one, known in book.recalls.items() if known in memory_ids]:
                del book.recalls[one]

    # ---- limits on what the ledger keeps ---------------------------------------------------------

    def book(self, principal_id: str, now_ms: int) -> Book:
        """Everything that is known of a principal (its book).

        For a new principal, the book that was inactive for longest may be dropped to make room.
        """
        books = self.state.books
        if principal_id in books:
            books.move_to_end(principal_id)
            return books[principal_id]
        while len(books) >= PRINCIPALS_MAX:
            oldest = next(iter(books))
            self._rings.pop(oldest, None)
            self._indexed.clear()
            self.do(DropRecord(oldest, "", now_ms))
        book = self.state.book(principal_id)
        if principal_id in self.state.lost_principals:
            self.do(LossRecord(now_ms + LIVE_MS, principal_id))
        return book


class _Brought:
    """What a request or a reply brings into a session, collected while it is read."""

    def __init__(self, session: Session, now_ms: int) -> None:
        self._session = session.session
        self._now_ms = now_ms
        self._turns: list[int] = []
        self._answers: list[int] = []
        self._rows: list[SegmentRow] = []
        self._read: set[str] | None = None
        self._turn_count = len(session.turns)
        self.roots: list[int] = []
        self.spoken: list[int] = []
        self.calls: list[CallRow] = []

    def row(self, row: SegmentRow) -> None:
        self._rows.append(msgspec.structs.replace(row, at_ms=self._now_ms, turn=self._turn_count))
        if row.reads:
            self._read = self._read or set()

    def turn(self, digest: int | None, read: TurnRead) -> None:
        """Add a turn that is new in its session; with no digest, add the words of a reply."""
        if digest is not None:
            self._turns.append(digest)
            self._turn_count += 1
        for row in read.rows:
            self.row(row)
        self._answers += read.answers
        if read.reads is not None:
            self._read = (self._read or set()) | read.reads

    def entry(self) -> SegmentRecord | None:
        """The record of what was collected; None if nothing in it is new."""
        found = (self._turns, self._answers, self._rows, self.roots, self.spoken, self.calls)
        if not any(found):
            return None
        return SegmentRecord(
            self._session,
            self._now_ms,
            turns=packed(self._turns),
            roots=packed(self.roots),
            spoken=packed(self.spoken),
            answers=packed(self._answers),
            rows=tuple(self._rows),
            calls=tuple(self.calls),
            reads=self._read is not None,
            read=tuple(sorted(self._read or ())),
        )
