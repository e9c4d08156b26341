"""Tools whose calls are not judged, because no map describes them, or they run programs.

Each is reported once. A tool that runs programs may call any other tool from inside one.

The list is in memory only: after a restart each tool is reported once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from proxy.dialects.model.tools import DeclaredTool

TOOLS_MAX: Final = 1_024
_ARGUMENTS_MAX: Final = 64
# A tool's name is kept only if it has this form, because it is shown to people and written to logs.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@-]{1,128}")


class UnmappedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool whose calls are not judged, with its arguments' names."""

    tool: str
    arguments: tuple[str, ...] = ()


class UnmappedTools:
    """Tools of requests whose calls are not judged for one reason. Event loop only."""

    def __init__(self) -> None:
        self._tools: dict[str, UnmappedTool] = {}

    def note(self, tools: Iterable[DeclaredTool]) -> tuple[str, ...]:
        """Record tools; return the names that are new."""
        new: list[str] = []
        for tool in tools:
            name = tool.name if tool.server is None else f"{tool.server}/{tool.name}"
            full = len(self._tools) >= TOOLS_MAX
            if name in self._tools or full or not _PLAIN.fullmatch(name):
                continue
            plain = sorted(one for one in tool.arguments or () if _PLAIN.fullmatch(one))
            self._tools[name] = UnmappedTool(tool=name, arguments=tuple(plain[:_ARGUMENTS_MAX]))
            new.append(name)
        return tuple(new)

    def all(self) -> tuple[UnmappedTool, ...]:
        """All recorded tools, sorted by name."""
        return tuple(self._tools[name] for name in sorted(self._tools))
