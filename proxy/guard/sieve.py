"""Finds the parts of an upstream server's answers that must not reach the agent (docs/mcp.md).

On a server that files memories under keys, a memory is recognised by its key. An MCP server shows
texts alone, so there a memory is recognised by its pieces (`policy.withheld.pieces`), each equal
as a whole. A piece of a convicted memory is hidden unless a proven memory, or one older than the
convicted memory, contains it. Pieces are digests, so that the index contains no hidden text.
"""

from __future__ import annotations

import asyncio
import enum
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from policy.labels.forwarded_call import HTTP, call_of
from policy.model import Candidate, Reads, SourceKind, Tenant
from policy.withheld.pieces import (
    DIGEST_LEN,
    EVER,
    Piece,
    count_of,
    digest_of,
    hidden_pieces,
    pieces_in,
    pieces_of,
)
from proxy.guard.live_texts import LiveTexts, PiecePrint, prints_of_pieces
from proxy.withhold.screens import ScreenMaker
from storage.values import EndedText, ForwardState, UpstreamChange, UpstreamChanges

ANSWERS_MAX: Final = 32_768
# The states of a memory that is on the server, or may be.
_THERE: Final = frozenset({ForwardState.LIVE, ForwardState.FORWARDING, ForwardState.QUARANTINED})
# Most keys have one memory; such keys share one counter for each state, to save memory.
_ALONE: Final = {stands: Counter((stands,)) for stands in ForwardState}

Scope = tuple["Tenant", str]


class KeyOwner(enum.Enum):
    """The owner of the memory under a key of a server, according to this gate's verdicts."""

    MINE = "mine"  # the tenant has it, and it is shown
    # The tenant has it under quarantine or below the floor for reads, or its outcome is not known.
    HIDDEN = "hidden"
    OTHERS = "others"  # only other tenants have it
    NOBODYS = "nobodys"  # no verdict let it in


class _Known(NamedTuple):
    scope: Scope
    stands: ForwardState
    key: str
    ordinal: int
    # The ordinal; of a proven memory a negative number, so that it is older than every other.
    age: int
    source: SourceKind = SourceKind.UNKNOWN
    prints: tuple[PiecePrint, ...] = ()
    said: bytes = b""
    # Of a live memory: all pieces, each with the memory's age. Of a hidden one: the pieces that
    # convicted it, each with the age that a live memory must be below for the piece to be shown.
    pieces: tuple[tuple[Piece, int], ...] = ()


class _Ages:
    """Maps each piece to the ages of the memories that contain it; most pieces have one age."""

    def __init__(self) -> None:
        self._ages: dict[Piece, tuple[int, ...]] = {}

    def add(self, piece: Piece, age: int) -> None:
        self._ages[piece] = (*self._ages.get(piece, ()), age)

    def drop(self, piece: Piece, age: int) -> None:
        left = list(self._ages.pop(piece, ()))
        left.remove(age)
        if left:
            self._ages[piece] = tuple(left)

    def first(self, piece: Piece) -> int:
        return min(self._ages.get(piece, ()), default=EVER)

    def has(self, piece: Piece) -> bool:
        return piece in self._ages


