"""Tools that seem to be about memory and are in no tool map: each is reported once per session.

The list is in memory only: after a restart each tool is reported once more.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.dialects.model.tools import Declared

SESSIONS_MAX: Final = 256
TOOLS_MAX: Final = 64
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
        self._by_session: OrderedDict[str, OrderedDict[str, UnmappedTool]] = OrderedDict()

    def note(self, session: str, tools: Iterable[Declared]) -> tuple[str, ...]:
        """Look at a request's tools; returns the names that are new in their session."""
        known = self._by_session.setdefault(session, OrderedDict())
        self._by_session.move_to_end(session)
        if len(self._by_session) > SESSIONS_MAX:
            self._by_session.popitem(last=False)
        new: list[str] = []
        for tool in tools:
            name = tool.name if tool.server is None else f"{tool.server}/{tool.name}"
            if name in known or len(known) >= TOOLS_MAX or not _PLAIN.fullmatch(name):
                continue
            plain = sorted(one for one in tool.arguments or () if _PLAIN.fullmatch(one))
            known[name] = UnmappedTool(tool=name, arguments=tuple(plain[:_ARGUMENTS_MAX]))
            new.append(name)
        return tuple(new)

    def of(self, session: str) -> tuple[str, ...]:
        """The names of unmapped tools about memory that requests of one session offered."""
        return tuple(self._by_session.get(session, ()))

    def all(self) -> tuple[UnmappedTool, ...]:
        """All unmapped tools about memory that any session offered, each once, sorted by name."""
        found = {name: one for known in self._by_session.values() for name, one in known.items()}
        return tuple(found[name] for name in sorted(found))
