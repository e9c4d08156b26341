"""The one module that opens a store; no other package names the engine.

The engine is imported when a store is opened, so that a command which only asks a running sidecar
loads no index.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from policy.gate import Gate
from policy.ruleset import Ruleset
from storage.features.recalls import RecallOptions

if TYPE_CHECKING:
    from storage.interfaces import Backup, OfflineStore, Store
    from storage.shard import ShardMember


def open_store(
    *,
    state: Path,
    checkpoint: Path,
    gate: Gate,
    ruleset: Ruleset,
    embedder_id: str,
    dimension: int,
    clock: Callable[[], int],
    failpoint: Callable[[str], None],
    quota_bytes: int,
    tenant_share: float,
    adopts_mode: bool,
    recalls: RecallOptions,
    origin: str,
    shard: ShardMember | None = None,
) -> Store:
    """Open or create the store of a state directory, repair it, and start its writer. Blocks.

    `clock` returns Unix milliseconds. `checkpoint` is the file, outside `state`, to which the last
    signed tree head is copied. `tenant_share` is the share of the quota that one tenant may use.
    `origin` is the name of the audit log, for its lifetime.
    `adopts_mode` is False for a command on a stopped state, which does not change the mode.
    `shard` is the shard whose store it is, which this process holds.

    Raises:
        StoreLocked: Another gate has the store open.
        StoreCorrupt: A part of the store is damaged.
        StoreRolledBack: The checkpoint outside the store is not of an earlier state of this store.
        StoreUnavailable: The disk refused.
    """
    from storage.embedded import EmbeddedOptions, open_embedded  # noqa: PLC0415 - see above

    return open_embedded(
        state=state,
        checkpoint=checkpoint,
        gate=gate,
        ruleset=ruleset,
        embedder_id=embedder_id,
        dimension=dimension,
        clock=clock,
        failpoint=failpoint,
        options=EmbeddedOptions(
            quota_bytes=quota_bytes,
            tenant_share=tenant_share,
            adopts_mode=adopts_mode,
            recalls=recalls,
            origin=origin,
        ),
        shipping=None if shard is None else shard.shipping(state),
    )


def offline_store(state: Path) -> OfflineStore:
    """The store of a state directory, to be read without a gate."""
    from storage.upkeep.offline import EmbeddedFiles  # noqa: PLC0415 - see above

    return EmbeddedFiles(state)


def verified_backup(
    directory: Path,
    secrets: Path | None,
    progress: Callable[[int, int], None],
) -> Backup:
    """A backup, after all of it was recomputed, with its own secrets or those of a directory.

    `progress` is called with how much of the log was verified, and how much there is.

    Raises:
        NoSecrets: The backup has no secrets, and no directory was given.
        BadBackup: Two parts of the backup contradict each other.
        StoreUnavailable: The backup cannot be read.
    """
    from storage.upkeep.restore import verified  # noqa: PLC0415 - see above

    return verified(directory, secrets, progress)
