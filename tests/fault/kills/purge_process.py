"""A holder of a shared store that is killed at one step of a purge: forked, with all imported."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from storage.ground.state_directory import destroy_file
from storage.journal import postgres
from storage.journal.postgres import PostgresJournal
from storage.journal.protocol import JournalRow, Stream
from storage.journal.segment_keys import SegmentKeys
from tests.erased_shards import ErasedShard, filled, purge, short_segments
from tests.files_journal import FilesJournal

STEPS: Final = (
    "keys listed",
    "settled",
    "new key drawn",
    "exchange begun",
    "one segment exchanged",
    "two segments exchanged",
    "old key overwritten",
    "one old key destroyed",
    "all old keys destroyed",
)
_DESTROY: Final = "storage.journal.segment_keys.destroy_file"


def killed_while_purging(shard: ErasedShard, step: str, canary: str) -> None:
    """Fork a holder, which writes and purges a canary, and is killed at a step of that."""
    child = os.fork()
    if child == 0:
        try:
            with short_segments():
                store = shard.open("a")
                outcome = filled(store, canary)
                with _dying_at(step, shard.journal_type):
                    purge(store, outcome)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


def _die(*_given: object, **_named: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying_at(step: str, journal: type) -> AbstractContextManager[object]:
    """A patch that kills this process at a step of a purge."""
    steps: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "keys listed": lambda: _after(SegmentKeys, "ids"),
        "settled": lambda: _after(journal, "settle"),
        "new key drawn": lambda: _after(SegmentKeys, "draw", 2),
        "exchange begun": lambda: _exchanging(journal),
        "one segment exchanged": lambda: _after(journal, "exchange"),
        "two segments exchanged": lambda: _after(journal, "exchange", 2),
        "old key overwritten": lambda: patch(_DESTROY, _overwritten),
        "one old key destroyed": lambda: patch(_DESTROY, _destroyed),
        "all old keys destroyed": lambda: _after(SegmentKeys, "destroy"),
    }
    return steps[step]()


def _after(of: type, name: str, times: int = 1) -> AbstractContextManager[object]:
    real, left = getattr(of, name), [times]

    def act(*given: object) -> object:
        result = real(*given)
        left[0] -= 1
        if not left[0]:
            _die()
        return result

    return patch.object(of, name, act)


def _exchanging(journal: type) -> AbstractContextManager[object]:
    """Die between the first and the last row that is exchanged."""
    if journal is PostgresJournal:
        real = PostgresJournal.exchange

        def slowly(self: PostgresJournal, stream: Stream, rows: Sequence[JournalRow]) -> None:
            threading.Timer(0.5, _die).start()
            # The second row of four is being updated when the process dies.
            slow = f"with nap as materialized (select pg_sleep(0.3)) {postgres._EXCHANGE}"
            slow = slow.replace("returning seq", "and exists (select from nap) returning seq")
            with patch.object(postgres, "_EXCHANGE", slow):
                real(self, stream, rows)

        return patch.object(PostgresJournal, "exchange", slowly)

    def finish(self: FilesJournal, _state: object) -> None:
        if (self._directory / "changed").exists():
            _die()

    return patch.object(FilesJournal, "_finish", finish)


def _overwritten(path: Path, length: int) -> None:
    with patch.object(Path, "unlink", _die):
        destroy_file(path, length)


def _destroyed(path: Path, length: int) -> None:
    destroy_file(path, length)
    _die()
