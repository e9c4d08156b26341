"""Reads a request: which parts are new, which session it continues, and the resulting taint.

Pure, like `proxy.ledger.core`, whose state it changes.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policy.labels.who_writes import SystemText, UserTurns
from policy.model import SourceKind, meet
from proxy.dialects.model.transcript import Turn, Voice
from proxy.ledger.core import taint_now
from proxy.ledger.joining import (
    Numbering,
    lowest_live,
    most_of,
    most_under_calls,
    over_in,
    place_of,
    summed_up,
)
from proxy.ledger.records import Began, Conversed, Dropped, Entry, Keyed, Merged, Pinned, Row
from proxy.ledger.sentences import packed
from proxy.ledger.state import OPEN_MS, SESSIONS_IN_ALL_MAX, SESSIONS_MAX
from proxy.ledger.texts import across, standing
from proxy.ledger.turn_values import TurnGround, TurnRead, TurnSum

if TYPE_CHECKING:
    from policy.model import Principal
    from proxy.dialects.model.transcript import ModelRequest
    from proxy.ledger.core import Core
    from proxy.ledger.joining import History
    from proxy.ledger.state import Book, SessionState

ABOVE_MAX: Final = 65_536
DESCRIBED_MAX: Final = 131_072
"""As long as prompts and descriptions of tools are that programs send again and again."""
READS_MAX: Final = 20_000
"""Turns whose reading is remembered; another one is read again."""
_NAME_LEN_MAX: Final = 128
_UNKNOWN_SINCE: Final = ("distrusted", "history_lost")


class Entered(msgspec.Struct, frozen=True, kw_only=True):
    """What reading a request found: its session, its taint, and the labels of its texts.

    The spans in `turns` and `system` cover every character.
    """

    session: str
    taint: SourceKind
    system: TurnRead
    turns: tuple[TurnRead, ...]
    # The tools whose description is not the approved one.
    changed_tools: frozenset[str] = frozenset()


class Moment(NamedTuple):
    """When a request came, an id for a new session, and what the operator says of the principal."""

    now_ms: int
    fresh_id: str
    # The tools that must not be approved by being seen.
    distrusted_tools: frozenset[str] = frozenset()
    user_turns: UserTurns | None = None
    system_text: SystemText = SystemText.KNOWN


class Entering:
    """Reads model requests, and notes in one ledger core what is new in them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._numbering = Numbering(core.reader)

    def entered(
        self,
        principal: Principal,
        request: ModelRequest,
        moment: Moment,
        history: History | None = None,
    ) -> Entered:
        """Read the new parts of a request, and return the label of its context.

        `history` has the hashes of the request's turns, if the caller has computed them.
        """
        with self._core.reader.once:
            history = history or self._numbering.history(request)
            return self._entered(principal, request, history, moment)

    def history(self, request: ModelRequest) -> History:
        """The hashes of a request's turns."""
        return self._numbering.history(request)

    def unread_len(self, principal: Principal, request: ModelRequest, history: History) -> int:
        """How many characters of this request nobody has read yet; changes nothing in the ledger.

        The number is never too low. In a known conversation, long texts outside of its turns (such
        as a system prompt) are counted as well.
        """
        session = ""
        book = self._core.state.books.get(principal.principal_id)
        if book is not None:
            known = (book.keys.get(history.chain[at]) for at in reversed(history.models))
            session = next((one for one in known if one), "")
        above = sum(len(said.text) for said in request.system)
        described = sum(len(said.text) for _, texts in request.catalogue for said in texts)
        beside = above + described
        if session:
            beside = (above if above > ABOVE_MAX else 0) + max(0, described - DESCRIBED_MAX)
        reads = self._core.reads
        fresh = [at for at, one in enumerate(history.digests) if (session, one) not in reads]
        return beside + sum(history.lengths[at] for at in fresh)

    def _entered(
        self, principal: Principal, request: ModelRequest, history: History, moment: Moment
    ) -> Entered:
        book = self._core.book(principal.principal_id, moment.now_ms)
        book.sentences.tenant = principal.tenant
        place = place_of(book, request, history, self._core.reader)
        earlier: tuple[SessionState, ...] = ()
        parent = ""
        if not place.sessions:
            earlier = summed_up(book, request, self._core.reader)
            sums_up = earlier[0].session if earlier else ""
            parent = self._parent(book, history, moment.now_ms) or sums_up
        session = self._one(book, place.sessions, parent, moment)
        book.sessions.move_to_end(session.session)
        if self._core.distrusts(book, moment.now_ms):
            self._note(session, "distrusted", moment.now_ms)
        if place.astray:
            self._note(session, "history_lost", moment.now_ms)
        most = most_of(book, session, request, history, moment.now_ms)
        # A turn whose label is low only because history was lost still counts as a person's.
        noted = any(self._noted(one) in session.labels for one in _UNKNOWN_SINCE)
        by_model = most is not SourceKind.USER_INPUT and not noted
        if place.astray or self._core.distrusts(book, moment.now_ms):
            most = SourceKind.UNKNOWN
        if session.conversations.get(history.root) is not most:
            self._core.do(Conversed(session.session, history.root, most))
        self._key(book, session, history)
        inherited = self._inherited(book, session, earlier, moment.now_ms)
        above = Turn(said=request.system)
        ground = TurnGround(
            book=book,
            session=session,
            ring=self._core.ring_of(principal.principal_id),
            digest=self._core.reader.digest(["system", *(said.text for said in request.system)]),
            root=history.root,
            now_ms=moment.now_ms,
            most=most,
            lost=False,
            inherited=inherited,
            user_turns=moment.user_turns,
            by_model=by_model,
            settled=bool(place.sessions) and moment.system_text is SystemText.KNOWN,
            model=request.model,
        )
        system = self._turn(above, ground) if request.system else TurnRead(SourceKind.OPERATOR, ())
        changed = self._catalogue(principal, request, ground, moment.distrusted_tools)
        turns = self._turns(request, history, ground)
        if request.searches:
            # Results of a search by the model's provider show nowhere but in the model's words.
            self._note(session, "searches", moment.now_ms, SourceKind.TOOL_RESULT)
            session.hide(self._core.reader.named("note", "searches"), SourceKind.TOOL_RESULT)
        return Entered(
            session=session.session,
            taint=taint_now(session),
            system=system,
            turns=turns,
            changed_tools=changed,
        )

    def unseen_tools(self, principal: Principal, request: ModelRequest) -> frozenset[str]:
        """Tools of the request that were never offered in this tenant before."""
        pins, tenant = self._core.state.pins, principal.tenant
        return frozenset(name for name, _ in request.catalogue if (tenant, name) not in pins)

    @staticmethod
    def _parent(book: Book, history: History, now_ms: int) -> str:
        """The session whose model made the newest call that is still open.

        A new conversation counts as begun by that call.
        """
        for call in reversed(book.all_calls()):
            answered = not call.open or call.key in history.answered
            if not answered and call.at_ms + OPEN_MS >= now_ms and call.session in book.sessions:
                return call.session
        return ""

    def _one(
        self, book: Book, sessions: tuple[SessionState, ...], parent: str, moment: Moment
    ) -> SessionState:
        if not sessions:
            self._make_room(book, moment.now_ms)
            began = Began(book.principal, moment.fresh_id, moment.now_ms, parent)
            self._core.do(began)
            return book.sessions[moment.fresh_id]
        for gone in sessions[1:]:
            self._core.do(Merged(gone.session, sessions[0].session))
            self._core.ring_of(book.principal).merged(gone.session, sessions[0].session)
        return sessions[0]

    def _make_room(self, book: Book, now_ms: int) -> None:
        while len(book.sessions) >= SESSIONS_MAX:
            self._core.do(Dropped(book.principal, next(iter(book.sessions)), now_ms))
        while len(self._core.state.sessions) >= SESSIONS_IN_ALL_MAX:
            other = next(one for one in self._core.state.books.values() if one.sessions)
            self._core.do(Dropped(other.principal, next(iter(other.sessions)), now_ms))

    def _key(self, book: Book, session: SessionState, history: History) -> None:
        keys = [history.chain[at] for at in history.models]
        unknown = [key for key in keys if book.keys.get(key) != session.session]
        if unknown:
            self._core.do(Keyed(session.session, packed(unknown)))

    def _turns(
        self, request: ModelRequest, history: History, ground: TurnGround
    ) -> tuple[TurnRead, ...]:
        session, known = ground.session, self._core.reads
        name = session.session
        reads = [known.get((name, digest)) for digest in history.digests]
        fresh = [at for at, read in enumerate(reads) if read is None]
        if fresh:
            lost_before = 0
            for at in history.models:
                if reads[at] is None and not self._core.reader.knows(request.turns[at], ground):
                    lost_before = at
            begins = _begins(request)
            over = over_in(ground.book, name, request, history)
            under = most_under_calls(ground.book, over, ground.now_ms)
            ground = ground._replace(given_up=tuple(call.key for call in over))
            for at in fresh:
                here = ground._replace(
                    digest=history.digests[at],
                    most=meet(
                        ground.most,
                        under if history.digests[at] not in session.labels else ground.most,
                    ),
                    lost=at < lost_before,
                    inherited=meet(ground.inherited, session.taint or ground.inherited),
                    begun=at > begins,
                )
                reads[at] = self._turn(request.turns[at], here)
        return tuple([read for read in reads if read is not None])

    @staticmethod
    def _inherited(
        book: Book, session: SessionState, earlier: tuple[SessionState, ...], now_ms: int
    ) -> SourceKind:
        """The label of a summary, by the sessions whose words it may sum up.

        It is the label of this session, of other sessions that said the words, or, if nobody is
        known to have said them, of any other session. A session that has read nothing has nothing
        to summarise, so its summary is of another session.
        """
        own = session.taint if session.falls else None
        if own is not None and own.trust < SourceKind.MODEL_INFERENCE.trust:
            return own
        if earlier:
            return reduce(meet, map(taint_now, earlier))
        other = lowest_live(book, now_ms, session.session)
        found = [one for one in (own, other) if one is not None]
        return meet(*found) if len(found) > 1 else found[0] if found else SourceKind.UNKNOWN

    def _turn(self, turn: Turn, ground: TurnGround) -> TurnRead:
        name = (ground.session.session, ground.digest)
        known = self._core.reads.get(name)
        if known is not None:
            self._core.reads.move_to_end(name)
            return known
        read = self._core.reader.turn(turn, ground)
        before = ground.session.labels.get(ground.digest)
        if before is not None and before[0].trust < read.entry.label.trust:
            # A call was open when the turn first came, or history was lost. After a restart neither
            # shows in the request, and the turn is still nobody's.
            ground = ground._replace(most=meet(ground.most, before[0]))
            read = self._core.reader.turn(turn, ground)
        if before is None or read.entry.label.trust < before[0].trust:
            self._core.do(read.entry)
        else:
            self._core.state.apply(read.entry)
        ground.session.unread.pop(ground.digest, None)
        self._core.index(ground.book, ground.session, ground.digest, read.texts)
        self._core.reads[name] = read.read
        if len(self._core.reads) > READS_MAX:
            self._core.reads.popitem(last=False)
        return read.read

    def _catalogue(
        self,
        principal: Principal,
        request: ModelRequest,
        ground: TurnGround,
        distrusted: frozenset[str],
    ) -> frozenset[str]:
        """Read the tool list.

        A tool keeps the label of its first description; a changed one is unknown.

        Returns the names of the tools whose description changed.
        """
        reader, model = self._core.reader, ground.model
        tools = [
            (name, reader.digest([standing(one.text, model) for one in said]), said)
            for name, said in request.catalogue
        ]
        whole = reader.digest([f"{name}\0{digest:x}" for name, digest, _ in tools])
        known = whole in ground.session.labels
        found, good = TurnSum(), 0
        changed: set[str] = set()
        for name, digest, said in tools:
            length = sum(len(one.text) for one in said)
            pins = self._core.state.pins.get((principal.tenant, name))
            if pins is None and not self._core.state.pins_full and name not in distrusted:
                self._core.do(Pinned(principal.tenant, name, digest))
            elif pins is None or (digest not in pins and reader.whole(said) not in pins):
                label, prints = reader.described(said, ground, settled=True)
                if pins is None or label is not SourceKind.AGENT_SELF_EDIT:
                    label, tool = label if pins else SourceKind.UNKNOWN, name[:_NAME_LEN_MAX]
                    self._core.state.change(principal.tenant, name, digest)
                    found.row(Row("catalogue", label, length, "changed", tool=tool))
                    changed.add(name)
                    if pins and not known:
                        texts = [one.text for one in said]
                        found.heard(reader.elsewhere(*texts, *across(texts)), label)
                    continue
            if not known:
                label, prints = reader.described(said, ground, settled=False)
                found.host += prints
                # After an operator's approval the earlier description no longer counts.
                if label is SourceKind.AGENT_SELF_EDIT or len(pins or ()) > 1:
                    good += length
                else:
                    tool = name[:_NAME_LEN_MAX]
                    found.row(Row("catalogue", label, length, "said_before", tool=tool))
        if tools and not known:
            if len(found.rows) < len(tools):
                found.rows.insert(0, Row("catalogue", SourceKind.AGENT_SELF_EDIT, good))
                found.lowest = meet(found.lowest, SourceKind.AGENT_SELF_EDIT)
            self._core.do(reader.read(found, ground._replace(digest=whole)).entry)
        return frozenset(changed)

    def _noted(self, why: str) -> int:
        return self._core.reader.named("note", why)

    def _note(
        self,
        session: SessionState,
        why: str,
        now_ms: int,
        label: SourceKind = SourceKind.UNKNOWN,
    ) -> None:
        """Note an event of the session itself that lowers its taint."""
        digest = self._noted(why)
        if digest not in session.labels:
            row = Row("history", label, 0, why)
            self._core.do(Entry(session.session, digest, now_ms, label, rows=(row,)))


def _begins(request: ModelRequest) -> int:
    """The index of the first turn that does not come from the agent's own program."""
    for at, turn in enumerate(request.turns):
        if any(said.voice is not Voice.SYSTEM for said in turn.said):
            return at
    return len(request.turns)
