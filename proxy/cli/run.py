"""`mnemogate run`: starts the sidecar, prints its addresses, and stops it on a signal."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.cli.command import Command, Context
from proxy.cli.connect import settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import opening, require_linux
from proxy.cli.neighbours import foreign
from proxy.cli.pointing import first_write, for_the_agent, for_the_operator, mcp_entries, pointed
from proxy.cli.terminal import Terminal, now_ms, waiting
from proxy.cli.verdict_line import PersonLines
from proxy.compose.hardening import Shielding, shield
from proxy.compose.observe_mode import BANNER
from proxy.seams.observations import REVIEW_PAGE
from proxy.seams.waits import first
from proxy.settings.after import Heal
from proxy.settings.load import MARKER, elsewhere
from proxy.settings.table import SECRETS, SETTINGS, Settings, meaning_of, variable_of
from proxy.settings.values import Address, Raw
from proxy.settings.wider import wider_rules, wider_settings
from telemetry.logs import configure

if TYPE_CHECKING:
    from proxy.compose.app import Sidecar
    from storage.shard import ShardMember

_LOG: Final = logging.getLogger("mnemogate.run")
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
# Names of settings whose flags every command has, so `run` does not add these flags again.
_ELSEWHERE: Final = frozenset({"state", "checkpoint", "admin"})
_FLAGS: Final = tuple(
    field for field in SETTINGS if field.name not in _ELSEWHERE and field.name not in SECRETS
)


# The event loop and the writer thread compete for the interpreter lock after every system call.
# With Python's default switch interval each of them could wait 5 ms for the lock, so the interval
# is shorter.
SWITCH_S: Final = 0.0005
# The number of allocations before Python collects its youngest objects, and how many collections of
# one generation come before one of the next older generation.
GC_YOUNG: Final = 20_000
GC_MIDDLE: Final = 20
GC_OLD: Final = 20


class _FirstKey(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    principal: str
    channel: str
    key: str


class _Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `run --json`, printed when the sidecar accepts requests."""

    event: str
    pid: int
    data: str | None
    admin: str | None
    health: str | None
    unix_socket: str | None
    admin_socket: str
    state: str
    new_store: bool
    checkpoint: str
    tracing: str | None
    mode: str
    shielding: Shielding
    # The setting `[after] heal` about memories that contradict an anchor, and whether there is an
    # anchor.
    heal: str
    anchored: bool
    # How many candidates wait for a person, and since when the oldest one waits, in Unix
    # milliseconds.
    held: int
    held_since_ms: int | None
    first_keys: tuple[_FirstKey, ...]


async def _run(context: Context) -> Exit:
    # The process is shielded before any secret is in its memory.
    shielding = shield()
    require_linux()
    settings = settings_of(context, _flags(context), check_places=True)
    sys.setswitchinterval(SWITCH_S)
    wording = _wording(settings, is_terminal=sys.stderr.isatty())
    configure(sys.stderr, settings.telemetry.log_level, wording=wording)
    # The import is local, because it loads LMDB, FAISS and the embedder, which most commands do not
    # need.
    from proxy.compose.membership import held, joined  # noqa: PLC0415

    asked_to_stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        with opening(settings.state, shard=settings.shard):
            member = await stack.enter_async_context(joined(settings))
        if member is None:
            return await _serve(context, settings, shielding, asked_to_stop, None)
        gave_up = False
        while not asked_to_stop.is_set():
            _stop_by_signal(asked_to_stop)
            with opening(settings.state, shard=settings.shard):
                taken = await held(settings, member, asked_to_stop, gave_up=gave_up)
            if taken:
                await _serve(context, settings, shielding, asked_to_stop, member)
                await asyncio.to_thread(member.release)
                gave_up = True
    return Exit.OK


def _stop_by_signal(asked_to_stop: asyncio.Event) -> None:
    for number in _STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)


