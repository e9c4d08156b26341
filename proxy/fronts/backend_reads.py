"""Reads of a memory server behind the gate: asked, sifted, refilled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from policy.model import SourceKind
from proxy.seams.faults import MalformedRequest, UpstreamError
from proxy.seams.guard import Segment
from proxy.settings.backend import Before
from storage.errors import StorageError

if TYPE_CHECKING:
    from policy.model import Principal
    from proxy.fronts.backend_behind import BackendBehind
    from proxy.seams.guard import Guard
    from proxy.seams.http_backend import GuardsKeys, Routed, ShownMemory
    from proxy.seams.operation import HttpReply, HttpRequest

# How much wider a read is asked again, where something in its answer is hidden.
_WIDER: Final = (2, 8, 64, 512)
_ANSWERED: Final = range(200, 300)
_UNREADABLE: Final = "the answer of the server behind cannot be read, so nothing of it is shown"


class BackendReads:
    """Answers reads of one server. Event loop only; decides nothing: the guard says what hides."""

    def __init__(self, behind: BackendBehind, guard: Guard, keys: GuardsKeys) -> None:
        self._behind = behind
        self._guard = guard
        self._keys = keys

    async def answer(
        self, principal: Principal, request: HttpRequest, routed: Routed, call_id: str
    ) -> HttpReply:
        """The server's answer without what must not be shown.

        It is the very answer where nothing is hidden. Otherwise the server is asked for more, until
        there are as many memories as it gave at first, or the server has no more.

        Raises:
            UpstreamError: There is no answer, or none that can be read.
            StorageError: The guard cannot say what may be shown.
        """
        reply = await self._behind.ask(self._behind.adapter.asking(request))
        if reply.status not in _ANSWERED:
            return await self._failure(principal, reply)
        shown, hidden = await self._sifted(principal, request, reply)
        wanted = Counter(one.group for one in shown)
        for times in _WIDER if any(hidden) else ():
            wider = self._behind.adapter.wider(request, times)
            if wider is None or not _missing(wanted, shown, hidden):
                break
            further = await self._further(wider)
            if further is None:
                break
            known = len(shown)
            reply = further
            shown, hidden = await self._sifted(principal, request, reply)
            if len(shown) <= known:
                break
        dropped = _dropped(wanted, shown, hidden)
        if dropped or routed.remade:
            reply = self._behind.adapter.without(request, reply, dropped)
        await self._saw(principal, routed, call_id, shown, dropped)
        return reply

    async def _further(self, wider: HttpRequest) -> HttpReply | None:
        """The answer to a wider read; None where the server has none, or too large a one."""
        try:
            reply = await self._behind.ask(wider)
        except UpstreamError:
            return None
        return reply if reply.status in _ANSWERED else None

    async def _failure(self, principal: Principal, reply: HttpReply) -> HttpReply:
        """A failure as the server tells it, unless its text says what is withheld."""
        said = (reply.body.decode("utf-8", "replace"),)
        if any(await self._guard.sift(principal, self._behind.settings.name, said)):
            raise UpstreamError("the server behind failed, and what it says is withheld")
        return reply

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
        shown: tuple[ShownMemory, ...],
        dropped: frozenset[int],
    ) -> None:
        texts = tuple(text for one in shown if one.place not in dropped for text in one.strings)
        if not texts:
            return
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


def _missing(
    wanted: Counter[int], shown: tuple[ShownMemory, ...], hidden: tuple[bool, ...]
) -> bool:
    """Whether a group has fewer memories to be shown than it had at first."""
    left = Counter(one.group for one, hides in zip(shown, hidden, strict=True) if not hides)
    return any(left[group] < count for group, count in wanted.items())


def _dropped(
    wanted: Counter[int], shown: tuple[ShownMemory, ...], hidden: tuple[bool, ...]
) -> frozenset[int]:
    """The places to leave out: what is hidden, and what is more than was asked for."""
    room, dropped = Counter(wanted), set[int]()
    for one, hides in zip(shown, hidden, strict=True):
        if hides or room[one.group] <= 0:
            dropped.add(one.place)
        else:
            room[one.group] -= 1
    return frozenset(dropped)
