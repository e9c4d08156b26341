"""`mnemogate backend import`: imports memories that a server has without a verdict of the gate.

Any of them may be an attack, so they are labelled `unknown`; with `--quarantine` no agent sees
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from policy.model import Tenant
from proxy.admin.wire.route import IMPORTED_AT_ONCE
from proxy.admin.wire.upkeep import (
    IMPORT_FOUND,
    QUARANTINE,
    ImportedView,
)
from proxy.cli.api_commands import show
from proxy.cli.backend_walk import Walk, compared, digest_of, plain_key, walking
from proxy.cli.client import Operator, portions
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator, settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.server_import import DIGEST_SHOWN, ImportOptions, import_server
from proxy.cli.terminal import working
from proxy.seams.guard import Item
from proxy.seams.http_backend import ListedMemory
from proxy.seams.tenants import DEFAULT_TENANT

SHOWN: Final = 20
_FOREIGN: Final = "foreign"
_MARKED: Final = "marked"
_NOT_TAKEN: Final = "not taken in"
_HIDDEN: Final = "hidden"
# The name of the tool that counts as the writer of an imported memory; the server has no such tool.
_TOOL: Final = "import"
_NONE_SUCH: Final = "the server has nothing of that digest that no verdict let in"
_WHY_MARKED: Final = (
    "a gate sent it for one tenant, and no record here says that it arrived (a late write, or one "
    "of another gate): no agent is shown it, and it can be removed on the server"
)
# The options that only one of the two kinds of server takes.
_OF_BACKENDS: Final = ("quarantine", "item")
_OF_MCP: Final = ("map", "confirm", "yes")
_REASON: Final = "found on the server, let in by no verdict"


class ImportedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one memory of a server; it never contains the memory's text."""

    digest: str
    key: str  # "" if the key could contain a sentence
    # "unknown": imported. "hidden": imported, and under quarantine. "flagged": a directive or an
    # injection, and no memory here. "held": waits for a person, and no memory here. "gone":
    # imported before, and removed here since. "not taken in": with --dry-run. "hidden" without a
    # memory: no write through the gate could have made it.
    state: str
    memory_id: str | None = None
    # Why the item has no memory here, as a code of docs/reasons.md.
    reason: str | None = None


class ImportedOfBackend(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `backend import --json`."""

    backend: str
    tenant: str
    known: int  # memories that a verdict or an earlier run had admitted before
    states: dict[str, int]
    unreadable: int  # memories that cannot be imported, because of their size or form
    # Memories that a gate sent, but for which no record here names the tenant: they are not
    # imported.
    marked: int
    # The first imported items; items without a memory here come first.
    imported: tuple[ImportedMemory, ...]
    left_out: int


class _Taken:
    """Counts the results of a run, and holds the first of them."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.known = 0
        self.unreadable = 0
        self.marked = 0
        self._without: list[ImportedMemory] = []
        self._within: list[ImportedMemory] = []

    def take(self, one: ImportedMemory) -> None:
        self.states[one.state] += 1
        some = self._within if one.memory_id else self._without
        if len(some) < SHOWN:
            some.append(one)

    @property
    def shown(self) -> tuple[ImportedMemory, ...]:
        return (*self._without, *self._within)[:SHOWN]


async def _import(context: Context) -> Exit:
    words = context.arguments(ImportOptions).words
    # A server that the gate reaches by MCP is asked by MCP, as by `backend check`.
    is_mcp = bool(words[1:]) or any(one.name == words[0] for one in settings_of(context).mcp)
    given = [one for one in (_OF_BACKENDS if is_mcp else _OF_MCP) if context.value(one)]
    if given:
        kind = "[[backend]] table" if is_mcp else "MCP server"
        raise CommandFailed(Exit.USAGE, f"--{given[0]} is for the server of a {kind}")
    return await (import_server if is_mcp else _import_backend)(context)


async def _import_backend(context: Context) -> Exit:
    asked, taken = context.arguments(ImportOptions), _Taken()
    async with operator(context) as api, walking(context, api, asked.name) as walk:
        tenant = asked.tenant or walk.settings.tenant or DEFAULT_TENANT
        # An imported memory is visible until it is hidden. With --quarantine memories are imported
        # one by one, so that an interrupted run leaves at most one visible memory that no later run
        # finds.
        at_once = 1 if asked.quarantine else IMPORTED_AT_ONCE
        async with working(context.terminal, walk.so_far):
            async for items in _foreign(walk, api, tenant, asked, taken):
                for some in portions(items, at_once):
                    await _take_in(api, some, tenant, asked, taken)
    if asked.item is not None and not taken.states:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"{_WHY_MARKED if taken.marked else _NONE_SUCH}; nothing was taken in",
            then=f"look again: mnemogate backend check {asked.name}",
        )
    shown = taken.shown
    done = ImportedOfBackend(
        backend=asked.name,
        tenant=tenant,
        known=taken.known,
        states=dict(sorted(taken.states.items())),
        unreadable=taken.unreadable,
        marked=taken.marked,
        imported=shown,
        left_out=taken.states.total() - len(shown),
    )
    show(context, done, _told)
    return Exit.OK


