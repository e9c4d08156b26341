"""The journal in PostgreSQL: three tables, and the statements that fence them.

An append is one statement: it raises the number in `head` if epoch and number are as its sender
believes, and only then stores the row. A takeover raises the epochs of all streams and changes the
lease in one statement. An append that was sent before, and arrives later, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from storage.ground.errors import (
    LeaseLost,
    StoreCorrupt,
    StoreUnavailable,
    TransactionFailed,
    UnknownFormat,
)
from storage.journal.database import (
    ANSWER_S,
    AlreadyThere,
    Database,
    Session,
    UnfitDatabase,
    check_server,
)
from storage.journal.lease import LeaseDeadline, boot_s
from storage.journal.protocol import Journal, JournalRow, LeaseRecord, Stream, StreamStatus

_LEASE: Final = "lease"  # the line of statements about the lease, which no append may delay
_ASK_AGAIN_S: Final = 0.25
_ROWS_AT_ONCE: Final = 64
_READ_S: Final = 60.0
_REBASE_S: Final = 600.0
_RENEW_S: Final = 4.0  # less than half a lease, so that a lost connection costs one renewal
_EXISTS: Final = "select to_regclass('mnemogate.journal') is not null as there"
_SCHEMA: Final = """
create schema if not exists mnemogate;
create table if not exists mnemogate.head(
  store text, stream text, base bigint not null default 1, seq bigint not null default 0,
  epoch bigint not null default 0, primary key(store, stream)) with (fillfactor = 50);
create table if not exists mnemogate.lease(
  store text primary key, holder text not null default '', address text not null default '',
  until timestamptz not null default to_timestamp(0), format int not null default 0)
  with (fillfactor = 50);
create table if not exists mnemogate.journal(
  store text, stream text, seq bigint, epoch bigint not null, first_ordinal bigint not null,
  next_ordinal bigint not null, body bytea not null, primary key(store, stream, seq));
alter table mnemogate.journal alter body set storage external;
"""
# Each privilege by itself: in one list, one of them would be enough.
_MISSING: Final = """
select privilege || ' on ' || tab as lack from (values
  ('mnemogate.head', 'SELECT'), ('mnemogate.head', 'INSERT'), ('mnemogate.head', 'UPDATE'),
  ('mnemogate.lease', 'SELECT'), ('mnemogate.lease', 'INSERT'), ('mnemogate.lease', 'UPDATE'),
  ('mnemogate.journal', 'SELECT'), ('mnemogate.journal', 'INSERT'),
  ('mnemogate.journal', 'UPDATE'), ('mnemogate.journal', 'DELETE')) needed(tab, privilege)
where not has_table_privilege(tab, privilege) order by tab, privilege
"""
_ENROL: Final = """
with lease as (insert into mnemogate.lease(store) values ($1) on conflict do nothing)
insert into mnemogate.head(store, stream) select $1, unnest($2::text[]) on conflict do nothing
"""
_ACQUIRE: Final = """
with taken as (
  update mnemogate.lease set holder = $2, address = $3, format = $4,
    until = clock_timestamp() + $5 * interval '1 second'
  where store = $1 and format <= $4 and (until <= clock_timestamp() or holder = $2)
  returning store)
update mnemogate.head set epoch = epoch + 1 from taken where head.store = taken.store
returning stream, epoch
"""
_RENEW: Final = """
update mnemogate.lease set until = clock_timestamp() + $3 * interval '1 second'
where store = $1 and holder = $2 returning store
"""
# A holder that is asked to step down has another name than it believes, so that it cannot renew. It
# is over with its deadline, or when it gives the lease up by the name that it has now.
_STEP_DOWN: Final = """
update mnemogate.lease set holder = '-' || ltrim(holder, '-')
where store = $1 and until > clock_timestamp() returning store
"""
_RELEASE: Final = """
update mnemogate.lease set until = to_timestamp(0)
where store = $1 and holder in ($2::text, '-' || $2::text)
"""
_LAST_LEASE: Final = """
select holder, address, format,
  extract(epoch from until - clock_timestamp())::float8 as remaining_s
from mnemogate.lease where store = $1 and holder <> ''
"""
_STREAMS: Final = """
select head.stream, head.epoch, base as begins, head.seq, count(body) as rows,
  head.seq + 1 - base - count(body) as missing,
  coalesce(sum(octet_length(body)), 0)::bigint as bytes
from mnemogate.head left join mnemogate.journal on journal.store = head.store
  and journal.stream = head.stream and journal.seq between base and head.seq
where head.store = $1 group by head.store, head.stream order by head.stream desc
"""
_APPEND: Final = """
with fence as (
  update mnemogate.head set seq = seq + 1
  where store = $1 and stream = $2 and epoch = $3 and seq = $4 returning seq)
