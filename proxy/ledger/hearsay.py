"""A long memory for who said a sentence first, kept in bit filters (Bloom filters).

A filter may wrongly report a sentence as known, in fewer than one case in a thousand, and never
misses one. Two filters take turns: one takes new sentences, the other keeps the earlier ones; they
change places every thirty days, or when the new one is full. A sentence is stored under its
audience (one principal, or the whole tenant) and its speaker's label; speaker, time and place are
not stored.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.ledger.records import BITS_BEFORE, Sieved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TURN_MS: Final = 30 * 24 * 3_600_000
CAPACITIES: Final = (2_000, 80_000, 640_000, 5_120_000)
"""Sentences for which each part of a filter has room; the next one is begun when one is full."""
DAILY_MAX: Final = 200_000
"""What a principal adds in a day to what everybody shares; what is more goes to its own filter."""
FLOOD_CAPACITIES: Final = CAPACITIES[:3]
FLOODS_MAX: Final = 16
BITS: Final = (48, 48, 32, 24)
"""Bits for each sentence, by part. A turn is looked up dozens of times, in every full part. The
small parts are full in any busy tenant; with more bits they are hardly ever wrong."""
_HASHES: Final = 12
_DAY_MS: Final = 24 * 3_600_000
_TRUSTS: Final = (0, 1, 2)
"""Of whom everybody is told: what a person's own memory says takes nothing from another one."""
_PIECE_LEN: Final = 1 << 20


