"""Which session a request goes on with. A name never separates what the history joins. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policy.model import SourceKind, meet
from proxy.dialects.model.transcript import Voice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.dialects.model.transcript import ModelRequest, Turn
    from proxy.session_reading import Reader
    from proxy.session_state import Book, SessionState

LIVE_MS: Final = 24 * 3_600_000
"""How long a session counts after it was last heard of, for writes that nobody can place."""
OPEN_MS: Final = 3_600_000
"""How long a call without a result counts as under way."""
_SPOKEN_LOOKED_AT: Final = 64


class History(NamedTuple):
    """A request's turns as numbers: of each, of all up to it, and which of them a model made."""

    digests: tuple[int, ...]
    chain: tuple[int, ...]
    models: tuple[int, ...]
    # All up to the first turn of a user: what names a conversation.
    root: int
    answered: frozenset[int]


class Place(NamedTuple):
    """What a request was found to belong to, oldest first; several are one from now on."""

    sessions: tuple[SessionState, ...]
    # The reply that it says it goes on from was never seen.
    astray: bool


def history_of(request: ModelRequest, reader: Reader) -> History:
    """The numbers of a request."""
    digests: list[int] = []
    chain: list[int] = []
    models: list[int] = []
    answered: set[int] = set()
    root: int | None = None
    above = 0
    for at, turn in enumerate(request.turns):
        digest = digest_of(turn, reader)
        above = reader.chained(above, digest)
        digests.append(digest)
        chain.append(above)
        if turn.calls or any(said.voice is Voice.MODEL for said in turn.said):
            models.append(at)
        answered.update(
            reader.print(said.call_id)
            for said in turn.said
            if said.voice is Voice.TOOL and said.call_id
        )
        if root is None and any(said.voice is Voice.USER for said in turn.said):
            root = above
    answers = frozenset(answered)
    return History(
        tuple(digests), tuple(chain), tuple(models), above if root is None else root, answers
    )


def digest_of(turn: Turn, reader: Reader) -> int:
    """A turn as a number: the same for the same strings in the same places of the API."""
    parts: list[str] = []
    for said in turn.said:
        parts += (said.voice.value, said.call_id or "", said.text)
    for call in turn.calls:
        arguments = reader.arguments(call.arguments)
        parts += ("call", call.call_id, call.name, call.server or "", f"{arguments:x}")
    return reader.digest(parts)


def place_of(
    book: Book, request: ModelRequest, names: Sequence[str], history: History, reader: Reader
) -> Place:
    """Every session that anything in the request points to."""
    found: dict[str, SessionState] = {}
    for name in _pointers(book, request, names, history, reader):
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


def _pointers(
    book: Book, request: ModelRequest, names: Sequence[str], history: History, reader: Reader
) -> Iterator[str]:
    for name in names:
        yield book.keys.get(reader.named("name", name), "")
    known = -1
    for at in reversed(history.models):
        session = book.keys.get(history.chain[at])
        if session is not None:
            known = at
            yield session
            break
    # The calls up to there led to that session already.
    for turn in request.turns[known + 1 :]:
        for call in turn.calls:
            made = book.calls.get(reader.print(call.call_id))
            if made is not None and made.row.arguments == reader.arguments(call.arguments):
                yield made.session
        for said in turn.said:
            made = book.calls.get(reader.print(said.call_id)) if said.call_id else None
            if made is not None:
                yield made.session


def _by_what_was_said(
    book: Book, request: ModelRequest, history: History, reader: Reader
) -> SessionState | None:
    """A session that began in the same words and whose model said what stands there."""
    first = request.turns[history.models[0]]
    parts = [
        one for said in first.said if said.voice is Voice.MODEL for one in reader.parts(said.text)
    ]
    if not parts:
        return None
    for name in list(reversed(book.sessions))[:_SPOKEN_LOOKED_AT]:
        session = book.sessions[name]
        if history.root in session.conversations and all(one in session.spoken for one in parts):
            return session
    return None


def most_of(
    book: Book, session: SessionState, history: History, now_ms: int, *, goes_on: bool
) -> SourceKind:
    """The most that a user turn of this conversation can be labelled.

    A conversation that begins while a call is under way may be a part of that call: then its user
    turns are the model's words (sub-agents).
    """
    there = session.conversations.get(history.root)
    if there is not None:
        return there
    most = SourceKind.USER_INPUT
    if goes_on:
        for kind in session.conversations.values():
            most = meet(most, kind)
        return most
    if history.models:
        for at in history.models:
            _, root = session.labels.get(history.digests[at], (None, 0))
            most = meet(most, session.conversations.get(root, most))
        return most
    for call in book.calls.values():
        key = call.row.key
        if not call.open or key in history.answered or call.at_ms + OPEN_MS < now_ms:
            continue
        under = book.sessions.get(call.session)
        if under is not None:
            taint = SourceKind.UNKNOWN if under.taint is None else under.taint
            most = meet(most, meet(SourceKind.MODEL_INFERENCE, taint))
    return most


def lowest_live(book: Book, now_ms: int, but: str = "") -> SourceKind | None:
    """The lowest taint of the (other) sessions that may still write; None where there is none."""
    lowest: SourceKind | None = None
    for session in book.sessions.values():
        if session.session != but and session.used_ms + LIVE_MS >= now_ms:
            taint = SourceKind.UNKNOWN if session.taint is None else session.taint
            lowest = taint if lowest is None else meet(lowest, taint)
    if book.dropped is not None and book.dropped[1] + LIVE_MS >= now_ms:
        low = book.dropped[0]
        lowest = low if lowest is None else meet(lowest, low)
    return lowest
