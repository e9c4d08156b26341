"""Ids of recalls: the number of the record, under a key of the store.

An agent is shown the ids of its own searches. A number that can be read would tell it how much all
others read in between; a random id would need an index on disk. So an id is the number and some
random bytes, encrypted as one block of 64 bits: a Feistel network of four rounds (Luby and Rackoff,
1988) with keyed BLAKE2b (RFC 7693).
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from storage.ground.randomness import random_bytes

_ID: Final = re.compile(r"[0-9a-f]{16}")
_HALF_LEN: Final = 4
_RANDOM_LEN: Final = 3
_NUMBER_LEN: Final = 2 * _HALF_LEN - _RANDOM_LEN
_ROUNDS: Final = range(4)


class RecallIds:
    """Makes ids of numbers, and finds the numbers again. Any thread."""

    def __init__(self, store_key: bytes) -> None:
        self._key = blake2b(b"recall ids", digest_size=32, key=store_key).digest()

    def of(self, number: int) -> bytes:
        """A new id of 8 bytes for a record's number, which is below 2**40."""
        block = random_bytes(_RANDOM_LEN) + number.to_bytes(_NUMBER_LEN, "big")
        left, right = block[:_HALF_LEN], block[_HALF_LEN:]
        for turn in _ROUNDS:
            left, right = right, self._mixed(turn, left, right)
        return left + right

    def number(self, recall_id: str) -> int | None:
        """The number in an id, which may be that of no record; None for what is no id."""
        if _ID.fullmatch(recall_id) is None:
            return None
        block = bytes.fromhex(recall_id)
        left, right = block[:_HALF_LEN], block[_HALF_LEN:]
        for turn in reversed(_ROUNDS):
            left, right = self._mixed(turn, right, left), left
        return int.from_bytes((left + right)[_RANDOM_LEN:], "big")

    def _mixed(self, turn: int, half: bytes, by: bytes) -> bytes:
        pad = blake2b(bytes((turn,)) + by, digest_size=_HALF_LEN, key=self._key).digest()
        mixed = int.from_bytes(half, "big") ^ int.from_bytes(pad, "big")
        return mixed.to_bytes(_HALF_LEN, "big")
