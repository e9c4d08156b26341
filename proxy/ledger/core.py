"""The session ledger without its file: what entered each context, and which labels follow. Pure.

Time and random ids are passed in. Each change is a record that was applied; the caller makes the
records durable.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from policy.model import Origin, SourceKind, meet
from policy.text.skeleton import skeleton
from proxy.dialects.model.memory_tools import folded, servers_by
from proxy.dialects.model.tools import Declared
from proxy.dialects.model.transcript import Turn
from proxy.ledger.reading import Reader
from proxy.ledger.records import (
    CallRow,
    Distrusted,
    Dropped,
    Entry,
    Heard,
    Keyed,
    Recalled,
    Relayed,
    Row,
)
from proxy.ledger.ring import PRINTS_MAX, Ring
from proxy.ledger.sentences import packed
from proxy.ledger.state import State
from proxy.ledger.texts import across, spelled_in, strings_in, strings_of
from proxy.ledger.turn_values import Text, TurnGround

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from policy.model import Memory, PrincipalId
    from proxy.dialects.model.transcript import ModelCall, ModelReply
    from proxy.ledger.records import Record
    from proxy.ledger.ring import RingText
    from proxy.ledger.splices import Rules
    from proxy.ledger.state import Book, CallMade, SessionState
    from proxy.ledger.turn_values import TurnRead
    from proxy.seams.guard import Segment
    from proxy.seams.operation import EarlierText

PRINCIPALS_MAX: Final = 64
DISTRUST_MS: Final = 3_600_000
"""How long nothing is believed after history was lost."""
INDEXED_MAX: Final = 50_000
AGAIN_MS: Final = 3_600_000
"""How long a server's text that comes again is not told again to what remembers it for weeks."""
_DERIVED_MAX: Final = 3
_NAME_LEN_MAX: Final = 128
_DECLARING: Final = frozenset({"initialize", "server/discover", "tools/list"})
"""What a server says of itself and its tools: pinned, and told to the model by its host."""


_Came: TypeAlias = "tuple[PrincipalId | str | SourceKind | int, ...]"


class _Stood(NamedTuple):
    """When something came, and its place in the index."""

    at_ms: int
    place: int


class _UnderWay(threading.local):
    """The records of a request that is still being read, kept by the thread that reads it."""

    records: list[Record] | None = None


