"""Recognises memory tools among the tools that a model may call, and finds each one's tool map.

A tool is recognised by its API's own type, or by its name and argument names. Hosts join a server's
name with a tool's name in different ways and replace different letters, so names are compared
without these differences. A tool that fits no map is no memory tool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import structs

from policy.text.skeleton import skeleton
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.mcp.maps import Posture, Tool, ToolKind, ToolMap, path
from proxy.dialects.model.memory_words import speaks_of_memory
from proxy.dialects.model.reading import arguments_of, text_of
from proxy.dialects.model.tools import DeclaredTool, answer_names
from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json, read_body, write_body
from proxy.seams.faults import MalformedRequest

_FOLDED: Final = re.compile(r"[^a-z0-9]+")
_NAMES_KEPT_MAX: Final = 8_192
# Claude Code and Codex: `mcp__SERVER__TOOL`. Both names may contain the separator, so every split
# is tried. Other hosts: `mcp_SERVER_TOOL`, `mcp--SERVER--TOOL`, `SERVER_TOOL`, `SERVER__TOOL`, and
# `TOOL_mcp_SERVER`.
_NAMESPACE: Final = "mcp__"
_MARK: Final = "__"
_PREFIXES: Final = ("mcp_", "functions_")
_BEHIND: Final = "_mcp_"
# A tool is recognised by its prefixed name alone only if its name in the map contains this string.
# A name such as `browser_close_session` may belong to any server.
_OF_MEMORY: Final = "memor"
_MANY: Final = 2
# A tool whose API type begins with this prefix is a memory tool, even if no map names the type.
_MEMORY_TYPE: Final = "memory_"
_WRITES: Final = frozenset({ToolKind.WRITE, ToolKind.DELETE})
_CHANGES: Final = _WRITES | {ToolKind.ADMIN}
_KEEPS: Final = _WRITES | {ToolKind.READ}


class Maps(msgspec.Struct, frozen=True, kw_only=True):
    """The tool maps by which tools are recognised.

    `named`: an operator chose the maps, so that a tool is recognised by its name alone.
    """

    maps: tuple[ToolMap, ...]
    named: bool = False
    # Maps of file tools; see `proxy.dialects.files`.
    files: tuple[ToolMap, ...] = ()
    # Maps of answers that are chosen by a request's JSON schema.
    answers: tuple[ToolMap, ...] = ()

    def of_answer(self, body: dict[str, Json]) -> ToolMap | None:
        """The map by which the answer to a request is judged as a write; None if it is no write.

        The client chose the schema, so its choice adds a judgment and takes none away.
        """
        names = answer_names(body)
        found = next((one for one in self.answers if names.issuperset(one.model.schema)), None)
        if found is None:
            return None
        # A client may refuse an empty answer with a name that its schema does not have.
        empty = read_body(found.model.empty.encode())
        kept = write_body({name: one for name, one in empty.items() if name in names}).decode()
        return structs.replace(found, model=structs.replace(found.model, empty=kept))


class MemoryTool(msgspec.Struct, frozen=True, kw_only=True):
    """A memory tool: its map, its name in the map, and the name that the host gives its server.

    If `tool` is None, no map describes the tool, which may change memory or belongs to a memory
    server: its calls are refused.
    """

    tool_map: ToolMap | None
    tool: str | None
    server: str = ""


class FileTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that writes files: its map, its name and rule, and the host's name for its server.

    `arguments` are those that the rule reads.
    """

    tool_map: ToolMap
    tool: str
    rule: FileRule
    server: str = ""
    arguments: dict[str, Json]


def file_tool(maps: Maps, call: ModelCall) -> FileTool | None:
    """The tool by which a call writes files, by the call's name and arguments; None if by none."""
    call = _meant(maps, call)
    given = call.arguments or {}
    named = DeclaredTool(name=call.name, server=call.server)
    for tool_map in maps.files:
        for name, rule in tool_map.tools.items():
            server = next(servers_by(named, name), None)
            if server is None or rule.file is None or rule.kind is not ToolKind.WRITE:
                continue
            if rule.program not in given and set(rule.file.named) <= given.keys():
                return FileTool(
                    tool_map=tool_map, tool=name, rule=rule.file, server=server, arguments=given
                )
    return None


def _meant(maps: Maps, call: ModelCall) -> ModelCall:
    """The call that an indirect call makes, through any number of tools; else the call itself.

    Its `arguments` are None if they cannot be read.
    """
    given = call.arguments or {}
    named = DeclaredTool(name=call.name, server=call.server)
    for tool_map in maps.files:
        for name, rule in tool_map.tools.items():
            way = rule.indirect
            if way is None or way.name not in given or "" not in servers_by(named, name):
                continue
            # A host's id of a tool ends in the tool's name.
            inner = (text_of(given[way.name]) or "").rpartition(":")[2]
            arguments = arguments_of(given.get(way.arguments) or {}) if inner else None
            return _meant(maps, structs.replace(call, name=inner, arguments=arguments))
    return call


