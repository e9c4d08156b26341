"""The text of a memory on an upstream server, as the gate's own verdicts determine it."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.facts import TargetState
from policy.labels.effect import (
    EDITS_MAX,
    NEWLINE,
    LineChanges,
    changed_lines,
    lines_of,
    text_after,
)
from policy.labels.forwarded_call import ForwardedCall, call_of
from policy.model import Candidate, ChangeKind, MemoryStatus, SourceKind, Tenant
from storage.audit import candidate_of
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.rows import (
    GuardedRow,
    guarded_rows,
)
from storage.values import Row

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.FORWARDING})


class KeyedText(msgspec.Struct, frozen=True, kw_only=True):
    """The live rows under one key of an upstream server, oldest first, and the resulting text.

    `text` is None if the verdicts do not determine it.
    """

    rows: tuple[GuardedRow, ...] = ()
    text: str | None = None

    @property
    def newest(self) -> Row | None:
        """The newest row; None if there is no row."""
        return self.rows[-1].row if self.rows else None


NOTHING_THERE: Final = KeyedText()


def read_thing(view: View, names: KeyedNames, tenant: Tenant, target: str, key: str) -> KeyedText:
    """The live rows under a key of an upstream server, and their text, as far as it is known.

    Raises:
        StoreCorrupt: A row is damaged.
    """
    text: str | None = None
    edits = 0
    found: list[GuardedRow] = []
    for one in guarded_rows(view, names, tenant, target, key):
        text, edits = _text_after(text, edits, one)
        if one.status in _STANDING and one.sent.change is not ChangeKind.DELETE:
            found.append(one)
    return KeyedText(rows=tuple(found), text=text)


def _text_after(text: str | None, edits: int, one: GuardedRow) -> tuple[str | None, int]:
    """The text after the next row, in the order of admission, and the number of edits so far."""
    change, gone = one.sent.change, one.status is MemoryStatus.DELETED
    # The whole text is known only if this row was neither changed nor purged here.
    whole = one.row is one.sent
    if gone and whole and change is not ChangeKind.DELETE:
        # The row does not change the text: the server refused the call, or the memory was deleted
        # later.
        return text, edits
    if gone or not whole or change is ChangeKind.DELETE or one.status not in _STANDING:
        # The row does not determine what a deletion removed, or whether it was carried out.
        return None, edits
    call = call_of(candidate_of(one.sent))
    if call is None:
        return None, edits
    edits = 1 if call.sets_all else edits + 1
    return text_after(text, call.pieces, None if edits > EDITS_MAX else call.effect), edits


def state_of(thing: KeyedText, candidate: Candidate) -> TargetState | None:
    """The stored memory that a change alters under its key; None if no verdict admitted it.

    Each row under the key counts as one memory: a line, an observation, a value. The change is
    judged by the rows that it alters. All rows count if the change removes or replaces the whole
    text, or if it is unknown what the change leaves.
    """
    call = call_of(candidate)
    lines = None if call is None else _lines(thing, candidate, call)
    if not _is_known(thing, lines):
        return None
    # A deletion removes the exact observation that it names, but a part of a line of a file may be
    # removed too.
    exactly = candidate.change is ChangeKind.DELETE and call is not None and not call.place
    altered = [one for one in thing.rows if _is_altered(one, lines, exactly=exactly)]
    whole = call is not None and call.sets_all
    removing = candidate.change is ChangeKind.DELETE or lines is None or not lines.keeps_half
    return TargetState(
        source=max(
            (one.row.source for one in altered),
            key=lambda source: source.trust,
            default=SourceKind.UNKNOWN,
        ),
        memory_class=max(
            (one.row.memory_class for one in altered), key=lambda one: one.power, default=None
        ),
        status=MemoryStatus.LIVE,
        version=max(one.row.version for one in thing.rows),
        remains=None
        if whole
        else min((one.row.source for one in thing.rows), key=lambda source: source.trust),
        removes=bool(altered) and removing,
        unread=any(one.row.was_unread or not one.row.after_reading for one in altered),
    )


def _lines(thing: KeyedText, candidate: Candidate, call: ForwardedCall) -> LineChanges | None:
    if candidate.change is not ChangeKind.DELETE:
        return changed_lines(thing.text, call.pieces, call.effect)
    named = _lines_in(call, call.gone)
    return LineChanges(named, frozenset()) if named else None


def _is_known(thing: KeyedText, lines: LineChanges | None) -> bool:
    """Whether verdicts of this gate admitted all that a change alters.

    Until a sent change is settled, the server may have another text than the one that was sent.
    """
    stored = [one for one in thing.rows if one.status is MemoryStatus.LIVE]
    if lines is None or not stored:
        return bool(stored)
    certain = thing.text is not None and len(stored) == len(thing.rows)
    found = [lines_of(thing.text or "")] if certain else [_own_lines(one) for one in stored]
    return all(
        any(not own or any(gone in line for line in own) for own in found) for gone in lines.gone
    )


def _is_altered(one: GuardedRow, lines: LineChanges | None, *, exactly: bool) -> bool:
    """Whether a change alters or removes a line of one row."""
    own = _own_lines(one)
    if lines is None:
        return True
    if exactly:
        return not own or not own.isdisjoint(lines.gone)
    # If a part of a line is removed, the line counts as altered.
    return bool(lines.gone) and (
        not own or any(gone in line or line in gone for gone in lines.gone for line in own)
    )


def _own_lines(one: GuardedRow) -> frozenset[str]:
    """The lines that a row wrote; empty if they are not known."""
    call = call_of(candidate_of(one.sent))
    if call is None:
        return frozenset()
    # An entry that has no other name is filed under its own text.
    return _lines_in(call, call.said) or lines_of(NEWLINE.join(call.said))


def _lines_in(call: ForwardedCall, pieces: tuple[str, ...]) -> frozenset[str]:
    return lines_of(NEWLINE.join(piece for piece in pieces if piece != call.key))
