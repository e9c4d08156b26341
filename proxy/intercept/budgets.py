"""Counts what each principal has written lately, as evidence for the gate's check against floods.

The counters are in memory only, so a restart resets them. They can make the gate hold or refuse a
write, never admit one. Event loop only.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.bounded import Bounded
from policy.facts import BudgetState
from policy.model import PrincipalId
from policy.ruleset import Budgets
from policy.trust.score import BURST_WINDOWS
from proxy.seams.faults import RateLimited

CELLS_PER_PRINCIPAL_MAX = 4_096
PRINCIPALS_MAX = 4_096
CELL_BITS = 16
BYTES_PER_WRITE: Final = 1_024
"""A write counts as one more write for each this many bytes of it."""
_ID_BYTES: Final = 36
_LITTLE: Final = np.dtype("<f4")
_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")


class Topics:
    """Maps embeddings to topics: cells of the embedding space, bounded by fixed hyperplanes.

    Near-duplicates, of which a flood on one topic consists, fall into the same cell. The planes are
    made from a fixed seed, so that the cells are the same after a restart.
    """

    def __init__(self, dimension: int) -> None:
        planes = np.random.default_rng(20_260).standard_normal((CELL_BITS, dimension))
        self._planes: NDArray[np.float32] = planes.astype(np.float32)

    def cell(self, vector: bytes) -> int:
        """The topic cell that one vector falls in, in [0, 2**16)."""
        side = self._planes.dot(np.frombuffer(vector, dtype=_LITTLE)) > 0
        # Each side of a plane is one byte, 0 or 1; the bytes are the digits of a binary number.
        return int(side.tobytes().translate(_DIGITS), 2)


def utf8_len(text: str) -> int:
    """The length of a text in bytes of UTF-8, computed without encoding if the text is ASCII."""
    return len(text) if text.isascii() else len(text.encode())


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of one write in bytes, and the number of writes that it counts for."""

    text_bytes: int
    metadata_bytes: int
    weight: int


def sizes_of(text: str | None, metadata_json: str | None = None, *, ids_count: int = 0) -> Sizes:
    """The sizes of a write with this text, this metadata and so many references."""
    text_bytes = utf8_len(text) if text else 0
    metadata_bytes = utf8_len(metadata_json) if metadata_json else 0
    size = text_bytes + metadata_bytes + _ID_BYTES * ids_count
    # If every write counted as one, a text of a megabyte would cost as little as one word.
    return Sizes(text_bytes, metadata_bytes, 1 + size // BYTES_PER_WRITE)


class _Account:
    __slots__ = ("cells", "full_at", "full_count", "kept_count", "window")

    def __init__(self) -> None:
        self.kept_count = 0
        # The number of the last full window, and the number of full windows in a row up to it.
        self.full_at = -1
        self.full_count = 0
        self.window: deque[int] = deque()
        self.cells = Bounded[int, tuple[int, int]](CELLS_PER_PRINCIPAL_MAX)


def _current(account: _Account, since_ms: int) -> deque[int]:
    window = account.window
    while window and window[0] <= since_ms:
        window.popleft()
    return window


class WriteCounts:
    """Counts writes per principal in a sliding window, and per topic cell in the same window.

    `limits` are those of the ruleset by which a request is judged.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._accounts = Bounded[PrincipalId, _Account](PRINCIPALS_MAX)

    def require_room(
        self, principal_id: PrincipalId, count: int, limits: Budgets, now_ms: int
    ) -> None:
        """Check that the principal's window has room for `count` more writes.

        Raises:
            RateLimited: The window has no room for them.
        """
        account = self._account(principal_id)
        window = _current(account, now_ms - limits.window_s * 1_000)
        # Room that `keep_room` has reserved counts as used. Otherwise two requests that are checked
        # at the same time could both use the same room.
        if len(window) + account.kept_count + count > limits.writes_per_window_max:
            raise RateLimited(retry_after_s=limits.window_s)

    def is_full(self, principal_id: PrincipalId, limits: Budgets, now_ms: int) -> bool:
        """Whether the principal's window has no room for another write.

        With `over_rate = "hold"` a write beyond the window is still judged, and held.
        """
        window = _current(self._account(principal_id), now_ms - limits.window_s * 1_000)
        return len(window) >= limits.writes_per_window_max

    def sustained(self, principal_id: PrincipalId, limits: Budgets, now_ms: int) -> bool:
        """Note that the window was full; return whether it ends a long row of full windows.

        True once per window, from the `BURST_WINDOWS`th full window in a row on.
        """
        window = now_ms // (limits.window_s * 1_000)
        account = self._account(principal_id)
        if window == account.full_at:
            return False
        follows = window == account.full_at + 1
        account.full_at, account.full_count = window, account.full_count + 1 if follows else 1
        return account.full_count >= BURST_WINDOWS

    def keep_room(
        self, principal_id: PrincipalId, count: int, limits: Budgets, now_ms: int
    ) -> None:
        """Reserve room for `count` writes, or refuse the whole request without an audit leaf.

        The gate would refuse a flood too, but with two leaves for each write, which would fill the
        audit log.

        The room is reserved until the writes are measured, or until `give_back`.

        Raises:
            RateLimited: The window has no room for them.
        """
        self.require_room(principal_id, count, limits, now_ms)
        self._accounts[principal_id].kept_count += count

    def spend(self, principal_id: PrincipalId, count: int, now_ms: int) -> None:
        """Count an expensive read as `count` writes in the same window."""
        window = self._account(principal_id).window
        window.extend(itertools.repeat(now_ms, count))

    def give_back(self, principal_id: PrincipalId, count: int) -> None:
        """Release the reserved room of `count` writes that will not be measured."""
        # With `over_rate = "hold"` no room was reserved, so there is none to give back.
        if count > 0:
            account = self._account(principal_id)
            account.kept_count = max(0, account.kept_count - count)

    def measure(
        self,
        principal_id: PrincipalId,
        sizes: Sizes,
        vector: bytes,
        limits: Budgets,
        now_ms: int,
    ) -> BudgetState:
        """Count a write as `sizes.weight` writes; return the principal's budgets before it."""
        # An account that `keep_room` has just used need not be made the most recent one again.
        account = self._accounts.get(principal_id) or self._account(principal_id)
        window_ms = limits.window_s * 1_000
        window = _current(account, now_ms - window_ms)
        before = len(window)
        window += [now_ms] * sizes.weight
        account.kept_count = max(0, account.kept_count - sizes.weight)
        return BudgetState(
            writes_in_window_count=before,
            text_bytes=sizes.text_bytes,
            metadata_bytes=sizes.metadata_bytes,
            topic_writes_count=self._topic(account, vector, now_ms // window_ms) if vector else 0,
        )

    def _account(self, principal_id: PrincipalId) -> _Account:
        known = self._accounts.get(principal_id)
        account = known or self._accounts.setdefault(principal_id, _Account())
        self._accounts.move_to_end(principal_id)
        return account

    def _topic(self, account: _Account, vector: bytes, window: int) -> int:
        cell = self._topics.cell(vector)
        then, count = account.cells.get(cell, (window, 0))
        if then != window:
            count = 0
        account.cells[cell] = (window, count + 1)
        return count
