"""Fills the memory of a tenant with the sentences of many principals, without adding each."""

from __future__ import annotations

import math
import zlib

import numpy as np

from proxy.ledger.hearsay import BITS, CAPACITIES, Hearsay
from proxy.ledger.records import Sieved

T0 = 1_800_000_000_000
PIECE, HASHES = 1 << 20, 12


def having_heard(count: int) -> Hearsay:
    """A memory of so many sentences, and of as many from the thirty days before.

    Adding them one by one would take minutes, so as many bits as they would set are set at random.
    """
    heard, dice = Hearsay(), np.random.default_rng(1)
    for young in (False, True):
        left = count
        for at, capacity in enumerate(CAPACITIES):
            said = left if at == len(CAPACITIES) - 1 else min(left, capacity)
            left -= said
            length = capacity * BITS[at]
            bits = dice.random(length, dtype=np.float32) < 1 - math.exp(-HASHES * said / length)
            raw = np.packbits(bits).tobytes()
            for start in range(0, len(raw), PIECE):
                piece = raw[start : start + PIECE]
                piece = piece if len(raw) > PIECE else zlib.compress(piece, 1)
                heard.restore(Sieved("", T0, young, at, capacity - said, start, piece, BITS[at]))
    return heard
