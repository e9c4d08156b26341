"""Finds the place that a tool call changes, with the files on this machine.

Links are followed. If host and sidecar share no file system, only the file's name decides: a link
with another name to a place is not recognised. What an instructions file imports is no place: a
model front judges its lines where they are read.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from policy.places import Place, Places, is_instructions
from proxy.dialects.files.edits import FileCall, read_file_calls
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

_LINK: Final = "a link, or below one: write to the file itself"
_TEXT_BYTES_MAX: Final = 262_144


async def placed_calls(
    rule: FileRule,
    arguments: Mapping[str, JsonValue] | None,
    places: Places,
    stated: Sequence[str] = (),
    *,
    alone: bool,
) -> list[tuple[FileCall, Place]]:
    """The changes that a file tool's call makes in places, each with its place.

    `stated` are folders in which the host may run the call. `alone`: an item that a person releases
    is sent as the whole call, so the call may change one place only.

    Raises:
        MalformedRequest: The call does not have the form that its rule describes, the path is a
            link, or the call changes several places and may change one.
    """
    found: list[tuple[FileCall, Place]] = []
    for call in read_file_calls(rule, arguments):
        readings = [
            (one, place)
            for one in call.located(stated)
            if not one.idle and (place := await place_of(one, places)) is not None
        ]
        # Of several readings the one in a place of instructions counts, else the first.
        found += sorted(readings, key=lambda one: not is_instructions(one[1]))[:1]
    if alone and len(found) > 1:
        raise MalformedRequest("arguments: change one place with each call")
    return found


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
