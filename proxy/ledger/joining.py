"""Which session a request continues: decided by its history, never by a name. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policy.model import SourceKind, meet
from proxy.dialects.model.transcript import Turn, Voice
from proxy.ledger.state import OPEN_MS, key_with_arguments
from proxy.ledger.texts import strings_in
from proxy.seams.by_identity import ByIdentity

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from proxy.dialects.model.transcript import ModelCall, ModelRequest, Said
    from proxy.ledger.reading import Reader
    from proxy.ledger.state import Book, CallMade, SessionState

LIVE_MS: Final = 24 * 3_600_000
"""How long a session counts after it was last heard of, for writes that nobody can place."""
_SPOKEN_LOOKED_AT: Final = 64
NUMBERED_MAX: Final = 50_000
_SPELLING: Final = msgspec.msgpack.Encoder()


class History(NamedTuple):
    """Hashes of a request's turns and of the history up to each, and which turns are a model's.

    Turns of the agent's program in between do not count.
    """

    digests: tuple[int, ...]
    chain: tuple[int, ...]
    models: tuple[int, ...]
    # The hash of the history up to the first user turn, which identifies a conversation.
    root: int
    # The calls that have a result in the request, or that its conversation went on without. For the
    # latter also `key_with_arguments`.
    answered: frozenset[int]
    # The number of characters of each turn.
    lengths: tuple[int, ...] = ()


class Place(NamedTuple):
    """The sessions that a request belongs to, oldest first; several of them are merged."""

    sessions: tuple[SessionState, ...]
    # Whether the model's reply before the request's last turn was never seen by the ledger.
    astray: bool


class _Numbered(NamedTuple):
    """The hash of one turn, and the bytes by which that turn changes the hash of the history."""

    digest: int
    by_model: bool
    by_user: bool
    by_host: bool
    answers: tuple[int, ...]
    made: tuple[int, ...]
    length: int


class Numbering:
    """Computes hashes of turns. Most are in its cache: a request repeats the turns before it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        # The cache is keyed by the interpreter's own hash, which is salted, so that nobody can
        # cause collisions.
        self._known: OrderedDict[int, _Numbered] = OrderedDict()
        # An object that was seen before needs no hash at all.
        self._same: ByIdentity[Turn, _Numbered] = ByIdentity()
        self._chains: dict[tuple[int, int], int] = {}

    def history(self, request: ModelRequest) -> History:
        """The hashes of a request's turns."""
        digests: list[int] = []
        lengths: list[int] = []
        chain: list[int] = []
        models: list[int] = []
        answered: set[int] = set()
        root: int | None = None
        above = 0
        chains = self._chains
        if len(chains) > NUMBERED_MAX:
            chains.clear()
        for at, known in enumerate(self._same.each(request.turns)):
            numbered = known or self._first_numbered(request.turns[at])
            if not numbered.by_host:
                # The system prompt is left out: many programs write it anew for each request.
                step: tuple[int, int] = (above, numbered.digest)
                above = chains.get(step) or chains.setdefault(step, self._reader.chained(*step))
            digests.append(numbered.digest)
            lengths.append(numbered.length)
            chain.append(above)
            if numbered.by_model:
                models.append(at)
            if numbered.answers:
                answered.update(numbered.answers)
            if numbered.made and at + 1 < len(request.turns):
                answered.update(numbered.made)
            if root is None and numbered.by_user:
                root = above
        return History(
            tuple(digests),
            tuple(chain),
            tuple(models),
            above if root is None else root,
            frozenset(answered),
            tuple(lengths),
        )

    def _first_numbered(self, turn: Turn) -> _Numbered:
        numbered = self._same[turn] = self._numbered(turn)
        return numbered

    def _numbered(self, turn: Turn) -> _Numbered:
        said = tuple([(one.text, one.call_id, id(one.voice), one.sealed) for one in turn.said])
        try:
            calls = tuple(
                [
                    (one.call_id, one.name, one.server, _SPELLING.encode(one.arguments))
                    for one in turn.calls
                ]
            )
        except (UnicodeEncodeError, OverflowError):
            # The arguments of this call cannot be written as JSON (halves of surrogate pairs,
            # numbers beyond any double), so the cache is not used.
            return self._number(turn)
        key = hash((said, calls))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._number(turn)
            if len(self._known) > NUMBERED_MAX:
                self._known.popitem(last=False)
        return known

    def _number(self, turn: Turn) -> _Numbered:
        voices = {said.voice for said in turn.said}
        return _Numbered(
            digest=digest_of(turn, self._reader),
            by_model=bool(turn.calls) or Voice.MODEL in voices,
            by_user=Voice.USER in voices,
            by_host=_by_host(turn),
            answers=tuple(self._reader.print(said.call_id) for said in turn.said if said.call_id),
            made=tuple(key for call in turn.calls for key in _keys_of(call, self._reader)),
            length=length_of(turn.said, turn.calls),
        )


