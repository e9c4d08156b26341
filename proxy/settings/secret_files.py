"""Reads secrets from files, as Kubernetes and Compose mount them, not readable by other users."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from proxy.settings.values import BadValue, Secret, secret
from storage.ground.trusted_files import Trust, UnfitFile, read_file, reason

_FILE_BYTES_MAX: Final = 1024
LIST_BYTES_MAX: Final = 16 * 1024


def secret_from(path: Path) -> Secret:
    """The secret in a file; one line break at its end is not part of it.

    Raises:
        BadValue: The file has another form; the message names the form, and quotes no content.
    """
    line = _read(path, _FILE_BYTES_MAX).removesuffix("\n").removesuffix("\r")
    try:
        return secret(line)
    except BadValue as error:
        raise BadValue(f"a file with one line, {error}, and {path} is none") from None


def pairs_from(path: Path) -> tuple[tuple[str, str], ...]:
    """The `NAME: VALUE` pairs in a file, one per line; blank lines and `#` lines are left out.

    Raises:
        BadValue: The file has another form; the message names the form, and quotes no content.
    """
    pairs: list[tuple[str, str]] = []
    for line in _read(path, LIST_BYTES_MAX).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, found, value = line.partition(":")
        if not found or not name.strip():
            raise BadValue(f"a file with lines NAME: VALUE, and {path} has another")
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


def _read(path: Path, bytes_max: int) -> str:
    """The text of a file that other users may not read.

    Raises:
        BadValue: The file has another form; the message names the form, and quotes no content.
    """
    try:
        return read_file(path, bytes_max, Trust.SECRET).decode("ascii")
    except OSError as error:
        raise BadValue(f"a file that this user can read ({reason(error)})") from None
    except UnfitFile as error:
        raise BadValue(str(error)) from None
    except UnicodeDecodeError:
        raise BadValue(f"a file of printable ASCII characters, and {path} has others") from None