insert into mnemogate.journal select $1, $2, seq, $3, $5, $6, $7 from fence returning seq
"""
# The lease is locked before the head, as a takeover does it: either this or a takeover is first.
# The epoch is not compared: if the answer of this very statement was lost, it is unknown.
_SETTLE: Final = """
with mine as (select store from mnemogate.lease where store = $1 and holder = $3 for share)
update mnemogate.head set epoch = epoch + 1 from mine
where head.store = mine.store and stream = $2 returning epoch, seq
"""
_HEAD: Final = "select base, seq from mnemogate.head where store = $1 and stream = $2"
_SINCE: Final = """
select seq, first_ordinal, next_ordinal, body from mnemogate.journal
where store = $1 and stream = $2 and seq > $3 order by seq limit $4
"""
_FENCE: Final = """
select seq from mnemogate.head where store = $1 and stream = $2 and epoch = $3 for update
"""
_EXCHANGE: Final = """
update mnemogate.journal set first_ordinal = $4, next_ordinal = $5, body = $6
where store = $1 and stream = $2 and seq = $3 returning seq
"""
_INSERT: Final = "insert into mnemogate.journal values ($1, $2, $3, $4, $5, $6, $7)"
_REBASE: Final = """
with dropped as (
  delete from mnemogate.journal where store = $1 and stream = $2 and seq < $3)
update mnemogate.head set base = $3, seq = $4 where store = $1 and stream = $2
"""


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """One process as a member of a shard: the store's name, its own, and how it is reached."""

    store: str
    holder: str  # a random name of this process
    address: str
    format: int  # the format of the stores that this version writes
    lease_s: float


