"""The staging environment is altered between staging and judging.

Bytes are altered and no objects, as by another program that reached the file, or by failing memory.
The judge gets ids alone and reads the bytes, so it notices each alteration, and admits nothing.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import lmdb
import pytest

from policy.model import CandidateId
from storage.embedded import EmbeddedStore
from storage.ground.errors import StoreUnavailable
from storage.values import Decision, Outcome, Submission
from tests.conformance.canary import new_canary, traces
from tests.fault.crashing import OPTIONS
from tests.unit.storage.opening import HELD_S, Bench, candidate_of, submission_of

_PAGE: Final = 4_096
_METAS: Final = 2 * _PAGE


class Hand:
    """Alters the environment's file at one failpoint, once."""

    def __init__(self, alter: Callable[[Hand], None]) -> None:
        self._alter = alter
        self.store: EmbeddedStore | None = None
        self.ids: list[CandidateId] = []
        self.metas = b""
        self.handle = -1
        # Of every such file of this process, this store's or not: a descriptor, and its metas.
        self._files: list[tuple[int, bytes]] = []

    def __call__(self, name: str) -> None:
        if self.store is None:
            return
        if name == "intercepted":
            self._close()
            handles = [os.open(path, os.O_RDWR | os.O_CLOEXEC) for path in _memory_files()]
            self._files = [(handle, os.pread(handle, _METAS, 0)) for handle in handles]
        if name == "staged":
            value = self.values()[0]
            ours = [one for one in self._files if value in _whole(one[0])]
            ((self.handle, self.metas),) = ours
            self._alter(self)
            self._close()
            self.store = None

    def _close(self) -> None:
        for handle, _ in self._files:
            os.close(handle)
        self._files = []

    @property
    def env(self) -> lmdb.Environment:
        assert self.store is not None
        env = self.store.staging._undecided._env
        assert env is not None
        return env

    def values(self) -> list[bytes]:
        with self.env.begin() as txn:
            return [bytes(txn.get(bytes.fromhex(one)) or b"") for one in self.ids]


def _memory_files() -> list[str]:
    """The files of this process that are in memory: another test's store may have one as well."""
    found: dict[int, str] = {}
    for name in _descriptors():
        path = f"/proc/self/fd/{name}"
        if "memfd:mnemogate" in os.path.realpath(path):
            found[Path(path).stat().st_ino] = path
    return list(found.values())


def _whole(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _descriptors() -> list[str]:
    return os.listdir("/proc/self/fd")  # noqa: PTH208


def _flip_a_byte(hand: Hand) -> None:
    handle, value = hand.handle, hand.values()[0]
    held = _whole(handle)
    # Two places of a page may have it: LMDB copies pages.
    at = held.find(value)
    while at >= 0:
        middle = at + len(value) // 2
        os.pwrite(handle, bytes([held[middle] ^ 1]), middle)
        at = held.find(value, at + 1)


def _swap_two(hand: Hand) -> None:
    first, second, *_ = hand.values()
    with hand.env.begin(write=True) as txn:
        txn.put(bytes.fromhex(hand.ids[0]), second)
        txn.put(bytes.fromhex(hand.ids[1]), first)


def _roll_back(hand: Hand) -> None:
    """The tree is as it was before the put: an older page says which one counts."""
    os.pwrite(hand.handle, hand.metas, 0)


def _nothing(hand: Hand) -> None:
    assert all(hand.values())


def _all_of(store: EmbeddedStore, *submissions: Submission) -> list[Outcome | BaseException]:
    """The answer to each candidate of one batch; `opening.write` makes batches the same way."""
    interval = sys.getswitchinterval()

    async def submit() -> list[Outcome | BaseException]:
        sys.setswitchinterval(HELD_S)
        tasks = [asyncio.ensure_future(store.writer.submit(one)) for one in submissions]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        sys.setswitchinterval(interval)
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    try:
        return asyncio.run(submit())
    finally:
        sys.setswitchinterval(interval)


def _decided(answers: list[Outcome | BaseException]) -> list[bool]:
    """Which were decided; the others were refused for want of anything that can be read."""
    for one in answers:
        assert isinstance(one, Outcome | StoreUnavailable)
        if isinstance(one, Outcome):
            assert one.decision is Decision.ADMIT
    return [isinstance(one, Outcome) for one in answers]


@pytest.mark.parametrize(
    ("alter", "decided"),
    [
        (_nothing, [True, True, True]),  # control: what stands there is what is admitted
        (_flip_a_byte, [False, True, True]),
        (_swap_two, [False, False, True]),
        (_roll_back, [False, False, False]),
    ],
)
def test_what_was_altered_in_staging_is_decided_by_nobody_and_its_neighbours_are(
    tmp_path: Path, alter: Callable[[Hand], None], decided: list[bool]
) -> None:
    bench, hand, canary = Bench(tmp_path), Hand(alter), new_canary()
    store = bench.open(hand, options=OPTIONS)
    batch = [submission_of(candidate_of(f"{canary}{number} is staged")) for number in range(3)]
    hand.ids = [one.candidate_id for one in batch]
    hand.store = store
    assert _decided(_all_of(store, *batch)) == decided
    version = store.reader.status().version
    assert version == sum(decided)
    for number, admitted in enumerate(decided):
        assert bool(traces(tmp_path, f"{canary}{number}")) is admitted
    # An undecided request spent no nonce and no budget: the same requests are admitted now.
    again = [submission_of(one.candidate) for one in batch]
    assert _decided(_all_of(store, *again)) == [True, True, True]
    assert store.reader.status().version == len(batch)
    assert store.reader.check().problems == ()
    store.close()


def test_what_waits_for_the_writer_has_no_word_of_the_candidate(tmp_path: Path) -> None:
    bench, canary = Bench(tmp_path), new_canary()
    seen: list[str] = []
    opened: list[EmbeddedStore] = []

    def look(name: str) -> None:
        if name == "staged" and opened:
            (job,) = opened[0].writer._in_flight
            assert job.sealed is not None
            seen.extend((repr(job.arrived), job.sealed.data.decode("latin-1")))

    store = bench.open(look, options=OPTIONS)
    opened.append(store)
    submission = submission_of(candidate_of(f"{canary} is said"))
    assert canary in repr(submission)  # control: that is how it would show
    assert _decided(_all_of(store, submission)) == [True]
    assert seen
    assert not any(canary in one for one in seen)
    store.close()


def test_no_key_of_a_decided_candidate_is_left(tmp_path: Path) -> None:
    store = Bench(tmp_path).open(options=OPTIONS)
    waits = submission_of(candidate_of("Ada prefers tea", instructions=True))
    _all_of(store, submission_of(candidate_of("a note")), waits)
    assert store.reader.status().held_count == 1  # control: it knows of one that waits
    assert store.staging.staged_ids() == {waits.candidate_id}
    assert store.staging._undecided.ids() == frozenset()
    store.close()


def test_a_put_that_fails_refuses_its_batch_and_the_next_one_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    store = bench.open(options=OPTIONS)
    submission = submission_of(candidate_of("a note"))
    staging = store.staging._undecided
    with monkeypatch.context() as patch:
        patch.setattr(staging, "_map_bytes", 16 * _PAGE)
        staging._shut()
        large = submission_of(candidate_of("x" * 60_000))
        assert _decided(_all_of(store, large)) == [False]
    staging._shut()
    assert _decided(_all_of(store, submission, large)) == [True, True]
    store.close()
