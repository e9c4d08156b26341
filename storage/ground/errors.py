"""The errors of the store, named after the state in which they leave the store."""

from __future__ import annotations


class StorageError(Exception):
    """The base of all errors that this package raises on purpose."""


class StoreUnavailable(StorageError):
    """The store cannot take this request now (disk, quota, queue, closing); nothing was written."""


class QuotaReached(StoreUnavailable):
    """The store, or the tenant's share of it, is full."""


class CredentialEnded(StoreUnavailable):
    """The proposer's key ended before the commit; nothing was written."""


class LeaseLost(StoreUnavailable):
    """Another process took the shared store over; nothing was written, and nothing can be."""


class TransactionFailed(StorageError):
    """The medium of a store failed; if that was during a commit, its outcome is unknown."""


class StoreFull(TransactionFailed):
    """The map of the store has no free page left; the transaction must be aborted."""


class OutcomeUnknown(StorageError):
    """A commit may or may not be durable, and the store could not be reopened to find out."""


class StoreCorrupt(StorageError):
    """A value on disk does not match its digest, or two tables contradict each other."""


class BadBackup(StorageError):
    """The error for a backup that is incomplete or changed, or a target that cannot take it."""


class NoSecrets(BadBackup):
    """The error for a backup whose secrets are missing: without them no store can be restored."""


class UnknownFormat(StorageError):
    """Another version of this program wrote the store; this version would misread it."""


class StoreRolledBack(StorageError):
    """The checkpoint outside the store is ahead of the store: an older copy was put in place."""


class StoreLocked(StorageError):
    """Another gate holds this state directory, or the caller forked after opening it."""


class StalePermit(StorageError):
    """The ruleset changed, or the permit does not fit the staged bytes; nothing was written."""


class UnknownCandidate(StorageError):
    """No held candidate has this id."""


class UnknownMemory(StorageError):
    """The tenant has no memory with this id."""


class MemoryMoved(StorageError):
    """The memory was changed after a person was shown it or tried it; nothing was written."""


class UnknownLeaf(StorageError):
    """The audit log has no leaf with this index."""


class UnknownPins(StorageError):
    """No server with this name was seen, or its tools have another digest."""


class UnknownIncident(StorageError):
    """No incident has this id, or the incident cannot be undone."""


class NoSuchPast(StorageError):
    """The store has no such state; the message names the nearest one. Nothing was changed."""
