"""The ledger's evidence about a candidate: which session wrote it, and what its text is made of.

Ids are tried first, and count only if the named call has the candidate's text. Then the text itself
is searched for. Otherwise the session is unknown, and the lowest taint of the principal's live
sessions counts. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.labels.endorsement import Asked
from policy.labels.taint import Joined, Seen
from policy.model import Origin, SourceKind, meet
from policy.text.skeleton import skeleton
from proxy.ledger.core import taint_now
from proxy.ledger.joining import lowest_live

if TYPE_CHECKING:
    from policy.labels.editing import Looked
    from policy.model import PrincipalId
    from proxy.ledger.core import Core
    from proxy.ledger.reading import Reader
    from proxy.ledger.records import Typed
    from proxy.ledger.ring import RingText
    from proxy.ledger.state import Book, CallMade, SessionState
    from proxy.seams.guard import Join

CONTAINED_MAX: Final = 8


class SeenCall(Seen, frozen=True, kw_only=True):
    """The evidence about a candidate, with the model's calls that it rests on."""

    calls: tuple[int, ...] = ()
    # The calls that the verdict is the answer of: those, and the call that a relay names.
    answers: tuple[int, ...] = ()
    # Whether the text alone would count as a person's own words, while a name or an id that is
    # stored beside it says something that she did not say.
    unsaid_name: bool = False


class _CandidateText:
    """A candidate's text as fingerprints."""

    def __init__(self, text: str, reader: Reader) -> None:
        self.text = text
        self.exact = reader.print(skeleton(text))
        self.parts = frozenset(reader.parts(text))

    def in_call(self, call: CallMade) -> bool:
        return self.exact in call.exact or (bool(self.parts) and self.parts <= call.parts)

    def in_session(self, session: SessionState) -> bool:
        """Whether a person's turn or the model's words in this session equal the text."""
        if not self.parts:
            return False
        if all(one in session.spoken for one in self.parts):
            return True
        return any(self.parts <= typed.parts for typed in session.typed)


def evidence(
    core: Core,
    principal_id: PrincipalId,
    texts: tuple[str, ...],
    now_ms: int,
    *,
    join: Join | None,
    wanted: Asked | None,
    looked: Looked | None,
) -> SeenCall:
    """What the ledger knows about a candidate: its session, its sources, its endorsement."""
    book = core.state.books.get(principal_id)
    if book is None:
        return SeenCall()
    asked = tuple(_CandidateText(text, core.reader) for text in texts if text)
    ring = core.ring_of(principal_id)
    # A call that edits a file also names the lines that it removes; a call that writes the whole
    # new text does not.
    come = asked if wanted is None else tuple(one for one in asked if one.text in wanted.texts)
    joined, session, calls, taint = _joined(book, asked, come or asked, core.reader, join)
    ids = () if join is None else (join.tool_use_id, join.call_id)
    answers = tuple(dict.fromkeys((*calls, *(core.reader.print(one) for one in ids if one))))
    if session is None:
        lowest = lowest_live(book, now_ms)
        found = [kept for one in asked for kept in ring.containing(one.text, None)]
        return SeenCall(
            taint=SourceKind.UNKNOWN if lowest is None else lowest,
            contained=core.origins(found)[:CONTAINED_MAX],
            answers=answers,
        )
    file = _file_of(book, calls)

    def elsewhere(found: list[RingText]) -> tuple[Origin, ...]:
        # An edit of a file keeps and moves words that stand in the file already, so the file is no
        # source of them.
        origins = core.origins(found)
        return tuple(one for one in origins if not _shows(book, core.reader, one, file))

    found = [kept for one in asked for kept in ring.containing(one.text, session.session)]
    contained = elsewhere(found)
    brought: tuple[Origin, ...] | None = None
    if looked is not None:
        parts = (*(one.text for one in asked), looked.fresh)
        found = [
            kept for one in parts for kept in ring.bringing(one, looked.known, session.session)
        ]
        brought = elsewhere(found)[:CONTAINED_MAX]
    blind = session.blind
    if blind is not None:
        # Texts that may contain the candidate's text, but that can no longer be searched.
        contained = tuple(sorted((Origin(kind=blind), *contained), key=lambda one: one.kind.trust))
    distrusted = core.distrusts(book, now_ms)
    turn = None if distrusted else _endorsing(session, wanted, core.reader)
    alone = None if wanted is None else Asked(texts=wanted.texts, sayable=True)
    return SeenCall(
        session=session.session,
        joined=joined,
        taint=SourceKind.UNKNOWN if distrusted else taint,
        contained=contained[:CONTAINED_MAX],
        brought=None if blind is not None else brought,
        endorsed=turn is not None,
        by_person=turn is not None and turn.by_person,
        whole=not distrusted and blind is None,
        calls=calls,
        answers=answers,
        unsaid_name=turn is None
        and not distrusted
        and _endorsing(session, alone, core.reader) is not None,
    )


