"""The ledger's evidence about a candidate: its session, what that had read, and its origins. Pure.

An id of a call is only a claim. It counts if a call that a model made under that id has the
candidate's text; else no session explains the write.
"""

from __future__ import annotations

from typing import Final

from policy.labels.seen import Seen
from policy.model import PrincipalId
from policy.text.skeleton import skeleton
from proxy.ledger.core import Core
from proxy.ledger.state import Book, Call, Session
from proxy.ledger.turn_reader import TurnReader
from proxy.seams.guard import Join

CONTAINED_MAX: Final = 8


class SeenCall(Seen, frozen=True, kw_only=True):
    """The evidence about a candidate, with the ids of the model's calls that it rests on."""

    calls: tuple[int, ...] = ()


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
        # The book may have been dropped for room, and then what its sessions read is not known.
        lost = principal_id in core.state.lost_principals
        return SeenCall(after_reading=lost or now_ms < core.state.lost_until_ms)
    ids = () if join is None else tuple(one for one in (join.tool_use_id, join.call_id) if one)
    named = tuple(dict.fromkeys(core.reader.print(one) for one in ids))
    sessions = _explaining(book, texts, core.reader, named)
    session = sessions[0].session if sessions else None
    ring = core.ring_of(principal_id)
    found = [kept for one in texts if one for kept in ring.containing(one, session)]
    lately = book.has_read_lately(now_ms) or now_ms < core.state.lost_until_ms
    return SeenCall(
        session=session,
        called=bool(sessions),
        # Where several sessions made such a call, one of them that had read is enough.
        after_reading=any(one.has_read for one in sessions) if sessions else lately,
        contained=core.origins(found)[:CONTAINED_MAX],
        read_origins=tuple(dict.fromkeys(name for one in sessions for name in one.read_origins)),
        calls=named if sessions else (),
    )


def _explaining(
    book: Book, texts: tuple[str, ...], reader: TurnReader, named: tuple[int, ...]
) -> tuple[Session, ...]:
    """The sessions whose models made all of the named calls with the texts, the newest first.

    An id alone, without a text, explains nothing.
    """
    if not any(texts):
        return ()
    found: dict[str, int] = {}
    for key in named:
        for call in book.calls.get(key, ()):
            if _has(call, texts, reader):
                found[call.session] = found.get(call.session, 0) + 1
    newest = (book.sessions.get(one) for one, count in found.items() if count >= len(named))
    there = [one for one in newest if one is not None]
    return tuple(sorted(there, key=lambda one: -one.used_ms))


def _has(call: Call, texts: tuple[str, ...], reader: TurnReader) -> bool:
    """Whether each text is a string of the call's arguments, or made of their sentences."""
    for text in texts:
        if not text or reader.print(skeleton(text)) in call.exact:
            continue
        parts = frozenset(reader.parts(text))
        if not parts or not parts <= call.parts:
            return False
    return True