class _Option(msgspec.Struct, frozen=True, kw_only=True):
    found: MemoryTool
    place: tuple[str, str]  # the names of the server and of the map
    # The number of arguments that the tool has in common with the map; it decides between maps that
    # fit equally many tools of a server.
    fitting: int
    # False if the tool counts as a memory tool only beside other memory tools of its server.
    likely: bool = True


class OfferedTools:
    """The memory tools that one request offers.

    `tools` is None if the request lists no tools.
    """

    def __init__(self, tools: tuple[DeclaredTool, ...] | None, maps: Maps) -> None:
        self._maps = maps
        self._tools = tools
        self._found: dict[tuple[str | None, str], MemoryTool] = {}
        if tools:
            self._look(tools)

    @property
    def writes(self) -> bool:
        """Whether the request offers a tool that changes memory."""
        return any(_changes(found, _CHANGES) for found in self._found.values())

    @property
    def unmapped(self) -> tuple[DeclaredTool, ...]:
        """Offered tools that look like memory tools and fit no map: their calls are not judged."""
        return tuple(
            tool
            for tool in self._tools or ()
            if (tool.server, tool.name) not in self._found and speaks_of_memory(tool)
        )

    @property
    def programs(self) -> tuple[DeclaredTool, ...]:
        """Offered tools that run programs, from which any other tool may be called."""
        return tuple(tool for tool in self._tools or () if self._runs(tool))

    def meant(self, call: ModelCall) -> ModelCall:
        """The call that an indirect call makes; else the call itself."""
        return _meant(self._maps, call)

    def find(self, call: ModelCall) -> MemoryTool | None:
        """The memory tool that a call uses, also indirectly; None if the call uses none."""
        inner = self.meant(call)
        if self._tools is None or inner is not call:
            return self._by_shape(inner)
        if any((tool.server, tool.name) == (call.server, call.name) for tool in self._tools):
            return self._found.get((call.server, call.name))
        # If a call names no offered tool, some agents guess the tool that was meant (Hermes: by
        # case, suffix, likeness) and call it. So the call counts as one of an unknown memory tool.
        return MemoryTool(tool_map=None, tool=None) if self.writes else None

    def _runs(self, tool: DeclaredTool) -> bool:
        return any(
            rule.program is not None
            and (tool.arguments is None or rule.program in tool.arguments)
            and next(servers_by(tool, name), None) is not None
            for tool_map in self._maps.files
            for name, rule in tool_map.tools.items()
        )

    def _look(self, tools: tuple[DeclaredTool, ...]) -> None:
        options = {(tool.server, tool.name): [*self._options(tool)] for tool in tools}
        every = [one for given in options.values() for one in given]
        # Tools that only read do not make a server a memory server, because other servers have
        # tools for search and fetch with the same names.
        writing = {one.place for one in every if _changes(one.found, _WRITES)}
        # If several maps fit, the map that fits most of a server's tools is taken for the server.
        score = Counter(
            place for given in options.values() for place in {one.place for one in given} & writing
        )
        likely = {one.place for one in every if one.likely}
        score = Counter({at: n for at, n in score.items() if n >= _MANY or at in likely})
        for tool in tools:
            key = (tool.server, tool.name)
            given = [one for one in options[key] if one.place in score]
            if given:
                best = max(given, key=lambda one: (score[one.place], one.fitting, one.place))
                self._found[key] = best.found
            elif tool.type.startswith(_MEMORY_TYPE):
                self._found[key] = MemoryTool(tool_map=None, tool=None)
        self._close(tools, score)

    def _close(self, tools: tuple[DeclaredTool, ...], score: Counter[tuple[str, str]]) -> None:
        """Mark the other tools of a server as refused, if a map names most tools of the server."""
        for (server, name), count in score.items():
            mine = [tool for tool in tools if server and server in _servers(tool)]
            known = next(found for found in self._maps.maps if found.name == name)
            if not mine or 2 * count <= len(mine):
                continue
            for tool in mine:
                key = (tool.server, tool.name)
                self._found.setdefault(key, MemoryTool(tool_map=known, tool=None, server=server))

    def _options(self, tool: DeclaredTool) -> Iterator[_Option]:
        # A tool's type in the API counts more than its name.
        for tool_map in self._maps.maps:
            typed = tool_map.model.types.get(tool.type)
            if typed is not None:
                found = MemoryTool(tool_map=tool_map, tool=typed)
                yield _Option(found=found, place=("", tool_map.name), fitting=0)
                return
        if tool.type.startswith(_MEMORY_TYPE):
            return
        for tool_map in self._maps.maps:
            for name, rule in tool_map.tools.items():
                for server in servers_by(tool, name):
                    if self._maps.named or _fits(rule, tool):
                        yield _Option(
                            found=MemoryTool(tool_map=tool_map, tool=name, server=server),
                            place=(server, tool_map.name),
                            fitting=_common(rule, tool),
                            likely=not server or _likely(tool, name),
                        )

    def _by_shape(self, call: ModelCall) -> MemoryTool | None:
        """The memory tool of a call by its name and arguments, if the offered tools are unknown."""
        for tool_map in self._maps.maps:
            typed = set(tool_map.model.types.values())
            for name in tool_map.tools:
                named = DeclaredTool(name=call.name, server=call.server)
                server = next(servers_by(named, name), None)
                if name not in typed and server is None:
                    continue
                if call.arguments is None and name in typed:
                    continue
                if call.arguments is None or _would_change(tool_map, name, call):
                    return MemoryTool(tool_map=tool_map, tool=name, server=server or "")
        return None


