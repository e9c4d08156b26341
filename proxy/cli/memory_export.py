"""`mnemogate memory export`: writes a tenant's memories to a file, with proofs of their steps."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proxy.cli.command import Command, Context, option
from proxy.cli.connect import settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import next_step
from proxy.cli.proven_memories import Head, proven
from proxy.cli.terminal import counted, inert
from proxy.seams.tenants import DEFAULT_TENANT
from storage.audit import BadCheckpoint, VerifierKey
from storage.ground import trusted_files
from storage.ground.errors import StorageError, StoreCorrupt
from storage.ground.trusted_files import Trust, reason
from storage.opening import offline_store

_KEY_LEN = 32


class _Export(msgspec.Struct, frozen=True, kw_only=True):
    with_proofs: str
    tenant: str = DEFAULT_TENANT


class ExportResult(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `memory export --json`: the number of exported memories, and the file."""

    file: str
    tenant: str
    memories: int


def _export(context: Context) -> Exit:
    asked = context.arguments(_Export)
    state, target = settings_of(context).state, Path(asked.with_proofs)
    if not target.parent.is_dir():
        raise CommandFailed(
            Exit.USAGE,
            f"there is no directory {inert(str(target.parent))}",
            then="make it, or name a file elsewhere",
        )
    count = 0
    try:
        seed = trusted_files.read_file(state / "secrets" / "log.key", _KEY_LEN, Trust.PLAIN)
        # The export contains the memories' texts, so only its owner may read it. No existing file
        # is overwritten.
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        whole = False
        try:
            with os.fdopen(made, "wb") as file, offline_store(state).viewed() as view:
                for line in proven(view, asked.tenant, _vkey(view.checkpoint(), seed)):
                    file.write(msgspec.json.encode(line) + b"\n")
                    count += not isinstance(line, Head)
                file.flush()
                os.fsync(file.fileno())
            whole = count > 0
        finally:
            if not whole:
                target.unlink()
    except FileExistsError as error:
        raise CommandFailed(
            Exit.USAGE, f"{target} is there already", then="name a file that is not there yet"
        ) from error
    except (StorageError, BadCheckpoint, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"nothing was exported: {reason(error)}",
            then=next_step(error, "run as the sidecar's user or root"),
        ) from error
    if not count:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"tenant {inert(asked.tenant)} has no live memory, and what is quarantined is not "
            "exported: no file was left",
            then="check --tenant; `mnemogate memory list --quarantined` shows what is hidden",
        )
    terminal = context.terminal
    terminal.answer(ExportResult(file=str(target), tenant=asked.tenant, memories=count))
    terminal.say(
        f"{counted(count, 'memory', 'memories')} of tenant {inert(asked.tenant)} with all proofs: "
        f"check with mnemogate audit verify --export {inert(str(target))} --vkey KEY"
    )
    return Exit.OK


def _vkey(note: bytes | None, seed: bytes) -> VerifierKey:
    if note is None or len(seed) != _KEY_LEN:
        raise StoreCorrupt("the log has no signed head, or no key")
    origin = note.split(b"\n", 1)[0].decode("utf-8", "replace")
    return VerifierKey.of(origin, Ed25519PrivateKey.from_private_bytes(seed))


COMMANDS = (
    Command(
        words=("memory", "export"),
        summary="take a tenant's memories away, with the proof of every step",
        act=_export,
        options=(
            option(
                "--with-proofs",
                "write them here, each with its steps and the proof that the log has them",
                metavar="FILE",
                required=True,
            ),
            option("--tenant", f"whose memories (default: {DEFAULT_TENANT})"),
        ),
        form=_Export,
    ),
)
