"""The place that a tool call changes, as far as the files on this machine tell.

Links are followed, and the instructions files above a file are read for what they import. If host
and sidecar share no file system, the name of the file alone decides: a link that has another name
and leads to a place is not seen, and neither is an import that the conversation does not show.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from policy.places import Place, Places, is_instructions
from proxy.dialects.files.edits import FileCall
from proxy.dialects.files.imports import imports_of, may_be_one
from proxy.seams.faults import MalformedRequest

_LINK: Final = "a link, or below one: write to the file itself"
_IMPORTERS_MAX: Final = 64
_TEXT_BYTES_MAX: Final = 262_144


async def place_of(
    call: FileCall, places: Places, imported: Callable[[str], Place | None] = lambda _: None
) -> Place | None:
    """The place that the call changes, moves or makes; of several, an instructions place.

    `imported` tells the place whose text, as the conversation showed it, imports a file.

    Raises:
        MalformedRequest: The path is a link to a place, or below one, or the place itself is a
            link.
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
        # The verdict is about the path as it was given, while the write goes where a link leads.
        stricter = is_instructions(meant) and not is_instructions(named)
        if stricter or (meant is not None if named is None else is_link):
            raise MalformedRequest(f"arguments: {call.rule.path}: {_LINK}")
        if not is_instructions(named):
            importer = imported(path) or await asyncio.to_thread(_importer_here, path, places)
            named = importer or named
        found += () if named is None else (named,)
    return max(found, key=is_instructions, default=None)


def _resolved(path: str) -> tuple[bool, str | None]:
    """A truth (the file is a link) and its real path; None if this machine cannot tell."""
    try:
        file = Path(path)
        if not file.is_absolute():
            return False, None
        return file.is_symlink(), os.path.realpath(file)
    except (OSError, ValueError):
        return False, None


def _importer_here(path: str, places: Places) -> Place | None:
    """The instructions file, in a folder above this file, that imports it on this machine."""
    above = Path(path).parents if path.startswith("/") else ()
    names = (f"{folder}/{name}" for folder in above for name in places.imports)
    found = {name: places.of_path(name) for name in names if os.path.isfile(name)}  # noqa: PTH113
    files = [*found]
    for importer in files:
        for name in imports_of(importer, _text_of(importer)):
            if may_be_one(name, path) or os.path.realpath(name) == os.path.realpath(path):
                return found[importer]
            # What is imported imports in turn.
            if name not in found and len(files) < _IMPORTERS_MAX:
                found[name] = found[importer]
                files.append(name)
    return None


def _text_of(file: str) -> str:
    try:
        # Anything but a plain file might never end, or wait for a writer.
        if not Path(file).is_file():
            return ""
        with Path(file).open("rb") as opened:
            return opened.read(_TEXT_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