def _would_change(tool_map: ToolMap, name: str, call: ModelCall) -> bool:
    try:
        read = read_call(tool_map, {"name": name, "arguments": call.arguments})
    except MalformedRequest:
        return False
    return read.kind in _CHANGES


def _changes(found: MemoryTool, kinds: frozenset[ToolKind]) -> bool:
    rule = None if found.tool_map is None else found.tool_map.tools.get(found.tool or "")
    if rule is None:
        return True
    return any(case.kind in kinds for case in rule.cases)


def keeps_memory(found: MemoryTool | None) -> bool:
    """Whether a tool only reads, writes or deletes memory, so that its answer is no foreign text.

    False if the tool can do anything else, or fetches pages for its server.
    """
    if found is None or found.tool_map is None or found.tool_map.posture is not Posture.MEMORY:
        return False
    rule = found.tool_map.tools.get(found.tool or "")
    if rule is None or rule.fetches:
        return False
    return all(case.kind in _KEEPS and not case.fetches for case in rule.cases)


@lru_cache(maxsize=_NAMES_KEPT_MAX)
def folded(name: str) -> str:
    """A name without case, look-alike letters, and the characters that hosts replace."""
    return _FOLDED.sub("_", skeleton(name).casefold()).strip("_")


def _servers(tool: DeclaredTool) -> set[str]:
    """The names of all servers that a tool could belong to."""
    if tool.server is not None:
        return {folded(tool.server.removeprefix(_NAMESPACE))}
    if tool.name.startswith(_NAMESPACE):
        return {folded(before) for before, _ in _split(tool.name)}
    name = folded(tool.name)
    words = _bare(name).split("_")
    found = {"_".join(words[:at]) for at in range(1, len(words))}
    return found | {name.partition(_BEHIND)[2]} if _BEHIND in name else found


def _split(name: str) -> Iterator[tuple[str, str]]:
    rest = name.removeprefix(_NAMESPACE)
    at = rest.find(_MARK, 1)
    while at > 0:
        yield rest[:at], rest[at + len(_MARK) :]
        at = rest.find(_MARK, at + 1)


def _bare(name: str) -> str:
    """A folded name without the prefix that a host gives to every tool."""
    start = next((one for one in _PREFIXES if name.startswith(one)), "")
    return name.removeprefix(start)


def servers_by(tool: DeclaredTool, name: str) -> Iterator[str]:
    """The servers' names that a host may have joined with `name`, a tool's name in a map.

    "" if the host's name of the tool contains no server's name.
    """
    wanted, there = folded(name), folded(tool.name)
    if tool.server is not None:
        if there == wanted:
            yield folded(tool.server.removeprefix(_NAMESPACE))
        return
    if there == wanted:
        yield ""
    if tool.name.startswith(_NAMESPACE):
        yield from [folded(one) for one, after in _split(tool.name) if folded(after) == wanted][:1]
    elif there.endswith(f"_{wanted}"):
        yield _bare(there).removesuffix(wanted).rstrip("_")
    elif there.startswith(wanted + _BEHIND):
        yield there.removeprefix(wanted + _BEHIND)


def _likely(tool: DeclaredTool, name: str) -> bool:
    """Whether a tool's name alone shows that it is this memory tool and no other server's tool."""
    if tool.server is not None or folded(tool.name).startswith("mcp_") or _MARK in tool.name:
        return True
    return _OF_MEMORY in name and "_" in folded(name)


def _fits(rule: Tool, tool: DeclaredTool) -> bool:
    given = tool.arguments
    if given is None:
        return True
    if rule.switch is not None:
        return path(rule.switch.path)[0] in given
    for text in rule.required:
        name = path(text)[0]
        if given.isdisjoint({name, *rule.aliases.get(name, ())}):
            return False
    return True


def _common(rule: Tool, tool: DeclaredTool) -> int:
    known = {told[0] for case in rule.cases for told in case.described}
    known |= {path(rule.switch.path)[0]} if rule.switch is not None else set()
    return len(known & (tool.arguments or frozenset()))
