"""Imports memories that an MCP server stored before the gate was in place.

Each of them may be an attack, so it is labelled unproven unless a person confirms it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.upkeep import IMPORT
from proxy.cli.client import Operator, portions
from proxy.cli.command import Context
from proxy.cli.connect import operator, settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.dialects.mcp.kept_before import ServerItems, digest_of_all, digest_of_item, items_listed
from proxy.dialects.mcp.maps import MapError, ToolMap
from proxy.mcp.http.child import ServerCommandLine as ServerCommand
from proxy.mcp.read_once import CannotRead, read_once
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item
from proxy.seams.tenants import DEFAULT_TENANT, TenantName
from proxy.settings.load import child_environment
from proxy.settings.tool_maps import load_map, map_for_server
from proxy.transport.upstream import Upstream

_SECONDS: Final = 60.0
_SHOWN: Final = 20
_BEGINS: Final = 60
_DIGEST_LEN: Final = 64
DIGEST_SHOWN: Final = 16
# The only shipped map that describes how to list all memories of its server. It is used only if the
# server's own name for itself is that of the map.
_BY_DEFAULT: Final = "memory-server"


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `backend import`."""

    words: tuple[str, ...]
    tenant: TenantName | None = None
    dry_run: bool = False
    # Of the server of a [[backend]] table:
    quarantine: bool = False
    item: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{DIGEST_SHOWN},64}}$")] | None = None
    # Of an MCP server:
    map: str | None = None
    confirm: str | None = None
    yes: bool = False

    @property
    def name(self) -> str:
        """The server's name."""
        return self.words[0]


class ImportedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One item that the server stores, for `--json`; `state` is None if it was not imported."""

    digest: str
    key: str
    memory_class: str
    text: str
    state: str | None = None
    memory_id: str | None = None
    # Why the item has no memory here, as a code of docs/reasons.md.
    reason: str | None = None


class ImportedList(msgspec.Struct, frozen=True, kw_only=True):
    """The items that the server stores, and one digest over all of them."""

    server: str
    digest: str
    items: tuple[ImportedRow, ...]
    # How many further items the server stores whose length or form no memory here may have.
    unreadable: int


async def import_server(context: Context) -> Exit:
    """Import, or only list, what the MCP server stores that the command line names."""
    asked = context.arguments(ImportOptions)
    if asked.confirm is not None:
        return await _confirmed(context, asked, asked.confirm)
    name, listed = asked.words[0], await server_items(context, asked.words, asked.map)
    digest = digest_of_all(listed.items)
    rows = tuple(map(_row, listed.items))
    if not asked.dry_run:
        async with operator(context) as api:
            rows = await _taken_in(api, name, listed, asked)
    found = ImportedList(server=name, digest=digest, items=rows, unreadable=listed.unreadable)
    return _told(context, found, asked)


async def _confirmed(context: Context, asked: ImportOptions, given: str) -> Exit:
    """Import one item as a person's own words, after the whole item was shown to that person."""
    if asked.dry_run:
        raise CommandFailed(Exit.USAGE, "--confirm takes in one item: not with --dry-run")
    if asked.yes and len(given) < _DIGEST_LEN:
        # The server could store two items whose digests begin alike, and list the item that the
        # person did not read.
        raise CommandFailed(
            Exit.USAGE,
            "with --yes the digest has to be whole: it says which text you read",
            then="take it from --dry-run --json",
        )
    name, listed = asked.words[0], await server_items(context, asked.words, asked.map)
    item = _one_of(listed.items, given, asked, name)
    if not asked.yes:
        _show_whole(context, name, item)
        if not context.agreed("is all of it so, in your own words"):
            raise CommandFailed(
                Exit.USAGE, "no one confirmed it; nothing was taken in", then="read it, type yes"
            )
        # The server may have replaced the text while the person read it.
        listed = await server_items(context, asked.words, asked.map)
        item = _one_of(listed.items, digest_of_item(item), asked, name)
    one = ServerItems({tool: (item,) for tool, some in listed.by_tool.items() if item in some}, 0)
    async with operator(context) as api:
        rows = await _taken_in(api, name, one, asked)
    digest = digest_of_all(listed.items)
    found = ImportedList(server=name, digest=digest, items=rows, unreadable=listed.unreadable)
    return _told(context, found, asked)


def _one_of(items: tuple[Item, ...], given: str, asked: ImportOptions, server: str) -> Item:
    found = [one for one in items if given and digest_of_item(one).startswith(given)]
    if len(found) > 1:
        raise CommandFailed(Exit.USAGE, "more than one item begins so", then="give more of it")
    if not found:
        raise CommandFailed(
            Exit.FAILED,
            "the server keeps nothing of that digest now; nothing was taken in",
            then=f"look again: {_again(asked, server)}",
        )
    return found[0]


