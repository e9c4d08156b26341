"""Converts errors of opening a state directory to messages with the next step for a person."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from policy.ruleset import RulesetError
from proxy.cli.exits import CommandFailed, Exit
from proxy.compose.hardening import missing_here
from proxy.doctor.locate import lock_holders, port_holder, running_sidecars
from proxy.embed.unavailable import EmbedderUnavailable
from proxy.seams.faults import CannotListen
from proxy.settings.shard import ShardTable
from proxy.settings.table import SettingsError
from storage.ground.errors import (
    StorageError,
    StoreCorrupt,
    StoreLocked,
    StoreRolledBack,
    UnknownFormat,
)
from storage.ground.trusted_files import reason

_NO_DISK: Final = "check the disk and who owns the directory"
_NO_DATABASE: Final = "look at [shard] in the settings, at its files and its database"
_NO_JOURNAL: Final = (
    "put the database and the keys back as they were, or make another shard of a restored backup"
)
_OTHER_VERSION: Final = "install the version that wrote it"


def require_linux() -> None:
    """Refuse to serve on another system, whose missing parts would end a request instead.

    Raises:
        CommandFailed: The message names what is missing.
    """
    if missing := missing_here():
        raise CommandFailed(
            Exit.USAGE,
            f"the sidecar needs Linux; this system has no {missing}",
            then="run it in a Linux container or virtual machine (on Windows: WSL)",
        )


def next_step(error: Exception, then: str) -> str:
    """What a person should do next: `then`, or install the version that wrote the store."""
    return _OTHER_VERSION if isinstance(error, UnknownFormat) else then


def _who_has(state: Path) -> str:
    """What to do if another process has the store open; names that process if it can be found."""
    found = [pid for pid in lock_holders(state) if pid in running_sidecars(None)]
    if found:
        return (
            f"it is the sidecar of process {found[0]}, which a person or an MCP wrapper "
            f"(`mnemogate mcp`) started: use it, or stop it with `kill {found[0]}`"
        )
    return "stop the other one, or use it"


@contextmanager
def opening(state: Path, *, shard: ShardTable | None = None) -> Generator[None]:
    """Convert errors of composing a sidecar in the block to `CommandFailed`.

    `shard` is the shard whose journal is opened, and not the state directory.
    """
    place, then = (str(state), _NO_DISK) if shard is None else (f"shard {shard.name}", _NO_DATABASE)
    damaged = "`mnemogate audit verify` shows where" if shard is None else _NO_JOURNAL
    try:
        yield
    except StoreLocked as error:
        raise CommandFailed(Exit.UNREACHABLE, f"{place}: {error}", then=_who_has(state)) from error
    except StoreRolledBack as error:
        raise CommandFailed(
            Exit.FAILED,
            f"{place}: {error}",
            then="`mnemogate audit verify` looks at the store itself",
        ) from error
    except UnknownFormat as error:
        raise CommandFailed(Exit.FAILED, f"{place}: {error}", then=_OTHER_VERSION) from error
    except StoreCorrupt as error:
        raise CommandFailed(Exit.FAILED, f"{place}: {error}", then=damaged) from error
    except (EmbedderUnavailable, SettingsError) as error:
        raise CommandFailed(Exit.USAGE, str(error)) from error
    except StorageError as error:
        raise CommandFailed(Exit.UNREACHABLE, f"{place}: {error}", then=then) from error
    except RulesetError as error:
        raise CommandFailed(
            Exit.USAGE, f"ruleset: {error}", then="`mnemogate policy check FILE` shows it"
        ) from error
    except CannotListen as error:
        holder = None if error.port is None else port_holder(error.port)
        what = f"{error.strerror}" + (f" by {holder}" if holder else "")
        where = f"change --{error.setting.replace('_', '-')} or `{error.setting}`"
        port = "" if error.port is None else "; port 0 takes any free one"
        raise CommandFailed(Exit.UNREACHABLE, what, then=where + port) from error
    except OSError as error:
        raise CommandFailed(Exit.UNREACHABLE, reason(error)) from error
