"""Restores a verified backup into a new state directory, as a new incarnation of the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from policy.gate import GATE
from policy.model import PrincipalId
from policy.ruleset import Ruleset
from storage.audit import BadCheckpoint, Tree, Verifier, VerifierKey, open_checkpoint
from storage.embedded import EmbeddedOptions, open_embedded
from storage.ground.errors import BadBackup, NoSecrets, StoreRolledBack, StoreUnavailable
from storage.ground.state_directory import (
    DIRECTORY_MODE,
    FILE_MODE,
    Secrets,
    fsync_directory,
    write_durably,
)
from storage.sealed_log.sealed_file import read_contents
from storage.sealed_log.session_log import DIRECTORY, records_of, session_keys, write_session_log
from storage.tables.change import Nodes, leaf_source
from storage.tables.codec import Digests
from storage.tables.copying import fsync_file
from storage.tables.read_only import read_only
from storage.upkeep.backup import (
    CHECKPOINT,
    SECRET_NAMES,
    SESSIONS,
    Manifest,
    load_secrets,
    note_of,
    read_manifest,
    verify,
)
from storage.upkeep.offline import EmbeddedFiles
from storage.values import StoreStatus
from storage.write.checkpoint_copy import CheckpointCopy, read_copy

_WORKING: Final = ".restoring"


def verified(
    directory: Path,
    elsewhere: Path | None,
    progress: Callable[[int, int], None],
) -> EmbeddedBackup:
    """A backup, after all of it was recomputed (`storage.opening.verified_backup`)."""
    manifest, _ = read_manifest(directory)
    if elsewhere is None and not manifest.with_secrets:
        raise NoSecrets("this backup has no secrets in it")
    secrets = load_secrets(elsewhere or directory / "secrets")
    verify(directory, secrets)
    copy = note_of(directory, CHECKPOINT)
    with EmbeddedFiles(directory, secrets.store_key).viewed() as view:
        verifier = Verifier(view, progress, copy=copy, vkey=None, log_key=secrets.log_key)
        bad = verifier.run().first_bad
    if bad is not None:
        raise BadBackup(f"its log is not sound: {bad}")
    return EmbeddedBackup(directory, manifest, secrets)


class EmbeddedBackup:
    """A backup whose files, signatures and whole log were recomputed and agree."""

    def __init__(self, directory: Path, manifest: Manifest, secrets: Secrets) -> None:
        self._directory = directory
        self._manifest = manifest
        self._secrets = secrets
        self._verifier = VerifierKey.of(manifest.origin, secrets.log_signer())
        self.summary = manifest.summary(directory)
        self.taken_at_ms = manifest.taken_at_ms

    def restore(
        self,
        *,
        state: Path,
        checkpoint: Path,
        ruleset: Ruleset,
        quota_bytes: int,
        by: PrincipalId,
        clock: Callable[[], int],
        session_records: Callable[[tuple[bytes, ...]], list[bytes]],
        accept_rollback: bool = False,
    ) -> StoreStatus:
        """Create the state directory, in a new incarnation, with a leaf that names the backup.

        All or nothing: the directory is made under another name, checked, and renamed. Blocks.
        `session_records` maps the session log's records of the backup to those after the restore.

        Raises:
            BadBackup: The state directory is not empty.
            StoreRolledBack: The checkpoint outside the store names more or other leaves than the
                backup has, and `accept_rollback` is False.
            StorageError: The disk refused, or the store cannot be opened.
        """
        if state.exists() and (not state.is_dir() or any(state.iterdir())):
            raise BadBackup(f"{state} is not empty; restore into a new place")
        options = EmbeddedOptions(
            quota_bytes=quota_bytes,
            origin=self._manifest.origin,
            restored=True,
            restore_detail=self._against_the_copy(checkpoint, accept_rollback=accept_rollback),
            restored_by=by,
            adopts_mode=False,
        )
        working = state.with_name(f".{state.name}{_WORKING}")
        try:
            state.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            shutil.rmtree(working, ignore_errors=True)
            self._install(working)
            status, note = self._revived(working, ruleset, clock, options)
            self._seal_sessions(working / "state", status.incarnation, session_records)
            # The checkpoint copy is written first, so that from here on an older store in the old
            # place counts as rolled back.
            CheckpointCopy(checkpoint, self._verifier).write(note)
            if state.exists():
                state.rmdir()
            (working / "state").rename(state)
            fsync_directory(state.parent)
        except OSError as error:
            raise StoreUnavailable(f"{state} cannot be made: {error.strerror}") from error
        finally:
            shutil.rmtree(working, ignore_errors=True)
        return status

    def _against_the_copy(self, checkpoint: Path, *, accept_rollback: bool) -> str:
        """The detail of the restore's leaf about the checkpoint outside the store.

        Raises:
            StoreRolledBack: The checkpoint is no earlier state of the backup, and that was not
            accepted.
        """
        leaf_count = self._manifest.leaf_count
        taken = f"backup of {self._manifest.incarnation} with {leaf_count} leaves"
        note = read_copy(checkpoint)
        if note is None:
            return f"{taken}; no checkpoint outside"
        try:
            kept = open_checkpoint(note, self._verifier)
        except BadCheckpoint as error:
            raise StoreRolledBack(
                f"{checkpoint} is another store's; name another place with --checkpoint"
            ) from error
        past = kept.size <= leaf_count
        if past:
            with read_only(self._directory / "store", Digests(self._secrets.store_key)) as view:
                past = Tree.load(kept.size, leaf_source(view), Nodes(view)).root() == kept.root
        said = f"{taken}; checkpoint outside: {kept.size} leaves"
        if past:
            return said
        if not accept_rollback:
            raise StoreRolledBack(
                f"{checkpoint} vouches for {kept.size} leaves that are not all in this backup: "
                f"it has {leaf_count}. What was written, refused, revoked or erased since is "
                "forgotten by it."
            )
        return f"{said}; rollback accepted"

    def _install(self, working: Path) -> None:
        """Copy the backup's files to their places below `working`, durably."""
        state = working / "state"
        # An empty directory of sessions shows the next start that there was a history.
        below = ("store", "staging", "staging/held", "staging/keys", "secrets", DIRECTORY)
        for directory in (working, state, *(state / name for name in below)):
            directory.mkdir(mode=DIRECTORY_MODE)
        secrets = self._secrets
        values = (secrets.store_key, secrets.log_key, secrets.token_key)
        for name, value in zip(SECRET_NAMES, values, strict=True):
            write_durably(state / "secrets" / name, value)
        for file in self._manifest.files:
            if file.name in {CHECKPOINT, SESSIONS} or file.name.startswith("secrets/"):
                continue
            # `verify` has refused all names that could lead out of `state`.
            target = state / file.name
            shutil.copyfile(self._directory / file.name, target)
            target.chmod(FILE_MODE)
            fsync_file(target)
            fsync_directory(target.parent)

    def _seal_sessions(
        self,
        state: Path,
        incarnation: str,
        session_records: Callable[[tuple[bytes, ...]], list[bytes]],
    ) -> None:
        """Encrypt the backup's session records for the new incarnation."""
        before = session_keys(self._secrets.store_key, self._manifest.incarnation)
        contents = read_contents(self._directory / SESSIONS, before)
        if contents is not None:
            keys = session_keys(self._secrets.store_key, incarnation)
            write_session_log(state / SESSIONS, keys, session_records(records_of(contents)))

    def _revived(
        self, working: Path, ruleset: Ruleset, clock: Callable[[], int], options: EmbeddedOptions
    ) -> tuple[StoreStatus, bytes]:
        """Open the restored store once; return its status, and the checkpoint of its new head."""
        store = open_embedded(
            state=working / "state",
            checkpoint=working / "checkpoint.txt",
            gate=GATE,
            ruleset=ruleset,
            embedder_id=self._manifest.embedder_id,
            dimension=self._manifest.dimension,
            clock=clock,
            options=options,
        )
        status = store.reader.status()
        store.close()
        return status, (working / "checkpoint.txt").read_bytes()
