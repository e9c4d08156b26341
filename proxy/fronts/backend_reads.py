"""Reads of an upstream memory server: asks the server, sifts its answers, and cuts pages."""

from __future__ import annotations

from collections import Counter, OrderedDict
from sys import getsizeof
from typing import Final, cast

import msgspec

from policy.bounded import Bounded
from policy.model import Hiding, Principal, Reads, SourceKind
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.guard.key_owners import KeyOwners
from proxy.seams.faults import MalformedRequest, UpstreamError
from proxy.seams.guard import Guard, RelayedText
from proxy.seams.http_backend import ReadPage, RoutedRequest, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.settings.backend import Before
from storage.ground.errors import StorageError

AGAIN_S: Final = 30.0
"""Seconds that a place counts as one without tags; a server may be restored from a backup."""
_PLACES_MAX: Final = 4_096


class TaggedPlaces:
    """The places of one server that have items with the sidecar's tag. Event loop only.

    Agents are never shown a tagged item. A new store does not know which items were quarantined,
    and an answer may leave out the metadata with the tag, so the server is asked to filter tagged
    items out. The filter is slow (at 100,000 records 200 ms instead of 3), so it is sent only for a
    place where an item has a tag, or may get one at any moment.
    """

    def __init__(self, behind: BackendServerFront) -> None:
        self._behind = behind
        # Maps the path of the question about a place to the time until which the place counts as
        # one without tags.
        self._without = Bounded[str, float](_PLACES_MAX)

    async def untagged(self, outgoing: HttpRequest) -> HttpRequest:
        """The read to forward, with the server's filter if its place may have a tagged item.

        Raises:
            UpstreamError: The server does not answer.
            Busy: Too many requests to the server are unanswered.
        """
        hiding = self._behind.adapter.hiding
        question = None if hiding is None else hiding.tagged(outgoing)
        if hiding is None or question is None:
            return outgoing
        tags = self._behind.settings.quarantine is Hiding.TAG
        return hiding.untagged(outgoing) if tags or await self._has_tag(question) else outgoing

    async def _has_tag(self, question: HttpRequest) -> bool:
        now_s = self._behind.now_s()
        if now_s < self._without.get(question.path, 0.0):
            return False
        reply = await self._behind.ask(question)
        try:
            none = reply.status in _ANSWERED and not self._behind.adapter.shown(question, reply)
        except MalformedRequest:
            none = False
        if none:
            self._without[question.path] = now_s + AGAIN_S
        return not none


KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes of memory that cached answers of one server take, for all readers together."""
_ENTRY_SIZE: Final = 1_024
"""The bytes that a cache entry takes in addition to its strings."""


class SiftedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the server in the form that the agent gets.

    `texts` are the strings of memories in it. If `is_whole` is False, too much was hidden to fill
    the page, and the server has to be asked for more memories.
    """

    reply: HttpReply
    texts: tuple[str, ...]
    is_whole: bool = True


_Asked = tuple[object, ...]


def asked(
    principal: Principal, request: HttpRequest, count: int | None, reply: HttpReply
) -> _Asked:
    """The cache key of a sifted answer: everything that it depends on except hidden memories.

    `count` is the number of memories that the server was asked for.
    """
    reader = (principal.tenant, principal.reads)
    said = (reply.status, reply.content_type, reply.headers, reply.body)
    return (*reader, request.method, request.path, request.query, request.body, count, *said)


class SiftedAnswers:
    """A cache of sifted answers, because an agent reads its whole memory again and again.

    Bounded; the least recently used answers are dropped first. Event loop only.

    The first read of the server after any change drops the whole cache, so a purged text is in it
    until that read at most.
    """

    def __init__(self) -> None:
        self._standing: object = None
        self._kept: OrderedDict[_Asked, SiftedAnswer] = OrderedDict()
        self._bytes = 0

    def find(self, standing: object, key: _Asked) -> SiftedAnswer | None:
        """The sifted answer for a key; None if there is none, or `standing` has changed since."""
        if standing != self._standing:
            self._standing = standing
            self._kept.clear()
            self._bytes = 0
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, standing: object, key: _Asked, found: SiftedAnswer) -> None:
        """Store a sifted answer; `standing` is the value from before the answer was sifted."""
        size = _size(key, found)
        if standing != self._standing or size > KEPT_BYTES_MAX or key in self._kept:
            return
        self._kept[key] = found
        self._bytes += size
        while self._bytes > KEPT_BYTES_MAX:
            self._bytes -= _size(*self._kept.popitem(last=False))


def _size(key: _Asked, found: SiftedAnswer) -> int:
    """The bytes that one entry takes in memory, with its key: an answer may be shorter by far."""
    named = cast(
        "list[tuple[tuple[str, str], ...]]", [one for one in key if isinstance(one, tuple)]
    )
    words = [word for pairs in named for pair in pairs for word in pair]
    kept: tuple[object, ...] = (key, *key, *words, found.reply.body, *found.texts)
    return _ENTRY_SIZE + sum(map(getsizeof, kept))


# The factor by which more memories are asked for if too many in the answer are hidden.
_TIMES: Final = 4
_ANSWERED: Final = range(200, 300)
_TOO_MANY: Final = (
    "too much of what this finds must not be shown, so nobody can tell what the page has; ask more "
    "closely"
)
_UNREADABLE: Final = "the answer of the server behind cannot be read, so nothing of it is shown"


