"""`mnemogate memory export`: writes a tenant's memories to a file, with proofs of their steps."""

from __future__ import annotations

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proxy.cli.command import Command, Context, new_file, option
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
    state, target, count = settings_of(context).state, asked.with_proofs, 0
    try:
        seed = trusted_files.read_file(state / "secrets" / "log.key", _KEY_LEN, Trust.PLAIN)
        with new_file(target, "--with-proofs") as file, offline_store(state).viewed() as view:
            for line in proven(view, asked.tenant, _vkey(view.checkpoint(), seed)):
                if file is not None:
                    file.write(msgspec.json.encode(line) + b"\n")
                count += not isinstance(line, Head)
            if not count:
                raise CommandFailed(
                    Exit.NOT_FOUND,
                    f"tenant {inert(asked.tenant)} has no live memory, and what is quarantined is "
                    "not exported: no file was left",
                    then="check --tenant; `mnemogate memory list --quarantined` shows what is "
                    "hidden",
                )
    except (StorageError, BadCheckpoint, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"nothing was exported: {reason(error)}",
            then=next_step(error, "run as the sidecar's user or root"),
        ) from error
    terminal = context.terminal
    terminal.answer(ExportResult(file=target, tenant=asked.tenant, memories=count))
    terminal.say(
        f"{counted(count, 'memory', 'memories')} of tenant {inert(asked.tenant)} with all proofs: "
        f"check with mnemogate audit verify --export {inert(target)} --vkey KEY"
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
