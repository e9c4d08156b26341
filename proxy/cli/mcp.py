"""`mnemogate mcp`: runs an MCP server's command, with the gate between client and server."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX, Principal, PrincipalId, Tenant
from proxy.admin.wire.store import (
    STATUS,
)
from proxy.admin.wire.upkeep import APPROVE_TOOLS, SERVERS, ServerList
from proxy.cli.api_commands import show, table
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import Where, operator, settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import require_linux
from proxy.cli.mcp_map import SkeletonView, show_map, skeleton_of, tools_named
from proxy.cli.terminal import Terminal, inert
from proxy.compose.hardening import shield
from proxy.dialects.mcp.maps import MapError, ToolMap
from proxy.dialects.mcp.store.calls import StoreTools
from proxy.dialects.mcp.store.protocol import StoreProtocol
from proxy.doctor.locate import port_holder
from proxy.fronts.mcp_stdio import ServerCommand, StdioFront, serve_store
from proxy.guard.client import GuardClient
from proxy.guard.gate_starter import GateStarter
from proxy.guard.wire import SOCKET
from proxy.mcp.relay import Deliver, Relay, RelayLimits, Server
from proxy.mcp.store_server import StoreServer
from proxy.seams.environment import Environment, RandomPool
from proxy.settings.load import child_environment, gate_environment
from proxy.settings.table import Settings
from proxy.settings.tool_maps import STORE_MAP, load_map
from proxy.version import version
from telemetry.logs import configure

_LOG: Final = logging.getLogger("mnemogate.mcp")
# Programs that start other programs; the server's own name follows them on the command line.
_LAUNCHERS: Final = re.compile(
    r"npx|npm|exec|bunx?|pnpm|dlx|node|deno|uvx?|run|tool|pipx|python[0-9.]*|env|sudo|(?:ba|z)?sh"
)
_VERSION: Final = re.compile(r"(?<=.)@[^/@]*$|==.*$")
_SUFFIX: Final = re.compile(r"\.(?:py|js|mjs|cjs|ts|sh)$")
_OUTSIDE: Final = re.compile(r"[^a-z0-9._-]+")
_SIGNALLED: Final = 128
APPROVE: Final = "approve"
MAP: Final = "map"
_BELOW: Final = (
    (
        f"{APPROVE} [SERVER ...]",
        "approve a server's tools as they are now, or list those whose tools changed",
    ),
    (
        f"{MAP} NAME",
        "write the skeleton of a map for a tool that speaks of memory and that no map takes",
    ),
)


class _McpArguments(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[str, ...] = ()
    server: Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX - 4)] | None = None
    map: str | None = None
    store: bool = False
    check: bool = False


async def _mcp(context: Context) -> int:
    asked = context.arguments(_McpArguments)
    if asked.store and asked != _McpArguments(store=True):
        raise CommandFailed(Exit.USAGE, "--store is a server itself: it takes no command or map")
    if asked.check:
        found = _map(asked.map)
        if found is None:
            raise CommandFailed(Exit.USAGE, "--check says what a map says: name it with --map")
        return show_map(context.terminal, found)
    if asked.words[:1] == (MAP,):
        return await _skeleton(context, asked.words[1:])
    if asked.words[:1] == (APPROVE,):
        return await _approve(context, asked.words[1:])
    if not asked.words and not asked.store:
        raise CommandFailed(
            Exit.USAGE, "no command to run", then="write it behind `--`: mnemogate mcp -- COMMAND"
        )
    # The process's memory is shielded first, because texts that are withheld pass through it.
    shield()
    require_linux()
    settings = settings_of(
        context,
        check_places=True,
        # The environment is the MCP host's, which may have its own use for these variables.
        untraced=lambda why: context.terminal.note(f"mnemogate: no traces: {why}"),
    )
    level = settings.telemetry.log_level
    # stderr belongs to the MCP host, which may show it to a person or never read it.
    configure(sys.stderr, level, events=level == "debug")
    client = _gate_client(context, settings)
    code = await (_stored(client) if asked.store else _wrapped(context.terminal, client, asked))
    return code if code >= 0 else _SIGNALLED - code


async def _wrapped(terminal: Terminal, client: GuardClient, asked: _McpArguments) -> int:
    server = Server(asked.server or server_name(asked.words), _map(asked.map))
    front = StdioFront(
        ServerCommand(words=asked.words, environment=child_environment()),
        sys.stdin.buffer,
        sys.stdout.buffer,
    )
    code = await _served(client, server, front)
    if code and not front.heard:
        # A host shows at most an exit code, and a person would take it for one of `mnemogate`.
        how = f"code {code}" if code > 0 else f"signal {-code}"
        terminal.note(
            f"mnemogate: the server's command ended with {how} and never wrote a message; try it "
            f"by itself: {inert(shlex.join(asked.words))}"
        )
    return code


async def _stored(client: GuardClient) -> int:
    """Serve MCP as a memory server on the gate's own store, until the client disconnects."""
    protocol = StoreProtocol(StoreTools(load_map(STORE_MAP)), version())
    async with client:
        return await serve_store(
            sys.stdin.buffer,
            sys.stdout.buffer,
            lambda deliver: StoreServer(protocol, client.perform, deliver, RelayLimits()),
        )


