"""`mnemogate mcp --map NAME|FILE --check`: what a tool map says, tool by tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.cli.exits import Exit
from proxy.dialects.mcp.maps import Posture, Tool, ToolMap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.cli.terminal import Terminal


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, or one case of a tool that is several."""

    tool: str
    kind: str
    key: list[str]
    reconciled_by: str | None


class MapView(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    name: str
    read_from: str
    posture: str
    tools: list[ToolView]


def show_map(terminal: Terminal, tool_map: ToolMap) -> Exit:
    """Print the map; it is sound, or it would not have been loaded."""
    view = MapView(
        name=tool_map.name,
        read_from=tool_map.read_from,
        posture=tool_map.posture.value,
        tools=[*_views(tool_map)],
    )
    if terminal.as_json:
        terminal.data(view)
        return Exit.OK
    terminal.say(f"{view.name}: {view.read_from}")
    if tool_map.posture is Posture.CONTEXT:
        terminal.say("every tool passes; what it returns is a tool's result")
        return Exit.OK
    terminal.table(
        ("tool", "kind", "key", "lost writes are looked up by"),
        [
            (one.tool, one.kind, ", ".join(one.key) or "-", one.reconciled_by or "-")
            for one in view.tools
        ],
    )
    return Exit.OK


def _views(tool_map: ToolMap) -> Iterator[ToolView]:
    for name, tool in tool_map.tools.items():
        if tool.switch is None:
            yield _view(name, tool)
            continue
        for value, case in tool.switch.cases.items():
            yield _view(f"{name} ({tool.switch.path} = {value})", case)


def _view(name: str, tool: Tool) -> ToolView:
    return ToolView(
        tool=name,
        kind=tool.kind.value if tool.kind is not None else "-",
        key=["/".join((part,) if isinstance(part, str) else part) for part in tool.key],
        reconciled_by=tool.reconcile.tool if tool.reconcile is not None else None,
    )
