"""Reads of a memory server behind the gate: asked, sifted, and cut into pages here."""

from __future__ import annotations

from collections import Counter
from typing import Final

from policy.model import Principal, Reads, SourceKind
from proxy.fronts.answers_before import AnswersBefore, LookedThrough, asked
from proxy.fronts.backend_behind import BackendBehind
from proxy.fronts.backend_tags import TaggedPlaces
from proxy.guard.keyed import GuardingKeys
from proxy.seams.faults import MalformedRequest, UpstreamError
from proxy.seams.guard import Guard, Segment
from proxy.seams.http_backend import Page, Routed, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.settings.backend import Before
from storage.errors import StorageError

# How much wider a read is asked again, where something in its answer is hidden.
_TIMES: Final = 4
_ANSWERED: Final = range(200, 300)
_TOO_MANY: Final = (
    "too much of what this finds must not be shown, so nobody can tell what the page has; ask more "
    "closely"
)
_UNREADABLE: Final = "the answer of the server behind cannot be read, so nothing of it is shown"


class BackendReads:
    """Answers reads of one server. Event loop only; decides nothing: the guard says what hides."""

    def __init__(self, behind: BackendBehind, guard: Guard, keys: GuardingKeys) -> None:
        self._behind = behind
        self._tags = TaggedPlaces(behind)
        self._guard = guard
        self._keys = keys
        self._before = AnswersBefore()

    async def answer(
        self, principal: Principal, request: HttpRequest, routed: Routed, call_id: str
    ) -> HttpReply:
        """The server's answer without what must not be shown.

        It is the very answer where nothing is left out. A page is cut here, out of what the reader
        is shown: the server is asked from the beginning, and for more until the page is full, or
        the server has no more. A page that the server cut would tell how many hidden memories a
        filter finds.

        Raises:
            MalformedRequest: The page is too far from the beginning.
            UpstreamError: There is no answer, none that can be read, or nobody can tell within the
                server's bounds what the page has.
            StorageError: The guard cannot say what may be shown.
        """
        adapter = self._behind.adapter
        outgoing = adapter.asking(request)
        page = adapter.page(request)
        count = None if page is None else _first_count(page)
        if page is not None:
            outgoing = adapter.from_start(request, count)
        while True:
            reply = await self._behind.ask(await self._tags.untagged(outgoing))
            if reply.status not in _ANSWERED:
                return self._behind.shown(request, reply)
            found = await self._looked_through(principal, request, routed, reply, count)
            if page is None or count is None or found.is_whole:
                break
            count = _wider(page, count)
            outgoing = adapter.from_start(request, count)
        await self._saw(principal, routed, call_id, found.texts)
        return found.reply

    async def _looked_through(
        self,
        principal: Principal,
        request: HttpRequest,
        routed: Routed,
        reply: HttpReply,
        count: int | None,
    ) -> LookedThrough:
        """The answer, to a question for `count` memories, without what must not be shown."""
        standing = await self._keys.standing(principal, self._behind.settings.name)
        key = asked(principal, request, count, reply)
        found = self._before.find(standing, key)
        if found is not None:
            return found
        page = self._behind.adapter.page(request)
        shown, hidden = await self._sifted(principal, request, reply)
        dropped = _dropped(page, shown, hidden)
        given = reply
        # With a floor every answer is made anew: its spelling does not tell what is below.
        if dropped or routed.remade or principal.reads is not Reads.ALL:
            given = self._behind.adapter.without(request, reply, dropped)
        found = LookedThrough(
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
            # The request was checked before it was sent, so this is about the answer.
            raise UpstreamError(_UNREADABLE) from None
        hidden = await self._keys.hides(
            principal, settings.name, shown, hides_unknown=settings.before is Before.HIDE
        )
        return shown, hidden

    async def _saw(
        self,
        principal: Principal,
        routed: Routed,
        call_id: str,
        texts: tuple[str, ...],
    ) -> None:
        if not texts:
            return
        await self._keys.showed(principal, self._behind.settings.name, texts)
        segment = Segment(
            server=self._behind.settings.name,
            tool=routed.operation,
            call_id=call_id,
            texts=texts,
            kind=SourceKind.UNKNOWN,
        )
        try:
            await self._guard.saw(principal, segment)
        except (StorageError, MalformedRequest):
            # The texts could not be noted. Without a model front every label is the lowest
            # already, and with one the reader's own request shows them again.
            return


def _first_count(page: Page) -> int | None:
    """For how many memories the server is asked at first: those of a page with nothing hidden.

    Raises:
        MalformedRequest: The page is too far from the beginning.
    """
    # It then takes as many hidden memories as half of what the server gives at once until a page
    # cannot be told, so a page at the bound tells nobody of a single one.
    end = page.offset if page.end is None else page.end
    if end > page.most // 2:
        raise MalformedRequest(f"offset, limit: together at most {page.most // 2}", status=400)
    return page.end


def _is_full(
    page: Page, count: int, shown: tuple[ShownMemory, ...], hidden: tuple[bool, ...]
) -> bool:
    """Whether every group has the whole page, or all that the server has.

    `shown` answers a read for the first `count` memories of each group.
    """
    found = Counter(one.group for one in shown)
    left = Counter(one.group for one, hides in zip(shown, hidden, strict=True) if not hides)
    return all(left[group] >= (page.end or 0) or number < count for group, number in found.items())


def _wider(page: Page, count: int) -> int:
    """For how many memories the server is asked next.

    Raises:
        UpstreamError: It gives no more at once.
    """
    if count >= page.most:
        raise UpstreamError(_TOO_MANY, sent=False)
    return min(count * _TIMES, page.most)


def _dropped(
    page: Page | None, shown: tuple[ShownMemory, ...], hidden: tuple[bool, ...]
) -> frozenset[int]:
    """The places to leave out: what is hidden, and what is before or behind the page."""
    dropped, seen = set[int](), Counter[int]()
    for one, hides in zip(shown, hidden, strict=True):
        at = seen[one.group]
        is_on_page = page is None or (at >= page.offset and (page.end is None or at < page.end))
        if hides or not is_on_page:
            dropped.add(one.place)
        seen[one.group] += not hides
    return frozenset(dropped)
