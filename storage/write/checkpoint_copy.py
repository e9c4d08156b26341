"""The last signed checkpoint, kept outside the store to detect that a store was rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from storage.audit import (
    BadCheckpoint,
    Checkpoint,
    ForeignCheckpoint,
    Tree,
    VerifierKey,
    open_checkpoint,
)
from storage.ground.errors import StoreRolledBack, StoreUnavailable
from storage.ground.state_directory import DIRECTORY_MODE, write_durably
from storage.ground.trusted_files import UnfitFile, read_file
from storage.tables.change import Nodes, leaf_source
from storage.tables.codec import StoreHeader
from storage.tables.lmdb_store import View

NOTE_LEN_MAX: Final = 64 * 1024


def check_new_store(path: Path) -> None:
    """Refuse to begin a new store if its checkpoint file exists already.

    The new store's key cannot have signed that file, so an older store must have existed.

    Raises:
        StoreRolledBack: The checkpoint file exists.
    """
    if read_copy(path) is not None:
        raise StoreRolledBack(
            f"there is no store yet, and {path} is the checkpoint of one, so nothing was begun. If "
            "the store that wrote it belongs here, mount or name it; else give this one a "
            "`checkpoint` of its own, or move the file away"
        )


def read_copy(path: Path) -> bytes | None:
    """The checkpoint in a file; None if there is no file.

    Raises:
        StoreUnavailable: The file cannot be read, or another user could change it.
    """
    try:
        return read_file(path, NOTE_LEN_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error
    except UnfitFile as error:
        raise StoreUnavailable(f"{path} must be {error}") from error


class CheckpointCopy:
    """The file outside the store that contains its last checkpoint. Writer thread only."""

    def __init__(self, path: Path, verifier: VerifierKey) -> None:
        self.path = path
        self._verifier = verifier
        self._written: bytes | None = None

    def write(self, note: bytes) -> bool:
        """Write the checkpoint durably; return False if the file contains it already.

        Raises:
            OSError: The file could not be written; the earlier one is still there.
        """
        if not note or note == self._written:
            return False
        self.path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        write_durably(self.path, note)
        self._written = note
        return True

    def read(self) -> Checkpoint | None:
        """The tree head in the file; None if there is no file.

        Raises:
            StoreRolledBack: The file is not a checkpoint that this store's key signed.
        """
        note = read_copy(self.path)
        if note is None:
            return None
        try:
            return open_checkpoint(note, self._verifier)
        except ForeignCheckpoint as error:
            raise StoreRolledBack(
                f"{self.path} is the checkpoint of another store: this store's log key did not "
                "sign it. If `log_origin` was changed, set it back. If two states keep theirs "
                "there, give each a `checkpoint` of its own. If another store was put in place of "
                "the one that wrote it, put that one back, or, where it was replaced on purpose, "
                "move the file away"
            ) from error
        except BadCheckpoint as error:
            raise StoreRolledBack(
                f"{self.path} was changed: what stands in it is not what this store signed. Keep "
                "it for whoever looks into that. `mnemogate audit verify` checks the store; once "
                "it is found sound, move the file away, and the next start writes a new one"
            ) from error

    def compare(self, view: View, header: StoreHeader | None) -> str | None:
        """Compare the store with the file; return a remark if a store with leaves has no file.

        Raises:
            StoreRolledBack: The file names more leaves than the store has, or other ones, or the
                store's log has another name than the verifier.
        """
        kept = self.read()
        # The file is not on each machine that may open the store, and the name is for a lifetime.
        if (note := view.checkpoint()) and not note.startswith(f"{self._verifier.name}\n".encode()):
            raise StoreRolledBack(
                f"the audit log of this store is named {note.split()[0].decode('utf-8', 'replace')}"
                f", and not {self._verifier.name}: set `log_origin` back to that name, by which "
                "witnesses and auditors know the log"
            )
        if kept is None:
            return (
                f"no checkpoint copy was found at {self.path}"
                if header is not None and header.leaf_count
                else None
            )
        refuse_other(view, header, kept)
        return None


def refuse_other(view: View, header: StoreHeader | None, signed: Checkpoint) -> None:
    """Refuse a store whose log does not continue a head that was signed.

    Raises:
        StoreRolledBack: The head names more leaves than the store has, or other ones.
    """
    size = 0 if header is None else header.leaf_count
    advice = (
        " Put the newest store back. To go on with this one on purpose, `mnemogate backup` "
        "it and `mnemogate restore --accept-rollback` that: it begins a new incarnation, so "
        "that nonces spent since cannot be used again"
    )
    if signed.size > size:
        raise StoreRolledBack(
            f"the audit log has {size} leaves, but its last checkpoint names {signed.size}: an "
            f"older copy of the store was put in place.{advice}"
        )
    if Tree.load(signed.size, leaf_source(view), Nodes(view)).root() != signed.root:
        raise StoreRolledBack(
            f"the first {signed.size} leaves of the audit log are not those that were signed: "
            f"another copy of the store was put in place.{advice}"
        )