class _Part:
    """One filter of a fixed size."""

    def __init__(self, capacity: int, bits: int) -> None:
        self.room = capacity
        self.each = bits
        self.length = capacity * bits
        self.bits = bytearray(self.length // 8)

    def add(self, key: int) -> None:
        bits, length = self.bits, self.length
        at, step = key % length, (key >> 32) | 1
        fresh = 0
        for _ in range(_HASHES):
            mask = 1 << (at & 7)
            if not bits[at >> 3] & mask:
                bits[at >> 3] |= mask
                fresh = 1
            at = (at + step) % length
        self.room -= fresh

    def __contains__(self, key: int) -> bool:
        bits, length = self.bits, self.length
        at, step = key % length, (key >> 32) | 1
        for _ in range(_HASHES):
            if not bits[at >> 3] & (1 << (at & 7)):
                return False
            at = (at + step) % length
        return True


class _Pair:
    """Two filters of which one takes new sentences, and the other keeps the earlier ones."""

    def __init__(self, capacities: tuple[int, ...]) -> None:
        self.capacities = capacities
        self.young: list[_Part] = []
        self.old: list[_Part] = []
        self.began_ms = 0

    def add(self, key: int, at_ms: int) -> None:
        if not self.began_ms:
            self.began_ms = at_ms
        if at_ms - self.began_ms >= TURN_MS:
            self._turn(at_ms)
        if not self.young or self.young[-1].room <= 0:
            if len(self.young) == len(self.capacities):
                self._turn(at_ms)
            at = len(self.young)
            self.young.append(_Part(self.capacities[at], BITS[at]))
        self.young[-1].add(key)

    @property
    def parts(self) -> list[_Part]:
        return [*reversed(self.young), *reversed(self.old)]

    def _turn(self, at_ms: int) -> None:
        self.old, self.young, self.began_ms = self.young, [], at_ms


class _Day(NamedTuple):
    day: int
    spent: int


class Hearsay:
    """The sentence filters of all principals and tenants. One thread."""

    def __init__(self) -> None:
        self._shared = _Pair(CAPACITIES)
        # Principals whose sentences of one day would overfill the tenant's filter have filters of
        # their own here.
        self._floods: OrderedDict[str, _Pair] = OrderedDict()
        self._spent: dict[str, _Day] = {}
        self._now_ms = 0

    @property
    def flooding(self) -> tuple[str, ...]:
        """Principals with a filter of their own, because they have so many sentences."""
        return tuple(self._floods)

    def share(
        self, tenant: str, principal: str, trust: int, found: Iterable[int], at_ms: int
    ) -> None:
        """Add sentences to the tenant's filter, which all of its principals may ask."""
        self._now_ms = max(self._now_ms, at_ms)
        if trust in _TRUSTS:
            salt = _salt("tenant", tenant, trust)
            for one in found:
                self._add(principal, one ^ salt)

    def forget(self, principal: str, one: int) -> None:
        """Add to the filter the sentences that were dropped from a principal's table.

        From then on it is still known for this principal that such a sentence was said, but not by
        whom.
        """
        self._add(principal, one ^ _salt("principal", principal, 0))

    def trust(self, tenant: str, principal: str, one: int) -> int | None:
        """The lowest trust of a sentence's speakers, as far as this principal may be told."""
        parts = self._shared.parts
        for pair in self._floods.values():
            parts += pair.parts
        for trust, salt in _scopes(tenant, principal):
            key = one ^ salt
            for part in parts:
                bits, length = part.bits, part.length
                at = key % length
                # Most sentences are in no filter, so one test covers all filters, and each is
                # tested only after it.
                if bits[at >> 3] & (1 << (at & 7)) and key in part:
                    return trust
        return None

    def records(self) -> Iterator[Sieved]:
        """All filters as records, for a snapshot."""
        for owner, pair in (("", self._shared), *self._floods.items()):
            for young, parts in ((False, pair.old), (True, pair.young)):
                for at, part in enumerate(parts):
                    for start in range(0, len(part.bits), _PIECE_LEN):
                        bits = bytes(part.bits[start : start + _PIECE_LEN])
                        # Filters are stored without their empty parts, because a small one is
                        # mostly empty. A large one is begun only when it is full.
                        bits = bits if len(part.bits) > _PIECE_LEN else zlib.compress(bits, 1)
                        began_ms, room, each = pair.began_ms, part.room, part.each
                        yield Sieved(owner, began_ms, young, at, room, start, bits, each)

    def restore(self, record: Sieved) -> None:
        """Restore filters from their records; records that do not fit are left out."""
        pair = self._flood(record.owner) if record.owner else self._shared
        pair.began_ms = record.began_ms
        self._now_ms = max(self._now_ms, record.began_ms)
        parts = pair.young if record.young else pair.old
        while len(parts) <= record.part < len(pair.capacities):
            at = len(parts)
            # A filter of an earlier version has fewer bits for each sentence, and stays so until it
            # is dropped.
            each = BITS_BEFORE if record.each == BITS_BEFORE else BITS[at]
            parts.append(_Part(pair.capacities[at], each))
        if record.part < len(parts):
            part = parts[record.part]
            part.room = record.room
            packs = len(part.bits) <= _PIECE_LEN
            bits = zlib.decompress(record.bits) if packs else record.bits
            end = record.start + len(bits)
            if end <= len(part.bits):
                part.bits[record.start : end] = bits

    def _add(self, principal: str, key: int) -> None:
        day = self._now_ms // _DAY_MS
        spent = self._spent.get(principal)
        count = spent.spent + 1 if spent is not None and spent.day == day else 1
        self._spent[principal] = _Day(day, count)
        pair = self._shared if count <= DAILY_MAX else self._flood(principal)
        pair.add(key, self._now_ms)

    def _flood(self, principal: str) -> _Pair:
        pair = self._floods.get(principal)
        if pair is None:
            # If there are too many filters, a new principal shares the newest one.
            if len(self._floods) >= FLOODS_MAX:
                return self._floods[next(reversed(self._floods))]
            pair = self._floods[principal] = _Pair(FLOOD_CAPACITIES)
        return pair


@lru_cache(maxsize=1_024)
def _scopes(tenant: str, principal: str) -> tuple[tuple[int, int], ...]:
    """The audiences and labels under which this principal may look up who said a sentence.

    The lowest label comes first.
    """
    own = (0, _salt("principal", principal, 0))
    return (own, *((trust, _salt("tenant", tenant, trust)) for trust in _TRUSTS))


@lru_cache(maxsize=4_096)
def _salt(kind: str, name: str, trust: int) -> int:
    data = f"{kind}\0{name}\0{trust}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
