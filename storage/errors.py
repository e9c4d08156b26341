"""Failures of the store, named for what the caller can still believe."""

from __future__ import annotations


class StorageError(Exception):
    """Base of everything this package raises on purpose."""


class StoreUnavailable(StorageError):
    """The store cannot take this request now (disk, quota, queue, closing); nothing was written."""


class QuotaReached(StoreUnavailable):
    """No room is left in the store, or in the share of it that a tenant may use."""


class CredentialEnded(StoreUnavailable):
    """The proposer's key ended before the commit; nothing was written."""


class OutcomeUnknown(StorageError):
    """A commit may or may not be durable, and the store could not be reopened to find out."""


class StoreCorrupt(StorageError):
    """A value on disk does not match its digest, or two tables contradict each other."""


class BadBackup(StorageError):
    """A backup that is incomplete or was changed, or a place where it cannot go."""


class NoSecrets(BadBackup):
    """A backup without the secrets that make it a store again."""


class UnknownFormat(StorageError):
    """Another version of this program wrote the store; this one would misread it."""


class StoreRolledBack(StorageError):
    """The checkpoint kept outside the store is ahead of it: an older copy was put in place."""


class StoreLocked(StorageError):
    """Another gate holds this state directory, or the caller forked after opening it."""


class StalePermit(StorageError):
    """The ruleset epoch moved, or the permit does not fit what is staged; nothing was written."""


class UnknownCandidate(StorageError):
    """No held candidate of that id."""


class UnknownMemory(StorageError):
    """No memory of that id stands in the tenant."""


class MemoryMoved(StorageError):
    """The memory is not the one any more that a person was shown; nothing was written."""


class UnknownLeaf(StorageError):
    """The audit log has no leaf of that index."""


class UnknownPins(StorageError):
    """No server of that name was seen, or its tools are not those that were meant."""
