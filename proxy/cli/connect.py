"""Connects a command to its sidecar; if no sidecar runs, opens the state directory itself.

Both cases share one code path: for a stopped state directory the same application is composed with
the admin socket as its only listener, and the command connects to this socket.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from proxy.cli.client import Operator
from proxy.cli.command import Context
from proxy.cli.exits import CommandFailed, Exit
from proxy.settings.load import MARKER, load_settings
from proxy.settings.table import Settings, SettingsError
from proxy.settings.values import Raw, unquoted

_CONNECT_S: Final = 5.0
_SOCKET: Final = "admin.sock"


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The options by which every command finds its sidecar."""

    state: str | None = None
    config: str | None = None
    checkpoint: str | None = None
    admin: str | None = None


def settings_of(
    context: Context,
    flags: dict[str, Raw] | None = None,
    *,
    check_places: bool = False,
    untraced: Callable[[str], None] | None = None,
    reads_config: bool = True,
) -> Settings:
    """The settings that apply to this command line; `untraced` as of `load_settings`.

    Without `reads_config` a file that `--config` names is not read.

    Raises:
        CommandFailed: The settings cannot be used.
    """
    where = context.arguments(Where)
    given: dict[str, Raw] = dict(flags or {})
    if where.state is not None:
        given["state"] = where.state
    if where.checkpoint is not None:
        given["checkpoint"] = where.checkpoint
    config = Path(where.config) if where.config is not None and reads_config else None
    try:
        return load_settings(given, config=config, check_places=check_places, untraced=untraced)
    except SettingsError as error:
        raise CommandFailed(Exit.USAGE, str(error)) from error


@asynccontextmanager
async def operator(context: Context, *, opens: bool = True) -> AsyncGenerator[Operator]:
    """Connect to the operator API of the command's sidecar while the block runs.

    With `opens`, a stopped state directory is opened while the block runs; no sidecar can be
    started on it meanwhile.

    Raises:
        CommandFailed: No sidecar runs, and its state directory cannot be opened either.
    """
    settings = settings_of(context)
    where = context.arguments(Where)
    if where.admin is not None:
        yield _over_http(where.admin, settings)
    elif _answers(settings.state / _SOCKET):
        yield _over_socket(settings.state / _SOCKET)
    elif not opens:
        raise CommandFailed(
            Exit.UNREACHABLE, f"no sidecar runs on {settings.state}", then="mnemogate run"
        )
    else:
        async with _opened(context, settings) as client:
            yield client


def admin_url(address: str) -> str:
    """The value of `--admin` as a URL; `HOST:PORT` is allowed as well."""
    return (address if "://" in address else f"http://{address}").rstrip("/")


def _over_http(address: str, settings: Settings) -> Operator:
    if settings.operator_key is None:
        raise CommandFailed(
            Exit.USAGE,
            "--admin needs the operator's key",
            then="set MNEMOGATE_OPERATOR_KEY, or use the socket in --state",
        )
    url = admin_url(address)
    headers = {"Authorization": f"Bearer {unquoted(settings.operator_key.reveal())}"}
    return Operator(url, url, headers=headers)


def _over_socket(path: Path) -> Operator:
    return Operator("http://localhost", str(path), path=path)


@asynccontextmanager
async def _opened(context: Context, settings: Settings) -> AsyncGenerator[Operator]:
    """Open a stopped state directory in this process while the block runs."""
    refuse_unless_openable(settings.state)
    checked = settings_of(context, check_places=True)
    # The import is local, because it loads LMDB, FAISS and the embedder, which most commands do not
    # need.
    from proxy.cli.stopped import stopped  # noqa: PLC0415

    async with stopped(checked):
        yield _over_socket(settings.state / _SOCKET)


def _answers(path: Path) -> bool:
    """Whether a sidecar listens on the admin socket.

    Raises:
        CommandFailed: The socket exists, but this user may not connect to it, or it does not
            answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_S)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except PermissionError as error:
            raise CommandFailed(
                Exit.REFUSED,
                f"no access to {path}",
                then="run as the sidecar's user or root, or use --admin with an operator's key",
            ) from error
        except OSError as error:
            raise CommandFailed(
                Exit.UNREACHABLE,
                f"{path} does not answer: {error.strerror or type(error).__name__}",
                then="check that the sidecar runs",
            ) from error
    return True


def refuse_unless_openable(state: Path) -> None:
    """Refuse to open a directory that contains no store, or that belongs to another user.

    Raises:
        CommandFailed: The directory contains no store, cannot be read, or belongs to another user.
    """
    try:
        owner = state.stat().st_uid
        known = (state / MARKER).exists()
    except PermissionError as error:
        raise CommandFailed(
            Exit.REFUSED,
            f"no access to {state}",
            then="run as the sidecar's user or root, or use --admin with an operator's key",
        ) from error
    except OSError:
        known, owner = False, -1
    if not known:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"no sidecar runs on {state}, and there is no store in it",
            then="start one with `mnemogate run`, or name the right directory",
        )
    if owner != os.geteuid():
        # If root opened the directory, root would create files that the sidecar's own user could
        # not open afterwards.
        raise CommandFailed(
            Exit.REFUSED,
            f"no sidecar runs on {state}, and it belongs to uid {owner}",
            then="start the sidecar, or run this as that user",
        )
