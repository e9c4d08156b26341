"""Tools that seem to be about memory and are in no tool map: each is reported once.

The list is in memory only: after a restart each tool is reported once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from proxy.dialects.model.tools import DeclaredTool

TOOLS_MAX: Final = 1_024
_ARGUMENTS_MAX: Final = 64
# A tool's name is kept only if it has this form, because it is shown to people and written to logs.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@-]{1,128}")


class UnmappedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that seems to be about memory and is in no tool map, with its arguments' names."""

    tool: str
    arguments: tuple[str, ...] = ()


class UnmappedTools:
    """Tools of requests that seem to be about memory and are in no map. Event loop only."""

    def __init__(self) -> None:
        self._known: dict[str, UnmappedTool] = {}

    def note(self, tools: Iterable[DeclaredTool]) -> tuple[str, ...]:
        """Record tools that a request offers; return the names that are new."""
        new: list[str] = []
        for tool in tools:
            name = tool.name if tool.server is None else f"{tool.server}/{tool.name}"
            known = name in self._known or len(self._known) >= TOOLS_MAX
            if known or not _PLAIN.fullmatch(name):
                continue
            plain = sorted(one for one in tool.arguments or () if _PLAIN.fullmatch(one))
            self._known[name] = UnmappedTool(tool=name, arguments=tuple(plain[:_ARGUMENTS_MAX]))
            new.append(name)
        return tuple(new)

    def all(self) -> tuple[UnmappedTool, ...]:
        """All unmapped tools about memory that any request offered, sorted by name."""
        return tuple(self._known[name] for name in sorted(self._known))
