"""Checkpoints, signed notes and verifier keys: read strictly, also behind a good signature."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from storage.audit import sign_checkpoint
from storage.audit.checkpoint import (
    NOTE_LEN_MAX,
    BadCheckpoint,
    VerifierKey,
    open_checkpoint,
    open_note,
    sign_note,
)
from tests.fuzz.choices import Choices, lines_of

NAME = "mnemogate.example/log"
SIGNER = Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)
VERIFIER = VerifierKey.of(NAME, SIGNER)
WORDS = (
    NAME.encode(),
    b"\n\n\xe2\x80\x94 ",
    b"\n0\n",
    VERIFIER.key_id.hex().encode(),
    b"+",
    b"AAAA",
)


def check(data: bytes) -> None:
    choices = Choices(data)
    match choices.byte() % 3:
        case 0:
            _check_note(choices.rest())
        case 1:
            _check_signed(lines_of(choices.rest()))
        case _:
            _check_key(lines_of(choices.rest()))


def _check_note(note: bytes) -> None:
    try:
        head = open_checkpoint(note, VERIFIER)
    except BadCheckpoint:
        return
    # Extra lines and other keys' signatures are allowed; the head itself has one spelling.
    again = open_checkpoint(sign_checkpoint(NAME, head.size, head.root, SIGNER), VERIFIER)
    assert again == head


def _check_signed(text: str) -> None:
    try:
        note = sign_note(text, NAME, SIGNER)
    except ValueError:
        return
    try:
        opened = open_note(note, VERIFIER)
    except BadCheckpoint:
        _check_too_long(note)
        return
    assert opened == text
    _check_note(note)


def _check_key(vkey: str) -> None:
    try:
        key = VerifierKey.parse(vkey)
    except BadCheckpoint:
        return
    assert key.text() == vkey


def _check_too_long(note: bytes) -> None:
    assert len(note) > NOTE_LEN_MAX, "we signed what we do not open"