class _OfServer:
    """The memories of one tenant on one server."""

    def __init__(self) -> None:
        self.shown = LiveTexts()
        # Maps each key under which the server files memories to their number in each state. Keys
        # may share a counter, so no counter is ever changed.
        self.keys: dict[str, Counter[ForwardState]] = {}
        # Maps each key to its live memories, keyed by ordinal.
        self.live: dict[str, dict[int, _Known]] = {}
        self._live = _Ages()
        self._hidden = _Ages()
        # For each number of words, how many hidden pieces have it.
        self.counts: Counter[int] = Counter()
        # A cache of `hides`, keyed by a text's digest and cleared with each change, because an
        # agent reads all of its memory again and again.
        self._answers: dict[bytes, bool] = {}
        self._sorted: list[str] | None = None

    def standing(self, key: str, *, is_prefix: bool) -> Counter[ForwardState]:
        """The number of memories in each state under a key, or under all keys with a prefix."""
        if not is_prefix:
            return self.keys.get(key, Counter())
        found: Counter[ForwardState] = Counter()
        for one in self._under(key):
            found += self.keys[one]
        return found

    def _under(self, prefix: str) -> Iterator[str]:
        if self._sorted is None:
            self._sorted = sorted(self.keys)
        for at in range(bisect_left(self._sorted, prefix), len(self._sorted)):
            if not self._sorted[at].startswith(prefix):
                return
            yield self._sorted[at]

    def shows(self, key: str, reads: Reads, *, is_prefix: bool) -> bool:
        """Whether `reads` shows the newest live memory under a key, or under any with a prefix."""
        newest = map(self._newest, self._under(key) if is_prefix else (key,))
        return any(one is not None and reads.shows(one.source) for one in newest)

    def _newest(self, key: str) -> _Known | None:
        live = self.live.get(key)
        return live[max(live)] if live else None

    def file(self, key: str, stands: ForwardState, count: int) -> None:
        """Add `count` (1 or -1) to the number of memories in a state under a key."""
        if not key:
            return
        counts: Counter[ForwardState] = Counter(self.keys.get(key, ()))
        counts[stands] += count
        counts = +counts
        if counts:
            alone = counts.total() == 1
            self.keys[key] = _ALONE[next(iter(counts))] if alone else counts
        else:
            self.keys.pop(key, None)
        self._sorted = None

    def says_other(self, key: str, strings: Iterable[str]) -> bool:
        newest = self._newest(key)
        if newest is None:
            return False
        said = newest.said
        judged = {said[at : at + DIGEST_LEN] for at in range(0, len(said), DIGEST_LEN)}
        return any(digest_of(text) not in judged for text in strings)

    def hide(self, piece: Piece, until: int) -> None:
        """Hide a piece unless a live memory of an age below `until` contains it."""
        self._answers.clear()
        self._hidden.add(piece, until)
        self.counts[count_of(piece)] += 1

    def put(self, name: str, known: _Known) -> None:
        self._answers.clear()
        self.file(known.key, known.stands, 1)
        if known.stands is ForwardState.LIVE:
            self.shown.add(name, known.prints)
            for piece, age in known.pieces:
                self._live.add(piece, age)
            if known.said:
                self.live.setdefault(known.key, {})[known.ordinal] = known
        else:
            for piece, until in known.pieces:
                self.hide(piece, until)

    def drop(self, name: str, known: _Known) -> None:
        self._answers.clear()
        self.file(known.key, known.stands, -1)
        if known.stands is ForwardState.LIVE:
            self.shown.drop(name)
            live = self.live.get(known.key, {})
            live.pop(known.ordinal, None)
            if not live:
                self.live.pop(known.key, None)
        ages = self._live if known.stands is ForwardState.LIVE else self._hidden
        for piece, age in known.pieces:
            ages.drop(piece, age)
            if ages is self._hidden:
                self.counts[count_of(piece)] -= 1
                self.counts += Counter()  # removes counts of zero

    def hides(self, text: str) -> bool:
        """Whether a text, or a sequence of its lines or sentences, is a hidden piece."""
        name = digest_of(text)
        if name not in self._answers:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[name] = any(
                self._hidden.has(piece) and self._live.first(piece) >= self._hidden.first(piece)
                for piece in pieces_in(text, self.counts)
            )
        return self._answers[name]


