"""Which strings of another server's answers must not reach the agent (docs/architecture.md#mcp).

Memories that are held, denied, quarantined or not settled yet do not exist for the agent: whatever
their own server returns of them is hidden. Each server of each tenant is searched for its own
memories only, so a copy on another server is not hidden here. The sieve keeps prints of their
pieces and never the text: an index of refused texts would be one more place to find them in. Words
are compared in every reading of withholding, so punctuation, escapes, tags and base64 hide nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter, OrderedDict, deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.labels.forwarded_call import call_of
from policy.text.readings import readings_of
from policy.text.skeleton import skeleton
from policy.withheld.words import words_of
from storage.values import Stands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policy.model import Candidate, Tenant
    from storage.values import Moved, News

CONTAINED_LEN_MIN: Final = 8
DENIED_MAX: Final = 10_000
SIFTED_MAX: Final = 32_768
"""Answers that are remembered, of all scopes together; about 8 MB."""
_SPACES: Final = re.compile(r"\s+")
# A piece of one word is a name or a kind: a text that mentions it does not repeat the memory.
_ONE_WORD: Final = re.compile(r"[^\W\d_]+")
_WITHHELD: Final = frozenset({Stands.HELD, Stands.DENIED, Stands.FORWARDING, Stands.QUARANTINED})

Scope = tuple["Tenant", str]


class _Print(NamedTuple):
    """The fingerprint of one piece of a memory's text, without the text.

    It has a hash to search by, the length, and a digest that must be equal.
    """

    anchor: int
    length: int
    digest: bytes
    whole: bool  # whether only an equal string matches, and not one that contains the piece


class _Known(NamedTuple):
    scope: Scope
    stands: Stands
    prints: tuple[_Print, ...]


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

    For each print: how many hidden memories have the piece, and how many shown ones.
    """

    def __init__(self, sifted: _Sifted) -> None:
        self.withheld: Counter[_Print] = Counter()
        self.shown: Counter[_Print] = Counter()
        self._anchors: dict[int, list[_Print]] | None = None
        self._wholes: frozenset[_Print] = frozenset()
        self._sifted = sifted
        self._generation = sifted.generation()

    def touch(self) -> None:
        self._anchors = None
        self._generation = self._sifted.generation()

    def holds_back(self, text: str) -> bool:
        anchors = self._anchors
        if anchors is None:
            anchors = self._build()
        if not anchors and not self._wholes:
            return False
        digest = _digest(text)
        answer = self._sifted.answer(self._generation, digest)
        if answer is None:
            answer = self._read(text, anchors)
            self._sifted.keep(self._generation, digest, answer=answer)
        return answer

    def _read(self, text: str, anchors: dict[int, list[_Print]]) -> bool:
        shapes = dict.fromkeys(_shape(reading) for reading in readings_of(text))
        if self._wholes and any(_print(shape, whole=True) in self._wholes for shape in shapes):
            return True
        return bool(anchors) and any(self._contains(shape, anchors) for shape in shapes)

    def _build(self) -> dict[int, list[_Print]]:
        # A piece that also stands in a shown memory is not withheld. Otherwise a steered agent
        # could hide a memory by proposing its text again so that it is held.
        acting = [one for one in self.withheld if one not in self.shown]
        self._wholes = frozenset(one for one in acting if one.whole)
        anchors: dict[int, list[_Print]] = {}
        for one in acting:
            if not one.whole:
                anchors.setdefault(one.anchor, []).append(one)
        self._anchors = anchors
        return anchors

    @staticmethod
    def _contains(shape: str, anchors: dict[int, list[_Print]]) -> bool:
        for at in range(len(shape) - CONTAINED_LEN_MIN + 1):
            for one in anchors.get(hash(shape[at : at + CONTAINED_LEN_MIN]), ()):
                part = shape[at : at + one.length]
                if len(part) == one.length and _digest(part) == one.digest:
                    return True
        return False


class Sieve:
    """Knows the prints of hidden memories, derived from the store, in memory.

    Any thread, but only the caller that holds `turn`. `news` returns the changes since a number of
    leaves; for -1, everything.
    """

    def __init__(self, news: Callable[[int], News]) -> None:
        self.turn = asyncio.Lock()
        self._news = news
        self._leaf_count = -1
        self._known: dict[str, _Known] = {}
        self._scopes: dict[Scope, _Withheld] = {}
        self._sifted = _Sifted()
        self._denied: deque[str] = deque()

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

    def refresh(self) -> None:
        """Take in the changes of the store since the last refresh."""
        news = self._news(self._leaf_count)
        if news.whole:
            self._begin_anew()
        for moved in news.moved:
            self._take(moved)
        self._leaf_count = news.leaf_count

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
        self._put(name, _Known(scope=scope, stands=Stands.HELD, prints=_prints(pieces)))

    def take(self, moved: tuple[Moved, ...]) -> None:
        """Take in candidates whose texts are at hand, before the first refresh."""
        for one in moved:
            self._take(one)

    def _begin_anew(self) -> None:
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
                stands=moved.stands,
                prints=prints_of(moved.candidate),
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

    def _bound(self, name: str) -> None:
        self._denied.append(name)
        if len(self._denied) > DENIED_MAX:
            oldest = self._denied.popleft()
            known = self._known.get(oldest)
            if known is not None and known.stands is Stands.DENIED:
                self._drop(oldest)

    def _put(self, name: str, known: _Known) -> None:
        self._known[name] = known
        scope = self._scopes.setdefault(known.scope, _Withheld(self._sifted))
        (scope.withheld if known.stands in _WITHHELD else scope.shown).update(known.prints)
        scope.touch()

    def _drop(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is None:
            return
        scope = self._scopes[known.scope]
        counts = scope.withheld if known.stands in _WITHHELD else scope.shown
        for one in known.prints:
            counts[one] -= 1
            if counts[one] <= 0:
                del counts[one]
        scope.touch()


def prints_of(candidate: Candidate) -> tuple[_Print, ...]:
    """The prints of the pieces that tell this candidate from others.

    If one piece carries meaning by itself, the pieces beside it are names and kinds, which any
    memory may share: withholding them too would hide every memory of the same name.
    """
    call = call_of(candidate)
    return () if call is None else _prints(call.pieces)


def _prints(pieces: tuple[str, ...]) -> tuple[_Print, ...]:
    shapes = {shape for piece in pieces if (shape := _shape(piece))}
    telling = {shape for piece in pieces if _tells(piece, shape := _shape(piece))}
    return tuple(_print(shape, whole=not telling) for shape in sorted(telling or shapes))


def _tells(piece: str, shape: str) -> bool:
    spelled = _spelled(piece)
    long_enough = min(len(shape), len(spelled)) >= CONTAINED_LEN_MIN
    return long_enough and _ONE_WORD.fullmatch(spelled) is None


def _print(shape: str, *, whole: bool) -> _Print:
    anchor = 0 if whole else hash(shape[:CONTAINED_LEN_MIN])
    return _Print(anchor=anchor, length=len(shape), digest=_digest(shape), whole=whole)


def _shape(text: str) -> str:
    """The words of a text; for a text without words, its punctuation."""
    return " ".join(words_of(text)) or _spelled(text)


def _spelled(text: str) -> str:
    return _SPACES.sub(" ", skeleton(text)).strip()


def _digest(shape: str) -> bytes:
    return blake2b(shape.encode("utf-8", "surrogatepass"), digest_size=16).digest()