def _keys_of(call: ModelCall, reader: Reader) -> tuple[int, int]:
    key = reader.print(call.call_id)
    return key, key_with_arguments(key, reader.arguments(call.arguments))


def length_of(said: Iterable[Said], calls: Iterable[ModelCall]) -> int:
    """How many characters texts have, together with the strings in the arguments of calls."""
    made = (len(text) for call in calls for text in strings_in(call.arguments))
    return sum(len(one.text) for one in said) + sum(made)


def _by_host(turn: Turn) -> bool:
    return not turn.calls and {said.voice for said in turn.said} == {Voice.SYSTEM}


def digest_of(turn: Turn, reader: Reader) -> int:
    """A turn's digest: equal for equal strings in the same places of the API."""
    parts: list[str] = []
    for said in turn.said:
        parts += (said.voice.value, said.call_id or "", said.text)
        if said.sealed:
            parts.append("sealed")
    for call in turn.calls:
        arguments = reader.arguments(call.arguments)
        parts += ("call", call.call_id, call.name, call.server or "", f"{arguments:x}")
    return reader.digest(parts)


def place_of(book: Book, request: ModelRequest, history: History, reader: Reader) -> Place:
    """Every session that some part of the request points to."""
    found: dict[str, SessionState] = {}
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
    return Place(tuple(oldest_first), astray)


def _pointers(book: Book, request: ModelRequest, history: History, reader: Reader) -> Iterator[str]:
    known = -1
    for at in reversed(history.models):
        session = book.keys.get(history.chain[at])
        if session is not None:
            known = at
            if at == history.models[0]:
                # Conversations begin alike ("Hello!"), so the same beginning may belong to another
                # conversation. What was said in it decides.
                newest = _waiting(book, request.turns[at], history, reader)
                newest = newest or _by_what_was_said(book, request, history, reader)
                session = session if newest is None else newest.session
            yield session
            break
    # Only calls after `known` are looked at. Those before it belong to turns that led to the
    # session found above.
    for turn in request.turns[known + 1 :]:
        for call in turn.calls:
            made = book.calls.get(reader.print(call.call_id))
            if made is not None and made.row.arguments == reader.arguments(call.arguments):
                yield made.session
        waiting = _waiting(book, turn, history, reader) if known < 0 else None
        if waiting is not None:
            yield waiting.session
        for said in turn.said:
            made = book.calls.get(reader.print(said.call_id)) if said.call_id else None
            if made is not None:
                yield made.session


def _waiting(book: Book, turn: Turn, history: History, reader: Reader) -> SessionState | None:
    """The newest session that began like this history and waits for the result of a turn's call.

    Only calls whose ids repeat are looked for: another call is known by its id.
    """
    keys = [_keys_of(call, reader)[1] for call in turn.calls] if book.repeated else []
    for session in reversed(book.sessions.values()) if keys else ():
        calls = (book.repeated.get((key, session.session)) for key in keys)
        waits = any(call is not None and call.open for call in calls)
        if waits and history.root in session.conversations:
            return session
    return None


def _by_what_was_said(
    book: Book, request: ModelRequest, history: History, reader: Reader
) -> SessionState | None:
    """A session whose conversation began alike, and whose model said the request's model turns.

    A session with all turns of the request counts too: a program may drop the beginning of a long
    conversation.
    """
    first = history.models[0]
    spoken = _spoken(request.turns[first], reader)
    newest = list(reversed(book.sessions.values()))[:_SPOKEN_LOOKED_AT]
    for session in newest:
        if history.root in session.conversations and spoken and spoken <= session.spoken.keys():
            return session
    for session in newest:
        if all(
            digest in session.labels
            or (at in history.models and _was_said(request.turns[at], session, reader))
            for at, digest in enumerate(history.digests[: history.models[-1] + 1])
            if not _by_host(request.turns[at])
        ):
            return session
    return None


def _was_said(turn: Turn, session: SessionState, reader: Reader) -> bool:
    spoken = _spoken(turn, reader)
    return bool(spoken) and spoken <= session.spoken.keys()


def _spoken(turn: Turn, reader: Reader) -> set[int]:
    texts = (said.text for said in turn.said if said.voice is Voice.MODEL)
    return {one for text in texts for one in reader.parts(text)}


