"""The `[shard]` table: a store whose transactions are durable in a PostgreSQL database."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from proxy.settings.secret_files import secret_from
from proxy.settings.servers import Name, Text
from proxy.settings.values import Address, BadValue, Secret, address


class ShardTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The `[shard]` table: of several processes that have it, one at a time holds the store."""

    name: Annotated[
        Name,
        Meta(description="The name of the store in the database, the same for each member."),
    ]
    dsn: Annotated[
        Path,
        Meta(
            description="File with the URL of the database, closed to others: "
            "`postgresql://USER:PASSWORD@HOST/NAME?sslmode=verify-full`, PostgreSQL 14 or later."
        ),
    ]
    secrets: Annotated[
        Path,
        Meta(
            description="Directory with `store.key`, `log.key`, `token.key` and `journal.key`, 32 "
            "random bytes each, the same for each member."
        ),
    ]
    peers: Annotated[
        Text,
        Meta(
            description="HOST:PORT where the other members reach this one, and no one else may. "
            "With 0.0.0.0 they get the address of this machine's name."
        ),
    ]
    keys: Annotated[
        Path | None,
        Meta(
            description="Directory (0700) that each member can write: a key for each 256 "
            "transactions, which a purge destroys. With `checkpoint` in it, an older database is "
            "refused."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse a file that has no URL, or that others can read, and a bad `peers`."""
        _ = self.url, self.address

    @cached_property
    def url(self) -> Secret:
        """The URL in the file `dsn`."""
        try:
            return secret_from(self.dsn)
        except BadValue as error:
            raise BadValue(f"dsn: must be {error}") from None

    @cached_property
    def address(self) -> Address:
        """The address in `peers`."""
        try:
            return address(self.peers)
        except BadValue as error:
            raise BadValue(f"peers: must be {error}") from None
