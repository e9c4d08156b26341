"""Loads tool maps: those that are shipped with the program, and files of an operator."""

from __future__ import annotations

import functools
import importlib.resources
import re
from pathlib import Path
from typing import Final

import msgspec

from policy.places import Patterns
from proxy.dialects.mcp.maps import MAP_BYTES_MAX, MapError, Posture, ToolMap, parse_map
from proxy.dialects.model.memory_tools import Maps
from storage.ground.trusted_files import UnfitFile, read_file

CONTEXT_MAP: Final = "context"
# The map that store mode uses: its tools are those of the server `server-memory`.
STORE_MAP: Final = "server-memory"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")


def shipped() -> tuple[str, ...]:
    """The names of the maps that come with the program, sorted."""
    return tuple(sorted(_shipped()))


def shipped_map(name: str) -> ToolMap | None:
    """The shipped map of this name; None if there is none."""
    return _shipped().get(name)


def map_for_server(server_name: str) -> ToolMap | None:
    """The shipped map for an MCP server with this `serverInfo.name`; None if there is none."""
    return next((found for found in _shipped().values() if server_name in found.server_names), None)


def maps_of_models(
    names: tuple[str, ...] | None, instructions: Patterns = (), facts: Patterns = ()
) -> Maps:
    """The maps by which a model's memory tools are recognised: the named ones, or all shipped ones.

    Maps of file tools are always included, because through them only changes of places are judged;
    so are maps of answers, which a request chooses.
    Every map gets the two lists of places added to its own.

    Raises:
        MapError: No such map exists, or a file is not a map (`load_map`).
    """

    def placed(one: ToolMap) -> ToolMap:
        return msgspec.structs.replace(
            one,
            instruction_paths=one.instruction_paths + instructions,
            fact_paths=one.fact_paths + facts,
        )

    known = tuple(placed(_shipped()[name]) for name in shipped())
    found = tuple(placed(load_map(name)) for name in names or ())
    if names is None:
        found = tuple(one for one in known if one.tools and not one.model.named_only)
    return Maps(
        maps=tuple(one for one in found if not _of_files(one)),
        named=names is not None,
        files=tuple({one.name: one for one in (*known, *found) if _of_files(one)}.values()),
        answers=tuple(one for one in (*found, *known) if one.model.schema),
    )


def _of_files(tool_map: ToolMap) -> bool:
    return tool_map.posture is Posture.FILES


def load_map(given: str) -> ToolMap:
    """The map that `--map` names: a shipped map by its name, else a file.

    Raises:
        MapError: No such map or file exists, or the file is not a map; the message contains why.
    """
    found = shipped_map(given)
    if found is not None:
        return found
    if _NAME.fullmatch(given) and not Path(given).exists():
        raise MapError(f"{given}: no such map; there are {', '.join(shipped())}, or name a file")
    try:
        return parse_map(read_file(Path(given), MAP_BYTES_MAX).decode("utf-8"), given)
    except OSError as error:
        raise MapError(f"{given}: cannot be read: {error.strerror}") from None
    except UnfitFile as error:
        raise MapError(f"a map must be {error}") from None
    except UnicodeDecodeError:
        raise MapError(f"{given}: not UTF-8") from None


@functools.cache
def _shipped() -> dict[str, ToolMap]:
    folder = importlib.resources.files("proxy.dialects.mcp").joinpath("maps")
    found = [
        parse_map(file.read_text("utf-8"), file.name)
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    ]
    return {tool_map.name: tool_map for tool_map in found}
