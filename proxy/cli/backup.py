"""`mnemogate backup` copies a store, even while it serves; `restore` makes a new store of the copy.

Both commands work on files, as the sidecar's own user (or root, for a backup), and need no running
sidecar.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import PrincipalId
from proxy.admin.rules_in_force import parse_rules
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import next_step, opening
from proxy.cli.terminal import counted, iso, now_ms
from proxy.ledger.sessions import Sessions
from proxy.settings.table import Settings
from storage.ground.errors import BadBackup, NoSecrets, StorageError, StoreRolledBack
from storage.ground.trusted_files import UnfitFile, reason, refuse_replaceable
from storage.opening import offline_store, verified_backup

if TYPE_CHECKING:
    from storage.interfaces import Backup

_WITHOUT_SECRETS: Final = (
    "without secrets: it can be read, and proven with `audit verify --vkey`, but restored only\n"
    "  with the three files of secrets/ from another place (`restore --secrets DIR`). Keep a copy\n"
    "  of those apart from the backups: without them, no backup can be restored."
)
_WITH_SECRETS: Final = (
    "with secrets: whoever reads it can sign a false log and mint promotion tokens; guard it like "
    "the sidecar itself"
)


class _Backup(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    with_secrets: bool = False
    with_held: bool = False


class _Restore(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    secrets: str | None = None
    accept_rollback: bool = False
    verify_only: bool = False


class _Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `restore --json`; `before` is the incarnation that was backed up."""

    state: str
    checkpoint: str
    incarnation: str
    before: str
    version: int
    live_count: int
    held_count: int
    leaf_count: int


def _back_up(context: Context) -> Exit:
    asked = context.arguments(_Backup)
    settings = settings_of(context)
    target = Path(asked.directory).absolute()
    try:
        taken = offline_store(settings.state).back_up(
            target, now_ms(), with_secrets=asked.with_secrets, with_held=asked.with_held
        )
    except BadBackup as error:
        raise CommandFailed(Exit.USAGE, str(error)) from error
    except (StorageError, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"no backup: {reason(error)}",
            then=next_step(
                error,
                "make the directory above it, name the state directory with --state, and run as "
                "its owner or root",
            ),
        ) from error
    try:
        verified_backup(
            target, settings.state / "secrets", context.terminal.progress("verifying the log")
        )
    except (StorageError, OSError) as error:
        raise CommandFailed(
            Exit.FAILED,
            f"{target} is the copy of a damaged store, which no restore accepts: {reason(error)}",
            then="run `mnemogate audit verify`, and keep the older backups",
        ) from error
    terminal = context.terminal
    terminal.answer(taken)
    terminal.say(
        f"backed up {taken.incarnation}: version {taken.version}, "
        f"{counted(taken.leaf_count, 'leaf', 'leaves')}, {taken.bytes} bytes in {target}"
    )
    terminal.say(_WITH_SECRETS if taken.with_secrets else _WITHOUT_SECRETS)
    if taken.held_count and not taken.with_held:
        terminal.say(
            f"not in it: {counted(taken.held_count, 'held candidate', 'held candidates')}, which a "
            "restore refuses "
            "(--with-held copies them with their keys, beyond the reach of a later denial)"
        )
    return Exit.OK


def _restore(context: Context) -> Exit:
    asked = context.arguments(_Restore)
    directory = Path(asked.directory).absolute()
    settings = settings_of(context, check_places=not asked.verify_only)
    secrets = None if asked.secrets is None else Path(asked.secrets)
    if not asked.verify_only:
        _refuse_replaceable(directory)
        if secrets is not None:
            _refuse_replaceable(secrets)
    try:
        backup = verified_backup(directory, secrets, context.terminal.progress("verifying the log"))
    except NoSecrets as error:
        raise CommandFailed(
            Exit.USAGE,
            str(error),
            then="give the directory that has store.key, log.key and token.key: --secrets DIR",
        ) from error
    except BadBackup as error:
        raise CommandFailed(
            Exit.FAILED, str(error), then="name a whole backup, and the secrets of its own store"
        ) from error
    except (StorageError, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"{directory} cannot be verified: {reason(error)}",
            then=next_step(error, "run as who may read all of it"),
        ) from error
    if asked.verify_only:
        return _say_verified(context, backup)
    return _bring_back(context, settings, backup, accept_rollback=asked.accept_rollback)


