"""The part of `check()` about other servers: intents, results, and rows filed under keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.model import Forwarded, MemoryStatus
from storage.codec import decode_forward, decode_id, decode_row, ordinal_key
from storage.interfaces import Decision
from storage.lmdb_store import FORWARDS, IDS, KEYED, ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.audit import ResultLeaf, VerdictLeaf
    from storage.lmdb_store import View


class Results:
    """What the log says of everything that was sent, leaf by leaf in its order."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        # By the verdict that admitted it: how often its end was told, and whether it ever was lost.
        self.ended: dict[int, Forwarded] = {}
        self.lost: set[int] = set()

    def take(self, index: int, leaf: ResultLeaf, verdict: VerdictLeaf | None) -> None:
        """One result leaf, with the admission that it names."""
        if verdict is None or verdict.decision is not Decision.ADMIT:
            self._problem(f"result leaf {index} names no admission")
        elif verdict.candidate_id != leaf.candidate_id:
            self._problem(f"result leaf {index} is of another candidate than its verdict")
        elif leaf.verdict_index in self.ended:
            self._problem(f"result leaf {index} ends what had ended")
        elif leaf.result is not Forwarded.UNKNOWN:
            self.ended[leaf.verdict_index] = leaf.result
        elif leaf.verdict_index in self.lost:
            self._problem(f"result leaf {index} repeats that an answer was lost")
        else:
            self.lost.add(leaf.verdict_index)


def check_forwards(view: View, results: Results, problem: Callable[[str], None]) -> None:
    """Hold intents, keys, ids and results against each other."""
    waiting = _check_intents(view, results, problem)
    for key, payload in view.scan(IDS):
        if decode_id(payload).status is MemoryStatus.FORWARDING and key not in waiting:
            problem("a memory is on its way to another server, and no intent says so")
    _check_keyed(view, results, problem)


def _check_intents(view: View, results: Results, problem: Callable[[str], None]) -> set[bytes]:
    waiting: set[bytes] = set()
    for key, payload in view.scan(FORWARDS):
        record = decode_forward(payload)
        stored = view.get(ROWS, ordinal_key(record.ordinal))
        row = None if stored is None else decode_row(stored)
        if row is None or row.candidate_id != key.hex() or row.leaf_index != record.leaf_index:
            problem(f"intent {key.hex()} has no row of its own")
        if record.leaf_index in results.ended:
            problem(f"intent {key.hex()} is open, and the log says how it ended")
        if record.unknown != (record.leaf_index in results.lost):
            problem(f"intent {key.hex()} and the log disagree whether its answer was lost")
        waiting.add(record.name)
    return waiting


def _check_keyed(view: View, results: Results, problem: Callable[[str], None]) -> None:
    filed = set(view.keys(KEYED))
    for key, payload in view.scan(ROWS):
        row = decode_row(payload)
        if not row.keyed:
            continue
        ordinal = int.from_bytes(key, "big")
        if row.keyed + key not in filed:
            problem(f"row {ordinal} is not filed under its key")
        filed.discard(row.keyed + key)
        open_still = view.has(FORWARDS, bytes.fromhex(row.candidate_id))
        if row.leaf_index not in results.ended and not open_still:
            problem(f"row {ordinal} was sent, and nothing says what became of it")
    if filed:
        problem(f"{len(filed)} keys name rows that are not filed under them")
