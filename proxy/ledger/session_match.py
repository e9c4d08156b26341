"""Which session a request continues: decided by its history, never by a name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from proxy.dialects.model.transcript import ContextText, ModelCall, ModelRequest, Turn, Voice
from proxy.ledger.fingerprinter import strings_in
from proxy.ledger.state import Book, Session
from proxy.ledger.turn_reader import TurnReader
from proxy.seams.by_identity import ByIdentity, ByPast

_SPOKEN_LOOKED_AT: Final = 64


class TurnHistory(NamedTuple):
    """Hashes of a request's turns and of the history up to each, and which turns are a model's.

    Turns of the agent's program do not change the hash of a history.
    """

    digests: tuple[int, ...] = ()
    chain: tuple[int, ...] = ()
    models: tuple[int, ...] = ()
    # The hash of the history up to the first user turn, which identifies a conversation; without
    # such a turn, that of the whole history.
    root: int = 0
    has_root: bool = False
    # The ids of calls that have a result in the request, or after which another turn followed.
    answered: frozenset[int] = frozenset()
    # The ids of calls of the last turn.
    made: tuple[int, ...] = ()
    # The number of characters of each turn.
    lengths: tuple[int, ...] = ()
    calls: Mapping[str, ModelCall] = {}


class SessionMatch(NamedTuple):
    """The sessions that a request belongs to, oldest first; several of them are merged."""

    sessions: tuple[Session, ...]
    # Whether the model's reply before the request's last turn was never seen by the ledger.
    astray: bool


class _Numbered(NamedTuple):
    """The hash of one turn, with the facts about the turn that a `TurnHistory` has."""

    digest: int
    by_model: bool
    by_user: bool
    by_host: bool
    answers: tuple[int, ...]
    made: tuple[int, ...]
    length: int


class TurnHashes:
    """Computes hashes of turns, and caches them, because a request repeats all earlier turns."""

    def __init__(self, reader: TurnReader) -> None:
        self._reader = reader
        self._same: ByIdentity[Turn, _Numbered] = ByIdentity()
        self._pasts: ByPast[Turn, TurnHistory] = ByPast()

    def history(self, request: ModelRequest) -> TurnHistory:
        """The hashes of a request's turns."""
        turns = request.turns
        return self._pasts.grown(
            turns,
            TurnHistory(),
            lambda begun, more: self._more(begun, turns[more.start : more.stop]),
        )

    def _more(self, begun: TurnHistory, turns: tuple[Turn, ...]) -> TurnHistory:
        """The history `begun`, extended by these turns."""
        digests: list[int] = []
        lengths: list[int] = []
        chain: list[int] = []
        models: list[int] = []
        answered: set[int] = set()
        made = begun.made
        root, has_root = begun.root, begun.has_root
        above = begun.chain[-1] if begun.chain else 0
        for at, turn in enumerate(turns, len(begun.digests)):
            numbered = self._same.get(turn)
            if numbered is None:
                numbered = self._same[turn] = self._number(turn)
            if not numbered.by_host:
                # The system prompt is left out: many programs write it anew for each request.
                above = self._reader.chained(above, numbered.digest)
            digests.append(numbered.digest)
            lengths.append(numbered.length)
            chain.append(above)
            if numbered.by_model:
                models.append(at)
            answered.update(made, numbered.answers)
            made = numbered.made
            if not has_root:
                root, has_root = above, numbered.by_user
        return TurnHistory(
            digests=(*begun.digests, *digests),
            chain=(*begun.chain, *chain),
            models=(*begun.models, *models),
            root=root,
            has_root=has_root,
            answered=begun.answered | answered,
            made=made,
            lengths=(*begun.lengths, *lengths),
            calls={**begun.calls, **{call.call_id: call for turn in turns for call in turn.calls}},
        )

    def _number(self, turn: Turn) -> _Numbered:
        voices = {said.voice for said in turn.said}
        return _Numbered(
            digest=digest_of(turn, self._reader),
            by_model=bool(turn.calls) or Voice.MODEL in voices,
            by_user=Voice.USER in voices,
            by_host=_by_host(turn),
            answers=tuple(self._reader.print(said.call_id) for said in turn.said if said.call_id),
            made=tuple(self._reader.print(call.call_id) for call in turn.calls),
            length=length_of(turn.said, turn.calls),
        )


def length_of(said: Iterable[ContextText], calls: Iterable[ModelCall]) -> int:
    """The number of characters in texts and in the strings of calls' arguments."""
    made = (len(text) for call in calls for text in strings_in(call.arguments))
    return sum(len(one.text) for one in said) + sum(made)