def _joined(
    book: Book,
    asked: tuple[_CandidateText, ...],
    come: tuple[_CandidateText, ...],
    reader: Reader,
    join: Join | None,
) -> tuple[Joined, SessionState | None, tuple[int, ...], SourceKind]:
    ids = () if join is None else tuple(one for one in (join.tool_use_id, join.call_id) if one)
    named = [book.calls.get(reader.print(one)) for one in ids]
    calls = [one for one in named if one is not None]
    # An id is only a claim: it counts if the call with that id has the candidate's text.
    said = all(_says(call, come if call.row.file else asked) for call in calls)
    if calls and len(calls) == len(ids) and said:
        found = _meet(book, calls)
        if found is not None:
            keys = tuple(call.row.key for call in calls)
            file = _file_of(book, keys)
            return Joined.CALL, found[0], keys, found[0].taint_but(file) if file else found[1]
    if not asked:
        return Joined.NONE, None, (), SourceKind.UNKNOWN
    matching = [call for call in reversed(book.calls.values()) if _says(call, asked)]
    fresh = [call for call in matching if not call.used] or matching
    found = _meet(book, fresh)
    if found is not None:
        # If several calls have the text, the newest call counts, with the lowest label of all these
        # calls.
        return Joined.TEXT, found[0], (fresh[0].row.key,), found[1]
    sessions = [
        session
        for session in reversed(book.sessions.values())
        if all(one.in_session(session) for one in asked)
    ]
    if sessions:
        taint = taint_now(sessions[0])
        for session in sessions[1:]:
            taint = meet(taint, taint_now(session))
        return Joined.TEXT, sessions[0], (), taint
    return Joined.NONE, None, (), SourceKind.UNKNOWN


def _file_of(book: Book, calls: tuple[int, ...]) -> int:
    """The fingerprint of the memory file that this single call edits; 0 if it edits none."""
    call = book.calls.get(calls[0]) if len(calls) == 1 else None
    return 0 if call is None else call.row.file


def _shows(book: Book, reader: Reader, origin: Origin, file: int) -> bool:
    """Whether a text came into the context as the result of a call on this file."""
    call = None if origin.call_id is None else book.calls.get(reader.print(origin.call_id))
    return file != 0 and call is not None and call.row.file == file


def _says(call: CallMade, asked: tuple[_CandidateText, ...]) -> bool:
    return all(one.in_call(call) for one in asked)


def _meet(book: Book, calls: list[CallMade]) -> tuple[SessionState, SourceKind] | None:
    """The session of the first of these calls, and the lowest taint of the sessions of all."""
    sessions = [one for call in calls if (one := book.sessions.get(call.session)) is not None]
    if not sessions or len(sessions) < len(calls):
        return None
    taint = taint_now(sessions[0])
    for session in sessions[1:]:
        taint = meet(taint, taint_now(session))
    return sessions[0], taint


def _endorsing(session: SessionState, asked: Asked | None, reader: Reader) -> Typed | None:
    """The turn of a person in that session that has exactly the candidate's text.

    Where several people speak in the conversation, no turn counts.
    """
    wanted = None if asked is None else reader.wanted(asked)
    if wanted is None or len({typed.record.speaker for typed in session.typed}) > 1:
        return None
    found = [typed.record for typed in session.typed if wanted <= typed.whole]
    return max(found, key=lambda typed: typed.by_person, default=None)
