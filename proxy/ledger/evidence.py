"""The ledger's evidence about a candidate: its session, what that had read, and its origins. Pure.

An id of a call is only a claim. It counts if the call that a model made under that id has the
candidate's text; else no session explains the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.labels.seen import Seen
from policy.text.skeleton import skeleton
from proxy.ledger.joining import has_read_lately

if TYPE_CHECKING:
    from policy.model import PrincipalId
    from proxy.ledger.core import Core
    from proxy.ledger.reading import Reader
    from proxy.ledger.state import Book, CallMade, SessionState
    from proxy.seams.guard import Join

CONTAINED_MAX: Final = 8


class SeenCall(Seen, frozen=True, kw_only=True):
    """The evidence about a candidate, with the model's calls that it rests on."""

    calls: tuple[int, ...] = ()
    # The calls that the verdict is the answer of: those, and the call that a relay names.
    answers: tuple[int, ...] = ()


def evidence(
    core: Core,
    principal_id: PrincipalId,
    texts: tuple[str, ...],
    now_ms: int,
    join: Join | None,
) -> SeenCall:
    """What the ledger knows about a candidate; nothing where it never saw the principal."""
    book = core.state.books.get(principal_id)
    if book is None:
        return SeenCall()
    ids = () if join is None else tuple(one for one in (join.tool_use_id, join.call_id) if one)
    named = tuple(dict.fromkeys(core.reader.print(one) for one in ids))
    session, calls = _joined(book, texts, core.reader, named)
    ring = core.ring_of(principal_id)
    within = None if session is None else session.session
    found = [kept for one in texts if one for kept in ring.containing(one, within)]
    return SeenCall(
        session=within,
        called=session is not None,
        after_reading=has_read_lately(book, now_ms) if session is None else session.has_read,
        contained=core.origins(found)[:CONTAINED_MAX],
        read_origins=() if session is None else tuple(session.read_origins),
        calls=calls,
        answers=tuple(dict.fromkeys((*calls, *named))),
    )


def _joined(
    book: Book, texts: tuple[str, ...], reader: Reader, named: tuple[int, ...]
) -> tuple[SessionState | None, tuple[int, ...]]:
    """The session whose model made the named calls, if all of them have the candidate's texts."""
    calls = [book.calls.get(one) for one in named]
    if not calls or not all(call is not None and _has(call, texts, reader) for call in calls):
        return None, ()
    sessions = {call.session for call in calls if call is not None}
    session = book.sessions.get(sessions.pop()) if len(sessions) == 1 else None
    return session, () if session is None else named


def _has(call: CallMade, texts: tuple[str, ...], reader: Reader) -> bool:
    """Whether each text is a string of the call's arguments, or made of their sentences."""
    for text in texts:
        if not text or reader.print(skeleton(text)) in call.exact:
            continue
        parts = frozenset(reader.parts(text))
        if not parts or not parts <= call.parts:
            return False
    return True