async def _served(client: GuardClient, server: Server, front: StdioFront) -> int:
    """Relay messages until the server ends; return the server's exit code."""
    surroundings = Environment(
        clock_ns=time.time_ns,
        random_hex=RandomPool(),
        record=lambda _event: None,
        releases=client.releases,
    )
    # The gate authenticates this process by its uid; the principal made here is used only inside
    # this process.
    principal = Principal(principal_id=PrincipalId(f"uid:{os.geteuid()}"), tenant=Tenant("default"))
    async with client:

        def open_relay(deliver: Deliver) -> Relay:
            return Relay(
                client,
                principal,
                server,
                deliver,
                limits=RelayLimits(),
                surroundings=surroundings,
            )

        try:
            return await front.serve(open_relay)
        except (FileNotFoundError, PermissionError) as error:
            failed = error
    # The error is raised outside the task group, which would wrap it in a group.
    there = isinstance(failed, PermissionError)
    raise CommandFailed(
        Exit.UNREACHABLE,
        f"{front.word}: the server's command {'may not be run' if there else 'is not there'}",
        then="check its path and its mode",
    ) from failed


def _gate_client(context: Context, settings: Settings) -> GuardClient:
    """A relay's client of the gate of these settings, which starts the gate where none runs."""
    config = context.arguments(Where).config
    starter = GateStarter(
        settings.state,
        lambda: _gate_command(settings),
        gate_environment(settings, None if config is None else Path(config)),
        clock_ns=time.time_ns,
    )
    return GuardClient(settings.state / SOCKET, bring_up=starter.bring_up)


def _gate_command(settings: Settings) -> tuple[str, ...]:
    """The command line of the gate; a port that another program has is replaced by a free one."""
    words = [sys.executable, "-P", "-m", "proxy", "run", "--log-level", "warning"]
    words += ["--state", str(settings.state), "--checkpoint", str(settings.checkpoint)]
    for name, address in (("listen", settings.listen), ("admin", settings.admin)):
        holder = port_holder(address.port)
        if holder is not None:
            host = f"[{address.host}]" if ":" in address.host else address.host
            words += [f"--{name}", f"{host}:0"]
            _LOG.warning(
                "this port is taken, so the gate takes a free one",
                extra={"fields": {"setting": name, "port": address.port, "by": holder}},
            )
    return tuple(words)


def server_name(words: tuple[str, ...]) -> str:
    """A name for the server: that of the program that its command starts, without path or version.

    Pins and memories are stored under this name, so it must not change with versions and paths.
    """
    for word in words:
        bare = _VERSION.sub("", word).rstrip("/").rsplit("/", 1)[-1]
        if word.startswith("-") or "=" in bare or _LAUNCHERS.fullmatch(bare):
            continue
        name = _OUTSIDE.sub("-", _SUFFIX.sub("", bare.lower())).strip("-.")
        if name:
            return name[:64]
    return "server"


async def _approve(context: Context, names: tuple[str, ...]) -> Exit:
    """Approve the tools of the named servers; without a name, only list the servers."""
    async with operator(context) as api:
        listed = await api.ask(SERVERS)
        known = {one.server: one for one in listed.servers}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise CommandFailed(
                Exit.NOT_FOUND,
                f"no server of that name was seen: {unknown[0]}",
                then="`mnemogate mcp approve` lists those that were",
            )
        for name in names:
            view = await api.ask(APPROVE_TOOLS, name, digest=known[name].digest)
            known[name] = msgspec.structs.replace(view, changed=known[name].changed)
    shown = tuple(known[name] for name in names) if names else listed.servers
    columns = {"server": "server", "tools": "tool_count", "digest": "digest"}
    columns["approved now" if names else "changed"] = "changed"
    nothing = "no MCP server was seen behind the gate yet"
    show(context, ServerList(servers=shown), table("servers", columns, nothing=nothing))
    return Exit.OK


async def _skeleton(context: Context, names: tuple[str, ...]) -> Exit:
    """Print the template of a tool map for one tool, or for all unmapped tools of a server."""
    if len(names) != 1:
        raise CommandFailed(Exit.USAGE, "mcp map takes one name: a tool's, or its server's")
    async with operator(context) as api:
        seen = (await api.ask(STATUS)).unmapped_tools
    chosen = tools_named(names[0], seen)
    if not chosen:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"no tool of that name speaks of memory without a map: {names[0]}",
            then="`mnemogate doctor` names those that were seen since the start",
        )
    text = skeleton_of(names[0], chosen)
    context.terminal.answer(SkeletonView(map=text))
    context.terminal.say(text)
    return Exit.OK


def _map(given: str | None) -> ToolMap | None:
    if given is None:
        return None
    try:
        return load_map(given)
    except MapError as error:
        raise CommandFailed(
            Exit.USAGE, str(error), then="`--map FILE --check` says what a map of yours says"
        ) from error


COMMANDS = (
    Command(
        words=("mcp",),
        summary="run an MCP server's command with the gate in front of it (stdio)",
        act=_mcp,
        options=(
            option(
                "--server",
                "the name that its memories and tools are filed under; else taken from the command",
                metavar="NAME",
            ),
            option(
                "--map",
                "what its tools do to memory: a shipped map or a TOML file; `context` for a server "
                "without memory. Else its own name chooses among the shipped ones",
                metavar="NAME|FILE",
            ),
            option("--check", "only say what the map says, tool by tool"),
            option(
                "--store",
                "no server behind: be a memory server, with the tools of server-memory, on the own "
                "store",
            ),
            option(
                "words",
                "the server's command and its arguments, behind `--`: this ends when the server "
                "does, with its exit code; "
                + "; ".join(f"or `{words}`: {does}" for words, does in _BELOW),
                metavar="COMMAND",
            ),
        ),
        form=_McpArguments,
        below=_BELOW,
    ),
)
