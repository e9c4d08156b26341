"""The journals of tests in a database: each state directory has a store of its own there.

The file that names it also says of which directory it is, and which row was the last. So a copy of
the directory is known, and gets a copy of the journal as it was when the directory was copied.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from storage.journal.database import Database, Session
from storage.journal.postgres import Membership, PostgresJournal
from storage.journal.protocol import JournalRow, Stream
from storage.tables.codec import STORE_FORMAT
from tests.postgres_server import PostgresServer

_URL: Final = "STORE_URL"
_CONNECTIONS_MAX: Final = 400  # two of each process, and processes of tests are many
_HEAD_OF_COPY: Final = """
update mnemogate.head set base = old.base, seq = least(old.seq, $3), epoch = old.epoch
from mnemogate.head old
where head.store = $1 and old.store = $2 and head.stream = $4 and old.stream = $4
"""
_ROWS_OF_COPY: Final = """
insert into mnemogate.journal
select $1, stream, seq, epoch, first_ordinal, next_ordinal, body from mnemogate.journal
where store = $2 and seq <= $3 and stream = $4
"""


def serve_database() -> Callable[[], None]:
    """Start the server for this run, and name it to its processes; return what removes it."""
    server = PostgresServer()
    server.start(f"max_connections={_CONNECTIONS_MAX}", "shared_buffers=64MB")
    os.environ[_URL] = server.url()
    return server.remove


@cache
def _database_of(_process: int) -> Database:
    return Database(os.environ[_URL])


class JournalOfTests(PostgresJournal):
    """The journal of a state directory, whose lease is over at once, but for its holder.

    Who may append is decided by the epoch alone.
    """

    def __init__(self, place: Path) -> None:
        place.mkdir(mode=0o700, exist_ok=True)
        self._file = place / "name"
        if not self._file.exists():
            self._file.touch(mode=0o600)
        # The time of the directory's last change of a name: later ones are of a copy.
        made = place.stat()
        self._of = f"{made.st_ino}.{made.st_ctime_ns}"
        name, of, last = (self._file.read_text("ascii").split() or ("", self._of, "0"))[:3]
        before, self._store = name, name if name and of == self._of else secrets.token_hex(8)
        member = Membership(
            store=self._store,
            holder=secrets.token_hex(8),
            address="",
            format=STORE_FORMAT,
            lease_s=0.0,
        )
        self._tests = _database_of(os.getpid())
        super().__init__(self._tests, member)
        self.prepare()
        if before not in {"", self._store}:
            self._copy(before, int(last))
        self._note()

    def holds(self) -> bool:
        """Always True."""
        return True

    def append(self, stream: Stream, row: JournalRow) -> None:
        """Store a row as the next one of a stream, and note its number."""
        super().append(stream, row)
        self._note(row.seq)

    def rebase(self, stream: Stream, rows: Iterable[JournalRow]) -> None:
        """Begin anew, and note the number of the last row."""
        super().rebase(stream, rows)
        self._note()

    def close(self) -> None:
        """Leave the connections to other stores of this process."""

    def _copy(self, before: str, last: int) -> None:
        given = self._store, before, last, Stream.STORE

        async def copied(connection: Session) -> None:
            async with connection.transaction():
                await connection.fetch(_HEAD_OF_COPY, *given)
                await connection.fetch(_ROWS_OF_COPY, *given)

        self._tests.run(Stream.STORE, copied)

    def _note(self, seq: int | None = None) -> None:
        last = self._head(Stream.STORE)[1] if seq is None else seq
        # In place, so that no name in the directory changes.
        with self._file.open("r+b", buffering=0) as file:
            file.write(f"{self._store} {self._of} {last:020d}".encode())