async def _serve(
    context: Context,
    settings: Settings,
    shielding: Shielding,
    asked_to_stop: asyncio.Event,
    member: ShardMember | None,
) -> Exit:
    """Serve the store until a signal, or until the shard's store is to be given up."""
    from proxy.compose.app import SHIPPED, compose  # noqa: PLC0415 - as in `_run`
    from proxy.compose.membership import given_up  # noqa: PLC0415 - as in `_run`

    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        new_store = not (settings.state / MARKER).exists()
        with opening(settings.state):
            sidecar = await stack.enter_async_context(compose(settings, SHIPPED, member))
        _settle()
        _stop_by_signal(asked_to_stop)
        reloads = await stack.enter_async_context(asyncio.TaskGroup())
        loop.add_signal_handler(
            signal.SIGHUP, lambda: reloads.create_task(sidecar.rules.reload_by_signal())
        )
        # The reader of this output may close the pipe early (`| head`), but the gate still has to
        # run.
        with suppress(BrokenPipeError):
            # A start that failed may have left an empty store, so a store whose first keys are made
            # now counts as new.
            new_store = new_store or bool(sidecar.shown_keys)
            # The lines of the start come first, so that the keys do not scroll away above them.
            for handler in logging.getLogger().handlers:
                handler.flush()
            _announce(context.terminal, settings, sidecar, shielding, new_store=new_store)
        over = given_up(member, sidecar.store)
        await first(asked_to_stop.wait(), sidecar.halted.wait(), over)
        for number in _STOPPING:
            # Without its handler a second signal ends the process at once; no admitted change is
            # lost.
            loop.remove_signal_handler(number)
        loop.remove_signal_handler(signal.SIGHUP)
        # This is logged, not printed, because printing would block if no one reads the output.
        _LOG.info("stopping: running requests may finish")
    if sidecar.halted.is_set():
        raise CommandFailed(
            Exit.FAILED,
            "a promise the code relies on does not hold; the sidecar stopped",
            then="the log says which; `mnemogate audit verify` checks the store",
        )
    return Exit.OK


def _wording(settings: Settings, *, is_terminal: bool) -> PersonLines | None:
    """The wording of log lines; None: JSON."""
    text = settings.log == "text" or (settings.log == "auto" and is_terminal)
    return PersonLines() if text else None


