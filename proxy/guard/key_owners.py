"""Finds the owners of an upstream server's memories, by the keys under which it files them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from policy.labels.forwarded_call import call_of, target_of
from policy.model import Hiding, Principal, Reads, Tenant
from proxy.guard.local_guard import LocalGuard
from proxy.guard.sieve import KeyOwner, Sieve
from proxy.seams.guard import UnsettledItem
from proxy.seams.http_backend import ItemDue, ShownMemory
from storage.features.pinned_tools import Pins
from storage.features.upstream.intents import Forwards
from storage.features.upstream.upstream_hiding import (
    HidingDue,
    RecordHiding,
    UpstreamHiding,
    UpstreamHidingRecord,
)
from storage.values import ClosedKey

_AT_ONCE: Final = 256
"""The most keys that are looked up on the event loop; more are looked up on a thread."""


class KeyOwners:
    """Finds out for an upstream server's driver which tenant owns the memories under its keys.

    Event loop only; raises as `Guard` does.
    """

    def __init__(
        self,
        guard: LocalGuard,
        target_prefix: str,
        *,
        sieve: Sieve,
        forwards: Forwards,
        pins: Pins,
        hidden_behind: UpstreamHiding,
    ) -> None:
        """`guard` is the guard of the same protocol, and `sieve` that guard's sieve."""
        self._hidden_behind = hidden_behind
        self._guard = guard
        self._target_prefix = target_prefix
        self._sieve = sieve
        self._forwards = forwards
        self._pins = pins

    async def hides(
        self,
        principal: Principal,
        server: str,
        shown: tuple[ShownMemory, ...],
        *,
        hides_unknown: bool,
    ) -> tuple[bool, ...]:
        """For each memory in an answer: True if it must not reach the principal's agent.

        `hides_unknown`: True also for a memory under a key that no verdict let in.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        # A part of an answer without a key is recognised by its pieces alone, so its label is
        # unknown, as is the label of a memory that no verdict let in. A principal with a floor for
        # reads is shown neither.
        strings = tuple(text for one in shown if not one.key for text in one.strings)
        target = target_of(self._target_prefix, server)
        flags = iter(await self._guard.sifting.withheld(principal, target, strings))
        owned = await self._owned(principal, server, shown)
        past = frozenset(one.key for one in shown if one.is_past)
        texts = await self._texts(principal, server, past)
        items = ((one.key, () if one.is_past else one.said) for one in shown)
        async with self._sieve.turn:
            others = self._sieve.say_other((principal.tenant, target), items)
        floored = principal.reads is not Reads.ALL
        hidden: list[bool] = []
        for one, whose, other in zip(shown, owned, others, strict=True):
            withheld = [] if one.key else [next(flags) for _ in one.strings]
            known_only = (hides_unknown or one.is_marked) and bool(one.key)
            unknown = (known_only or floored) and whose is KeyOwner.NOBODYS
            gone = whose in {KeyOwner.HIDDEN, KeyOwner.OTHERS}
            if one.is_past:
                unknown = whose is not KeyOwner.MINE or not texts[one.key].issuperset(one.strings)
            # A string that was not judged with its item was added later, or without the gate.
            gone = gone or other
            hidden.append(any(withheld) or gone or unknown or one.is_tagged or one.is_withheld)
        return tuple(hidden)

    async def standing(self, principal: Principal, server: str) -> object:
        """A value that differs once `hides` may answer differently for the same memories.

        Raises:
            StorageError: The value is unknown; judge every answer anew.
        """
        target = target_of(self._target_prefix, server)
        closings = self._forwards.closings
        return closings, await self._guard.sifting.standing(principal.tenant, target)

    async def showed(self, principal: Principal, server: str, texts: tuple[str, ...]) -> None:
        """Note the texts of an answer that the agent is shown."""
        target = target_of(self._target_prefix, server)
        await self._guard.sifting.showed(principal, target, texts)

    async def _texts(
        self, principal: Principal, server: str, keys: frozenset[str]
    ) -> dict[str, frozenset[str]]:
        """A mapping of each key to the strings of the live memories under it."""
        target = target_of(self._target_prefix, server)
        read = self._forwards.live_strings
        return {one: await asyncio.to_thread(read, principal.tenant, target, one) for one in keys}

    async def belongs_to_others(
        self, principal: Principal, server: str, shown: tuple[ShownMemory, ...]
    ) -> tuple[bool, ...]:
        """For each memory: True if only other tenants have it, and not the principal's.

        Raises:
            StorageError: The answer is unknown; change none of them.
        """
        owned = await self._owned(principal, server, shown, counts_sent=False)
        return tuple(one is KeyOwner.OTHERS for one in owned)

    async def belongs_to(
        self,
        principal: Principal,
        server: str,
        shown: tuple[ShownMemory, ...],
        *,
        forgotten: bool = False,
    ) -> tuple[bool, ...]:
        """For each memory: True if the principal's tenant has it, shown or hidden.

        For a principal with a floor for reads, a hidden memory does not exist.
        `forgotten`: True also for a memory that the gate erased and the server may still have.

        Raises:
            StorageError: The answer is unknown; change none of them.
        """
        whose = self._owned if forgotten else self._by_rows
        owned = await whose(principal, server, shown)
        own = (
            {KeyOwner.MINE}
            if principal.reads is not Reads.ALL
            else {KeyOwner.MINE, KeyOwner.HIDDEN}
        )
        return tuple(one in own for one in owned)

    async def unsettled_keys(
        self, principal: Principal, server: str, keys: tuple[str, ...]
    ) -> frozenset[str]:
        """Those of the keys under which the tenant sent a change whose outcome is not known yet.

        Raises:
            StorageError: The answer is unknown; change none of them.
        """
        asked = principal.tenant, target_of(self._target_prefix, server), keys
        if len(keys) <= _AT_ONCE:
            return self._forwards.unsettled(*asked)
        return await asyncio.to_thread(self._forwards.unsettled, *asked)

    async def _owned(
        self,
        principal: Principal,
        server: str,
        shown: tuple[ShownMemory, ...],
        *,
        counts_sent: bool = True,
    ) -> tuple[KeyOwner, ...]:
        """The owner of each memory; one that the gate erased or gave up may still be upstream."""
        by_rows = await self._by_rows(principal, server, shown, counts_sent=counts_sent)
        # The closed keys are read after the rows, so that a memory erased between the two reads is
        # in both of them, not in neither.
        keys = tuple("" if one.is_prefix else one.key for one in shown)
        target = target_of(self._target_prefix, server)
        closed = await self._closed(principal.tenant, target, keys)
        return tuple(_whose(*pair) for pair in zip(by_rows, closed, strict=True))

    async def _closed(
        self, tenant: Tenant, target: str, keys: tuple[str, ...]
    ) -> tuple[ClosedKey, ...]:
        if len(keys) <= _AT_ONCE:
            return self._forwards.closed(tenant, target, keys)
        return await asyncio.to_thread(self._forwards.closed, tenant, target, keys)

    async def _by_rows(
        self,
        principal: Principal,
        server: str,
        shown: tuple[ShownMemory, ...],
        *,
        counts_sent: bool = True,
    ) -> tuple[KeyOwner, ...]:
        scope = (principal.tenant, target_of(self._target_prefix, server))
        async with self._sieve.turn:
            if self._sieve.far_behind:
                await asyncio.to_thread(self._sieve.refresh)
            keys = ((one.key, one.is_prefix) for one in shown)
            return self._sieve.owned(scope, keys, counts_sent=counts_sent, reads=principal.reads)

    def tenants_waiting(self, server: str) -> frozenset[Tenant]:
        """The tenants with changes still to be sent to a server, or to be looked up on it.

        Raises:
            StorageError: The answer is unknown.
        """
        pending = self._forwards.pending(None, target_of(self._target_prefix, server))
        return frozenset(one.candidate.tenant for one in pending)

    async def knows_version(self, principal: Principal, server: str, version: str) -> bool:
        """Whether an operator approved this version of a server.

        The version is pinned as the latest one seen. The first pin of a name is approved unasked,
        so it contains no version: only the adapter's own table may approve one unasked.

        Raises:
            StorageError: The answer is unknown; write nothing.
        """
        name = f"{self._target_prefix.rstrip('/')}:{server}"
        if self._pins.get(principal.tenant, name) is None:
            await self._pins.see(principal.tenant, name, ())
        digest = hashlib.sha256(version.encode("utf-8", "surrogatepass")).hexdigest()
        pinned = await self._pins.see(principal.tenant, name, (("version", digest),))
        return not pinned.changed

    def hiding_changes(self) -> int:
        """A counter that grows with each change that `hiding_due` may depend on."""
        return self._hidden_behind.changes

    async def hiding_due(
        self, server: str, hiding: Hiding, only: frozenset[bytes] | None = None
    ) -> tuple[ItemDue, ...]:
        """The changes due on a server to hide quarantined memories there, or show them again.

        Raises:
            StorageError: The answer is unknown; do nothing.
        """
        target = target_of(self._target_prefix, server)
        found = await asyncio.to_thread(self._hidden_behind.due, target, hiding, only)
        return tuple(due for due in map(_due, found) if due is not None)

    async def hidden(
        self, server: str, due: tuple[ItemDue, ...], kept: tuple[bytes, ...], *, done: bool
    ) -> None:
        """Record that the server is asked to hide items (`done` False), or has hidden them.

        Raises:
            StorageError: Nothing is recorded; do not ask the server, or ask it once more.
        """
        target = target_of(self._target_prefix, server)
        await self._hidden_behind.order(
            RecordHiding(
                tuple(
                    (
                        one.keyed,
                        one.tenant,
                        UpstreamHidingRecord(one.tenant, target, one.hiding, done, said),
                    )
                    for one, said in zip(due, kept, strict=True)
                )
            )
        )

    async def shown_again(self, due: tuple[ItemDue, ...]) -> None:
        """Record that the server has the items as they were before it hid them.

        Raises:
            StorageError: Nothing is recorded; ask the server once more.
        """
        await self._hidden_behind.order(
            RecordHiding(tuple((one.keyed, one.tenant, None) for one in due))
        )


def _due(one: HidingDue) -> ItemDue | None:
    call = call_of(one.candidate)
    if call is None:
        return None
    item = UnsettledItem(
        candidate_id=one.candidate_id,
        tool=call.tool,
        change=one.candidate.change,
        arguments=call.arguments,
        pieces=call.pieces,
        key=one.key,
        sent=True,
    )
    return ItemDue(
        keyed=one.keyed,
        tenant=one.candidate.tenant,
        item=item,
        hiding=one.hiding,
        hides=one.hides,
        kept=one.kept,
    )


def _whose(by_rows: KeyOwner, closed: ClosedKey) -> KeyOwner:
    """The owner of a memory. A closed key belongs to the tenant that closed it, and is hidden."""
    if by_rows is KeyOwner.OTHERS:
        return by_rows
    if closed.mine:
        return KeyOwner.HIDDEN
    return KeyOwner.OTHERS if closed.others and by_rows is KeyOwner.NOBODYS else by_rows
