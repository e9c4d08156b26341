"""Signed tree heads in the C2SP forms: tlog-checkpoint inside a signed note (c2sp.org).

Any verifier for these forms can open the notes. Notes are read strictly here, because an attacker
could edit the copy that is kept outside the store.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from functools import lru_cache
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from policy.verdict import InvariantBroken
from storage.audit.merkle import HASH_LEN
from storage.ground.errors import StorageError

NOTE_LEN_MAX: Final = 65_536
SIGNATURES_MAX: Final = 64
WITNESSED: Final = "witnessed"
"""The cursor in which the last head is kept that enough witnesses cosigned, as a note."""
_TREE_SIZE_MAX: Final = 2**63 - 1
_SIZE_DIGITS_MAX: Final = 19
_ED25519: Final = b"\x01"
COSIGNS: Final = b"\x04"
"""The algorithm of a witness's key: Ed25519 over a time and a head (C2SP tlog-cosignature v1)."""
_KEY_ID_LEN: Final = 4
# A cosignature has its time, 8 bytes, before the signature.
_STAMPED_LEN: Final = _KEY_ID_LEN + 8
_PUBLIC_KEY_LEN: Final = 32
_VKEY_PARTS: Final = 3
_BODY_LINES_MIN: Final = 3
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIGNATURE_MARK: Final = "\N{EM DASH} "


class BadCheckpoint(StorageError):  # noqa: N818 - named for what it says, like its siblings
    """The error for bytes that are no checkpoint signed by the given key."""


class ForeignCheckpoint(BadCheckpoint):
    """The error for a well-formed note that only other keys signed: it is of another log."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a log: the root over its first `size` leaves."""

    origin: str
    size: int
    root: bytes


class VerifierKey(msgspec.Struct, frozen=True, kw_only=True):
    """A name with an Ed25519 public key, by which a verifier checks signatures.

    `algorithm` is that of a log's key, or `COSIGNS`.
    """

    name: str
    public_key: bytes
    algorithm: bytes = _ED25519

    @classmethod
    def of(cls, name: str, private_key: Ed25519PrivateKey) -> VerifierKey:
        """The verifier's half of a signing key: its name and public key.

        Raises:
            ValueError: The name is empty, or contains a space, a plus or a control character.
        """
        if not _is_key_name(name):
            raise ValueError("not a key name")
        return cls(name=name, public_key=private_key.public_key().public_bytes_raw())

    @classmethod
    def parse(cls, vkey: str, algorithm: bytes = _ED25519) -> VerifierKey:
        """Read a verifier key in its text form, `name+hash+base64`.

        Raises:
            BadCheckpoint: The text is no verifier key, the key is of another algorithm, or the hash
                in the text does not fit the key.
        """
        parts = vkey.split("+", _VKEY_PARTS - 1)
        if len(parts) != _VKEY_PARTS or not _is_key_name(parts[0]):
            raise BadCheckpoint("not a verifier key")
        encoded = _decoded(parts[2])
        if len(encoded) != 1 + _PUBLIC_KEY_LEN or encoded[:1] != algorithm:
            raise BadCheckpoint(f"not an Ed25519 verifier key of type {algorithm[0]}")
        key = cls(name=parts[0], public_key=encoded[1:], algorithm=algorithm)
        if key.key_id.hex() != parts[1]:
            raise BadCheckpoint("the verifier key's hash does not fit it")
        return key

    @property
    def key_id(self) -> bytes:
        """Four bytes that distinguish keys of the same name; too short for a fingerprint."""
        hashed = hashlib.sha256(self.name.encode() + b"\n" + self.algorithm + self.public_key)
        return hashed.digest()[:_KEY_ID_LEN]

    def text(self) -> str:
        """The verifier key as text, `name+hash+base64`, to be handed to a verifier."""
        return f"{self.name}+{self.key_id.hex()}+{_encoded(self.algorithm + self.public_key)}"


@lru_cache(maxsize=4)
def _key_id(name: str, private_key: Ed25519PrivateKey) -> bytes:
    return VerifierKey.of(name, private_key).key_id


def sign_note(text: str, name: str, private_key: Ed25519PrivateKey) -> bytes:
    """Sign a text as a note. Ed25519 is deterministic, so equal input gives equal bytes.

    Raises:
        ValueError: The text cannot be the text of a note, or `name` is no key name.
    """
    key_id = _key_id(name, private_key)
    if not text.endswith("\n") or _has_control(text):
        raise ValueError("a note's text ends in a newline and has no control characters")
    body = text.encode()
    signature = _encoded(key_id + private_key.sign(body))
    return body + f"\n{_SIGNATURE_MARK}{name} {signature}\n".encode()