class PostgresJournal(Journal):
    """The journal of one store in a PostgreSQL database."""

    def __init__(self, database: Database, member: Membership) -> None:
        """Call `prepare` before anything else."""
        self._database = database
        self._member = member
        self._deadline = LeaseDeadline(member.lease_s)
        self._epochs = dict[Stream, int]()

    def prepare(self, *, joins: bool = True) -> tuple[str, ...]:
        """Check the server, make the tables where there are none, and enrol the store. Blocks.

        Returns remarks for the operator. Without `joins` nothing is made or enrolled.

        Raises:
            UnfitDatabase: The server would lose what it confirms, or this role may not append.
            StoreUnavailable: The database does not answer; or there is no such store, which an
                operator wants to look at.
            TransactionFailed: The database does not answer.
        """
        store = self._member.store

        async def prepared(connection: Session) -> tuple[str, ...]:
            remarks = await check_server(connection)
            there = (await connection.fetch(_EXISTS))[0]["there"]
            if not joins:
                if not there or not await connection.fetch(_HEAD, store, Stream.STORE):
                    raise StoreUnavailable("the database has no shard of this name")
                return remarks
            if not there:
                # Of two members that make them at once, one fails when the other has made them.
                with suppress(AlreadyThere):
                    await connection.execute(_SCHEMA)
            missing = [str(one["lack"]) for one in await connection.fetch(_MISSING)]
            if missing:
                raise UnfitDatabase(f"the role of the database lacks {', '.join(missing)}")
            await connection.fetch(_ENROL, store, list(Stream))
            return remarks

        return self._database.run(_LEASE, prepared)

    # ---- the lease -------------------------------------------------------------------------------

    def acquire(self) -> bool:
        """Take the lease and raise all epochs, in one statement (`Journal.acquire`)."""
        member, asked_s = self._member, boot_s()
        taken = self._ask(
            *(_LEASE, _ACQUIRE, member.store, member.holder),
            *(member.address, member.format, member.lease_s),
        )
        if taken:
            self._epochs = {Stream(one["stream"]): one["epoch"] for one in taken}
            self._deadline.extend(asked_s)
            return True
        last = self.lease()
        if last is not None and last.format > member.format:
            raise UnknownFormat(
                f"the shard was written in format {last.format}, which this version does not know: "
                "run the version that wrote it"
            )
        return False

    def renew(self) -> None:
        """Extend the lease (`Journal.renew`)."""
        member, asked_s = self._member, boot_s()
        if not self._ask(
            _LEASE, _RENEW, member.store, member.holder, member.lease_s, limit_s=_RENEW_S
        ):
            raise self._lost()
        self._deadline.extend(asked_s)

    def holds(self) -> bool:
        """Whether the lease of this process is not over (`Journal.holds`)."""
        return self._deadline.holds()

    def release(self) -> None:
        """End the lease (`Journal.release`)."""
        self._deadline.end()
        self._ask(_LEASE, _RELEASE, self._member.store, self._member.holder)

    def lease(self) -> LeaseRecord | None:
        """The last lease of the store (`Journal.lease`)."""
        found = self._ask(_LEASE, _LAST_LEASE, self._member.store)
        return LeaseRecord(**dict(found[0])) if found else None

    def step_down(self) -> bool:
        """Let the holder's lease not be renewed (`Journal.step_down`)."""
        return bool(self._ask(_LEASE, _STEP_DOWN, self._member.store))

    # ---- rows ------------------------------------------------------------------------------------

    def streams(self) -> tuple[StreamStatus, ...]:
        """What is stored of each stream (`Journal.streams`)."""
        found = self._ask(_LEASE, _STREAMS, self._member.store, limit_s=_READ_S)
        return msgspec.convert([dict(one) for one in found], tuple[StreamStatus, ...])

    def append(self, stream: Stream, row: JournalRow) -> None:
        """Store a row as the next one of a stream (`Journal.append`)."""
        fence = self._member.store, stream, self._epochs[stream], row.seq - 1
        if not self._database.rows(stream, _APPEND, *fence, *_contents(row)):
            raise self._lost()

    def settle(self, stream: Stream) -> int:
        """Raise the own epoch of a stream, asking until the lease is over (`Journal.settle`)."""
        while True:
            try:
                found = self._ask(stream, _SETTLE, self._member.store, stream, self._member.holder)
            except StoreUnavailable:
                if not self.holds():
                    raise
                time.sleep(_ASK_AGAIN_S)
                continue
            if not found:
                raise self._lost()
            self._epochs[stream] = found[0]["epoch"]
            return int(found[0]["seq"])

    def begins(self, stream: Stream) -> int:
        """The number of the first row that the stream still has (`Journal.begins`)."""
        return self._head(stream)[0]

    def since(self, stream: Stream, seq: int) -> Iterator[JournalRow]:
        """The rows after the row `seq`, up to the last one of now (`Journal.since`)."""
        base, last = self._head(stream)
        if seq > last:
            raise StoreCorrupt(f"the journal ends at row {last}, and row {seq} was in it")
        if seq + 1 < base:
            raise StoreUnavailable(f"the journal does not have row {seq + 1} any more")
        while seq < last:
            place = self._member.store, stream, seq, min(_ROWS_AT_ONCE, last - seq)
            found = self._ask(stream, _SINCE, *place, limit_s=_READ_S)
            for one in found:
                if one["seq"] != seq + 1:
                    break
                seq += 1
                yield JournalRow(**dict(one))
            else:
                if found:
                    continue
            # A holder that drops old rows while they are read leaves no gap.
            if self.begins(stream) > seq + 1:
                raise StoreUnavailable(f"the journal does not have row {seq + 1} any more")
            raise StoreCorrupt(f"row {seq + 1} of the journal is missing")

    def exchange(self, stream: Stream, rows: Sequence[JournalRow]) -> None:
        """Replace stored rows, all of them or none (`Journal.exchange`)."""
        place = self._member.store, stream

        async def replace(connection: Session) -> None:
            async with connection.transaction():
                if not await connection.fetch(_FENCE, *place, self._epochs[stream]):
                    raise self._lost()
                for one in rows:
                    if not await connection.fetch(_EXCHANGE, *place, one.seq, *_contents(one)):
                        raise StoreCorrupt(f"row {one.seq} of the journal is missing")

        self._database.run(stream, replace, _READ_S)

    def rebase(self, stream: Stream, rows: Iterable[JournalRow]) -> None:
        """Append rows with the whole state, and drop all before (`Journal.rebase`)."""
        place, epoch = (self._member.store, stream), self._epochs[stream]

        async def begin_anew(connection: Session) -> None:
            async with connection.transaction():
                fence = await connection.fetch(_FENCE, *place, epoch)
                if not fence:
                    raise self._lost()
                before = last = fence[0]["seq"]
                for one in rows:
                    last = one.seq
                    await connection.fetch(_INSERT, *place, last, epoch, *_contents(one))
                await connection.fetch(_REBASE, *place, before + 1, last)

        self._database.run(stream, begin_anew, _REBASE_S)

    def close(self) -> None:
        """Close the connections (`Journal.close`)."""
        self._deadline.end()
        self._database.close()

    def _head(self, stream: Stream) -> tuple[int, int]:
        found = self._ask(stream, _HEAD, self._member.store, stream)
        if not found:
            raise StoreCorrupt("the head of the journal is missing")
        return found[0]["base"], found[0]["seq"]

    def _lost(self) -> LeaseLost:
        self._deadline.end()
        return LeaseLost("another process took the shard over; nothing was written")

    def _ask(
        self, line: str, statement: str, *given: object, limit_s: float = ANSWER_S
    ) -> list[Any]:
        """The rows of a statement that may be repeated, so that its failure leaves no doubt."""
        try:
            return self._database.rows(line, statement, *given, limit_s=limit_s)
        except TransactionFailed as error:
            raise StoreUnavailable(str(error)) from error


def _contents(row: JournalRow) -> tuple[int, int, bytes]:
    return row.first_ordinal, row.next_ordinal, row.body
