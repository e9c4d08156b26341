"""Finds the place that a tool call changes, with the files on this machine.

Links are followed, and instructions files in folders above a file are searched for imports of it.
If host and sidecar share no file system, only the file's name decides: a link with another name to
a place is not recognised, nor an import: a model front judges its lines where they are read.
"""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Final

from policy.places import Place, Places, is_instructions
from proxy.dialects.files.edits import FileCall
from proxy.dialects.files.imports import imports_of, may_be_one
from proxy.seams.faults import MalformedRequest

_LINK: Final = "a link, or below one: write to the file itself"
_IMPORTERS_MAX: Final = 64
_TEXT_BYTES_MAX: Final = 262_144


async def place_of(call: FileCall, places: Places) -> Place | None:
    """The place that the call changes, moves or creates; of several, one of instructions.

    Raises:
        MalformedRequest: The path of the call leads to a place through a link, or the place itself
            is a link.
    """
    # A call with a destination may move a folder, and with it every place inside.
    of = places.of_path if call.to is None else places.of_folder
    found: list[Place] = []
    for path in (call.path, call.to):
        if path is None:
            continue
        named = of(path)
        is_link, real = await asyncio.to_thread(_resolved, path)
        meant = None if real is None else of(real)
        # The verdict is about the path that the call names, but the write would follow the link.
        stricter = is_instructions(meant) and not is_instructions(named)
        if stricter or (meant is not None if named is None else is_link):
            raise MalformedRequest(f"arguments: {call.rule.path or call.rule.patch}: {_LINK}")
        if not is_instructions(named):
            named = await asyncio.to_thread(_importer_here, path, places) or named
        found += () if named is None else (named,)
    return max(found, key=is_instructions, default=None)


def _resolved(path: str) -> tuple[bool, str | None]:
    """A pair: True for a link, and the real path, None if it cannot be resolved here."""
    try:
        file = Path(path)
        if not file.is_absolute():
            return False, None
        return file.is_symlink(), os.path.realpath(file)
    except (OSError, ValueError):
        return False, None


def _importer_here(path: str, places: Places) -> Place | None:
    """The place of an instructions file, in a folder above a file, that imports the file."""
    above = Path(path).parents if path.startswith("/") else ()
    names = (f"{folder}/{name}" for folder in above for name in places.imports)
    found = {name: places.of_path(name) for name in names if os.path.isfile(name)}  # noqa: PTH113
    files = [*found]
    for importer in files:
        for name in imports_of(importer, _text_of(importer)):
            if may_be_one(name, path) or os.path.realpath(name) == os.path.realpath(path):
                return found[importer]
            # An imported file may have imports too.
            if name not in found and len(files) < _IMPORTERS_MAX:
                found[name] = found[importer]
                files.append(name)
    return None


def text_here(path: str) -> str | None:
    """The text of a file on this machine, "" if there is no such file.

    None if the path is relative, or the file cannot be read, is too long or is no text.
    """
    try:
        if not path.startswith("/") or not stat.S_ISREG(Path(path).stat().st_mode):
            return None
        with Path(path).open("rb") as opened:
            found = opened.read(_TEXT_BYTES_MAX + 1)
        return found.decode() if len(found) <= _TEXT_BYTES_MAX else None
    except FileNotFoundError:
        return ""
    except (OSError, ValueError):
        return None


def _text_of(file: str) -> str:
    try:
        # A device might never end, and a pipe might wait for a writer.
        if not Path(file).is_file():
            return ""
        with Path(file).open("rb") as opened:
            return opened.read(_TEXT_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