def _refuse_replaceable(directory: Path) -> None:
    """Refuse a backup that another user could change while it is restored.

    Raises:
        CommandFailed: A file of the backup can be changed by another user; the message contains the
            remedy.
    """
    try:
        for place in (directory, *directory.rglob("*")):
            refuse_replaceable(place)
    except UnfitFile as error:
        raise CommandFailed(Exit.REFUSED, f"{directory} must be {error}") from error
    except OSError as error:
        raise CommandFailed(Exit.UNREACHABLE, f"{directory}: {reason(error)}") from error


def _say_verified(context: Context, backup: Backup) -> Exit:
    terminal, told = context.terminal, backup.summary
    terminal.answer(told)
    terminal.say(
        f"sound: backup of {told.incarnation}, taken {iso(backup.taken_at_ms)}, version "
        f"{told.version}, {counted(told.leaf_count, 'leaf', 'leaves')}"
    )
    return Exit.OK


def _bring_back(
    context: Context, settings: Settings, backup: Backup, *, accept_rollback: bool
) -> Exit:
    with opening(settings.state):
        try:
            status = backup.restore(
                state=settings.state,
                checkpoint=settings.checkpoint,
                ruleset=parse_rules(settings.ruleset_text()),
                quota_bytes=settings.quota_bytes,
                by=PrincipalId(f"uid:{os.geteuid()}"),
                clock=now_ms,
                session_records=lambda records: Sessions.after_restore(records, now_ms()),
                accept_rollback=accept_rollback,
            )
        except StoreRolledBack as error:
            raise CommandFailed(
                Exit.REFUSED,
                str(error),
                then="take a newer backup, or accept that on purpose with --accept-rollback",
            ) from error
        except BadBackup as error:
            raise CommandFailed(Exit.FAILED, str(error)) from error
    terminal = context.terminal
    done = _Restored(
        state=str(settings.state),
        checkpoint=str(settings.checkpoint),
        incarnation=status.incarnation,
        before=backup.summary.incarnation,
        version=status.version,
        live_count=status.live_count,
        held_count=status.held_count,
        leaf_count=status.leaf_count,
    )
    terminal.answer(done)
    terminal.say(f"restored {done.before} as {done.incarnation} in {done.state}")
    terminal.say(
        f"as of {iso(backup.taken_at_ms)}: {counted(done.live_count, 'memory', 'memories')}, "
        f"version {done.version}, "
        f"{done.held_count} held"
    )
    terminal.say(
        "what happened since is forgotten: keys revoked since are valid again (`mnemogate key "
        "list`),\n  memories purged since are back, trust is as it was then. Nonces of the life "
        "before, and nonces\n  without an incarnation, are refused from now on."
    )
    return Exit.OK


COMMANDS = (
    Command(
        words=("backup",),
        summary="copy the store while it serves, with a signed list of the files",
        act=_back_up,
        options=(
            option("directory", "an empty or new directory", metavar="DIR"),
            option("--with-secrets", "also the keys, so that the backup can be restored by itself"),
            option("--with-held", "also held candidates and the keys that make them readable"),
        ),
        form=_Backup,
    ),
    Command(
        words=("restore",),
        summary="verify a backup, and begin a new life of it in a new --state",
        act=_restore,
        options=(
            option("directory", "what `mnemogate backup` wrote", metavar="DIR"),
            option(
                "--secrets", "store.key, log.key and token.key, for a backup without", metavar="DIR"
            ),
            option(
                "--accept-rollback",
                "go on although the checkpoint outside knows more than the backup; a leaf says so",
            ),
            option("--verify-only", "check the backup, and restore nothing"),
        ),
        form=_Restore,
    ),
)
