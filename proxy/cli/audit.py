"""`mnemogate audit`: verifies the log by recomputing it, and makes proofs for others to verify."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from proxy.admin.wire.provenance import (
    CHECKPOINT,
    LEAVES,
    PROOF,
    LeafView,
    Proof,
)
from proxy.admin.wire.route import IDS_SHOWN, IdList
from proxy.admin.wire.upkeep import RECEIPT
from proxy.cli.api_commands import lines, plain, show
from proxy.cli.client import Operator, check_beginning, only_id
from proxy.cli.command import Command, Context, option, read_file
from proxy.cli.connect import operator, settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import next_step
from proxy.cli.proven_memories import LINE_LEN_MAX, ProofChecker, ProofReport, Wrong
from proxy.cli.shard_commands import shard_member
from proxy.cli.terminal import Terminal, counted, inert
from proxy.settings.table import Settings
from storage.audit import (
    AuditedView,
    BadCheckpoint,
    Field,
    VerdictLeaf,
    Verification,
    Verifier,
    VerifierKey,
    decode_leaf,
    fields_of,
    leaf_hash,
    open_checkpoint,
    open_note,
    verify_inclusion,
)
from storage.ground import trusted_files
from storage.ground.errors import StorageError, StoreCorrupt, StoreRolledBack
from storage.ground.trusted_files import Trust, reason
from storage.opening import offline_store

_NOTE_LEN_MAX: Final = 65_536
_RECEIPT_LEN_MAX: Final = 1 << 24
_PAGE_LEN: Final = 1000
_INDEX_DIGITS_MAX: Final = 18


class _Verify(msgspec.Struct, frozen=True, kw_only=True):
    proof: str | None = None
    receipt: str | None = None
    export: str | None = None
    checkpoint: str | None = None
    vkey: str | None = None
    shard: bool = False


class _Tiles(msgspec.Struct, frozen=True, kw_only=True):
    out: str
    entries: bool = False


class _Prove(msgspec.Struct, frozen=True, kw_only=True):
    leaf: str


class _Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    vkey_only: bool = False


def _verify(context: Context) -> Exit:
    asked = context.arguments(_Verify)
    pinned = _vkey(asked.vkey)
    if asked.proof is not None:
        return _verify_proof(context, Path(asked.proof), pinned)
    if asked.export is not None:
        return _verify_export(context, Path(asked.export), pinned)
    if asked.receipt is not None:
        return _verify_receipt(context, Path(asked.receipt), pinned)
    settings = settings_of(context)
    if not asked.shard:
        state = settings.state
        viewed = offline_store(state).viewed()
        return _verify_store(context, settings, viewed, state / "secrets", str(state), pinned)
    with (
        shard_member(settings) as member,
        member.viewed(settings.state, settings.quota_bytes) as view,
    ):
        where = "a copy of the shard's journal"
        return _verify_store(context, settings, nullcontext(view), member.secrets, where, pinned)


def _verify_store(
    context: Context,
    settings: Settings,
    viewed: AbstractContextManager[AuditedView],
    secrets: Path,
    where: str,
    pinned: VerifierKey | None,
) -> Exit:
    try:
        copy = _bytes_or_none(settings.checkpoint)
        log_key = _bytes_or_none(secrets / "log.key")
        progress = context.terminal.progress("verifying")
        with viewed as view:
            report = Verifier(view, progress, copy=copy, vkey=pinned, log_key=log_key).run()
    except (StorageError, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"{where} cannot be verified: {reason(error)}",
            then=next_step(
                error, "name the state directory with --state, and run as its owner or root"
            ),
        ) from error
    show(context, report, partial(_told, settings, where))
    return Exit.OK if report.sound else Exit.FAILED


def _bytes_or_none(path: Path) -> bytes | None:
    try:
        return trusted_files.read_file(path, _NOTE_LEN_MAX, Trust.PLAIN)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _told(settings: Settings, where: str, context: Context, report: Verification) -> None:
    terminal = context.terminal
    terminal.pairs(
        [
            ("state", where),
            ("copy", f"{settings.checkpoint} ({_size(report.copy_size)})"),
            ("leaves", str(report.leaves)),
            ("changes", str(report.rows)),
            ("version", str(report.version)),
            ("mode", report.mode),
            ("observed", f"{report.observed} admitted over an objection, in observe mode"),
            ("root", report.root),
            ("vkey", report.vkey + ("" if report.vkey_pinned else " (from the store itself)")),
        ]
    )
    if not report.digests_compared:
        terminal.say("no secrets/store.key: digests were not compared, the log alone was verified")
    if report.sound:
        terminal.say("sound: leaves, tree, signatures, copy and memories agree")
        return
    terminal.say(f"NOT SOUND, first of {len(report.problems)}:")
    for problem in report.problems:
        terminal.say(f"  {inert(str(problem))}")


def _size(size: int | None) -> str:
    return "none" if size is None else counted(size, "leaf", "leaves")


def _verify_proof(context: Context, path: Path, pinned: VerifierKey | None) -> Exit:
    asked = context.arguments(_Verify)
    try:
        proof = msgspec.json.decode(read_file(path, "the proof", PROOF_LEN_MAX), type=Proof)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(
            Exit.FAILED, f"{path} is no proof: {error}", then="make one with `audit prove`"
        ) from error
    note = proof.checkpoint.encode("utf-8", "surrogatepass")
    if asked.checkpoint is not None:
        note = read_file(Path(asked.checkpoint), "the checkpoint", _NOTE_LEN_MAX)
    proven = check_proof(proof, note, pinned)
    show(context, proven, _proof_told)
    if not proven.vkey_pinned:
        context.terminal.note("the verifier key came with the proof; pin the log's own with --vkey")
    return Exit.OK if proven.sound else Exit.FAILED


def _verify_receipt(context: Context, path: Path, pinned: VerifierKey | None) -> Exit:
    if pinned is None:
        raise CommandFailed(Exit.USAGE, "--receipt needs the log's own key: give it with --vkey")
    try:
        note = read_file(path, "the receipt", _RECEIPT_LEN_MAX)
        head, _, told = open_note(note, pinned, _RECEIPT_LEN_MAX).removesuffix("\n").partition("\n")
    except BadCheckpoint as error:
        raise CommandFailed(Exit.FAILED, f"{path} is no receipt of this log: {error}") from error
    if head != RECEIPT:
        raise CommandFailed(Exit.FAILED, f"{path} is signed, and is no receipt of an erasure")
    context.terminal.say(inert(told))
    return Exit.OK


def _proof_told(context: Context, proven: Proven) -> None:
    terminal = context.terminal
    terminal.say(("sound: " if proven.sound else "NOT SOUND: ") + inert(proven.what))
    terminal.pairs([("leaf", f"{proven.leaf_index} of {proven.tree_size}")])
    terminal.pairs([(name, plain(value)) for name, value in proven.leaf.items()])


def _verify_export(context: Context, path: Path, pinned: VerifierKey | None) -> Exit:
    checking = ProofChecker(pinned)
    try:
        with path.open("rb") as file:
            while line := file.readline(LINE_LEN_MAX):
                checking.take(line)
    except OSError as error:
        raise CommandFailed(
            Exit.UNREACHABLE, f"cannot read {path}: {error.strerror}", then="check the path"
        ) from error
    except (ValueError, BadCheckpoint, Wrong) as error:
        raise CommandFailed(
            Exit.FAILED, f"{path} is no export: {error}", then="make one with `memory export`"
        ) from error
    checked = checking.result()
    show(context, checked, lines(_checked))
    if not checked.vkey_pinned:
        context.terminal.note("the verifier key came with the file; pin the log's own with --vkey")
    return Exit.OK if checked.sound else Exit.FAILED


def _checked(checked: ProofReport) -> Iterator[str]:
    said = "sound" if checked.sound else "NOT SOUND"
    yield (
        f"{said}: {counted(checked.memories, 'memory', 'memories')} of tenant "
        f"{inert(checked.tenant)}, {counted(checked.steps, 'step', 'steps')}, under a signed head "
        f"of {_size(checked.tree_size)}"
    )
    for problem in checked.problems:
        yield f"  {inert(problem)}"
    yield (
        "as of that head at the latest: each text is that of the last "
        "step in the file, and no file can show that no later step followed"
    )


def _vkey(given: str | None) -> VerifierKey | None:
    """Parse `given`: a verifier key, or the path of a file that contains one."""
    if given is None:
        return None
    text = given
    if "+" not in given:
        raw = read_file(Path(given), "a file with the verifier key", 1024, Trust.OURS)
        text = raw.decode("utf-8", "replace").strip()
    try:
        return VerifierKey.parse(text)
    except BadCheckpoint as error:
        raise CommandFailed(
            Exit.USAGE,
            f"--vkey: {error}",
            then="it looks like name+hash+base64; `mnemogate audit checkpoint --vkey-only` prints "
            "that of a log that you trust",
        ) from error


def _export_tiles(context: Context) -> Exit:
    asked, settings = context.arguments(_Tiles), settings_of(context)
    try:
        done = offline_store(settings.state).export_tiles(
            Path(asked.out).absolute(), entries=asked.entries, witnessed=bool(settings.witness)
        )
    except (StoreRolledBack, StoreCorrupt, BadCheckpoint) as error:
        raise CommandFailed(
            Exit.FAILED,
            f"nothing was published: {error}",
            then="keep the directory as it is: it shows what the log was; export to another one "
            "once you know why",
        ) from error
    except (StorageError, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"nothing was published: {reason(error)}",
            then="look at DIR, its owner and the room there, and at --state; run as the state's "
            "owner or root",
        ) from error
    context.terminal.answer(done)
    # The head ends in a line for the log's own signature, and one for each witness's.
    context.terminal.say(
        f"{_size(done.size)} in {asked.out}"
        + (f", cosigned by {len(done.note.split('— ')) - 2}" if settings.witness else "")
    )
    return Exit.OK


async def _prove(context: Context) -> Exit:
    asked = context.arguments(_Prove)
    terminal = context.terminal
    async with operator(context) as api:
        if asked.leaf.isdecimal() and len(asked.leaf) <= _INDEX_DIGITS_MAX:
            index = int(asked.leaf)
        else:
            index = await _verdict_of(api, asked.leaf, terminal)
        terminal.data(await api.ask(PROOF, leaf=index))
    return Exit.OK


async def _verdict_of(api: Operator, begins: str, terminal: Terminal) -> int:
    """The index of the last verdict leaf about the candidate whose id begins with `begins`.

    The whole log is read for it, because the log contains the ids of all candidates ever judged.
    """
    check_beginning(begins)
    found: dict[str, int] = {}
    offset, size = 0, 1
    progress = terminal.progress("reading the log")
    while offset < size:
        page = await api.ask(LEAVES, offset=offset, limit=_PAGE_LEN)
        if not page.leaves:
            break
        for view in page.leaves:
            judged = _judged(view)
            if judged.startswith(begins):
                found[judged] = view.index
        offset, size = offset + len(page.leaves), page.size
        progress(min(offset, size), size)
    known = IdList(ids=tuple(sorted(found)[:IDS_SHOWN]), total=len(found))
    return found[
        only_id(
            begins,
            known,
            "no candidate with a verdict in the log",
            "give a candidate id as `review list` or a refusal shows it, or a leaf's index",
        )
    ]


def _judged(view: LeafView) -> str:
    """The id of the candidate that a verdict leaf is about; "" for any other leaf."""
    return str(view.fields["candidate_id"]) if view.fields["kind"] == VerdictLeaf.__name__ else ""


async def _checkpoint(context: Context) -> Exit:
    asked = context.arguments(_Checkpoint)
    async with operator(context) as api:
        view = await api.ask(CHECKPOINT)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(view)
    elif asked.vkey_only:
        terminal.say(inert(view.verifier_key))
    else:
        # Only the signed note is printed on stdout, so that it can be stored; the key is printed on
        # stderr.
        for line in view.note.split("\n")[:-1]:
            terminal.say(inert(line))
        terminal.note(f"vkey: {inert(view.verifier_key)}")
    return Exit.OK


PROOF_LEN_MAX: Final = 262_144


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying an inclusion proof; `leaf` is decoded from the proven bytes."""

    sound: bool
    what: str
    leaf_index: int
    tree_size: int
    vkey: str
    vkey_pinned: bool
    leaf: dict[str, Field]


