"""`mnemogate retention run`: erase memories that the ruleset no longer keeps, or list them."""

from __future__ import annotations

import argparse

import msgspec

from proxy.admin.wire.upkeep import RetentionRequest, RetentionView
from proxy.cli.client import PATIENT_S
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.progress import working
from proxy.cli.terminal import iso


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    dry_run: bool = False


async def _run(context: Context) -> Exit:
    asked = context.arguments(_Run)
    terminal = context.terminal
    purged = 0
    async with operator(context) as api, working(terminal, "looking at every memory"):
        while True:
            view = await api.post(
                "/retention",
                RetentionView,
                RetentionRequest(dry_run=asked.dry_run),
                timeout_s=PATIENT_S,
            )
            purged += view.purged_count
            # Each sweep erases one batch. It is the last one if nothing more is due, or if it
            # erased nothing.
            if asked.dry_run or view.due_count <= view.purged_count or not view.purged_count:
                break
    view = msgspec.structs.replace(view, purged_count=purged)
    if terminal.as_json:
        terminal.data(view)
        return Exit.OK
    if not asked.dry_run:
        terminal.say(f"{purged} memories erased, with a leaf each")
        return Exit.OK
    terminal.table(
        ("tenant", "id", "class", "changed", "why"),
        [
            (one.tenant, one.memory_id, one.memory_class.value, iso(one.updated_at_ms), one.why)
            for one in view.due
        ],
    )
    terminal.say(f"{view.due_count} memories are due; nothing was erased")
    return Exit.OK


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="list up to 1000 that are due, and erase nothing"
    )


COMMANDS = (
    Command(
        words=("retention", "run"),
        summary="erase what the ruleset keeps no longer, or list it",
        act=_run,
        arguments=_arguments,
    ),
)
