"""A backup: one generation of a store, copied while it is in use, with a signed list of its files.

        DIR/manifest.json       the description of the backup, and the SHA-256 of every other file
        DIR/manifest.sig        the Ed25519 signature of the manifest, by the audit log's key
        DIR/store/data.mdb      memories (readable!), nonces, trust, hashes of keys, audit log
        DIR/checkpoint.txt      the signed head of the log in that copy
        DIR/sessions/log        the session ledger, and what is withheld, as encrypted records
        DIR/secrets/*.key       only if asked for
        DIR/staging/...         held candidates with their keys, only if asked for

The manifest is written last, so that a directory without one is a backup that was interrupted.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta

from storage.audit import VerifierKey
from storage.ground.errors import BadBackup, NoSecrets, StoreUnavailable
from storage.ground.state_directory import (
    DIRECTORY_MODE,
    SECRET_LEN,
    Secrets,
    fsync_directory,
    write_durably,
)
from storage.ground.trusted_files import Trust, UnfitFile, read_file, reason, refuse_replaceable
from storage.sealed_log.session_log import DIRECTORY, NAME
from storage.tables.codec import Digests, refuse_unknown
from storage.tables.copying import DATA, copy_compactly
from storage.tables.read_only import hot, read_only
from storage.values import BackupSummary
from storage.write.checkpoint_copy import NOTE_LEN_MAX

BACKUP_FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
CHECKPOINT: Final = "checkpoint.txt"
STORE: Final = f"store/{DATA}"
HELD: Final = f"staging/held/{DATA}"
SESSIONS: Final = f"{DIRECTORY}/{NAME}"
SECRET_NAMES: Final = ("store.key", "log.key", "token.key")
_LISTED: Final = re.compile(
    r"checkpoint\.txt|(store|staging/held)/data\.mdb|secrets/(store|log|token)\.key|sessions/log"
    r"|staging/keys/[0-9a-f]{32}\.key"
)
_SIGNED_AS: Final = b"mnemogate backup manifest v1\n"
_MANIFEST_LEN_MAX: Final = 64 * 1024 * 1024
_CHUNK_LEN: Final = 1024 * 1024

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class BackupFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a backup: its name, its length in bytes, and its SHA-256."""

    name: str
    bytes: _Count
    sha256: _Hash


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest of a backup: the store of which it is a copy, and the files in it."""

    format: int
    taken_at_ms: _Count
    origin: str
    incarnation: str
    store_format: int
    version: _Count
    epoch: _Count
    ruleset_digest: str
    embedder_id: str
    dimension: _Count
    leaf_count: _Count
    held_count: _Count
    verifier_key: str
    files: tuple[BackupFile, ...]

    @property
    def with_secrets(self) -> bool:
        """Whether the backup contains the secrets and can be restored by itself."""
        return any(file.name.startswith("secrets/") for file in self.files)

    @property
    def with_held(self) -> bool:
        """Whether the backup contains held candidates."""
        return any(file.name == HELD for file in self.files)

    def summary(self, directory: Path) -> BackupSummary:
        """The summary of the backup in a directory."""
        return BackupSummary(
            directory=str(directory),
            incarnation=self.incarnation,
            version=self.version,
            leaf_count=self.leaf_count,
            held_count=self.held_count,
            with_secrets=self.with_secrets,
            with_held=self.with_held,
            bytes=sum(file.bytes for file in self.files),
        )


def load_secrets(directory: Path) -> Secrets:
    """The three secrets in a directory.

    Raises:
        NoSecrets: A secret is missing, or has another length.
    """
    found: list[bytes] = []
    for name in SECRET_NAMES:
        try:
            value = read_file(directory / name, SECRET_LEN + 1, Trust.PLAIN)
        except UnfitFile as error:
            raise NoSecrets(f"{directory / name} must be {error}") from error
        except OSError as error:
            raise NoSecrets(f"{directory / name} cannot be read: {error.strerror}") from error
        if len(value) != SECRET_LEN:
            raise NoSecrets(f"{directory / name} is not {SECRET_LEN} bytes long")
        found.append(value)
    return Secrets(store_key=found[0], log_key=found[1], token_key=found[2])


def take(
    state: Path, target: Path, now_ms: int, *, with_secrets: bool = False, with_held: bool = False
) -> Manifest:
    """Back up the store of a state directory (`EmbeddedFiles.back_up`); return the manifest.

    Memories, nonces, trust and the log are of one generation. Held candidates are copied later: a
    candidate that was decided in between is refused when the backup is restored.
    """
    _refuse_place(state, target)
    secrets = load_secrets(state / "secrets")
    try:
        # The header is read first, so that nothing is written to the target if the store has an
        # unknown format.
        with read_only(state / "store", Digests(secrets.store_key)) as view:
            refuse_unknown(view.header())
        with hot(state / "store") as env:
            target.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            target.chmod(DIRECTORY_MODE)
            copy_compactly(env, target / "store")
        _take_sessions(state, target)
        if with_secrets:
            _copy_each(state / "secrets", target / "secrets", SECRET_NAMES)
        if with_held:
            _take_held(state / "staging", target / "staging")
        manifest = _described(target, secrets, now_ms)
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        signature = secrets.log_signer().sign(_SIGNED_AS + data)
        write_durably(target / SIGNATURE, signature)
        write_durably(target / MANIFEST, data)
        fsync_directory(target.resolve().parent)
    except OSError as error:
        raise StoreUnavailable(f"{target} cannot be written: {error.strerror}") from error
    return manifest


def _refuse_place(state: Path, target: Path) -> None:
    if target.resolve().is_relative_to(state.resolve()):
        raise BadBackup("a backup inside the state directory is lost with it; choose another place")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadBackup(f"{target} is no empty directory; each backup takes one of its own")
    try:
        refuse_replaceable(target)
    except UnfitFile as error:
        raise BadBackup(f"a backup must be {error}") from error


def _take_sessions(state: Path, target: Path) -> None:
    """Copy the session ledger's file, which is only appended to, up to its present end."""
    source = state / SESSIONS
    if source.exists():
        (target / DIRECTORY).mkdir(mode=DIRECTORY_MODE)
        write_durably(target / SESSIONS, source.read_bytes())


