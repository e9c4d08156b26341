"""A member that gave its shard's store up lets another one take it first."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from proxy.seams.environment import Environment, RandomPool
from proxy.settings.load import load_settings
from proxy.standby.standby import Standby
from storage.journal.protocol import Journal
from storage.shard import ShardMember
from storage.tables.codec import STORE_FORMAT
from tests.files_journal import FilesJournal


def member(root: Path) -> ShardMember:
    journal: Journal = FilesJournal(
        root / "journal", address="127.0.0.1:1", store_format=STORE_FORMAT, lease_s=600.0
    )
    root.chmod(0o700)
    secrets = root / "secrets"
    secrets.mkdir(mode=0o700, exist_ok=True)
    for key in ("store.key", "log.key", "token.key", "journal.key"):
        (secrets / key).write_bytes(b"k" * 32)
        (secrets / key).chmod(0o600)
    return ShardMember(journal, "shard", secrets, ())


@pytest.mark.parametrize("gave_up", [False, True])
async def test_a_member_that_gave_the_store_up_lets_another_take_it(
    tmp_path: Path, *, gave_up: bool
) -> None:
    first, second = member(tmp_path), member(tmp_path)
    stop = asyncio.Event()

    async def wait(_seconds: float) -> None:
        assert await asyncio.to_thread(second.acquire)
        stop.set()

    around = Environment(
        clock_ns=time.time_ns, random_hex=RandomPool(), record=lambda _event: None, wait=wait
    )
    settings = load_settings(
        {"state": str(tmp_path / "state"), "listen": "127.0.0.1:0", "admin": "127.0.0.1:0"},
        environment={"HOME": str(tmp_path)},
    )
    assert await asyncio.to_thread(first.acquire)
    await asyncio.to_thread(first.release)
    try:
        took = await Standby(settings, first, around).take_over(stop, gave_up=gave_up)
        # One that starts takes it at once.
        assert (took, first.journal.holds(), second.journal.holds()) == (
            not gave_up,
            not gave_up,
            gave_up,
        )
    finally:
        await asyncio.to_thread(first.close)
        await asyncio.to_thread(second.close)