class Core:
    """The session ledgers of all principals.

    One caller at a time; a long request is read in slices.

    Between two slices other requests may read and change the ledger, except those of the same
    tenant.
    """

    def __init__(self, key: bytes, rules: Rules) -> None:
        self.state = State()
        self.reader = Reader(key, rules)
        self._rings: OrderedDict[str, Ring] = OrderedDict()
        self.reads: OrderedDict[tuple[str, int], TurnRead] = OrderedDict()
        # For each indexed text its key in the principal's ring, so that a reply that comes back as
        # history is not indexed again.
        self._indexed: OrderedDict[tuple[str, int, bool], int] = OrderedDict()
        # For each text that a server sent: its key in the principal's ring, and when it last came.
        self._came: OrderedDict[_Came, _Stood] = OrderedDict()
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
        """The records that were made since the last call of this method, removed from the queue."""
        records, self._records = self._records, []
        return records

    def do(self, record: Record) -> None:
        """Apply a record, and keep it until it is written to the log."""
        self.state.apply(record)
        under_way = self._under_way.records
        (self._records if under_way is None else under_way).append(record)

    # ---- noting replies of models ----------------------------------------------------------------

    def replied(
        self, principal_id: PrincipalId, session_id: str, reply: ModelReply, now_ms: int
    ) -> None:
        """Note what a model said in a session, and the calls it made."""
        book = self.state.books.get(principal_id)
        session = self.state.session(session_id)
        if book is None or session is None or session.principal != principal_id:
            return
        if reply.heard:
            # What the provider's own tools told the model is indexed before the model's words,
            # because the origins of these words are searched in the index.
            self._heard(book, session, reply, now_ms)
        label = meet(SourceKind.MODEL_INFERENCE, taint_now(session))
        texts = [*reply.said]
        rows: list[Row] = []
        if any(reply.said):
            rows.append(Row("model", label, sum(map(len, reply.said))))
        calls: list[CallRow] = []
        for call in reply.calls:
            made = self._call_row(call)
            rows.append(Row("call", label, 0, "", made.server, made.tool, made.call_id))
            calls.append(made)
            texts += strings_in(call.arguments)
        parts = [one for text in texts for one in self.reader.parts(text)]
        told = self.reader.elsewhere(*texts, *across(texts), by_model=True)
        digest = self.reader.digest(
            [
                "reply",
                str(now_ms),
                reply.reply_id or "",
                *texts,
                *(call.call_id for call in reply.calls),
            ]
        )
        self.do(
            Entry(
                session=session.session,
                digest=digest,
                at_ms=now_ms,
                label=label,
                rows=tuple(rows),
                spoken=packed(parts),
                foreign=((label.trust, packed(told.short)),),
                shared=((label.trust, packed(told.long)),),
                tenant=book.sentences.tenant,
                calls=tuple(calls),
                answers=packed(
                    self.reader.print(one.call_id) for one in reply.heard if one.call_id
                ),
            )
        )
        if reply.reply_id:
            key = self.reader.named("reply", reply.reply_id)
            self.do(Keyed(session.session, packed([key])))
        found = tuple(Text(text, Origin(kind=label), by_model=True) for text in texts)
        self.index(book, session, digest, found)

    def _heard(self, book: Book, session: SessionState, reply: ModelReply, now_ms: int) -> None:
        """Note what a tool of the model's provider told the model, as its reply shows."""
        told = [one.text for one in reply.heard]
        ground = TurnGround(
            book=book,
            session=session,
            ring=self.ring_of(book.principal),
            digest=self.reader.digest(["heard", reply.reply_id or "", str(now_ms), *told]),
            root=0,
            now_ms=now_ms,
            most=SourceKind.UNKNOWN,
            lost=False,
            inherited=SourceKind.UNKNOWN,
        )
        read = self.reader.turn(Turn(said=reply.heard), ground)
        self.do(read.entry)
        self.index(book, session, ground.digest, read.texts)

    def _shown(
        self, book: Book, texts: Iterable[str], label: SourceKind, tenant: str, now_ms: int
    ) -> None:
        """Note words that an agent was shown outside of any session, such as a search's results."""
        told = self.reader.elsewhere(*texts)
        short, long = packed(told.short), packed(told.long)
        tenant = tenant or book.sentences.tenant
        trust = label.trust
        self.do(Heard(book.principal, now_ms, ((trust, short),), tenant, ((trust, long),)))

    def _call_row(self, call: ModelCall) -> CallRow:
        strings = list(strings_in(call.arguments))
        file = self.reader.file_of(call)
        return CallRow(
            key=self.reader.print(call.call_id),
            call_id=call.call_id[:_NAME_LEN_MAX],
            tool=call.name[:_NAME_LEN_MAX],
            server=(call.server or "")[:_NAME_LEN_MAX],
            arguments=self.reader.arguments(call.arguments),
            exact=packed(self.reader.print(skeleton(text)) for text in strings),
            parts=packed(one for text in strings for one in self.reader.parts(text)),
            file=0 if file is None else self.reader.named("file", file),
            spelled=packed(map(self.reader.print, spelled_in(call.arguments))),
        )

    @staticmethod
    def origins(found: list[RingText]) -> tuple[Origin, ...]:
        """The texts from which a text may have been copied or summarised.

        Where one of them is a model's own words, the texts behind those words stand in its place.
        """
        origins: list[Origin] = []
        for kept in found:
            for origin in (kept.origin,) if kept.derived is None else kept.derived:
                if origin not in origins:
                    origins.append(origin)
        return tuple(sorted(origins, key=lambda one: one.kind.trust))

    # ---- served memories, and answers that relays saw --------------------------------------------

    def recalled(
        self, principal_id: PrincipalId, memories: tuple[Memory | EarlierText, ...], now_ms: int
    ) -> None:
        """Note memories that were served to this principal's agent, under their labels."""
        book = self.book(principal_id, now_ms)
        recalls = book.recalls
        for memory in memories:
            label = memory.source
            texts = [one for one in (memory.text, *_beside(memory)) if one]
            parts = self.reader.served(texts)
            served = (label, memory.memory_id)
            if any(recalls.get(one) != served for one in parts):
                found = packed(parts)
                self.do(Recalled(principal_id, now_ms, memory.memory_id, label, found))
                self._shown(book, texts, label, memory.tenant, now_ms)

    def saw(
        self, principal_id: PrincipalId, segment: Segment, now_ms: int, tenant: str = ""
    ) -> None:
        """Note a server's answer that a relay saw on its way to this principal's agent."""
        book = self.book(principal_id, now_ms)
        names = (segment.join.tool_use_id, segment.join.call_id)
        keys = [self.reader.print(name) for name in names if name]
        server, tool = segment.server[:_NAME_LEN_MAX], segment.tool[:_NAME_LEN_MAX]
        texts = dict.fromkeys(segment.texts)
        exact = packed(self.reader.print(skeleton(text)) for text in texts if keys)
        made = [call for call in book.calls.values() if _is_answered_by(segment, keys, call)]
        echo = self.reader.is_echo(made, segment.texts)
        for key in keys:
            self.do(Relayed(principal_id, key, server, tool, segment.kind, exact))
        if echo:
            return
        if any(key in book.calls for key in keys):
            # The model front knows the call, so the answer is read later, when the session's next
            # request brings it in.
            return
        ring = self.ring_of(principal_id)
        call_id = segment.call_id[:_NAME_LEN_MAX]
        origin = Origin(kind=segment.kind, server=server, tool=tool, call_id=call_id)
        came = (principal_id, tenant, segment.kind, segment.server, segment.tool)
        # Each single text may be known while the sentence that runs from one into the next is new,
        # so all of them together are looked up as well.
        whole: _Came = (*came, "run", self.reader.digest([*segment.texts]))
        if not texts or self._stands(whole, ring, now_ms):
            return
        named: dict[str, _Came] = {text: (*came, self.reader.print(text)) for text in texts}
        new = [text for text, name in named.items() if not self._stands(name, ring, now_ms)]
        if segment.tool not in _DECLARING:
            self._shown(book, (*new, *across(segment.texts)), segment.kind, tenant, now_ms)
        for text in new:
            self._note(named[text], _Stood(now_ms, ring.next))
            ring.add(text, origin, session="", digest=0)
        # The whole of it stands no longer than the text in it that was indexed first.
        there = [self._came[name] for name in named.values() if name in self._came]
        if len(there) == len(named):
            self._note(whole, min(there))
        self._bound_rings()

    def _stands(self, name: _Came, ring: Ring, now_ms: int) -> bool:
        """Whether this answer or text came in the same way lately, and is still indexed.

        An agent reads its whole memory again and again, so such an answer is not indexed again.
        """
        there = self._came.get(name)
        return there is not None and now_ms - there.at_ms < AGAIN_MS and ring.keeps(there.place)

    def _note(self, name: _Came, came: _Stood) -> None:
        """Note when and where something came."""
        self._came[name] = came
        self._came.move_to_end(name)
        if len(self._came) > INDEXED_MAX:
            self._came.popitem(last=False)

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
            # The principal's ring (index of texts) is dropped as well, so keys that point into it
            # are void.
            self._came.clear()
            self.do(Dropped(oldest, "", now_ms))
        book = self.state.book(principal_id)
        if principal_id in self.state.lost_principals:
            self.do(Distrusted(now_ms + DISTRUST_MS, principal_id))
        return book

    def distrusts(self, book: Book, now_ms: int) -> bool:
        """Whether history was lost recently, so that nothing is trusted for a while."""
        return now_ms < max(self.state.distrusted_until_ms, book.distrusted_until_ms)

    def ring_of(self, principal_id: str) -> Ring:
        """The bounded index (ring) of the texts that entered a principal's contexts."""
        ring = self._rings.get(principal_id)
        if ring is None:
            ring = self._rings[principal_id] = Ring(self._lost, self.reader.once.readings)
        self._rings.move_to_end(principal_id)
        return ring

    def _lost(self, kept: RingText) -> None:
        """Mark a session as not completely searchable any more, because its text was dropped."""
        session = self.state.session(kept.session)
        kind = kept.origin.kind
        if session is not None and kind.trust < SourceKind.MODEL_INFERENCE.trust:
            session.hide(kept.digest, kind)

    def index(
        self, book: Book, session: SessionState, digest: int, texts: tuple[Text, ...]
    ) -> None:
        """Index the texts of a turn, to find later texts that are made of them."""
        ring = self.ring_of(book.principal)
        name = session.session
        for one in texts:
            if one.sealed:
                session.hide(digest, one.origin.kind)
                continue
            known, trust = (name, self.reader.print(one.text), one.by_model), one.origin.kind.trust
            if self._indexed.get(known, trust + 1) <= trust:
                # The text is indexed already, under a label that is at least as low. A copy with a
                # lower label, such as a tool's result, is indexed again, so that it is found even
                # if the model or a person said the same first.
                continue
            self._indexed[known] = trust
            if len(self._indexed) > INDEXED_MAX:
                self._indexed.popitem(last=False)
            made_of = None
            if one.by_model:
                made_of = self.origins(ring.containing(one.text, name))[:_DERIVED_MAX]
            if not ring.add(one.text, one.origin, session=name, digest=digest, derived=made_of):
                session.hide(digest, one.origin.kind)
        self._bound_rings()

    @property
    def print_count(self) -> int:
        """The number of fingerprints in the text indexes of all principals."""
        return sum(ring.print_count for ring in self._rings.values())

    def _bound_rings(self) -> None:
        while self.print_count > PRINTS_MAX:
            for ring in self._rings.values():
                if len(ring):
                    ring.drop()
                    break


def _is_answered_by(segment: Segment, keys: list[int], call: CallMade) -> bool:
    """Whether a text in a context (a segment) may be the server's answer to a write.

    Segment and write are compared by their ids, else by server and tool.
    """
    if keys or not call.mapped:
        return call.row.key in keys
    named = Declared(name=call.row.tool, server=call.row.server or None)
    return not {"", folded(segment.server)}.isdisjoint(servers_by(named, segment.tool))


def _beside(memory: Memory | EarlierText) -> list[str]:
    """The strings that a recall shows beside a memory's text, if they have room for a sentence."""
    found = [] if memory.metadata_json is None else [*strings_of(memory.metadata_json)][1:]
    return [*found, *(one for one in (memory.role, memory.actor) if one)]


def taint_now(session: SessionState) -> SourceKind:
    """The lowest label in a session's context; unknown for an empty context."""
    return SourceKind.UNKNOWN if session.taint is None else session.taint
