"""Whether the store accepts writes, the reason if not, and the check whether it does again."""

from __future__ import annotations

import contextlib
from typing import Final

from storage.ground.errors import StorageError
from storage.write.engine import Engine

# The bytes that the largest batch may need while it is staged and committed, with the pages that
# LMDB copies for it.
_ROOM_BYTES: Final = 4 * 1024 * 1024
_FULL: Final = "the store has reached its quota"
_NAMED_LEN: Final = 5  # how many of the values that do not match are named
_OBSERVING: Final = "observe mode: nothing is refused"


def writable(engine: Engine) -> bool:
    """Whether a write that is requested now can be expected to be judged. Any thread."""
    well = engine.broken is None and engine.refused is None
    return well and not _full(engine) and not engine.hanging()


def _full(engine: Engine) -> bool:
    """Whether the store's own quota is reached, however much room the disk has."""
    return engine.generation.bytes_used > engine.parts.store.quota_bytes


def notice(engine: Engine) -> str | None:
    """The message for an operator: why no write is possible, or which work is pending; or None."""
    if engine.broken is not None:
        return engine.broken
    notes = [] if engine.refused is None else [engine.refused]
    if _full(engine):
        notes.append(_FULL)
    notes += [_OBSERVING] if engine.parts.judge.observing else []
    notes += tuple(engine.parts.derived.remarks.values())
    mismatched = sorted(engine.parts.store.digests.mismatched)
    if mismatched:
        notes.append(
            f"{len(mismatched)} stored values were changed without the gate, and no answer has "
            f"them ({', '.join(mismatched[:_NAMED_LEN])}): restore a backup"
        )
    if engine.hanging():
        notes.append(
            f"the writer has been at one transaction for {engine.busy_s():.0f} s: it rewrites "
            "the file, the disk hangs, or another process holds the lock of the store"
        )
    if engine.unerased:
        notes.append("purged bytes are hidden and wait for a compaction")
    return "; ".join(notes) or None


def try_again(engine: Engine) -> None:
    """Find out whether the disk accepts writes again, before a write is requested.

    Writer thread only. An empty write fits into free pages of the file, so it does not prove that
    there is room. Hence free space on the disk is required as well.
    """
    if engine.refused is None or engine.broken is not None:
        return
    with contextlib.suppress(StorageError, OSError):
        if engine.parts.store.bytes_free() < _ROOM_BYTES:
            return
        engine.transact(lambda _change: None)
        engine.refused = None