def _by_host(turn: Turn) -> bool:
    return not turn.calls and {said.voice for said in turn.said} == {Voice.SYSTEM}


def digest_of(turn: Turn, reader: TurnReader) -> int:
    """A turn's digest: equal for turns with equal strings in the same fields of the API."""
    parts: list[str] = []
    for said in turn.said:
        parts += (said.voice.value, said.call_id or "", said.text)
        if said.sealed:
            parts.append("sealed")
    for call in turn.calls:
        arguments = reader.arguments(call.arguments)
        parts += ("call", call.call_id, call.name, call.server or "", f"{arguments:x}")
    return reader.digest(parts)


def place_of(
    book: Book, request: ModelRequest, history: TurnHistory, reader: TurnReader
) -> SessionMatch:
    """Every session that a request's history, calls, call ids or earlier reply identify."""
    found: dict[str, Session] = {}
    for name in _pointers(book, request, history, reader):
        session = book.sessions.get(name)
        if session is not None:
            found[name] = session
    astray = False
    if request.continues is not None:
        key = reader.named("reply", request.continues)
        session = book.sessions.get(book.keys.get(key, ""))
        astray = session is None
        if session is not None:
            found[session.session] = session
    if not found and history.models:
        session = _by_what_was_said(book, request, history, reader)
        if session is not None:
            found[session.session] = session
    oldest_first = sorted(found.values(), key=lambda one: (one.began_ms, one.session))
    return SessionMatch(tuple(oldest_first), astray)


def _pointers(
    book: Book, request: ModelRequest, history: TurnHistory, reader: TurnReader
) -> Iterator[str]:
    known = -1
    for at in reversed(history.models):
        session = book.keys.get(history.chain[at])
        if session is not None:
            known = at
            if at == history.models[0]:
                # Conversations begin alike ("Hello!"), so the same beginning may belong to another
                # conversation. The model's words in it decide.
                newest = _by_what_was_said(book, request, history, reader)
                session = session if newest is None else newest.session
            yield session
            break
    # Only calls after the turn `known` are searched. Earlier calls belong to the turns by which the
    # session above was found.
    for turn in request.turns[known + 1 :]:
        for call in turn.calls:
            made = reader.seen(call, book)
            if made is not None:
                yield made.session
        for said in turn.said:
            # An id that several sessions had names none of them.
            calls = book.calls.get(reader.print(said.call_id), []) if said.call_id else []
            sessions = {one.session for one in calls}
            if len(sessions) == 1:
                yield sessions.pop()


def _by_what_was_said(
    book: Book, request: ModelRequest, history: TurnHistory, reader: TurnReader
) -> Session | None:
    """A session whose conversation began alike, and whose model said the first model turn.

    A session that has all turns of the request counts too, because a program may drop the beginning
    of a long conversation.
    """
    first = history.models[0]
    spoken = _spoken(request.turns[first], reader)
    newest = list(reversed(book.sessions.values()))[:_SPOKEN_LOOKED_AT]
    for session in newest:
        if history.root in session.roots and spoken and spoken <= session.spoken.keys():
            return session
    for session in newest:
        if all(
            digest in session.turns
            or (at in history.models and _was_said(request.turns[at], session, reader))
            for at, digest in enumerate(history.digests[: history.models[-1] + 1])
            if not _by_host(request.turns[at])
        ):
            return session
    return None


def _was_said(turn: Turn, session: Session, reader: TurnReader) -> bool:
    spoken = _spoken(turn, reader)
    return bool(spoken) and spoken <= session.spoken.keys()


def _spoken(turn: Turn, reader: TurnReader) -> set[int]:
    texts = (said.text for said in turn.said if said.voice is Voice.MODEL)
    return {one for text in texts for one in reader.parts(text)}


def summed_up(book: Book, request: ModelRequest, reader: TurnReader) -> tuple[str, ...]:
    """The sessions that a user's text at the beginning of a conversation sums up.

    These are the sessions whose models said the text's sentences, those with foreign text first;
    empty unless one session's model said more than half of them.
    """
    begins = (turn for turn in request.turns if any(one.voice is Voice.USER for one in turn.said))
    for said in next(begins, Turn()).said:
        parts = {*reader.somebodys(said.text)} if said.voice is Voice.USER else set[int]()
        newest = list(reversed(book.sessions.values()))[:_SPOKEN_LOOKED_AT]
        known = [(len(parts & one.spoken.keys()), one) for one in newest]
        said_by = sorted((one for one in known if one[0]), key=lambda one: -one[0])
        if said_by and 2 * said_by[0][0] > len(parts):
            found = sorted(said_by, key=lambda one: not one[1].has_read)
            return tuple(session.session for _, session in found)
    return ()
