"""Hides quarantined memories on the upstream server that has them, and shows them again.

Reads are sifted whatever happens here. Each act is recorded before the server is asked, and again
when a read of the same items proves that it is done, because during a restart another server may
answer. The acts that are due are read from the store, so one may be sent twice, but none is lost.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from policy.model import Hiding, Principal
from proxy.backends.http_backend import HidesItems
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.fronts.backend_writes import SETTLES, BackendPlaces
from proxy.guard.key_owners import KeyOwners
from proxy.seams.faults import Busy, MalformedRequest, UpstreamError
from proxy.seams.http_backend import ItemDue, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest
from storage.ground.errors import StorageError

_LOG: Final = logging.getLogger("mnemogate.settle")
_DONE: Final = range(200, 300)
_PAUSE_MAX: Final = 64
_NOT_DONE: Final = "the server behind did not do it"

# A kind of act: how and whether it hides, the tenant, and the place on the server.
_Kind: TypeAlias = tuple[Hiding, bool, str, str]


class BackendHiding:
    """Hides and shows the items of one server. Event loop only."""

    def __init__(self, behind: BackendServerFront, keys: KeyOwners, places: BackendPlaces) -> None:
        self._behind = behind
        self._keys = keys
        self._places = places
        # The counter of changes when the store was last asked for acts due, and the round in which
        # the store is asked again although nothing changed; None if nothing was due.
        self._asked_at: int | None = None
        self._next: int | None = 0
        self._round = 0
        # Maps each kind of act that failed to the round until which it waits, and to the number of
        # rounds that it waits after the next failure.
        self._paused: dict[_Kind, tuple[int, int]] = {}

    async def round(self) -> None:
        """Carry out the acts that are due; acts that failed wait longer after each failure."""
        self._round += 1
        hiding, changes = self._behind.adapter.hiding, self._keys.hiding_changes()
        if hiding is None or (
            changes == self._asked_at and (self._next is None or self._round < self._next)
        ):
            return
        settings = self._behind.settings
        try:
            due = await self._keys.hiding_due(settings.name, settings.quarantine)
        except StorageError:
            return
        paused: dict[_Kind, tuple[int, int]] = {}
        done = False
        for kind, those in self._kinds(hiding, due).items():
            until, pause = self._paused.get(kind, (0, 1))
            if self._round < until:
                paused[kind] = (until, pause)
            elif failed := await self._failed(hiding, those):
                fields = {"server": settings.name, "count": failed}
                _LOG.warning("hiding on a server later", extra={"fields": fields})
                paused[kind] = (self._round + pause, min(pause * 2, _PAUSE_MAX))
            else:
                done = True
        self._paused = paused
        self._asked_at = changes
        ends = () if done else (until for until, _ in paused.values())
        self._next = min(ends, default=self._round + 1) if due else None

    async def _failed(self, hiding: HidesItems, due: list[ItemDue]) -> int:
        """Carry out the acts of one kind; return the number of items that are not changed."""
        failed = 0
        for group in _batched(hiding, tuple(due)):
            try:
                await self._act(hiding, group)
            except (UpstreamError, MalformedRequest, Busy, StorageError):
                failed += len(group)
        return failed

    def _kinds(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> dict[_Kind, list[ItemDue]]:
        """The acts that are due, grouped by kind."""
        kinds: dict[_Kind, list[ItemDue]] = {}
        for one in due:
            try:
                place = self._places.name(hiding.removing((one.item,)))
            except MalformedRequest:
                # The item was made by an adapter of another kind, which served this name before.
                continue
            kind = (one.hiding, one.hides, one.tenant, place)
            kinds.setdefault(kind, []).append(one)
        return kinds

    async def _act(self, hiding: HidesItems, group: tuple[ItemDue, ...]) -> None:
        """Carry out one kind of act on some items of a place, while no write happens there.

        Raises:
            UpstreamError, MalformedRequest, Busy, StorageError: The act is not done, or not
                recorded; it stays due.
        """
        principal = Principal(principal_id=SETTLES, tenant=group[0].tenant)
        await self._behind.check_version(self._keys, principal)
        settings = self._behind.settings
        async with self._places.turn(hiding.removing(tuple(one.item for one in group))):
            # Before this turn came, an agent's write or an operator may have made an act needless.
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
            # Recorded first, because a tag without a record would never be removed.
            await self._keys.hidden(name, due, nothing, done=False)
        await self._behind.ask(hiding.tagging(tuple(one.item for one in due), tagged=tagged))
        seen = await self._seen(hiding, due)
        stays = {key for key, one in seen.items() if one.is_tagged != tagged}
        await self._confirm(due, nothing, stays)

    async def _remove(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> None:
        name, items = self._behind.settings.name, tuple(one.item for one in due)
        stands = await self._stands(hiding, due)
        # An earlier attempt deleted an item that is not there any more, and stored its content.
        kept = tuple(new or one.kept for new, one in zip(stands, due, strict=True))
        await self._keys.hidden(name, due, kept, done=False)
        await self._behind.ask(hiding.removing(items))
        await self._confirm(due, kept, {*await self._seen(hiding, due)})

    async def _put_back(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> None:
        stands = await self._stands(hiding, due)
        # An item that is there again is newer than the removed one, which is not put back then.
        back = [one for one, new in zip(due, stands, strict=True) if one.kept and not new]
        stays = {one.item.key for one in back}
        if back:
            items, kept = tuple(one.item for one in back), tuple(one.kept for one in back)
            await self._behind.ask(hiding.restoring(items, kept))
            stays -= {*await self._seen(hiding, due)}
        await self._confirm(due, (b"",) * len(due), stays)

    async def _confirm(
        self, due: tuple[ItemDue, ...], kept: tuple[bytes, ...], stays: set[str]
    ) -> None:
        """Record the acts that are done; `stays` are the keys of items that did not change.

        Raises:
            UpstreamError: `stays` is not empty, so some acts stay due.
        """
        pairs = [pair for pair in zip(due, kept, strict=True) if pair[0].item.key not in stays]
        done, left = tuple(one for one, _ in pairs), tuple(item for _, item in pairs)
        if due[0].hides:
            await self._keys.hidden(self._behind.settings.name, done, left, done=True)
        else:
            await self._keys.shown_again(done)
        if len(done) < len(due):
            raise UpstreamError(_NOT_DONE)

    async def _seen(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> dict[str, ShownMemory]:
        """The memories that the server has now for the items, keyed by the items' keys."""
        question = self._behind.adapter.first(hiding.removing(tuple(one.item for one in due)))
        if question is None:
            raise UpstreamError(_NOT_DONE)
        reply = await self._told(question)
        return {one.key: one for one in self._behind.adapter.shown(question, reply)}

    async def _stands(self, hiding: HidesItems, due: tuple[ItemDue, ...]) -> tuple[bytes, ...]:
        items = tuple(one.item for one in due)
        return hiding.kept(items, await self._told(hiding.standing(items)))

    async def _told(self, question: HttpRequest) -> HttpReply:
        """The server's answer to a read; any failure raises, so that the act stays due."""
        reply = await self._behind.ask(question)
        if reply.status not in _DONE:
            raise UpstreamError(_NOT_DONE)
        return reply


def _batched(hiding: HidesItems, due: tuple[ItemDue, ...]) -> list[tuple[ItemDue, ...]]:
    tags = due[0].hiding is Hiding.TAG
    size = hiding.tagged_at_once if tags else hiding.removed_at_once
    return [due[begin : begin + size] for begin in range(0, len(due), size)]