def _show_whole(context: Context, server: str, item: Item) -> None:
    """Print the whole item that the server stores, before a person confirms it."""
    terminal = context.terminal
    terminal.pairs(
        [
            ("digest", digest_of_item(item)),
            ("server", server),
            ("key", item.key or "-"),
            ("class", item.memory_class.value),
            ("filed as", item.arguments),
        ]
    )
    terminal.say("text, as the server keeps it, written by nobody knows whom:")
    terminal.quote("\n".join(item.pieces))


async def _taken_in(
    api: Operator, server: str, listed: ServerItems, asked: ImportOptions
) -> tuple[ImportedRow, ...]:
    rows: list[ImportedRow] = []
    parts = ((tool, some) for tool, items in listed.by_tool.items() for some in portions(items))
    for tool, some in parts:
        how = {
            "tenant": asked.tenant or DEFAULT_TENANT,
            "tool": tool,
            "confirm": asked.confirm is not None,
        }
        done = await api.ask(IMPORT, server, items=some, **how)
        rows += [
            msgspec.structs.replace(
                _row(item), state=one.state, memory_id=one.memory_id, reason=one.reason
            )
            for item, one in zip(some, done.imported, strict=True)
        ]
    return tuple(rows)


async def server_items(
    context: Context, server_words: tuple[str, ...], map_named: str | None
) -> ServerItems:
    """All items that an MCP server lists now; `server_words` are its name, and its command if any.

    Raises:
        CommandFailed: The server is not known, cannot be asked, or has no map that lists its items.
    """
    name, words = server_words[0], server_words[1:]
    settings = settings_of(context, check_places=True)
    table = next((one for one in settings.mcp if one.name == name), None)
    server: Upstream | ServerCommand
    if words:
        server = ServerCommand(words=words, environment=child_environment(), directory=".")
    elif table is None:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"no [[mcp]] table of that name: {inert(name)}",
            then="write the server's command behind `--`",
        )
    elif table.command is not None:
        server = ServerCommand(words=table.command, environment=table.env, directory=table.cwd)
    else:
        server = Upstream(table.url or "", headers=table.headers, way=table)
    given = None if table is None else table.tool_map
    try:
        if map_named is not None:
            given = load_map(map_named)
        return await _asked(server, name, given)
    except (CannotRead, MalformedRequest) as error:
        raise CommandFailed(Exit.UNREACHABLE, inert(str(error))) from None
    except MapError as error:
        raise CommandFailed(Exit.USAGE, str(error)) from None


async def _asked(server: Upstream | ServerCommand, name: str, given: ToolMap | None) -> ServerItems:
    tool_map = given or map_for_server(_BY_DEFAULT)
    if tool_map is None or not tool_map.imports:
        raise MapError("the server's map does not say how all that it keeps is listed (`imports`)")
    read = tool_map.imports[0]
    own, result = await read_once(server, name, read.tool, {**read.arguments}, _SECONDS)
    if given is None and map_for_server(own) is not tool_map:
        raise MapError("name the server's map with --map")
    return items_listed(tool_map, result)


def _row(item: Item) -> ImportedRow:
    return ImportedRow(
        digest=digest_of_item(item),
        key=item.key,
        memory_class=item.memory_class.value,
        text=" / ".join(item.pieces),
    )


def _again(asked: ImportOptions, server: str, more: str = "") -> str:
    """The command line that a message asks the person to repeat.

    For a server without an [[mcp]] table it ends with the server's own command.
    """
    given = "" if asked.map is None else f"--map {inert(shlex.quote(asked.map))}"
    behind = f"-- {inert(shlex.join(asked.words[1:]))}" if asked.words[1:] else ""
    tenant = f"--tenant {inert(asked.tenant)}" if asked.tenant else ""
    said = ("mnemogate backend import", more, tenant, given, inert(server), behind)
    return " ".join(one for one in said if one)


def _told(context: Context, found: ImportedList, asked: ImportOptions) -> Exit:
    terminal = context.terminal
    terminal.answer(found)
    terminal.table(
        ("digest", "text", "class", "label here", "why", "memory"),
        [
            (
                one.digest[:DIGEST_SHOWN],
                one.text[:_BEGINS] or "-",
                one.memory_class,
                one.state or "-",
                one.reason or "-",
                one.memory_id or "-",
            )
            # Items without a memory here are printed first; `memory list` prints the memories of
            # the others.
            for one in sorted(found.items, key=lambda one: one.reason is None)[:_SHOWN]
        ],
    )
    counts = Counter(one.state or "not taken in" for one in found.items)
    said = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    terminal.say(f"{len(found.items)} in {inert(found.server)}: {said}")
    if found.unreadable:
        terminal.say(f"{found.unreadable} more are too long, or of another form: no memories here")
    if asked.dry_run:
        return Exit.OK
    if asked.confirm is None:
        terminal.say("as your own words, one by one: mnemogate memory confirm MEMORY")
        terminal.say(f"what got no memory: {_again(asked, found.server, '--confirm DIGEST')}")
    return Exit.OK
