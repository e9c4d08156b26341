"""Which strings of another server's answers must not reach the agent (docs/architecture.md#mcp).

Memories that are held, denied, quarantined or not settled yet do not exist for the agent: whatever
their own server returns of them is hidden. Each server of each tenant is searched for its own
memories only, so a copy on another server is not hidden here. The sieve keeps prints of their
pieces and never the text: an index of refused texts would be one more place to find them in. Words
are compared in every reading of withholding, so punctuation, escapes, tags and base64 hide nothing.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.model import SourceKind
from policy.text.readings import readings_of
from policy.withheld.prints import CONTAINED_LEN_MIN, DIGEST_LEN, digest_of, shape_of
from proxy.guard.forgotten_texts import ForgottenTexts
from proxy.guard.live_texts import LiveTexts
from proxy.guard.prints import Print, print_of, prints_of, prints_of_pieces, said_by
from storage.values import Stands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policy.model import Tenant
    from proxy.seams.recalls import ScreensRows
    from storage.values import Forgotten, Moved, News

DENIED_MAX: Final = 10_000
SIFTED_MAX: Final = 32_768
"""Answers that are remembered, of all scopes together; about 8 MB."""
# Also the label of what a person let in.
_PERSONS: Final = frozenset({SourceKind.USER_INPUT, SourceKind.OPERATOR})
_WITHHELD: Final = frozenset({Stands.HELD, Stands.DENIED, Stands.FORWARDING, Stands.QUARANTINED})

# A memory in such a state is on the server, or may be; one that waits for a person is not.
_THERE: Final = frozenset({Stands.LIVE, Stands.FORWARDING, Stands.QUARANTINED})

# Most keys have one memory, so they share these counts.
_ALONE: Final = {stands: Counter((stands,)) for stands in Stands}

Scope = tuple["Tenant", str]


class Owned(enum.Enum):
    """Whose the memory under a key of a server is, by the verdicts of this gate."""

    MINE = "mine"  # the tenant has it, and it is shown
    HIDDEN = "hidden"  # the tenant has it under quarantine, or its outcome is not known
    OTHERS = "others"  # only other tenants have it
    NOBODYS = "nobodys"  # no verdict let it in


class _Known(NamedTuple):
    scope: Scope
    stands: Stands
    prints: tuple[Print, ...]
    key: str = ""
    ordinal: int = 0
    by_person: bool = False
    said: bytes = b""


class _Sifted:
    """Recent answers of the sieve, because an agent reads its whole memory again and again.

    A text is stored as its hash alone. An answer holds for one generation of a scope's prints. Each
    change of the prints begins a new generation, so that no outdated answer is used.
    """

    def __init__(self) -> None:
        self._generations = itertools.count()
        self._answers: OrderedDict[tuple[int, bytes], bool] = OrderedDict()

    def generation(self) -> int:
        return next(self._generations)

    def answer(self, generation: int, digest: bytes) -> bool | None:
        return self._answers.get((generation, digest))

    def keep(self, generation: int, digest: bytes, *, answer: bool) -> None:
        self._answers[generation, digest] = answer
        if len(self._answers) > SIFTED_MAX:
            self._answers.popitem(last=False)


class _Withheld:
    """Prints of one tenant's pieces behind one server.

    For each print: how many hidden memories have the piece, and which shown ones.
    """

    def __init__(self, sifted: _Sifted) -> None:
        self.withheld: Counter[Print] = Counter()
        self.shown = LiveTexts()
        self.forgotten = ForgottenTexts()
        # For each key under which the server files a memory: how many memories stand how. The
        # counts are shared and never changed.
        self.keys: dict[str, Counter[Stands]] = {}
        # For each such key: what was judged with each live memory, by the memory's ordinal.
        self.said: dict[str, dict[int, bytes]] = {}
        self._sorted: list[str] | None = None
        self._anchors: dict[int, list[Print]] | None = None
        self._wholes: frozenset[Print] = frozenset()
        self._sifted = sifted
        self._generation = sifted.generation()

    def standing(self, key: str, *, is_prefix: bool) -> Counter[Stands]:
        """How the memories under a key stand, or those under every key that begins with it."""
        if not is_prefix:
            return self.keys.get(key, Counter())
        if self._sorted is None:
            self._sorted = sorted(self.keys)
        found: Counter[Stands] = Counter()
        for at in range(bisect_left(self._sorted, key), len(self._sorted)):
            if not self._sorted[at].startswith(key):
                break
            found += self.keys[self._sorted[at]]
        return found

    def file(self, key: str, stands: Stands, count: int) -> None:
        """Count a memory under its key, or with -1 count it no longer."""
        if not key:
            return
        counts = Counter(self.keys.get(key))
        counts[stands] += count
        counts = +counts
        if counts:
            alone = counts.total() == 1
            self.keys[key] = _ALONE[next(iter(counts))] if alone else counts
        else:
            self.keys.pop(key, None)
        self._sorted = None

    def says_other(self, key: str, strings: Iterable[str]) -> bool:
        judged = self.said.get(key)
        if not judged:
            return False
        said = judged[max(judged)]
        newest = {said[at : at + DIGEST_LEN] for at in range(0, len(said), DIGEST_LEN)}
        return any(digest_of(text) not in newest for text in strings)

    def touch(self) -> None:
        self._anchors = None
        self._generation = self._sifted.generation()

    def holds_back(self, text: str) -> bool:
        anchors = self._anchors
        if anchors is None:
            anchors = self._build()
        if not anchors and not self._wholes and not self.forgotten:
            return False
        digest = digest_of(text)
        answer = self._sifted.answer(self._generation, digest)
        if answer is None:
            answer = self._read(text, anchors)
            self._sifted.keep(self._generation, digest, answer=answer)
        return answer

    def _read(self, text: str, anchors: dict[int, list[Print]]) -> bool:
        shapes = dict.fromkeys(shape_of(reading) for reading in readings_of(text))
        if self._wholes and any(print_of(shape, whole=True) in self._wholes for shape in shapes):
            return True
        if anchors and any(self._contains(shape, anchors) for shape in shapes):
            return True
        return bool(self.forgotten) and self.forgotten.stand_in(shapes)

    def _build(self) -> dict[int, list[Print]]:
        # A piece that also stands in a shown memory is not withheld. Otherwise a steered agent
        # could hide a memory by proposing its text again so that it is held.
        acting = [one for one in self.withheld if one not in self.shown]
        self._wholes = frozenset(one for one in acting if one.whole)
        anchors: dict[int, list[Print]] = {}
        for one in acting:
            if not one.whole:
                anchors.setdefault(one.anchor, []).append(one)
        self._anchors = anchors
        return anchors

    @staticmethod
    def _contains(shape: str, anchors: dict[int, list[Print]]) -> bool:
        for at in range(len(shape) - CONTAINED_LEN_MIN + 1):
            for one in anchors.get(hash(shape[at : at + CONTAINED_LEN_MIN]), ()):
                part = shape[at : at + one.length]
                if len(part) == one.length and digest_of(part) == one.digest:
                    return True
        return False


class Sieve:
    """Knows the prints of hidden memories, derived from the store, in memory.

    Any thread, but only the caller that holds `turn`. `news` returns the changes since a number of
    leaves; for -1, everything. `screen` tells which live memories may not be shown either.
    """

    def __init__(self, news: Callable[[int], News], screen: ScreensRows | None = None) -> None:
        self.turn = asyncio.Lock()
        self._news = news
        self._screen = screen
        # By tenant, the rules under which its live memories were taken in.
        self._rules: dict[Tenant, object] = {}
        self._left_out: dict[str, Tenant] = {}
        self._leaf_count = -1
        self._known: dict[str, _Known] = {}
        self._scopes: dict[Scope, _Withheld] = {}
        self._sifted = _Sifted()
        self._denied: deque[str] = deque()
        # By server, how often anything changed that is known of it; and how often all of it did.
        self._moves = Counter[str]()
        self._begun = 0

    def sift(self, scope: Scope, strings: Iterable[str]) -> tuple[bool, ...]:
        """For each string: whether it must not reach the agent.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        self.refresh()
        withheld = self._scopes.get(scope)
        if withheld is None:
            return tuple(False for _ in strings)
        return tuple(withheld.holds_back(one) for one in strings)

    def moves(self, target: str) -> tuple[int, int]:
        """What changes as soon as one of this sieve's answers about a server may have changed."""
        return self._begun, self._moves[target]

    def shown(self, scope: Scope) -> LiveTexts | None:
        """The live memories of a scope as of the last refresh; None where there never were any."""
        found = self._scopes.get(scope)
        return None if found is None else found.shown

    def owned(
        self, scope: Scope, keys: Iterable[tuple[str, bool]], *, counts_sent: bool = True
    ) -> tuple[Owned, ...]:
        """Whose the memory under each key is, or for a prefix those under such keys.

        `counts_sent`: whether the scope has a memory of its own that is not settled. One that a
        person released a moment ago does not make the key its tenant's.

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
        own = _THERE if counts_sent else _THERE - {Stands.FORWARDING}
        return tuple(_owned(mine, others, key, own, is_prefix=prefix) for key, prefix in keys)

    def say_other(
        self, scope: Scope, items: Iterable[tuple[str, Iterable[str]]]
    ) -> tuple[bool, ...]:
        """For each key with what its server shows there: whether some of that was not judged.

        The newest live memory under the key counts, with all that it was judged to be merged with.
        """
        mine = self._scopes.get(scope)
        return tuple(mine is not None and mine.says_other(*one) for one in items)

    def refresh(self) -> None:
        """Take in the changes of the store since the last refresh."""
        news = self._news(self._leaf_count)
        if news.whole:
            self._begin_anew()
        self._forget(news.forgotten)
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
        """The live memories taken in as hidden since the last call, with their tenants."""
        found, self._left_out = self._left_out, {}
        return found

    @property
    def far_behind(self) -> bool:
        """Whether the next refresh reads everything, which is too slow for the event loop."""
        return self._leaf_count < 0

    def hold(self, name: str, scope: Scope, pieces: tuple[str, ...]) -> None:
        """Take in a candidate that was held a moment ago, while its text is at hand.

        If a person refuses it before the next refresh, its text is stored nowhere any more, so the
        prints are taken now.
        """
        self._drop(name)
        self._put(name, _Known(scope=scope, stands=Stands.HELD, prints=prints_of_pieces(pieces)))

    def take(self, moved: tuple[Moved, ...]) -> None:
        """Take in candidates whose texts are at hand, before the first refresh."""
        for one in moved:
            self._take(one)

    def _forget(self, forgotten: tuple[Forgotten, ...]) -> None:
        """Hide texts that were purged here, and that their server may show all the same."""
        scopes: set[Scope] = set()
        for one in forgotten:
            scope = (one.tenant, one.target)
            self._scopes.setdefault(scope, _Withheld(self._sifted)).forgotten.add(one)
            scopes.add(scope)
        for scope in scopes:
            self._scopes[scope].forgotten.forget_openers()
            self._scopes[scope].touch()
        for known in self._known.values() if scopes else ():
            if known.scope in scopes:
                self._count(known, 1)

    def _count(self, known: _Known, count: int) -> None:
        """Have a live memory open the forgotten texts that it says, or with -1 no longer."""
        forgotten = self._scopes[known.scope].forgotten
        if forgotten and known.stands not in _WITHHELD:
            forgotten.count(known.prints, known.ordinal, by_person=known.by_person, count=count)

    def _begin_anew(self) -> None:
        self._begun += 1
        # Prints of refused texts exist only here, so they are kept. Prints of held texts are
        # dropped, because the store reports all texts that are still held again.
        gone = {
            name: known._replace(stands=Stands.DENIED)
            for name, known in self._known.items()
            if known.stands in {Stands.HELD, Stands.DENIED}
        }
        self._known.clear()
        self._scopes.clear()
        self._denied.clear()
        for name, known in gone.items():
            self._put(name, known)
            self._bound(name)

    def _take(self, moved: Moved) -> None:
        before = self._known.get(moved.name)
        if moved.candidate is not None and moved.tenant is not None:
            known = _Known(
                scope=(moved.tenant, moved.candidate.target),
                stands=self._standing(moved, moved.tenant),
                prints=prints_of(moved.candidate),
                key=moved.key,
                ordinal=moved.ordinal,
                by_person=moved.source in _PERSONS,
                said=said_by(moved.candidate),
            )
        elif before is not None:
            known = before._replace(stands=moved.stands)
        else:
            return
        self._drop(moved.name)
        if moved.stands is not Stands.GONE:
            self._put(moved.name, known)
        if moved.stands is Stands.DENIED:
            self._bound(moved.name)

    def _standing(self, moved: Moved, tenant: Tenant) -> Stands:
        """How a memory stands; a live one that may not be shown stands as if it were hidden."""
        if self._screen is None or moved.stands is not Stands.LIVE:
            return moved.stands
        if self._screen.shows(moved, tenant):
            return moved.stands
        self._left_out[moved.name] = tenant
        return Stands.QUARANTINED

    def _bound(self, name: str) -> None:
        self._denied.append(name)
        if len(self._denied) > DENIED_MAX:
            oldest = self._denied.popleft()
            known = self._known.get(oldest)
            if known is not None and known.stands is Stands.DENIED:
                self._drop(oldest)

    def _put(self, name: str, known: _Known) -> None:
        self._known[name] = known
        self._moves[known.scope[1]] += 1
        scope = self._scopes.setdefault(known.scope, _Withheld(self._sifted))
        if known.stands in _WITHHELD:
            scope.withheld.update(known.prints)
        else:
            scope.shown.add(name, known.prints)
            self._count(known, 1)
        scope.file(known.key, known.stands, 1)
        if known.stands is Stands.LIVE and known.said:
            scope.said.setdefault(known.key, {})[known.ordinal] = known.said
        scope.touch()

    def _drop(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is None:
            return
        self._moves[known.scope[1]] += 1
        scope = self._scopes[known.scope]
        scope.touch()
        scope.file(known.key, known.stands, -1)
        judged = scope.said.get(known.key, {})
        judged.pop(known.ordinal, None)
        if not judged:
            scope.said.pop(known.key, None)
        if known.stands not in _WITHHELD:
            scope.shown.drop(name)
            self._count(known, -1)
            return
        for one in known.prints:
            scope.withheld[one] -= 1
            if scope.withheld[one] <= 0:
                del scope.withheld[one]


def _owned(
    mine: _Withheld | None,
    others: list[_Withheld],
    key: str,
    counted: frozenset[Stands],
    *,
    is_prefix: bool,
) -> Owned:
    if not key:
        return Owned.NOBODYS
    own = Counter[Stands]() if mine is None else mine.standing(key, is_prefix=is_prefix)
    if own[Stands.LIVE]:
        return Owned.MINE
    if any(own[stands] for stands in counted):
        return Owned.HIDDEN
    for other in others:
        theirs = other.standing(key, is_prefix=is_prefix)
        if any(theirs[stands] for stands in _THERE):
            return Owned.OTHERS
    return Owned.NOBODYS
