"""This process as a member of a shard: a store that is durable in a database, and held by one."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from storage.ground.errors import StorageError, StoreCorrupt, StoreUnavailable
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import (
    DIRECTORY_MODE,
    StateDirectory,
    adopt_secrets,
    holds_a_store,
    shared_secret,
)
from storage.journal.lease import Renewal
from storage.journal.protocol import Journal, LeaseRecord, Stream, StreamStatus
from storage.journal.sealing import TERM_LEN, Sealing
from storage.journal.segment_keys import SegmentKeys
from storage.read.audit import EmbeddedView
from storage.sealed_log.sealed_file import read_contents
from storage.sealed_log.session_log import DIRECTORY, NAME, records_of, session_keys
from storage.sealed_log.shared_log import SharedRecords
from storage.shipped import COPY_MARK, ShippedStore, Shipping, base_of
from storage.tables.codec import STORE_FORMAT, Digests, refuse_unknown
from storage.tables.lmdb_store import LmdbStore, View
from storage.tables.read_only import read_only

LEASE_S: Final = 10.0
_VERIFIED: Final = "verified"
_HOLDER_LEN: Final = 16
_KEPT: Final = (
    "purges and erasures do not reach the journal without `keys` of [shard]: the database, its log "
    "and its backups keep what they took, for whoever has journal.key"
)


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a database has of a shard."""

    name: str
    holder: str | None  # the address of the member that holds the store; None if no one does
    lease: LeaseRecord | None  # the last one, which may be over
    streams: tuple[StreamStatus, ...]
    # Why no member can start: the store's last row is missing, or does not open; None: it opens.
    unreadable: str | None
    remarks: tuple[str, ...]


class ShardMember:
    """This process as a member of a shard. Every method blocks.

    From `acquire` to `release` it holds the store, and may open it (`open_store`). Until then its
    copy of the store may follow the journal.
    """

    def __init__(
        self,
        journal: Journal,
        name: str,
        secrets: Path,
        remarks: tuple[str, ...],
        keys: Path | None = None,
    ) -> None:
        self.journal = journal
        self.secrets = secrets  # the directory with the keys that all members have
        secret = shared_secret(secrets, "journal.key")
        segment_keys = None if keys is None else SegmentKeys(keys, secret, name)
        sealing = Sealing(secret, name, Stream.STORE, segment_keys)
        self._shipping = Shipping(journal=journal, sealing=sealing)
        self._renewal: Renewal | None = None
        self._copy: ShippedStore | None = None
        self._following = ExitStack()
        # The key with which members announce connections to each other.
        self.peers_key = blake2b(key=secret, person=b"peers", digest_size=32).digest()
        self.remarks = (*remarks, _KEPT) if keys is None else remarks

    def acquire(self) -> bool:
        """Take the store over if no other member holds it; return whether that was possible.

        Raises:
            UnknownFormat: A later version of this program holds or held the store.
            StoreUnavailable: The database does not answer.
        """
        taken = self.journal.acquire()
        if taken:
            self._renewal = Renewal(self.journal, LEASE_S)
            self._end_following()
        return taken

    def follow(self, state: Path, quota_bytes: int) -> ShippedStore:
        """Apply to this machine's copy of the store what the journal has now; return the copy.

        The copy stays open, and the state directory locked, until `acquire` or an error.

        Raises:
            StorageError: Why the copy does not follow. One that is damaged was thrown away.
            OSError: The state directory or a secret cannot be used.
        """
        try:
            if self._copy is None:
                self._copy = self._opened(state, quota_bytes)
            self._copy.catch_up()
        except (StorageError, OSError):
            self._end_following()
            raise
        return self._copy

    @contextmanager
    def viewed(self, state: Path, quota_bytes: int) -> Generator[EmbeddedView]:
        """What the journal has now, for an auditor, in a copy below a state directory.

        The copy is readable, and removed at the end of the block; what a kill leaves of it, by the
        next call or the next start of a member. Raises what `follow` raises.
        """
        state.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        place = state / _VERIFIED
        shutil.rmtree(place, ignore_errors=True)
        try:
            copy = self.follow(place, quota_bytes)
            # As in a copy that follows, the lease is another member's.
            with LmdbStore.reading(copy) as view:
                yield EmbeddedView(view)
        finally:
            self._end_following()
            shutil.rmtree(place, ignore_errors=True)

    def _opened(self, state: Path, quota_bytes: int) -> ShippedStore:
        shipping = self.shipping(state)
        directory = StateDirectory(state)
        self._following.callback(directory.close)
        # The index of an earlier time as holder has the vectors of what is purged since.
        shutil.rmtree(directory.segments)
        digests = Digests(directory.secrets().store_key)
        copy = ShippedStore(directory.store, quota_bytes, digests, shipping)
        self._following.callback(copy.shut)
        try:
            copy.open_copy(bootstrapped=True)
        except StoreCorrupt:
            copy.begin_anew()
            raise
        return copy

    def _end_following(self) -> None:
        self._copy = None
        self._following.close()

    def holder(self) -> str | None:
        """The address of the member that holds the store; None if no one does.

        Raises:
            StoreUnavailable: The database does not answer.
        """
        last = self.journal.lease()
        return last.address if last is not None and last.remaining_s > 0 else None

    def status(self) -> ShardStatus:
        """What the database has of the shard; nothing is changed.

        Raises:
            StoreUnavailable: The database does not answer, or the keys cannot be read.
        """
        streams, unreadable = self.journal.streams(), None
        try:
            self._shipping.open_row(streams[0].seq)
        except StoreCorrupt as error:
            unreadable = str(error)
        return ShardStatus(
            name=self._shipping.sealing.store,
            holder=self.holder(),
            lease=self.journal.lease(),
            streams=streams,
            unreadable=unreadable,
            remarks=self.remarks,
        )

    def create(self, state: Path) -> None:
        """Append the store in a stopped state directory as the shard's first rows.

        All of the store is appended, or nothing of it. The directory is not changed. What waits
        there for a person, and the recall ledger, are not in a journal.

        Raises:
            StoreUnavailable: The shard has a store or a holder; or the directory has no whole store
                of its own, or other secrets than the shard; or the database does not answer.
            StoreLocked: A gate has the directory.
            StoreCorrupt: A value of the store is damaged.
            TransactionFailed: The database failed; nothing was appended, or all.
        """
        if not holds_a_store(state) or (state / COPY_MARK).exists():
            raise StoreUnavailable(f"there is no store of its own in {state}")
        with closing(StateDirectory(state)) as directory:
            shipping, key = self.shipping(state), directory.secrets().store_key
            if not self.acquire() or shipping.journal.settle(Stream.STORE):
                raise StoreUnavailable("it has a store already, or a member that holds it")
            with read_only(directory.store, Digests(key)) as view:
                records = _sessions(view, state, key)
                if problem := next(view.problems(), None):
                    raise StoreCorrupt(problem)
                if records:
                    shared = SharedRecords(shipping.journal, shipping.sealing)
                    # After a creation that did not end there may be rows of sessions.
                    shared.read()
                    shared.write(records, replace=True)
                rows = base_of(view, shipping.sealing, 0, random_bytes(TERM_LEN))
                shipping.journal.rebase(Stream.STORE, rows)

    def release(self) -> None:
        """Let another member take the store over at once; call it after the store was closed."""
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
            # Without an answer the lease ends by itself.
            with suppress(StoreUnavailable):
                self.journal.release()

    def shipping(self, state: Path) -> Shipping:
        """The journal for a state directory, which gets the shard's keys.

        Raises:
            StoreUnavailable: The state directory belongs to another store, or cannot be written.
        """
        shutil.rmtree(state / _VERIFIED, ignore_errors=True)
        adopt_secrets(state, self.secrets)
        return self._shipping

    def close(self) -> None:
        """Give the store up and close the connections. Idempotent; call nothing else after it."""
        self._end_following()
        self.release()
        self.journal.close()