class BackendReads:
    """Answers reads of one server. Event loop only; the guard decides what is hidden."""

    def __init__(self, behind: BackendServerFront, guard: Guard, keys: KeyOwners) -> None:
        self._behind = behind
        self._tags = TaggedPlaces(behind)
        self._guard = guard
        self._keys = keys
        self._before = SiftedAnswers()

    async def answer(
        self, principal: Principal, request: HttpRequest, routed: RoutedRequest, call_id: str
    ) -> HttpReply:
        """The server's answer without the memories that must not be shown.

        If nothing is left out, it is the server's own answer. Pages are cut here from the memories
        that the reader may see: the server is asked from the beginning, and for more until the page
        is full or the server has no more. A page that the server cuts would reveal how many hidden
        memories a filter finds.

        Raises:
            MalformedRequest: The page is too far from the beginning.
            UpstreamError: There is no answer, it cannot be read, or too much is hidden to fill the
                page within the server's bounds.
            StorageError: The guard does not know what may be shown.
        """
        adapter = self._behind.adapter
        page = adapter.page(request)
        count = None if page is None else _first_count(page)
        outgoing = adapter.asking(request, count)
        while True:
            reply = await self._behind.ask(await self._tags.untagged(outgoing))
            if reply.status not in _ANSWERED:
                return self._behind.shown(request, reply)
            found = await self._looked_through(principal, request, routed, reply, count)
            if page is None or count is None or found.is_whole:
                break
            count = _wider(page, count)
            outgoing = adapter.asking(request, count)
        await self._saw(principal, routed, call_id, found.texts)
        return found.reply

    async def _looked_through(
        self,
        principal: Principal,
        request: HttpRequest,
        routed: RoutedRequest,
        reply: HttpReply,
        count: int | None,
    ) -> SiftedAnswer:
        """The sifted answer to a read for `count` memories, from the cache if it is there."""
        standing = await self._keys.standing(principal, self._behind.settings.name)
        key = asked(principal, request, count, reply)
        found = self._before.find(standing, key)
        if found is not None:
            return found
        page = self._behind.adapter.page(request)
        shown, hidden = await self._sifted(principal, request, reply)
        dropped = _dropped(page, shown, hidden)
        given = reply
        # With a floor every answer is made anew, so that the form of an answer does not reveal
        # whether something below the floor was removed.
        if dropped or routed.remade or principal.reads is not Reads.ALL:
            left = self._behind.adapter.without(request, reply, dropped)
            # The answer for a hidden memory has the same words as for one that does not exist.
            given = self._behind.shown(request, left)
        found = SiftedAnswer(
            reply=given,
            texts=tuple(text for one in shown if one.place not in dropped for text in one.strings),
            is_whole=page is None or count is None or _is_full(page, count, shown, hidden),
        )
        self._before.keep(standing, key, found)
        return found

    async def _sifted(
        self, principal: Principal, request: HttpRequest, reply: HttpReply
    ) -> tuple[tuple[ShownMemory, ...], tuple[bool, ...]]:
        settings = self._behind.settings
        try:
            shown = self._behind.adapter.shown(request, reply)
        except MalformedRequest:
            # The request was checked before it was sent, so the error is about the answer.
            raise UpstreamError(_UNREADABLE) from None
        hidden = await self._keys.hides(
            principal, settings.name, shown, hides_unknown=settings.before is Before.HIDE
        )
        return shown, hidden

    async def _saw(
        self,
        principal: Principal,
        routed: RoutedRequest,
        call_id: str,
        texts: tuple[str, ...],
    ) -> None:
        if not texts:
            return
        await self._keys.showed(principal, self._behind.settings.name, texts)
        segment = RelayedText(
            server=self._behind.settings.name,
            tool=routed.operation,
            call_id=call_id,
            texts=texts,
            kind=SourceKind.UNKNOWN,
        )
        try:
            await self._guard.saw(principal, segment)
        except (StorageError, MalformedRequest):
            # The texts could not be noted, which is harmless: without a model front every write has
            # the lowest label anyway, and with one the agent's next request contains the texts.
            return


def _first_count(page: ReadPage) -> int | None:
    """The number of memories that the server is asked for first: enough if nothing is hidden.

    Raises:
        MalformedRequest: The page is too far from the beginning.
    """
    # With this bound, a page can fail only if at least half as many memories are hidden as the
    # server gives at once, so the failure does not reveal a single hidden memory.
    end = page.offset if page.end is None else page.end
    if end > page.most // 2:
        raise MalformedRequest(f"offset, limit: together at most {page.most // 2}", status=400)
    return page.end


def _is_full(
    page: ReadPage, count: int, shown: tuple[ShownMemory, ...], hidden: tuple[bool, ...]
) -> bool:
    """Whether every group fills the page, or contains all memories that the server has.

    `shown` answers a read for the first `count` memories of each group.
    """
    found = Counter(one.group for one in shown)
    left = Counter(one.group for one, hides in zip(shown, hidden, strict=True) if not hides)
    return all(left[group] >= (page.end or 0) or number < count for group, number in found.items())


def _wider(page: ReadPage, count: int) -> int:
    """The number of memories that the server is asked for next.

    Raises:
        UpstreamError: The server gives no more at once.
    """
    if count >= page.most:
        raise UpstreamError(_TOO_MANY, sent=False)
    return min(count * _TIMES, page.most)


def _dropped(
    page: ReadPage | None, shown: tuple[ShownMemory, ...], hidden: tuple[bool, ...]
) -> frozenset[int]:
    """The places of memories to leave out: those hidden, and those before or after the page."""
    dropped, seen = set[int](), Counter[int]()
    for one, hides in zip(shown, hidden, strict=True):
        at = seen[one.group]
        is_on_page = page is None or (at >= page.offset and (page.end is None or at < page.end))
        if hides or not is_on_page:
            dropped.add(one.place)
        seen[one.group] += not hides
    return frozenset(dropped)