class Sieve:
    """An index of the memories on upstream servers, derived from the store and held in memory.

    Any thread, but only while the caller holds `turn`. `news` returns the changes since a number
    of audit leaves; for -1, everything. `screen` finds live memories that rules forbid to show.
    """

    def __init__(
        self, news: Callable[[int], UpstreamChanges], screen: ScreenMaker | None = None
    ) -> None:
        self.turn = asyncio.Lock()
        self._news = news
        self._screen = screen
        # Maps each tenant to the rules by which its live memories were screened.
        self._rules: dict[Tenant, object] = {}
        self._left_out: dict[str, Tenant] = {}
        self._leaf_count = -1
        self._known: dict[str, _Known] = {}
        self._scopes: dict[Scope, _OfServer] = {}
        # Maps each server to the number of changes of its memories. `_begun` counts the times that
        # everything was read anew.
        self._moves = Counter[str]()
        self._begun = 0

    def sift(self, scope: Scope, strings: tuple[str, ...]) -> tuple[bool, ...]:
        """For each string of a server's answer: whether it must not reach the agent.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        self.refresh()
        of_server = self._scopes.get(scope)
        if of_server is None or not of_server.counts:
            return (False,) * len(strings)
        return tuple(map(of_server.hides, strings))

    def moves(self, target: str) -> tuple[int, int]:
        """A value that differs once any answer of this sieve about a server may have changed."""
        return self._begun, self._moves[target]

    def shown(self, scope: Scope) -> LiveTexts | None:
        """The live memories of a scope as of the last refresh; None where there never were any."""
        found = self._scopes.get(scope)
        return None if found is None else found.shown

    def owned(
        self,
        scope: Scope,
        keys: Iterable[tuple[str, bool]],
        *,
        counts_sent: bool = True,
        reads: Reads = Reads.ALL,
    ) -> tuple[KeyOwner, ...]:
        """The owner of the memory under each key or, for a prefix, of those under it.

        `counts_sent`: whether an unsettled memory, such as one that a person has just released,
        makes its tenant the owner. `reads`: the floor that the newest live memory under a key has
        to reach to be shown.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        self.refresh()
        tenant, target = scope
        mine = self._scopes.get(scope)
        others = [
            one
            for (whose, where), one in self._scopes.items()
            if where == target and whose != tenant
        ]
        own = _THERE if counts_sent else _THERE - {ForwardState.FORWARDING}
        return tuple(
            _owned(mine, others, key, own, is_prefix=prefix, reads=reads) for key, prefix in keys
        )

    def say_other(
        self, scope: Scope, items: Iterable[tuple[str, Iterable[str]]]
    ) -> tuple[bool, ...]:
        """For each key and the strings shown for it: whether a string was not judged.

        Judged are the pieces of the newest live memory under the key, which include the text that
        its write was to be merged with.
        """
        mine = self._scopes.get(scope)
        return tuple(mine is not None and mine.says_other(*one) for one in items)

    def refresh(self) -> None:
        """Apply the changes of the store since the last refresh."""
        news = self._news(self._leaf_count)
        if news.whole:
            self._begun += 1
            self._known.clear()
            self._scopes.clear()
        for one in news.forgotten:
            self._forget(one)
        for moved in news.moved:
            self._take(moved)
        self._leaf_count = news.leaf_count

    def follow_rules(self, tenant: Tenant) -> None:
        """Have the next refresh read everything, if the rules of this tenant changed."""
        rules = None if self._screen is None else self._screen.rules(tenant)
        if rules is not self._rules.get(tenant):
            self._rules[tenant] = rules
            self._leaf_count = -1

    def take_left_out(self) -> dict[str, Tenant]:
        """Return each live memory that `screen` hid since the last call, mapped to its tenant."""
        found, self._left_out = self._left_out, {}
        return found

    @property
    def far_behind(self) -> bool:
        """Whether the next refresh reads everything, which is too slow for the event loop."""
        return self._leaf_count < 0

    def _forget(self, forgotten: EndedText) -> None:
        """Hide the pieces of a memory that was purged here but that its server may still show."""
        self._moves[forgotten.target] += 1
        of_server = self._of(forgotten.tenant, forgotten.target)
        for piece, until in forgotten.pieces.items():
            of_server.hide(piece, until)

    def _of(self, tenant: Tenant, target: str) -> _OfServer:
        return self._scopes.setdefault((tenant, target), _OfServer())

    def _take(self, moved: UpstreamChange) -> None:
        before = self._known.pop(moved.name, None)
        if before is not None:
            self._moves[before.scope[1]] += 1
            self._of(*before.scope).drop(moved.name, before)
        if moved.stands is ForwardState.GONE:
            return
        if moved.candidate is not None and moved.tenant is not None:
            known = self._read(moved, moved.candidate, moved.tenant)
        elif before is not None:
            known = before._replace(stands=moved.stands)
        else:
            return
        self._known[moved.name] = known
        self._moves[known.scope[1]] += 1
        self._of(*known.scope).put(moved.name, known)

    def _read(self, moved: UpstreamChange, candidate: Candidate, tenant: Tenant) -> _Known:
        stands, rule_ids = moved.stands, moved.rule_ids
        if stands is ForwardState.LIVE and self._screen is not None:
            rule_ids = self._screen.failed_by(moved, tenant)
            if rule_ids:
                # A live memory that a rule forbids to show is treated as quarantined.
                stands = ForwardState.QUARANTINED
                self._left_out[moved.name] = tenant
        is_proven = moved.source is not None and moved.source.trust >= SourceKind.USER_INPUT.trust
        known = _Known(
            scope=(tenant, candidate.target),
            stands=stands,
            key=moved.key,
            ordinal=moved.ordinal,
            age=~moved.ordinal if is_proven else moved.ordinal,
            source=moved.source or SourceKind.UNKNOWN,
        )
        call = call_of(candidate)
        if call is None:
            return known
        if stands is ForwardState.LIVE:
            judged = b"".join(map(digest_of, dict.fromkeys(call.pieces)))
            return known._replace(
                prints=prints_of_pieces(call.pieces),
                said=judged if candidate.target.startswith(HTTP) else b"",
                pieces=tuple((one, known.age) for one in pieces_of(call.pieces)),
            )
        texts = call.said
        if rule_ids and self._screen is not None:
            texts = self._screen.convicting(tenant, texts, rule_ids)
        hidden = hidden_pieces(texts, call.key, moved.ordinal)
        return known._replace(pieces=tuple(hidden.items()))


def _owned(
    mine: _OfServer | None,
    others: list[_OfServer],
    key: str,
    counted: frozenset[ForwardState],
    *,
    is_prefix: bool,
    reads: Reads,
) -> KeyOwner:
    if not key:
        return KeyOwner.NOBODYS
    own = Counter[ForwardState]() if mine is None else mine.standing(key, is_prefix=is_prefix)
    if mine is not None and own[ForwardState.LIVE]:
        shows = reads is Reads.ALL or mine.shows(key, reads, is_prefix=is_prefix)
        return KeyOwner.MINE if shows else KeyOwner.HIDDEN
    if any(own[stands] for stands in counted):
        return KeyOwner.HIDDEN
    for other in others:
        theirs = other.standing(key, is_prefix=is_prefix)
        if any(theirs[stands] for stands in _THERE):
            return KeyOwner.OTHERS
    return KeyOwner.NOBODYS
