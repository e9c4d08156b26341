"""The state directory: its layout, its modes, its lock, and the secrets in it.

Everything in it has mode 0700 or 0600. LMDB does not fsync the directory in which it creates files,
and a file whose directory entry was never synced may be gone after a power cut. So every creation
here ends with an fsync of the parent directory.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from storage.ground.errors import StoreCorrupt, StoreLocked, StoreUnavailable, UnknownFormat
from storage.ground.trusted_files import Trust, UnfitFile, read_file

SECRET_LEN: Final = 32
DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
LOG_KEY: Final = "log.key"
STORE_KEY: Final = "store.key"
SECRETS: Final = (STORE_KEY, LOG_KEY, "token.key")
_MARK: Final = b"mnemogate state directory, format 2\n"
_CURSOR_BYTES_MAX: Final = 65_536


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of one store: 32 raw bytes each; the last two are Ed25519 seeds."""

    # The key of keyed hashes: of nonces, of ids, and of violations that count only once.
    store_key: bytes
    log_key: bytes  # signs checkpoints of the audit log
    token_key: bytes  # signs promotion tokens

    def log_signer(self) -> Ed25519PrivateKey:
        """The key that signs checkpoints."""
        return Ed25519PrivateKey.from_private_bytes(self.log_key)

    def __repr__(self) -> str:
        return "Secrets(...)"


def fsync_directory(directory: Path) -> None:
    """Make the entries of a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, data: bytes, mode: int = FILE_MODE) -> None:
    """Write a file as a whole or not at all, mode 0600, durable when this returns."""
    temporary = path.with_name(f".{path.name}.unfinished")
    # A crash may have left the temporary file; no other process writes here.
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def destroy_file(path: Path, length: int) -> None:
    """Overwrite so many bytes at the beginning of a file, and remove it; nothing if there is none.

    Raises:
        OSError: The file is still there.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # The blocks of an unlinked file keep their bytes, so these are overwritten in place before.
        # The file keeps its length, so only its data has to reach the disk.
        os.write(handle, bytes(length))
        os.fdatasync(handle)
    finally:
        os.close(handle)
    path.unlink(missing_ok=True)


def holds_a_store(root: Path) -> bool:
    """Whether a store was begun in this directory, or that cannot be found out. Creates nothing."""
    try:
        (root / "secrets" / LOG_KEY).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def shared_secret(directory: Path, name: str) -> bytes:
    """A secret in the directory of a shard, which each member has from its operator.

    Raises:
        StoreUnavailable: It is not 32 bytes long, or others can read it.
        OSError: It cannot be read.
    """
    try:
        value = read_file(directory / name, SECRET_LEN + 1, Trust.SECRET)
    except UnfitFile as error:
        raise StoreUnavailable(f"the shard's {name} must be {error}") from error
    if len(value) != SECRET_LEN:
        raise StoreUnavailable(f"the shard's {name} is not {SECRET_LEN} bytes long")
    return value


def adopt_secrets(root: Path, shared: Path) -> None:
    """Give a state directory the secrets of a shard, unless it has them.

    Raises:
        StoreUnavailable: It has those of another store, or one of the shard's is unfit.
        OSError: A file cannot be read or written.
    """
    for part in (root, root / "secrets"):
        part.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    for name in SECRETS:
        secret, own = shared_secret(shared, name), root / "secrets" / name
        if not own.exists():
            write_durably(own, secret)
        elif read_file(own, SECRET_LEN + 1, Trust.SECRET) != secret:
            raise StoreUnavailable(f"{own} is of another store than the shard's")


class StateDirectory:
    """The state directory of one gate. Creating the object takes the lock; `close` releases it.

    Raises:
        StoreLocked: Another gate holds the directory.
        StoreUnavailable: The directory cannot be created or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "store"
        self.staging = root / "staging"
        self.held_keys = root / "staging" / "keys"
        self.segments = root / "segments"
        self._secrets = root / "secrets"
        self._marker = root / "marker"
        try:
            self._create()
            self._lock = self._take_lock()
        except OSError as error:
            # This user has no permission for the directory, the disk is full, or it is mounted
            # read-only.
            raise StoreUnavailable(f"no access to the state directory: {error.strerror}") from error

    def _create(self) -> None:
        self.root.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        parts = (self.store, self.staging, self.held_keys, self.segments, self._secrets)
        for part in (self.root, *parts):
            part.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            # mkdir does not change the mode of an existing directory, and umask narrows the mode of
            # a new one, so the mode is set here.
            part.chmod(DIRECTORY_MODE)
        fsync_directory(self.staging)
        fsync_directory(self.root)
        fsync_directory(self.root.parent)

    def _take_lock(self) -> tuple[int, ...]:
        path = self.root / "gate.lock"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        # The directory itself is locked too, because a lock on a removed file would exclude no
        # other gate. `doctor` finds the gate's process by the directory's lock.
        itself = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for one in (handle, itself):
                fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            os.close(itself)
            raise StoreLocked("another gate holds this state directory") from error
        return handle, itself

    def close(self) -> None:
        """Release the lock on the directory, which also ends when the process ends."""
        for handle in self._lock:
            os.close(handle)
        self._lock = ()

    def read_cursor(self, name: str) -> bytes | None:
        """The cursor of a reader of the log, as bytes; None if it stored none.

        Raises:
            OSError, UnfitFile: The file cannot be read, or is not this user's own.
        """
        try:
            return read_file(self._cursor(name), _CURSOR_BYTES_MAX)
        except FileNotFoundError:
            return None

    def write_cursor(self, name: str, cursor: bytes) -> None:
        """Store the cursor of a reader of the log durably.

        Raises:
            OSError: The file could not be written; the earlier one is still there.
        """
        path = self._cursor(name)
        path.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        write_durably(path, cursor)

    def _cursor(self, name: str) -> Path:
        return self.root / "cursors" / f"{name}.json"

    @property
    def bootstrapped(self) -> bool:
        """Whether a first commit was ever durable here, so that no missing file may be made anew.

        Raises:
            UnknownFormat: Another version of this program began this directory.
        """
        if not self._marker.exists():
            return False
        if self._marker.read_bytes() != _MARK:
            raise UnknownFormat(
                "the state directory has another format than this version's: run the version that "
                "began it, or start with another state directory"
            )
        return True

    def mark_bootstrapped(self) -> None:
        """Record that the first commit is durable. Idempotent."""
        if not self.bootstrapped:
            write_durably(self._marker, _MARK)

    def secrets(self) -> Secrets:
        """Load the secrets, or create them on the first start.

        Raises:
            StoreCorrupt: A secret is missing or damaged although the store was in use before. A
                new one would void every nonce and every signature without an error.
        """
        return Secrets(
            store_key=self._secret(STORE_KEY),
            log_key=self._secret(LOG_KEY),
            token_key=self._secret("token.key"),
        )

    def _secret(self, name: str) -> bytes:
        path = self._secrets / name
        try:
            value = read_file(path, SECRET_LEN + 1, Trust.SECRET)
        except UnfitFile as error:
            raise StoreUnavailable(f"secrets/{name} must be {error}") from error
        except FileNotFoundError:
            if self.bootstrapped:
                raise StoreCorrupt(f"secrets/{name} is missing from a store in use") from None
            value = secrets.token_bytes(SECRET_LEN)
            write_durably(path, value)
        if len(value) != SECRET_LEN:
            raise StoreCorrupt(f"secrets/{name} is not {SECRET_LEN} bytes long")
        return value
