"""This process as a member of a shard: a store that is durable in a database, and held by one."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from storage.ground.errors import StorageError, StoreCorrupt, StoreUnavailable
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import StateDirectory, adopt_secrets, shared_secret
from storage.journal.lease import Renewal
from storage.journal.protocol import Journal, Stream
from storage.journal.sealing import Sealing
from storage.journal.segment_keys import SegmentKeys
from storage.shipped import ShippedStore, Shipping
from storage.tables.codec import STORE_FORMAT, Digests

LEASE_S: Final = 10.0
_HOLDER_LEN: Final = 16
_KEPT: Final = (
    "purges and erasures do not reach the journal without `keys` of [shard]: the database, its log "
    "and its backups keep what they took, for whoever has journal.key"
)


class ShardMember:
    """This process as a member of a shard. Every method but `holds` blocks.

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
        self._journal = journal
        self._secrets = secrets
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
        taken = self._journal.acquire()
        if taken:
            self._renewal = Renewal(self._journal, LEASE_S)
            self._renewal.start()
            self._end_following()
        return taken

    def holds(self) -> bool:
        """Whether this process holds the store. Any thread."""
        return self._journal.holds()

    def follow(self, state: Path, quota_bytes: int) -> None:
        """Apply to this machine's copy of the store what the journal has now.

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
        last = self._journal.lease()
        return last.address if last is not None and last.remaining_s > 0 else None

    def release(self) -> None:
        """Let another member take the store over at once; call it after the store was closed."""
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
            # Without an answer the lease ends by itself.
            with suppress(StoreUnavailable):
                self._journal.release()

    def shipping(self, state: Path) -> Shipping:
        """The journal for a state directory, which gets the shard's keys.

        Raises:
            StoreUnavailable: The state directory belongs to another store, or cannot be written.
        """
        adopt_secrets(state, self._secrets)
        return self._shipping

    def close(self) -> None:
        """Give the store up and close the connections; call nothing after it."""
        self._end_following()
        self.release()
        self._journal.close()


def join_shard(
    name: str, url: str, secrets: Path, *, address: str, keys: Path | None = None
) -> ShardMember:
    """Become a member of a shard that does not hold its store yet. Blocks.

    `url` is that of the database, and `address` where other members reach this one (`HOST:PORT`).
    The directory `secrets` has the keys that all members have, and never change. The directory
    `keys` has those of the journal's segments; None: a purge does not reach the journal.

    Raises:
        StorageError: The database would lose what it confirms, or does not answer; or a secret or
            `keys` is missing, or others can read it.
    """
    # asyncpg is an extra, which only members of a shard need.
    from storage.journal.database import Database  # noqa: PLC0415 - see above
    from storage.journal.postgres import Membership, PostgresJournal  # noqa: PLC0415 - see above

    member = Membership(
        store=name,
        holder=random_bytes(_HOLDER_LEN).hex(),
        address=address,
        format=STORE_FORMAT,
        lease_s=LEASE_S,
    )
    journal = PostgresJournal(Database(url), member)
    try:
        return ShardMember(journal, name, secrets, journal.prepare(), keys)
    except BaseException:
        journal.close()
        raise