def _take_held(staging: Path, target: Path) -> None:
    target.mkdir(mode=DIRECTORY_MODE)
    with hot(staging / "held") as env:
        copy_compactly(env, target / "held")
    names = sorted(path.name for path in (staging / "keys").glob("*.key"))
    _copy_each(staging / "keys", target / "keys", tuple(names))
    fsync_directory(target)


def _copy_each(source: Path, target: Path, names: tuple[str, ...]) -> None:
    target.mkdir(mode=DIRECTORY_MODE)
    for name in names:
        try:
            data = read_file(source / name, SECRET_LEN, Trust.PLAIN)
        except FileNotFoundError:
            continue  # the candidate was decided while the copy was made, so its key is left out
        write_durably(target / name, data)
    fsync_directory(target)


def _described(target: Path, secrets: Secrets, now_ms: int) -> Manifest:
    """The manifest of the copies in `target`, to which the log's checkpoint is added."""
    with read_only(target / "store", Digests(secrets.store_key)) as view:
        header, note = view.header(), view.checkpoint()
    if header is None or note is None:
        raise StoreUnavailable("the store has no signed checkpoint: nothing was ever committed")
    write_durably(target / CHECKPOINT, note)
    origin = note.split(b"\n", 1)[0].decode("utf-8", "replace")
    return Manifest(
        format=BACKUP_FORMAT,
        taken_at_ms=now_ms,
        origin=origin,
        incarnation=header.incarnation_name,
        store_format=header.format,
        version=header.version,
        epoch=header.epoch,
        ruleset_digest=header.ruleset_digest,
        embedder_id=header.embedder_id,
        dimension=header.dimension,
        leaf_count=header.leaf_count,
        held_count=header.held_count,
        verifier_key=VerifierKey.of(origin, secrets.log_signer()).text(),
        files=tuple(_listed(target, path) for path in _files(target)),
    )


def note_of(directory: Path, name: str) -> bytes:
    """The bytes of a short file of a backup that has a signature of its own."""
    try:
        return read_file(directory / name, NOTE_LEN_MAX, Trust.PLAIN)
    except UnfitFile as error:
        raise BadBackup(f"{directory / name} must be {error}") from error


def _files(directory: Path) -> list[Path]:
    """Every file of a backup, except the manifest and its signature.

    Raises:
        BadBackup: The backup has an entry that is neither a file nor a directory.
    """
    own = {directory / MANIFEST, directory / SIGNATURE}
    found = [path for path in sorted(directory.rglob("*")) if path not in own]
    odd = [path for path in found if path.is_symlink() or not (path.is_file() or path.is_dir())]
    if odd:
        raise BadBackup(f"{odd[0]} is neither a file nor a directory")
    return [path for path in found if path.is_file()]


def _listed(directory: Path, path: Path) -> BackupFile:
    digest, length = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_LEN):
            digest.update(chunk)
            length += len(chunk)
    return BackupFile(
        name=path.relative_to(directory).as_posix(), bytes=length, sha256=digest.hexdigest()
    )


def read_manifest(directory: Path) -> tuple[Manifest, bytes]:
    """A backup's manifest and its bytes, before the signature is checked.

    Raises:
        BadBackup: There is no manifest, or this version cannot read it.
    """
    try:
        data = read_file(directory / MANIFEST, _MANIFEST_LEN_MAX, Trust.PLAIN)
        manifest = msgspec.json.decode(data, type=Manifest)
    except FileNotFoundError as error:
        raise BadBackup(
            f"{directory} has no manifest: no backup, or one that never ended"
        ) from error
    except OSError as error:
        raise BadBackup(f"{directory / MANIFEST} cannot be read: {error.strerror}") from error
    except UnfitFile as error:
        raise BadBackup(f"{directory / MANIFEST} must be {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBackup(f"{directory / MANIFEST} does not decode: {error}") from error
    if manifest.format != BACKUP_FORMAT:
        raise BadBackup(f"the backup has format {manifest.format}; this version knows 1")
    return manifest, data


def verify(directory: Path, secrets: Secrets) -> Manifest:
    """The manifest of a backup, after the signature and all files were checked.

    Raises:
        BadBackup: A file was changed, is missing, or is not in the manifest.
    """
    manifest, data = read_manifest(directory)
    key = Ed25519PrivateKey.from_private_bytes(secrets.log_key).public_key()
    try:
        key.verify(note_of(directory, SIGNATURE), _SIGNED_AS + data)
    except InvalidSignature as error:
        raise BadBackup("log.key did not sign this manifest: one of them is another's") from error
    except OSError as error:
        raise BadBackup(f"the signature cannot be read: {reason(error)}") from error
    strange = [file.name for file in manifest.files if _LISTED.fullmatch(file.name) is None]
    if strange:
        raise BadBackup(f"the manifest lists {strange[0]}, which no backup has")
    found = {one.name: one for one in (_listed(directory, path) for path in _files(directory))}
    listed = {file.name: file for file in manifest.files}
    for name in sorted(found.keys() | listed.keys()):
        if found.get(name) != listed.get(name):
            raise BadBackup(f"{name} is not the file that was backed up")
    return manifest