async def _foreign(
    walk: Walk, api: Operator, tenant: str, asked: ImportOptions, taken: _Taken
) -> AsyncGenerator[tuple[Item, ...]]:
    """Yield the server's items that no verdict admitted, a page at a time; count all others."""
    async for _, memories in walk.memories((Tenant(tenant),)):
        views = await compared(api, asked.name, memories)
        by_state: dict[str, list[ListedMemory]] = {_FOREIGN: [], _MARKED: []}
        for one, view in zip(memories, views, strict=True):
            by_state.setdefault(view.state, []).append(one)
        taken.known += len(memories) - len(by_state[_FOREIGN]) - len(by_state[_MARKED])
        taken.marked += sum(_is_chosen(one, asked) for one in by_state[_MARKED])
        chosen = [one for one in by_state[_FOREIGN] if _is_chosen(one, asked)]
        for one in chosen:
            if one.item is None:
                await _hide_unnamed(api, one, tenant, asked, taken)
        yield tuple(one.item for one in chosen if one.item is not None)


async def _hide_unnamed(
    api: Operator, one: ListedMemory, tenant: str, asked: ImportOptions, taken: _Taken
) -> None:
    """Hide, with `--quarantine`, what cannot be imported because of its key, size or form."""
    if not asked.quarantine:
        taken.unreadable += 1
        return
    if not asked.dry_run:
        await api.ask(
            IMPORT_FOUND, asked.name, tenant=tenant, tool=_TOOL, unnamed=(one.key.encode(),)
        )
    taken.take(_row(one, _NOT_TAKEN if asked.dry_run else _HIDDEN))


async def _take_in(
    api: Operator, items: tuple[Item, ...], tenant: str, asked: ImportOptions, taken: _Taken
) -> None:
    if asked.dry_run:
        for item in items:
            taken.take(_row(ListedMemory(key=item.key, item=item), _NOT_TAKEN))
        return
    done = await api.ask(IMPORT_FOUND, asked.name, tenant=tenant, tool=_TOOL, items=items)
    for item, one in zip(items, done.imported, strict=True):
        state = await _hidden(api, one, tenant) if asked.quarantine else one.state
        taken.take(_row(ListedMemory(key=item.key, item=item), state, one))


async def _hidden(api: Operator, one: ImportedView, tenant: str) -> str:
    """Quarantine an imported memory; return the state of the item after that."""
    if one.memory_id is None or one.reason is not None or one.state == "gone":
        return one.state
    await api.ask(QUARANTINE, one.memory_id, tenant=tenant, reason=_REASON)
    return _HIDDEN


def _is_chosen(memory: ListedMemory, asked: ImportOptions) -> bool:
    return asked.item is None or digest_of(memory).startswith(asked.item)


def _row(memory: ListedMemory, state: str, one: ImportedView | None = None) -> ImportedMemory:
    return ImportedMemory(
        digest=digest_of(memory),
        key=plain_key(memory.key),
        state=state,
        memory_id=None if one is None else one.memory_id,
        reason=None if one is None else one.reason,
    )


def _told(context: Context, done: ImportedOfBackend) -> None:
    terminal = context.terminal
    terminal.table(
        ("digest", "key", "label here", "why", "memory"),
        [
            (
                one.digest[:DIGEST_SHOWN],
                one.key or "-",
                one.state,
                one.reason or "-",
                one.memory_id or "-",
            )
            for one in done.imported
        ],
        nothing="nothing that no verdict let in",
    )
    if done.left_out:
        terminal.say(f"{done.left_out} more")
    said = ", ".join(f"{count} {state}" for state, count in done.states.items()) or "none"
    terminal.say(f"{done.backend}, tenant {done.tenant}: {said}; {done.known} known before")
    if done.unreadable:
        terminal.say(
            f"{done.unreadable} more are too long, or of another form: no memories here, and shown "
            "to agents; --quarantine hides them"
        )
    if done.marked:
        terminal.say(f"{done.marked} more are not taken in: {_WHY_MARKED}")
    if "flagged" in done.states:
        terminal.say(
            "what was flagged has no memory here, and is hidden from every agent until its key is "
            "written or deleted through the gate: remove it on the server"
        )
    if "held" in done.states:
        terminal.say("what is held waits for a person: mnemogate review list")


COMMANDS = (
    Command(
        words=("backend", "import"),
        summary="take in, as of unknown origin, what a memory server has and no verdict let in",
        act=_import,
        options=(
            option(
                "words",
                "its name; after `--` the command of an MCP server, where no [[mcp]] table has it",
                metavar="SERVER",
            ),
            option(
                "--tenant",
                "whose memories they become (default: the `tenant` of the table, or "
                f"{DEFAULT_TENANT}); on Chroma, whose collections are read",
            ),
            option("--dry-run", "only list; nothing is taken in, no leaf is left"),
            option("--quarantine", "hide what is taken in from every agent"),
            option("--item", "only the one of this digest, from `backend check`", metavar="DIGEST"),
            option("--map", "an MCP server's tool map", metavar="NAME|FILE"),
            option(
                "--confirm",
                "of an MCP server, the one item of this digest as your own words, after all of it "
                "was shown; also an order, or the content of a place",
                metavar="DIGEST",
            ),
            option("--yes", "you have read it; --confirm with its whole digest"),
        ),
        form=ImportOptions,
    ),
)