def summed_up(book: Book, request: ModelRequest, reader: Reader) -> tuple[SessionState, ...]:
    """The sessions that a text at a conversation's beginning summarises: their models said it.

    The session whose model said most of the text comes first. None where no model said more than
    half.
    """
    begins = (turn for turn in request.turns if any(one.voice is Voice.USER for one in turn.said))
    for said in next(begins, Turn()).said:
        parts = {*reader.somebodys(said.text)} if said.voice is Voice.USER else set[int]()
        newest = list(reversed(book.sessions.values()))[:_SPOKEN_LOOKED_AT]
        known = [(len(parts & one.spoken.keys()), one) for one in newest]
        said_by = sorted((one for one in known if one[0]), key=lambda one: -one[0])
        if said_by and 2 * said_by[0][0] > len(parts):
            return tuple(session for _, session in said_by)
    return ()


def most_of(
    book: Book, session: SessionState, request: ModelRequest, history: History, now_ms: int
) -> SourceKind:
    """The highest label that a user turn of this conversation may get.

    A conversation that begins during a call may belong to the call (a sub-agent); then its user
    turns are the model's words. A conversation that begins with turns of a model which the ledger
    never saw gets the same treatment.
    For a turn that first comes now, `most_under_calls` counts as well.
    """
    there = session.conversations.get(history.root)
    if there is not None:
        return there
    most = SourceKind.USER_INPUT
    if request.continues is not None:
        for kind in session.conversations.values():
            most = meet(most, kind)
        return most
    known = [one for at in history.models if (one := session.labels.get(history.digests[at]))]
    if known:
        for _, root in known:
            # The ledger may have forgotten the conversation, and it may have been one that a model
            # began (a sub-agent's).
            most = meet(most, session.conversations.get(root, SourceKind.UNKNOWN))
        return most
    return most_under_calls(book, over_in(book, session.session, request, history), now_ms)


def over_in(
    book: Book, session: str, request: ModelRequest, history: History
) -> tuple[CallMade, ...]:
    """The open calls of a session whose results its conversation no longer waits for.

    Such a call was answered, or a person stopped it. A history without the call says nothing of it:
    it may be that of a process under the call, which goes on from before. An id that occurs in
    several calls answers none of them; the history must have the very call, with its arguments. A
    request that leaves its history out cannot show the call, so there the id is enough.
    """
    found = [book.calls.get(key) or book.repeated.get((key, session)) for key in history.answered]
    if request.continues is not None:
        found += [one for one in book.repeated.values() if one.row.key in history.answered]
    over = (one for one in found if one is not None and one.open and one.session == session)
    return tuple(dict.fromkeys(over))


def most_under_calls(book: Book, over: Container[CallMade], now_ms: int) -> SourceKind:
    """The highest label for a user turn that is new in this request.

    While a call of the model has no result yet, the process that the call started may have sent the
    turn.

    Calls in `over` do not count: the request's history shows that they ended (`over_in`).
    """
    most = SourceKind.USER_INPUT
    for call in book.all_calls():
        if not call.open or call in over or call.at_ms + OPEN_MS < now_ms:
            continue
        under = book.sessions.get(call.session)
        if under is not None:
            taint = SourceKind.UNKNOWN if under.taint is None else under.taint
            most = meet(most, meet(SourceKind.MODEL_INFERENCE, taint))
    if book.unanswered is not None and book.unanswered[1] + OPEN_MS >= now_ms:
        most = meet(meet(most, SourceKind.MODEL_INFERENCE), book.unanswered[0])
    return most


def has_read_lately(book: Book, now_ms: int) -> bool:
    """Whether a session of the principal had read foreign text within the last day."""
    return any(
        one.has_read and one.used_ms + LIVE_MS >= now_ms for one in book.sessions.values()
    ) or (book.dropped is not None and book.dropped[1] + LIVE_MS >= now_ms)


def lowest_live(book: Book, now_ms: int, but: str = "") -> SourceKind | None:
    """The lowest taint of a principal's sessions that may still write, except the given ones.

    None if there is no other session.
    """
    lowest: SourceKind | None = None
    for session in book.sessions.values():
        if session.session != but and session.used_ms + LIVE_MS >= now_ms:
            taint = SourceKind.UNKNOWN if session.taint is None else session.taint
            lowest = taint if lowest is None else meet(lowest, taint)
    if book.dropped is not None and book.dropped[1] + LIVE_MS >= now_ms:
        low = book.dropped[0]
        lowest = low if lowest is None else meet(lowest, low)
    return lowest
