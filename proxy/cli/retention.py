"""`mnemogate retention run`: erases memories beyond the ruleset's limits, or lists them."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.upkeep import RETENTION, RetentionRequest, RetentionView
from proxy.cli.api_commands import show, table
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.terminal import counted, working


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
COMMANDS = (
    Command(
        words=("retention", "run"),
        summary="erase what the ruleset keeps no longer, or list it",
        act=_run,
        options=(option("--dry-run", "list up to 1000 that are due, and erase nothing"),),
        form=RetentionRequest,
    ),
)
