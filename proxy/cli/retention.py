"""`mnemogate retention run` and `erase`: erase what is beyond limits, or one person's traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from proxy.admin.wire.upkeep import (
    ERASE,
    NOT_REACHED,
    RETENTION,
    EraseRequest,
    ErasureView,
    RetentionRequest,
    RetentionView,
)
from proxy.cli.api_commands import OF_TENANT, given, lines, show, table
from proxy.cli.command import Command, Context, Options, new_file, option
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.terminal import counted, inert, working


async def _run(context: Context) -> Exit:
    dry_run = context.arguments(RetentionRequest).dry_run
    purged = 0
    async with operator(context) as api, working(context.terminal, "looking at every memory"):
        while True:
            view = await api.ask(RETENTION, dry_run=dry_run)
            purged += view.purged_count
            # Each sweep erases one batch. A sweep is the last one if nothing more is due after it,
            # or if it erased nothing.
            if dry_run or view.due_count <= view.purged_count or not view.purged_count:
                break
    show(context, msgspec.structs.replace(view, purged_count=purged), _told)
    return Exit.OK


def _told(context: Context, view: RetentionView) -> None:
    if not context.value("dry_run"):
        context.terminal.say(
            f"{counted(view.purged_count, 'memory', 'memories')} erased, with a leaf each"
        )
        return
    _DUE(context, view)
    context.terminal.say(
        f"{counted(view.due_count, 'memory is', 'memories are')} due; nothing was erased"
    )


_DUE: Final = table(
    "due",
    {
        "tenant": "item.tenant",
        "id": "item.memory_id",
        "class": "item.memory_class",
        "changed": "item.at_ms",
        "why": "why",
    },
)
_ERASE_OPTIONS: Final[Options] = (
    option("--tenant", OF_TENANT),
    option(
        "--user-id",
        "the user under whose id memories are filed; some servers know none",
        metavar="ID",
    ),
    option("--principal", "the principal that wrote, with all its sessions", metavar="P"),
    option("--under", "what is stored in this target, or below it: mcp/SERVER", metavar="PATH"),
    option("--dry-run", "count what there is, and erase nothing"),
    option("--receipt", "store the signed receipt here", metavar="FILE"),
)


class _Erase(EraseRequest, frozen=True, kw_only=True):
    receipt: str | None = None


async def _erase(context: Context) -> Exit:
    asked = given(context, _ERASE_OPTIONS)
    path = asked.pop("receipt", None)
    with new_file(None if path is None else str(path), "--receipt") as file:
        async with operator(context) as api, working(context.terminal, "erasing"):
            done = await api.ask(ERASE, **asked)
        show(context, done, lines(_erased))
        if file is not None:
            file.write(done.receipt.encode())
    return Exit.UNREACHABLE if done.waiting else Exit.OK


def _erased(done: ErasureView) -> Iterator[str]:
    yield "found: " + ", ".join(f"{count} {name}" for name, count in done.found.items())
    if done.erasure_id:
        state = "is done" if done.receipt else "is open; the sidecar continues it"
        yield f"erasure {inert(done.erasure_id)} {state}"
    for target, count in done.waiting.items():
        yield f"  waiting in {inert(target)}: {count}; the same command asks again"
    for target, count in done.nameless.items():
        yield f"  not reached in {inert(target)}: {count} that name no user; try --principal"
    yield "not reached: " + "; ".join(NOT_REACHED)


COMMANDS = (
    Command(
        words=("retention", "run"),
        summary="erase what the ruleset keeps no longer, or list it",
        act=_run,
        options=(option("--dry-run", "list up to 1000 that are due, and erase nothing"),),
        form=RetentionRequest,
    ),
    Command(
        words=("erase",),
        summary="erase the traces of one user, principal or target, here and on servers",
        act=_erase,
        options=_ERASE_OPTIONS,
        form=_Erase,
    ),
)