def _sessions(view: View, state: Path, store_key: bytes) -> tuple[bytes, ...]:
    """The records of the session ledger of a stopped store.

    Raises:
        StoreUnavailable: There is no store, or a part of the ledger is lost.
        UnknownFormat: Another version of this program wrote the store.
    """
    header = view.header()
    refuse_unknown(header)
    if header is None:
        raise StoreUnavailable(f"there is no store in {state}: its first start did not end")
    ledger = state / DIRECTORY
    contents = read_contents(ledger / NAME, session_keys(store_key, header.incarnation_name))
    if contents is None and not ledger.exists():
        return ()
    if contents is None or not contents.whole:
        # A start notes the loss in the ledger, and begins a new file with what is left.
        raise StoreUnavailable(f"{ledger} was cut: start `mnemogate run` on it once, and stop it")
    return records_of(contents)


def join_shard(
    name: str,
    url: str,
    secrets: Path,
    *,
    address: str,
    keys: Path | None = None,
    joins: bool = True,
) -> ShardMember:
    """Become a member of a shard that does not hold its store yet. Blocks.

    Without `joins` the shard is only looked at, or asked for a new holder.

    `url` is that of the database, and `address` where other members reach this one (`HOST:PORT`).
    The directory `secrets` has the keys that all members have, and never change. The directory
    `keys` has those of the journal's segments; None: a purge does not reach the journal.

    Raises:
        StorageError: The database would lose what it confirms, or does not answer; or a secret or
            `keys` is missing, or others can read it; or the driver is not installed.
    """
    # asyncpg is an extra, which only members of a shard need.
    try:
        from storage.journal.database import Database  # noqa: PLC0415 - see above
        from storage.journal.postgres import Membership, PostgresJournal  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"a shard needs {error.name}: install mnemogate[postgres]"
        ) from error

    member = Membership(
        store=name,
        holder=random_bytes(_HOLDER_LEN).hex(),
        address=address,
        format=STORE_FORMAT,
        lease_s=LEASE_S,
    )
    journal = PostgresJournal(Database(url), member)
    try:
        return ShardMember(journal, name, secrets, journal.prepare(joins=joins), keys)
    except BaseException:
        journal.close()
        raise
