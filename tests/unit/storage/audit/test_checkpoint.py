"""Checkpoints: byte for byte those of the C2SP ecosystem, and nothing else opens."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.verdict import InvariantBroken
from storage.audit import (
    COSIGNS,
    BadCheckpoint,
    Checkpoint,
    VerifierKey,
    cosignature_of,
    open_checkpoint,
    open_note,
    sign_checkpoint,
    sign_note,
)
from tests.tlog_reader import cosigned_at
from tests.tlog_witness import Witness

# The key and note of the reference implementation, golang.org/x/mod/sumdb/note.
GO_VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
GO_TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
GO_NOTE = (
    GO_TEXT + "\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNX"
    "gKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
).encode()

ORIGIN = "gate.example/log"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
VERIFIER = VerifierKey.of(ORIGIN, KEY)
ROOT = hashlib.sha256(b"root").digest()
NOTE = sign_checkpoint(ORIGIN, 20_852_163, ROOT, KEY)


def _signed(body: str, name: str = ORIGIN) -> bytes:
    return sign_note(body, name, KEY)


def test_the_reference_note_opens_and_is_reproduced_byte_for_byte() -> None:
    key = Ed25519PrivateKey.from_private_bytes(GO_SEED)
    assert VerifierKey.parse(GO_VKEY) == VerifierKey.of("PeterNeumann", key)
    assert VerifierKey.parse(GO_VKEY).text() == GO_VKEY
    assert sign_note(GO_TEXT, "PeterNeumann", key) == GO_NOTE
    assert open_note(GO_NOTE, VerifierKey.parse(GO_VKEY)) == GO_TEXT


def test_a_checkpoint_is_built_as_the_specification_says() -> None:
    public = KEY.public_key().public_bytes_raw()
    body = f"{ORIGIN}\n20852163\n{base64.b64encode(ROOT).decode()}\n"
    key_id = hashlib.sha256(ORIGIN.encode() + b"\x0a\x01" + public).digest()[:4]
    signature = base64.b64encode(key_id + KEY.sign(body.encode())).decode()
    assert NOTE.decode() == f"{body}\n\u2014 {ORIGIN} {signature}\n"
    encoded = base64.b64encode(b"\x01" + public).decode()
    assert VERIFIER.text() == f"{ORIGIN}+{key_id.hex()}+{encoded}"


def test_a_signed_checkpoint_opens() -> None:
    opened = open_checkpoint(NOTE, VerifierKey.parse(VERIFIER.text()))
    assert opened == Checkpoint(origin=ORIGIN, size=20_852_163, root=ROOT)


def test_no_single_changed_byte_opens() -> None:
    for at in range(len(NOTE)):
        for flip in (0x01, 0x20, 0x80):
            bad = NOTE[:at] + bytes((NOTE[at] ^ flip,)) + NOTE[at + 1 :]
            with pytest.raises(BadCheckpoint):
                open_checkpoint(bad, VERIFIER)


def test_no_truncated_or_extended_note_opens() -> None:
    for end in range(len(NOTE)):
        with pytest.raises(BadCheckpoint):
            open_checkpoint(NOTE[:end], VERIFIER)
    for extra in (b"\n", b"x", b"\n\nx\n", b"\xff", NOTE):
        with pytest.raises(BadCheckpoint):
            open_checkpoint(NOTE + extra, VERIFIER)


def test_witnesses_may_add_signatures_that_are_ignored() -> None:
    witness = sign_checkpoint(ORIGIN, 20_852_163, ROOT, OTHER_KEY).split(b"\n\n")[1]
    assert open_checkpoint(NOTE + witness, VERIFIER).size == 20_852_163
    with pytest.raises(BadCheckpoint, match="expected key"):
        open_checkpoint(NOTE.split(b"\n\n")[0] + b"\n\n" + witness, VERIFIER)


def test_a_note_of_another_key_says_whose_it_is_and_whose_was_expected() -> None:
    other = VerifierKey.of(ORIGIN, Ed25519PrivateKey.from_private_bytes(bytes(32)))
    signed = sign_checkpoint(ORIGIN, 1, bytes(32), KEY)
    with pytest.raises(BadCheckpoint, match="expected key") as caught:
        open_checkpoint(signed, other)
    for key in (other, VerifierKey.of(ORIGIN, KEY)):
        assert f"{ORIGIN}+{key.key_id.hex()}" in str(caught.value)


def test_a_wrong_signature_under_the_known_key_id_refuses_the_whole_note() -> None:
    forged = VERIFIER.key_id + bytes(64)
    line = f"\u2014 {ORIGIN} {base64.b64encode(forged).decode()}\n".encode()
    with pytest.raises(BadCheckpoint, match="verify"):
        open_checkpoint(NOTE + line, VERIFIER)


def test_a_key_cannot_speak_for_another_log() -> None:
    body = f"other.example/log\n1\n{base64.b64encode(ROOT).decode()}\n"
    with pytest.raises(BadCheckpoint, match="another log"):
        open_checkpoint(_signed(body), VERIFIER)


@pytest.mark.parametrize(
    ("size", "root"),
    [
        ("01", base64.b64encode(ROOT).decode()),
        ("-1", base64.b64encode(ROOT).decode()),
        ("+1", base64.b64encode(ROOT).decode()),
        ("1_0", base64.b64encode(ROOT).decode()),
        ("\N{ARABIC-INDIC DIGIT ONE}", base64.b64encode(ROOT).decode()),
        ("\N{SUPERSCRIPT TWO}", base64.b64encode(ROOT).decode()),
        ("9" * 19, base64.b64encode(ROOT).decode()),
        ("9" * 5_000, base64.b64encode(ROOT).decode()),
        ("1", base64.b64encode(ROOT[:-1]).decode()),
        ("1", base64.urlsafe_b64encode(b"\xff" * 32).decode()),
        ("1", base64.b64encode(ROOT).decode().rstrip("=")),
    ],
)
def test_a_signed_body_that_is_no_tree_head_is_refused(size: str, root: str) -> None:
    with pytest.raises(BadCheckpoint):
        open_checkpoint(_signed(f"{ORIGIN}\n{size}\n{root}\n"), VERIFIER)


@pytest.mark.parametrize("body", [f"{ORIGIN}\n", f"{ORIGIN}\n1\n", "\n1\n\n", f"{ORIGIN}\n\n1\n"])
def test_a_signed_body_with_lines_missing_is_refused(body: str) -> None:
    with pytest.raises(BadCheckpoint):
        open_checkpoint(_signed(body), VERIFIER)


def test_extension_lines_are_tolerated_but_not_empty_ones() -> None:
    body = NOTE.decode().split("\n\n")[0] + "\n"
    assert open_checkpoint(_signed(body + "extension\n"), VERIFIER).root == ROOT
    with pytest.raises(BadCheckpoint):
        open_checkpoint(_signed(body + "\nextension\n"), VERIFIER)


def test_huge_notes_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(BadCheckpoint, match="too long"):
        open_checkpoint(NOTE * 10_000, VERIFIER)
    line = NOTE.split(b"\n\n")[1]
    with pytest.raises(BadCheckpoint):
        open_checkpoint(NOTE + line * 64, VERIFIER)


def test_every_mangled_verifier_key_is_refused() -> None:
    for at in range(len(GO_VKEY)):
        mangled = GO_VKEY[:at] + chr(ord(GO_VKEY[at]) + 1) + GO_VKEY[at + 1 :]
        for bad in (mangled, GO_VKEY[:at], GO_VKEY[at + 1 :]):
            with pytest.raises(BadCheckpoint):
                VerifierKey.parse(bad)
    for bad in (
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        # A byte of the command line that is no UTF-8.
        GO_VKEY.replace("Peter", "Pet\udce9r"),
    ):
        with pytest.raises(BadCheckpoint):
            VerifierKey.parse(bad)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2003b", "a\x00b"])
def test_a_name_that_could_break_the_line_is_no_key_name(name: str) -> None:
    with pytest.raises(ValueError, match="key name"):
        sign_checkpoint(name, 1, ROOT, KEY)


@pytest.mark.parametrize(("size", "root"), [(-1, ROOT), (1 << 63, ROOT), (1, b"short")])
def test_what_is_no_tree_head_is_never_signed(size: int, root: bytes) -> None:
    with pytest.raises(InvariantBroken):
        sign_checkpoint(ORIGIN, size, root, KEY)


@pytest.mark.parametrize("text", ["", "no newline", "control\x07\n", "tab\t\n"])
def test_a_text_that_no_note_may_have_is_never_signed(text: str) -> None:
    with pytest.raises(ValueError, match="newline"):
        sign_note(text, ORIGIN, KEY)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness.json")


TEXT = NOTE.decode().split("\n\n")[0] + "\n"


def test_a_cosignature_is_found_among_the_lines_of_an_answer(witness: Witness) -> None:
    key = VerifierKey.parse(witness.vkey, COSIGNS)
    assert key.text() == witness.vkey
    line = witness.signed(TEXT, 1_679_315_147)
    stranger = Witness(Path("unused"), "witness.example/w2").signed(TEXT)
    # A line of a longer signature, as one of ML-DSA-44 is.
    longer = f"\u2014 {witness.name} {base64.b64encode(bytes(2_432)).decode()}\n".encode()
    for answer in (line, stranger + longer + line, line + stranger):
        found, at_s = cosignature_of(NOTE, answer, key)
        assert (f"{found}\n".encode(), at_s) == (line, 1_679_315_147)
    cosigned = NOTE + line
    assert cosigned_at(cosigned, witness.vkey) == 1_679_315_147
    assert open_checkpoint(cosigned, VERIFIER).size == 20_852_163


def test_no_other_answer_has_a_cosignature(witness: Witness) -> None:
    key = VerifierKey.parse(witness.vkey, COSIGNS)
    line = witness.signed(TEXT, 1_679_315_147)
    other = Witness(Path("unused"), witness.name)
    moved = base64.b64decode(line.split(b" ")[2])
    later = moved[:4] + (1_679_315_148).to_bytes(8, "big") + moved[12:]
    retimed = f"\u2014 {witness.name} {base64.b64encode(later).decode()}\n".encode()
    answers = {
        "nothing": b"",
        "garbage": b"<html>\xff",
        "another key": other.signed(TEXT),
        "another head": witness.signed(TEXT.replace("20852163", "20852162")),
        "another time": retimed,
        "a head of its own before it": b"\n" + witness.signed(f"{NOTE.decode()}\n"),
        "cut": line[:-20] + b"\n",
        "the key's id alone": b"\xe2\x80\x94 "
        + key.name.encode()
        + b" "
        + base64.b64encode(key.key_id)
        + b"\n",
        "too long": line * 1_000,
    }
    for what, answer in answers.items():
        with pytest.raises(BadCheckpoint):
            raise AssertionError(what, cosignature_of(NOTE, answer, key))
    # Control: without a change it counts.
    assert cosignature_of(NOTE, line, key)[1] > 0


def test_a_witness_cannot_sign_as_a_log_nor_a_log_as_a_witness(witness: Witness) -> None:
    with pytest.raises(BadCheckpoint, match="type 1"):
        VerifierKey.parse(witness.vkey)
    with pytest.raises(BadCheckpoint, match="type 4"):
        VerifierKey.parse(VERIFIER.text(), COSIGNS)
