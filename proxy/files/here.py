"""Whether a tool call changes a memory file, such as an agent's instructions.

Links on this machine are followed.

If host and sidecar share no file system, the name of the file alone decides: a link that has
another name and leads to a file of memory is not seen.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy.seams.faults import MalformedRequest

if TYPE_CHECKING:
    from proxy.dialects.files.edits import FileCall
    from proxy.dialects.files.memory_paths import MemoryPaths

_LINK: Final = "a link, or below one: write to the file itself"


async def is_of_memory(call: FileCall, paths: MemoryPaths) -> bool:
    """Whether the call changes, moves or makes a memory file.

    Raises:
        MalformedRequest: The path is a link to a memory file, or the memory file itself is a link.
    """
    found = False
    for path in (call.path, call.to):
        if path is None:
            continue
        # A call with a destination may move a folder, and with it every memory file inside.
        fits = paths.fits if call.to is None else paths.fits_folder
        named = fits(path)
        is_link, real = await asyncio.to_thread(_resolved, path)
        # The verdict is about the path as it was given, while the write goes where a link leads.
        if is_link if named else (real is not None and fits(real)):
            raise MalformedRequest(f"arguments: {call.rule.path}: {_LINK}")
        found = found or named
    return found


def _resolved(path: str) -> tuple[bool, str | None]:
    """Whether the file is a link, and its real path; None if this machine cannot tell."""
    try:
        file = Path(path)
        if not file.is_absolute():
            return False, None
        return file.is_symlink(), os.path.realpath(file)
    except (OSError, ValueError):
        return False, None
