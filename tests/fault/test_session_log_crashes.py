"""What a power cut may leave of the session ledger's file: no answered record is lost."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.sealed_log.session_log import open_session_log, session_keys
from tests.fault.crashstates.disk import (
    EVERYTHING,
    NOTHING,
    Choice,
    Create,
    Disk,
    Link,
    Operation,
    Sync,
    Truncate,
    Unlink,
    Write,
)

KEYS = session_keys(bytes(32), "life-1")
SCAR = b"scar"
CHOICES = [NOTHING, EVERYTHING, *[Choice(contents=0.5, names=share) for share in (0.0, 0.5, 1.0)]]
STATES_OF_EACH = 6


class Recorder:
    """What one life of a log asks of the disk, with the records that it had answered by then."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.journal: list[tuple[Operation, tuple[bytes, ...]]] = []
        self.answered: tuple[bytes, ...] = ()
        self._paths: dict[int, str] = {}
        for name in ("open", "pwrite", "fsync", "fdatasync", "ftruncate"):
            self._wrap(monkeypatch, name, getattr(self, f"_{name}"))
        for name in ("replace", "unlink", "mkdir"):
            self._wrap(monkeypatch, name, getattr(self, f"_{name}"))

    def _wrap(
        self, monkeypatch: pytest.MonkeyPatch, name: str, noted: Callable[..., Operation | None]
    ) -> None:
        real = getattr(os, name)

        def called(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the call answers
            result = real(*arguments, **options)
            operation = noted(result, *arguments)
            if operation is not None:
                self.journal.append((operation, self.answered))
            return result

        monkeypatch.setattr(os, name, called)

    def _mine(self, path: object) -> bool:
        return str(path).startswith(str(self.root))

    def _open(self, handle: int, path: object, flags: int, *_: object) -> Operation | None:
        self._paths[handle] = str(path)
        return Create(str(path)) if self._mine(path) and flags & os.O_CREAT else None

    def _pwrite(self, written: int, handle: int, data: bytes, at: int) -> Operation:
        return Write(self._paths[handle], at, bytes(data[:written]))

    def _fsync(self, _: None, handle: int) -> Operation | None:
        path = self._paths.get(handle, "")
        return Sync(path) if self._mine(path) else None

    _fdatasync = _fsync

    def _ftruncate(self, _: None, handle: int, length: int) -> Operation:
        return Truncate(self._paths[handle], length)

    def _replace(self, _: None, old: object, new: object) -> Operation:
        # The file is open under its new name from here on.
        self._paths = {
            handle: str(new) if path == str(old) else path for handle, path in self._paths.items()
        }
        return Link(str(old), str(new))

    def _unlink(self, _: None, path: object) -> Operation | None:
        return Unlink(str(path)) if self._mine(path) else None

    def _mkdir(self, _: None, path: object, *__: object) -> Operation | None:
        return Create(str(path), directory=True) if self._mine(path) else None


async def _life(recorder: Recorder) -> None:
    log = open_session_log(recorder.root, KEYS, SCAR, is_new=True).log
    written: tuple[bytes, ...] = ()
    for number in range(3):
        records = [f"{number} {part}".encode() * 200 for part in range(2)]
        await log.append(records)
        written = (*written, *records)
        recorder.answered = written
    await log.rewrite([b"snapshot"])
    recorder.answered = (b"snapshot",)
    await log.append([b"later" * 300])
    recorder.answered = (b"snapshot", b"later" * 300)
    await log.close()


def _states(recorder: Recorder) -> Iterator[tuple[dict[str, bytes], tuple[bytes, ...]]]:
    disk, rng = Disk(str(recorder.root)), random.Random(1)  # noqa: S311
    for operation, answered in recorder.journal:
        for choice in CHOICES:
            for _ in range(STATES_OF_EACH):
                yield disk.state(choice, rng, operation).files, answered
        disk.apply(operation)
    for choice in CHOICES:
        yield disk.state(choice, rng).files, recorder.answered


async def _broken(recorder: Recorder, where: Path) -> tuple[int, int]:
    """How many states there were, and in how many of them an answered record is missing."""
    states = broken = 0
    for number, (files, answered) in enumerate(_states(recorder)):
        state = where / str(number)
        (state / "sessions").mkdir(parents=True)
        for path, data in files.items():
            (state / Path(path).relative_to(recorder.root)).write_bytes(data)
        opened = open_session_log(state, KEYS, SCAR)
        # After a rewrite that was not answered yet either file may be there.
        kept = {opened.records[: len(answered)] == answered, opened.records[:1] == (b"snapshot",)}
        states, broken = states + 1, broken + (True not in kept)
        await opened.log.close()
    return states, broken


async def _lived(tmp_path: Path, *, synced: bool = True) -> tuple[int, int]:
    root = tmp_path / "life"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        recorder = Recorder(root, patched)
        await _life(recorder)
    if not synced:
        directories = {str(root), str(root / "sessions")}
        recorder.journal = [
            one
            for one in recorder.journal
            if not isinstance(one[0], Sync) or one[0].path in directories
        ]
    return await _broken(recorder, tmp_path / "states")


@pytest.mark.timeout(600)
async def test_no_power_cut_takes_a_record_that_was_answered(tmp_path: Path) -> None:
    states, broken = await _lived(tmp_path)
    assert states > 500
    assert broken == 0


@pytest.mark.timeout(600)
async def test_control_a_log_that_does_not_sync_its_frames_loses_some(tmp_path: Path) -> None:
    _, broken = await _lived(tmp_path, synced=False)
    assert broken > 0
