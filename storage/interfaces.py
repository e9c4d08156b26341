"""The parts of an open store, by the names that the rest of the system has for them.

One engine makes them, `embedded` (LMDB and FAISS), on files of its own or on a copy of a store that
is durable in a journal (`storage.shipped`). What a call promises is described where it is defined.
"""

from __future__ import annotations

from storage.embedded import EmbeddedStore as Store
from storage.read.audit import EmbeddedAudit as AuditReader
from storage.read.reader import EmbeddedReader as MemoryReader
from storage.sealed_log.session_log import SealedLog as SessionLog
from storage.upkeep.offline import EmbeddedFiles as OfflineStore
from storage.upkeep.restore import EmbeddedBackup as Backup
from storage.write.writer import EmbeddedWriter as MemoryWriter

__all__ = [
    "AuditReader",
    "Backup",
    "MemoryReader",
    "MemoryWriter",
    "OfflineStore",
    "SessionLog",
    "Store",
]
