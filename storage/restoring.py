"""From a verified backup to a state directory that begins a new life."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import msgspec

from policy.gate import GATE
from storage.audit import BadCheckpoint, Tree, VerifierKey, open_checkpoint
from storage.backup import CHECKPOINT, SECRET_NAMES
from storage.change import Nodes, leaf_source
from storage.checkpoint_copy import CheckpointCopy
from storage.copying import fsync_file
from storage.embedded import EmbeddedOptions, open_embedded
from storage.errors import BadBackup, StoreRolledBack, StoreUnavailable
from storage.read_only import read_only
from storage.session_log import DIRECTORY
from storage.statedir import DIRECTORY_MODE, FILE_MODE, fsync_directory, write_durably

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policy.model import PrincipalId
    from policy.ruleset import Ruleset
    from storage.backup import Manifest
    from storage.interfaces import StoreStatus
    from storage.statedir import Secrets

_WORKING: Final = ".restoring"


class Restoring(msgspec.Struct, frozen=True, kw_only=True):
    """What is restored, where to, and on whose word."""

    backup: Path
    manifest: Manifest
    secrets: Secrets
    state: Path
    checkpoint: Path
    ruleset: Ruleset
    quota_bytes: int
    by: PrincipalId
    clock: Callable[[], int]
    accept_rollback: bool = False


def restore(order: Restoring) -> StoreStatus:
    """Make the state directory, in a new incarnation, with a leaf that says from what.

    All or nothing: it is put together beside its place, checked, and renamed. Blocks.

    Raises:
        BadBackup: The place is taken, or the restored store contradicts itself.
        StoreRolledBack: The checkpoint outside knows more or other leaves than the backup, and
            nobody accepted that.
        StorageError: The disk refused, or the store cannot be opened.
    """
    state = order.state
    if state.exists() and (not state.is_dir() or any(state.iterdir())):
        raise BadBackup(f"{state} is not empty; restore into a new place")
    detail = _against_the_copy(order)
    working = state.with_name(f".{state.name}{_WORKING}")
    try:
        state.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        shutil.rmtree(working, ignore_errors=True)
        _install(order, working)
        status, note = _revived(order, working, detail)
        # The copy first: from here on an older store in the old place is the one rolled back.
        verifier = VerifierKey.of(order.manifest.origin, order.secrets.log_signer())
        CheckpointCopy(order.checkpoint, verifier).write(note)
        if state.exists():
            state.rmdir()
        (working / "state").rename(state)
        fsync_directory(state.parent)
    except OSError as error:
        raise StoreUnavailable(f"{state} cannot be made: {error.strerror}") from error
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return status


def _against_the_copy(order: Restoring) -> str:
    """What the leaf says of the checkpoint outside.

    Raises:
        StoreRolledBack: It is not of the backup's past, and that was not accepted.
    """
    taken = f"backup of {order.manifest.incarnation} with {order.manifest.leaf_count} leaves"
    try:
        note = order.checkpoint.read_bytes()
    except FileNotFoundError:
        return f"{taken}; no checkpoint outside"
    except OSError as error:
        raise StoreUnavailable(f"{order.checkpoint} cannot be read: {error.strerror}") from error
    verifier = VerifierKey.of(order.manifest.origin, order.secrets.log_signer())
    try:
        kept = open_checkpoint(note, verifier)
    except BadCheckpoint as error:
        raise StoreRolledBack(
            f"{order.checkpoint} is another store's; name another place with --checkpoint"
        ) from error
    past = kept.size <= order.manifest.leaf_count
    if past:
        with read_only(order.backup / "store") as view:
            past = Tree.load(kept.size, leaf_source(view), Nodes(view)).root() == kept.root
    said = f"{taken}; checkpoint outside: {kept.size} leaves"
    if past:
        return said
    if not order.accept_rollback:
        raise StoreRolledBack(
            f"{order.checkpoint} vouches for {kept.size} leaves that are not all in this backup: "
            f"it has {order.manifest.leaf_count}. What was written, refused, revoked or purged "
            "since is forgotten by it."
        )
    return f"{said}; rollback accepted"


def _install(order: Restoring, working: Path) -> None:
    """Put the files in their places below `working`, durably."""
    state = working / "state"
    # Sessions are in no backup: a directory without its file says that there was a history.
    below = ("store", "staging", "staging/held", "staging/keys", "secrets", DIRECTORY)
    for directory in (working, state, *(state / name for name in below)):
        directory.mkdir(mode=DIRECTORY_MODE)
    values = (order.secrets.store_key, order.secrets.log_key, order.secrets.token_key)
    for name, value in zip(SECRET_NAMES, values, strict=True):
        write_durably(state / "secrets" / name, value)
    for file in order.manifest.files:
        if file.name == CHECKPOINT or file.name.startswith("secrets/"):
            continue
        # `verify` lets no other name through: there is no way out of `state` in any of them.
        target = state / file.name
        shutil.copyfile(order.backup / file.name, target)
        target.chmod(FILE_MODE)
        fsync_file(target)
        fsync_directory(target.parent)


def _revived(order: Restoring, working: Path, detail: str) -> tuple[StoreStatus, bytes]:
    """Open the store once as restored; its status, and the checkpoint of its new head."""
    store = open_embedded(
        state=working / "state",
        checkpoint=working / "checkpoint.txt",
        gate=GATE,
        ruleset=order.ruleset,
        embedder_id=order.manifest.embedder_id,
        dimension=order.manifest.dimension,
        clock=order.clock,
        options=EmbeddedOptions(
            quota_bytes=order.quota_bytes,
            origin=order.manifest.origin,
            restored=True,
            restore_detail=detail,
            restored_by=order.by,
            adopts_mode=False,
        ),
    )
    try:
        problems = store.reader.check().problems
        if problems:
            raise BadBackup(f"the restored store contradicts itself: {problems[0]}")
        status = store.reader.status()
    finally:
        store.close()
    return status, (working / "checkpoint.txt").read_bytes()