def _flags(context: Context) -> dict[str, Raw]:
    """A mapping of settings' names to values, for settings given as flags on the command line."""
    names = (*(field.name for field in _FLAGS), "admin")
    given = {name: context.given(name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _settle() -> None:
    """Exempt the objects made at start from garbage collection, and make collections less frequent.

    A request creates almost no reference cycles, and a full collection visits every module and
    table while all requests wait, which was the longest pause.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG, GC_MIDDLE, GC_OLD)


def _announce(
    terminal: Terminal,
    settings: Settings,
    sidecar: Sidecar,
    shielding: Shielding,
    *,
    new_store: bool,
) -> None:
    ready = _ready(settings, sidecar, shielding, new_store=new_store)
    if terminal.as_json:
        terminal.data(ready)
        return
    terminal.say("mnemogate is ready")
    if settings.observe:
        terminal.say(f"*** {BANNER} ***")
    shared = foreign()
    if shared:
        terminal.note(
            f"other packages here have our names: {', '.join(shared)}. Files of one may stand in "
            "for the other's; install mnemogate by itself (pipx, uvx, a container)"
        )
    terminal.pairs(
        [
            ("  data", ready.data or "-"),
            ("  data socket", ready.unix_socket or "-"),
            ("  admin", ready.admin or "-"),
            ("  review page", f"{settings.page_url or ready.admin}{REVIEW_PAGE}"),
            ("  admin socket", ready.admin_socket),
            *([("  health", ready.health)] if ready.health else []),
            ("  state", f"{ready.state}{_NEW_STORE if ready.new_store else ''}"),
            ("  checkpoint", ready.checkpoint),
            *[
                ("  memory server", f"{one.name}: {one.adapter} at {one.url}")
                for one in settings.backend
            ],
            ("  tracing", ready.tracing or "off; set OTEL_EXPORTER_OTLP_ENDPOINT to switch it on"),
            ("  memory shield", _SHIELDED[shielding]),
            ("  healing", _healing(ready)),
        ]
    )
    notice = sidecar.store.reader.status().reason
    if notice is not None:
        terminal.say(f"look at this: {notice}")
    if told := waiting(ready.held, ready.held_since_ms, now_ms()):
        terminal.say(told)
    data = ready.data or "-"
    terminal.say("point an agent at it:")
    terminal.say(f"  {first_write(data)}")
    terminal.say(
        f'  mem0ai: MemoryClient(api_key=os.environ["MNEMOGATE_AGENT_KEY"], host="{data}")'
    )
    for entry in mcp_entries(settings.mcp, data, settings.state):
        terminal.say(f"  MCP:    {entry}")
    if not settings.mcp:
        terminal.say(
            f"          writes as uid:{os.geteuid()}; with the agent's key: an [[mcp]] table, "
            f"served at {data}/mcp/NAME"
        )
    for model in settings.model:
        terminal.say(f"  {pointed(model, data, '$MNEMOGATE_AGENT_KEY')}")
    for one in (*wider_settings(settings), *wider_rules(sidecar.rules.in_force())):
        terminal.note(f"wider than as shipped: {one}")
    terminal.say(_NOT_PROTECTED_MODEL if settings.model else _NOT_PROTECTED)
    terminal.say(
        "  An agent of this user or of root can allow its own writes and edit the files: run it\n"
        "  as another user, and `mnemogate doctor` there."
    )
    _tell_keys(terminal, settings, sidecar, ready)


def _tell_keys(terminal: Terminal, settings: Settings, sidecar: Sidecar, ready: _Ready) -> None:
    """Print new keys once, as lines to paste.

    Without new keys, print which keys exist and what to do if one is lost.
    """
    given = [
        role
        for role, key in (("agent", settings.agent_key), ("operator", settings.operator_key))
        if key is not None
    ]
    if given:
        terminal.say(f"keys given in the environment or a file: {', '.join(given)}")
    made = {first.channel: first.key for first in ready.first_keys}
    if made:
        terminal.say("first keys: only their hashes are stored, and they are not shown again")
    for whose, lines in (
        ("where the agent runs (this key and no other)", for_the_agent(made.get("agent"))),
        (
            "in a shell of your own, where no agent runs",
            for_the_operator(made.get("operator"), elsewhere(settings)),
        ),
    ):
        if lines:
            terminal.say(f"{whose}, paste:")
            for line in lines:
                terminal.say(f"  {line}")
    if made:
        return
    records = sidecar.store.reader.keys()
    known = [key for key in records if key.revoked_at_ms is None]
    if known:
        named = ", ".join(f"{key.key_id} ({key.principal.principal_id})" for key in known[:_NAMED])
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        terminal.say(f"keys: {named}{more}")
        terminal.say("  one is lost? `mnemogate key rotate KEY_ID` makes a new one and shows it")


# How many keys `run` lists at its start; `mnemogate key list` lists all.
_NAMED: Final = 4
_NOT_PROTECTED: Final = (
    "not protected without the model front: what an agent's key writes is labelled `unknown`.\n"
    "  It lands as knowledge or an episode, whatever class it names; a named policy is refused.\n"
    "  A refused text may still be in the model's own context. A [[model]] table puts the\n"
    "  sidecar there."
)
_NOT_PROTECTED_MODEL: Final = (
    "not protected: an agent that asks its model past these addresses; its writes are labelled\n"
    "  `unknown`, and a refused text may still be in that model's context."
)


_NEW_STORE: Final = " (a NEW, EMPTY store: none was there; expect_state makes that an error)"
_SHIELDED: Final = {
    Shielding.ON: "on: not dumpable, closed to ptrace and /proc of its own user",
    Shielding.UNSUPPORTED: "OFF: this system has no prctl; its own user can read its memory",
    Shielding.REFUSED: "OFF: the kernel refused; its own user can read its memory",
}


def _ready(
    settings: Settings, sidecar: Sidecar, shielding: Shielding, *, new_store: bool
) -> _Ready:
    scheme = "http" if settings.tls_cert is None else "https"
    status = sidecar.store.reader.status()
    return _Ready(
        event="ready",
        pid=os.getpid(),
        data=_url(scheme, sidecar.data),
        admin=_url(scheme, sidecar.admin),
        health=_url("http", sidecar.health),
        unix_socket=None if settings.unix_socket is None else str(settings.unix_socket),
        admin_socket=str(settings.state / "admin.sock"),
        state=str(settings.state),
        new_store=new_store,
        checkpoint=str(settings.checkpoint),
        tracing=settings.telemetry.endpoint,
        mode="observe" if settings.observe else "enforce",
        shielding=shielding,
        heal=settings.after.heal.value,
        anchored=sidecar.store.reader.has_anchors(),
        held=status.held_count,
        held_since_ms=status.held_since_ms,
        first_keys=tuple(
            _FirstKey(
                key_id=new.record.key_id,
                principal=new.record.principal.principal_id,
                channel=new.record.principal.channel.value,
                key=new.plain,
            )
            for new in sidecar.shown_keys
        ),
    )


def _healing(ready: _Ready) -> str:
    if ready.heal == Heal.OFF.value:
        return "off; reads show what contradicts an anchor ([after] heal)"
    if not ready.anchored:
        return "off until a true statement is registered: mnemogate anchor put"
    return f"{ready.heal}; what contradicts an anchor is left out of reads"


def _url(scheme: str, address: Address | None) -> str | None:
    return None if address is None else address.url(scheme)


def _arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("settings")
    for field in _FLAGS:
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            metavar="VALUE",
            help=f"{meaning_of(field)} ({variable_of(field.name)})".replace("%", "%%"),
        )


COMMANDS = (
    Command(
        words=("run",),
        summary="start the sidecar and serve until SIGTERM or Ctrl-C",
        act=_run,
        arguments=_arguments,
    ),
)