def check_proof(proof: Proof, note: bytes, pinned: VerifierKey | None) -> Proven:
    """Verify an inclusion proof against a signed checkpoint.

    Without a pinned key the key in the proof is used. This only shows that proof and checkpoint
    match each other, because both could be forged.
    """
    try:
        key = pinned or VerifierKey.parse(proof.verifier_key)
        head = open_checkpoint(note, key)
        data = base64.b64decode(proof.leaf_base64, validate=True)
        leaf = fields_of(decode_leaf(data))
    except (BadCheckpoint, StoreCorrupt, binascii.Error) as error:
        return _proven(proof, pinned, str(error))
    if head.size != proof.tree_size:
        what = f"the checkpoint signs {head.size} leaves, the proof is for {proof.tree_size}"
        return _proven(proof, pinned, what, key)
    hashes = tuple(bytes.fromhex(node) for node in proof.hashes)
    if (proof.leaf_hash, proof.root_hash) != (leaf_hash(data).hex(), head.root.hex()):
        return _proven(proof, pinned, "it names other hashes than those of leaf and head", key)
    if not verify_inclusion(data, proof.leaf_index, head.size, hashes, head.root):
        return _proven(proof, pinned, "the path does not lead to the signed root", key)
    return msgspec.structs.replace(
        _proven(proof, pinned, "the leaf is in the signed log", key), sound=True, leaf=leaf
    )


