"""Prints tool maps for people: the content of a map, or the template of a new one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from proxy.cli.exits import Exit
from proxy.cli.terminal import Terminal
from proxy.dialects.mcp.maps import FORMAT, Posture, Tool, ToolKind, ToolMap
from proxy.dialects.model.memory_words import words_of
from proxy.ledger.unmapped_tools import UnmappedTool

_NAMESPACE: Final = "mcp__"
_REST: Final = re.compile(r"[^a-z0-9]+")
_ARGUMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_READS: Final = frozenset({"fetch", "find", "get", "list", "load", "query", "read", "recall"})
_DELETES: Final = frozenset({"clear", "delete", "drop", "forget", "purge", "remove"})
_HEAD: Final = """\
# The skeleton of a tool map: made of names alone, so read each tool before you use it. What a map
# does not list is refused: add the server's other tools. docs/mcp-maps.md says what each key means.
# In the settings: `maps = ["FILE"]` in the [[model]] table, `map = "FILE"` in the [[mcp]] table.
# `mnemogate mcp --map FILE --check` says how it is understood."""


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of a map, or one case of a tool whose effect depends on an argument."""

    tool: str
    kind: str
    key: list[str]
    reconciled_by: str | None


class MapView(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a tool map, for `--json`."""

    name: str
    read_from: str
    posture: str
    tools: list[ToolView]


def show_map(terminal: Terminal, tool_map: ToolMap) -> Exit:
    """Print a loaded tool map, tool by tool."""
    view = MapView(
        name=tool_map.name,
        read_from=tool_map.read_from,
        posture=tool_map.posture.value,
        tools=[_view(name, tool) for name, tool in _cases(tool_map)],
    )
    terminal.answer(view)
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


def _cases(tool_map: ToolMap) -> Iterator[tuple[str, Tool]]:
    for name, tool in tool_map.tools.items():
        if tool.switch is None:
            yield name, tool
            continue
        for value, case in tool.switch.cases.items():
            yield f"{name} ({tool.switch.path} = {value})", case


def _view(name: str, tool: Tool) -> ToolView:
    return ToolView(
        tool=name,
        kind=tool.kind.value if tool.kind is not None else "-",
        key=["/".join((part,) if isinstance(part, str) else part) for part in tool.key],
        reconciled_by=tool.reconcile.tool if tool.reconcile is not None else None,
    )


class SkeletonView(msgspec.Struct, frozen=True, kw_only=True):
    """The template of a new tool map, for `--json`."""

    map: str


def tools_named(name: str, seen: Iterable[UnmappedTool]) -> tuple[UnmappedTool, ...]:
    """The tool with this name, or every tool of the server with this name."""
    found = tuple(seen)
    whole = tuple(one for one in found if one.tool == name)
    return whole or tuple(one for one in found if name and name in _cut(one.tool)[:-1])


def skeleton_of(name: str, tools: Iterable[UnmappedTool]) -> str:
    """The text of a template of a tool map for these tools.

    A wrong guess in the template may cause more text to be judged, but never less.
    """
    plain = _REST.sub("-", name.casefold()).strip("-")[:64] or "mine"
    head = [
        _HEAD,
        f"format = {FORMAT}",
        f'name = "{plain}"',
        'read_from = "names that were offered"',
    ]
    return "\n".join((*head, *(line for tool in tools for line in _skeleton_lines(tool))))


def _skeleton_lines(tool: UnmappedTool) -> Iterator[str]:
    bare = _cut(tool.tool)[-1]
    kind = _kind_of(bare)
    yield ""
    yield f'[tools."{bare}"]'
    yield f'kind = "{kind.value}"  # write, delete, read, or admin: refused to an agent'
    texts = [one for one in tool.arguments if _ARGUMENT.fullmatch(one)]
    if kind is not ToolKind.READ and texts:
        listed = ", ".join(f'"{one}"' for one in texts)
        yield f"texts = [{listed}]  # strings alone; ids, times and closed lists belong in `plain`"
        yield '# key = ["..."]  # what the server files it under'


def _kind_of(bare: str) -> ToolKind:
    said = words_of(bare)
    if said & _DELETES:
        return ToolKind.DELETE
    return ToolKind.READ if said & (_READS | {"search"}) else ToolKind.WRITE


def _cut(name: str) -> list[str]:
    """A host's tool name, split into the server's name (if any) and the server's own tool name."""
    if "/" in name:
        return name.split("/", 1)
    server, mark, bare = name.removeprefix(_NAMESPACE).partition("__")
    return [server, bare] if name.startswith(_NAMESPACE) and mark and bare else [name]
