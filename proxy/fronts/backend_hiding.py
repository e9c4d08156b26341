"""Quarantined memories of a server behind, hidden on that server as well.

Reads are sifted whatever happens here. Each act is recorded before the server is asked and when it
has answered, and what is due is read from the store. So an act may be sent twice, and none is lost.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from policy.model import Hiding, Principal
from proxy.fronts.backend_writes import SETTLES
from proxy.seams.faults import Busy, MalformedRequest, UpstreamError
from storage.errors import StorageError

if TYPE_CHECKING:
    from proxy.fronts.backend_behind import BackendBehind
    from proxy.fronts.backend_writes import BackendPlaces
    from proxy.seams.http_backend import GuardsKeys, HidesItems, ItemDue
    from proxy.seams.operation import HttpReply

_LOG: Final = logging.getLogger("mnemogate.settle")
_DONE: Final = range(200, 300)
_MISSING: Final = 404
_PAUSE_MAX: Final = 64
_NOT_DONE: Final = "the server behind did not do it"


class BackendHiding:
    """Hides and shows the items of one server. Event loop only."""

    def __init__(self, behind: BackendBehind, keys: GuardsKeys, places: BackendPlaces) -> None:
        self._behind = behind
        self._keys = keys
        self._places = places
        # The counter of changes after which nothing was due.
        self._nothing_due_at: int | None = None
        self._round = 0
        self._pause = 1
        self._paused_until = 0

    async def round(self) -> None:
        """Ask the server for what is due. Where it failed before, only now and then."""
        self._round += 1
        hiding, changes = self._behind.adapter.hiding, self._keys.hiding_changes()
        if hiding is None or changes == self._nothing_due_at or self._round < self._paused_until:
            return
        settings = self._behind.settings
        try:
            due = await self._keys.hiding_due(settings.name, settings.quarantine)
        except StorageError:
            return
        failed = 0
        for group in self._groups(hiding, due):
            try:
                await self._act(hiding, group)
            except (UpstreamError, MalformedRequest, Busy, StorageError):
                failed += len(group)
        if failed:
            _LOG.warning("hiding on a server later", extra={"count": failed})
            self._paused_until = self._round + self._pause
        self._pause = min(self._pause * 2, _PAUSE_MAX) if failed else 1
        if not due:
            self._nothing_due_at = changes

    def _groups(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> list[tuple[ItemDue, ...]]:
        """Acts of one kind and tenant on items of one place, as many as a request can be about."""
        kinds: dict[tuple[str, ...], list[ItemDue]] = {}
        for one in due:
            try:
                place = self._places.name(hiding.removing((one.item,)))
            except MalformedRequest:
                # The item was made by an adapter of another kind, which served this name before.
                continue
            kind = (one.hiding.value, str(one.hides), one.tenant, place)
            kinds.setdefault(kind, []).append(one)
        return [group for those in kinds.values() for group in _batched(hiding, tuple(those))]

    async def _act(self, hiding: HidesItems, group: tuple[ItemDue, ...]) -> None:
        """Do one thing to some items of a place, with nothing else happening in that place.

        Raises:
            UpstreamError, MalformedRequest, Busy, StorageError: It is not done, or not recorded; it
                stays due.
        """
        principal = Principal(principal_id=SETTLES, tenant=group[0].tenant)
        await self._behind.check_version(self._keys, principal)
        settings = self._behind.settings
        async with self._places.turn(hiding.removing(tuple(one.item for one in group))):
            # A write of an agent may have come, or an operator, before this turn did.
            only = frozenset(one.keyed for one in group)
            still = await self._keys.hiding_due(settings.name, settings.quarantine, only)
            first = group[0]
            due = tuple(
                one for one in still if (one.hiding, one.hides) == (first.hiding, first.hides)
            )
            if due and first.hiding is Hiding.TAG:
                await self._tag(hiding, due, tagged=first.hides)
            elif due and first.hides:
                await self._remove(hiding, due)
            elif due:
                await self._put_back(hiding, due)

    async def _tag(self, hiding: HidesItems, due: tuple[ItemDue, ...], *, tagged: bool) -> None:
        name, nothing = self._behind.settings.name, (b"",) * len(due)
        if tagged:
            # Recorded first: a tag that nobody remembers would be taken out by nobody.
            await self._keys.hidden(name, due, nothing, done=False)
        items = tuple(one.item for one in due)
        _check(await self._behind.ask(hiding.tagging(items, tagged=tagged)))
        if tagged:
            await self._keys.hidden(name, due, nothing, done=True)
        else:
            await self._keys.shown_again(due)

    async def _remove(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> None:
        name, items = self._behind.settings.name, tuple(one.item for one in due)
        stands = await self._stands(hiding, due)
        # What stands no more was deleted by an earlier attempt, which kept it.
        kept = tuple(new or one.kept for new, one in zip(stands, due, strict=True))
        await self._keys.hidden(name, due, kept, done=False)
        _check(await self._behind.ask(hiding.removing(items)))
        await self._keys.hidden(name, due, kept, done=True)

    async def _put_back(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> None:
        stands = await self._stands(hiding, due)
        # Where something stands again, it is newer than what was removed.
        back = [one for one, new in zip(due, stands, strict=True) if one.kept and not new]
        if back:
            items, kept = tuple(one.item for one in back), tuple(one.kept for one in back)
            reply = await self._behind.ask(hiding.restoring(items, kept))
            if reply.status not in _DONE:
                raise UpstreamError(_NOT_DONE)
        await self._keys.shown_again(due)

    async def _stands(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> tuple[bytes, ...]:
        items = tuple(one.item for one in due)
        reply = await self._behind.ask(hiding.standing(items))
        _check(reply)
        return hiding.kept(items, reply)


def _batched(hiding: HidesItems, due: tuple[ItemDue, ...]) -> list[tuple[ItemDue, ...]]:
    tags = due[0].hiding is Hiding.TAG
    size = hiding.tagged_at_once if tags else hiding.removed_at_once
    return [due[begin : begin + size] for begin in range(0, len(due), size)]


def _check(reply: HttpReply) -> None:
    """Refuse an answer by which a server did not do what it was asked.

    Where the server has no such place any more, there is nothing to hide.

    Raises:
        UpstreamError: It has not.
    """
    if reply.status not in _DONE and reply.status != _MISSING:
        raise UpstreamError(_NOT_DONE)
