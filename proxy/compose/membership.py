"""This process as a member of a shard: it waits for the store, holds it, and gives it up."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from proxy.seams.environment import Environment, RandomPool
from proxy.settings.shard import ShardTable
from proxy.settings.table import Settings
from proxy.standby.standby import Standby
from storage.interfaces import Store
from storage.shard import ShardMember, join_shard

_LOG: Final = logging.getLogger("mnemogate.shard")
_WATCHED_EVERY_S: Final = 0.25
_ANY: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound


def join(table: ShardTable, *, joins: bool = True) -> ShardMember:
    """This process as a member of a shard (`join_shard`). Blocks."""
    return join_shard(
        table.name,
        table.url.reveal(),
        table.secrets,
        address=_reached_at(table),
        keys=table.keys,
        joins=joins,
    )


@asynccontextmanager
async def joined(settings: Settings) -> AsyncGenerator[ShardMember | None]:
    """This process as a member of the configured shard, until the end of the block; None without.

    Raises:
        StorageError: The database does not fit, or does not answer; or a secret cannot be read.
    """
    table = settings.shard
    if table is None:
        yield None
        return
    member = await asyncio.to_thread(join, table)
    for remark in member.remarks:
        _LOG.warning(remark, extra={"fields": {"shard": table.name}})
    try:
        yield member
    finally:
        await asyncio.to_thread(member.close)


async def held(
    settings: Settings, member: ShardMember, stop: asyncio.Event, *, gave_up: bool
) -> bool:
    """Stand by until this process holds the shard's store (`Standby.take_over`)."""
    around = Environment(clock_ns=time.time_ns, random_hex=RandomPool(), record=lambda _event: None)
    return await Standby(settings, member, around).take_over(stop, gave_up=gave_up)


async def given_up(member: ShardMember | None, store: Store) -> None:
    """Wait until this process must give its shard's store up; for ever without a shard.

    That is when the lease is lost or over, or when the store cannot be written any more.
    """
    if member is None:
        await asyncio.Event().wait()
    # The lease ends by the clock, which no one announces.
    while member is not None and member.journal.holds() and not store.broken:  # noqa: ASYNC110
        await asyncio.sleep(_WATCHED_EVERY_S)


def _reached_at(table: ShardTable) -> str:
    """`HOST:PORT` at which other members reach this one."""
    host, port = table.address.host, table.address.port
    if host in _ANY:
        host = socket.gethostbyname(socket.gethostname())
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