def open_note(note: bytes, verifier: VerifierKey, len_max: int = NOTE_LEN_MAX) -> str:
    """The text of a note that `verifier` signed; signatures of other keys are ignored.

    Raises:
        BadCheckpoint: The note is malformed or wrongly signed.
        ForeignCheckpoint: The verifier's key did not sign the note.
    """
    text, lines = _split_note(note, len_max)
    verified, signers = False, list[str]()
    for line in lines:
        name, _, encoded = line.removeprefix(_SIGNATURE_MARK).partition(" ")
        if not line.startswith(_SIGNATURE_MARK) or not _is_key_name(name):
            raise BadCheckpoint("malformed signature line")
        signature = _decoded(encoded)
        if len(signature) <= _KEY_ID_LEN:
            raise BadCheckpoint("malformed signature line")
        signers.append(f"{name}+{signature[:_KEY_ID_LEN].hex()}")
        if name == verifier.name and signature[:_KEY_ID_LEN] == verifier.key_id:
            _check(verifier, signature[_KEY_ID_LEN:], text)
            verified = True
    if not verified:
        raise ForeignCheckpoint(
            f"not signed by the expected key, {verifier.name}+{verifier.key_id.hex()}, but by "
            f"{', '.join(signers)}: the key is of another log, or the log was replaced"
        )
    return text


def cosignature_of(note: bytes, answer: bytes, witness: VerifierKey) -> tuple[str, int]:
    """The line of a witness's cosignature on a note, and the time in it (Unix seconds).

    `answer` are signature lines; those of other keys are ignored.

    Raises:
        BadCheckpoint: No line is of the witness's key, its signature is wrong, or the answer has
            another form.
    """
    text, _ = _split_note(note, NOTE_LEN_MAX)
    _, lines = _split_note(note + answer, NOTE_LEN_MAX)
    begin = f"{_SIGNATURE_MARK}{witness.name} "
    for line in lines:
        signed = _decoded(line.removeprefix(begin)) if line.startswith(begin) else b""
        if signed[:_KEY_ID_LEN] == witness.key_id:
            at_s = int.from_bytes(signed[_KEY_ID_LEN:_STAMPED_LEN], "big")
            _check(witness, signed[_STAMPED_LEN:], f"cosignature/v1\ntime {at_s}\n{text}")
            return line, at_s
    raise BadCheckpoint("it has no cosignature of the witness's key")


def sign_checkpoint(origin: str, size: int, root: bytes, private_key: Ed25519PrivateKey) -> bytes:
    """The head of the log `origin` as a note, signed by the log's key under the log's name.

    Raises:
        ValueError: The origin is no key name.
        InvariantBroken: The size or the root is not one of a tree.
    """
    if not 0 <= size <= _TREE_SIZE_MAX or len(root) != HASH_LEN:
        raise InvariantBroken("not a tree head")
    return sign_note(f"{origin}\n{size}\n{_encoded(root)}\n", origin, private_key)


def open_checkpoint(note: bytes, verifier: VerifierKey) -> Checkpoint:
    """The tree head in a note, after its signature was checked.

    Raises:
        BadCheckpoint: The note was not signed by this key, is no checkpoint, or names another
            origin.
    """
    lines = open_note(note, verifier).removesuffix("\n").split("\n")
    if len(lines) < _BODY_LINES_MIN or not all(lines):
        raise BadCheckpoint("not a checkpoint")
    origin, size, root = lines[0], lines[1], _decoded(lines[2])
    # A key may sign for two logs, and then one log's head must not pass for the other's.
    if origin != verifier.name:
        raise BadCheckpoint("checkpoint of another log")
    plain = size.isascii() and size.isdigit() and len(size) <= _SIZE_DIGITS_MAX
    if not plain or str(int(size)) != size or int(size) > _TREE_SIZE_MAX:
        raise BadCheckpoint("malformed tree size")
    if len(root) != HASH_LEN:
        raise BadCheckpoint("malformed root hash")
    return Checkpoint(origin=origin, size=int(size), root=root)


def _split_note(note: bytes, len_max: int) -> tuple[str, list[str]]:
    """The signed text of a note and its signature lines; the last empty line separates them."""
    if len(note) > len_max:
        raise BadCheckpoint("note too long")
    try:
        decoded = note.decode()
    except UnicodeDecodeError as error:
        raise BadCheckpoint("note is not UTF-8") from error
    at = decoded.rfind("\n\n")
    if _has_control(decoded) or at < 0 or not decoded.endswith("\n"):
        raise BadCheckpoint("malformed note")
    text, signatures = decoded[: at + 1], decoded[at + 2 :]
    lines = signatures.removesuffix("\n").split("\n")
    if not signatures or len(lines) > SIGNATURES_MAX:
        raise BadCheckpoint("malformed note")
    return text, lines


def _check(verifier: VerifierKey, signature: bytes, text: str) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(verifier.public_key).verify(signature, text.encode())
    except (InvalidSignature, ValueError) as error:
        raise BadCheckpoint("signature does not verify") from error


def _is_key_name(name: str) -> bool:
    if not name or "+" in name or _has_control(name):
        return False
    # A lone surrogate (a byte of a command line that is not UTF-8) cannot be encoded, so it cannot
    # be hashed.
    return not any(char.isspace() or "\ud800" <= char <= "\udfff" for char in name)


def _has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None


def _encoded(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode("ascii")


def _decoded(text: str) -> bytes:
    """Decode base64 strictly: stray bits in the last character would give a note a second form."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise BadCheckpoint("malformed base64") from error
    if _encoded(raw) != text:
        raise BadCheckpoint("malformed base64")
    return raw
