"""`mnemogate backend approve`: allows writes to a memory server of a version unknown here."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.upkeep import APPROVE_TOOLS, SERVERS, ServerView
from proxy.cli.api_commands import show
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit

# The prefix of the names under which versions of memory servers are pinned, in the table of MCP
# servers' pinned tools.
PINNED_AS: Final = "http:"


class _Approve(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tenant: str = "default"


async def _approve(context: Context) -> Exit:
    asked = context.arguments(_Approve)
    pinned = f"{PINNED_AS}{asked.name}"
    async with operator(context) as api:
        listed = await api.ask(SERVERS, tenant=asked.tenant)
        found = next((one for one in listed.servers if one.server == pinned), None)
        if found is None:
            raise CommandFailed(
                Exit.NOT_FOUND,
                f"no write to a server {asked.name!r} of an unknown version was refused",
                then="a version that this program knows needs no approval",
            )
        view = await api.ask(APPROVE_TOOLS, pinned, tenant=asked.tenant, digest=found.digest)
    show(context, view, _approved)
    return Exit.OK


def _approved(context: Context, view: ServerView) -> None:
    name = view.server.removeprefix(PINNED_AS)
    context.terminal.say(f"writes to {name} go on, as long as it is of this version")


COMMANDS = (
    Command(
        words=("backend", "approve"),
        summary="let writes go on to a memory server of a version that is not known here",
        act=_approve,
        options=(
            option("name", "the name of the [[backend]] table"),
            option("--tenant", "the tenant whose writes were refused"),
        ),
        form=_Approve,
    ),
)