def _proven(
    proof: Proof, pinned: VerifierKey | None, what: str, key: VerifierKey | None = None
) -> Proven:
    return Proven(
        sound=False,
        what=what,
        leaf_index=proof.leaf_index,
        tree_size=proof.tree_size,
        vkey="" if key is None else key.text(),
        vkey_pinned=pinned is not None,
        leaf={},
    )


COMMANDS = (
    Command(
        words=("audit", "verify"),
        summary="recompute the whole log from the files, offline, and compare",
        act=_verify,
        options=(
            option(
                "--proof",
                "check this proof (of `audit prove`) instead of a store; needs no store at all, "
                "and takes the signed checkpoint from --checkpoint, else from the proof",
                metavar="FILE",
            ),
            option(
                "--receipt",
                "check this receipt of `erase` with --vkey alone; needs no store at all",
                metavar="FILE",
            ),
            option(
                "--export",
                "check a file of `memory export` instead of a store; needs no store at all",
                metavar="FILE",
            ),
            option(
                "--shard",
                "verify what the journal of the configured shard has, in a copy that is removed",
            ),
            option(
                "--vkey",
                "the log's verifier key, as you got it when you began to trust it "
                "(default: derived from the store's own signing key)",
                metavar="KEY|FILE",
            ),
        ),
        form=_Verify,
    ),
    Command(
        words=("audit", "tiles"),
        summary="write the log as files (C2SP tlog-tiles) that auditors read without this program",
        act=_export_tiles,
        options=(
            option(
                "--out",
                "directory to begin or to continue; what is complete in it is never rewritten, and "
                "a log that does not continue it is refused",
                metavar="DIR",
                required=True,
            ),
            option(
                "--entries",
                "write the leaves too, which name tenants and principals: not for publication",
            ),
        ),
        form=_Tiles,
    ),
    Command(
        words=("audit", "prove"),
        summary="print a proof (JSON) that one leaf is in the signed log",
        act=_prove,
        options=(option("leaf", metavar="INDEX|CANDIDATE_ID"),),
        form=_Prove,
    ),
    Command(
        words=("audit", "checkpoint"),
        summary="print the signed head of the log, and the key to verify it with",
        act=_checkpoint,
        options=(option("--vkey-only", "print the verifier key alone"),),
        form=_Checkpoint,
    ),
)
