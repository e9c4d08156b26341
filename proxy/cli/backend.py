"""`mnemogate backend approve`: let writes go on to a memory server of a version not known here."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from proxy.admin.wire.upkeep import ApproveRequest, ServerList, ServerView
from proxy.cli.client import part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit

# Versions of memory servers are pinned beside the tools of MCP servers, under such names.
PINNED_AS: Final = "http:"


class _Approve(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tenant: str = "default"


async def _approve(context: Context) -> Exit:
    asked = context.arguments(_Approve)
    pinned = f"{PINNED_AS}{asked.name}"
    async with operator(context) as api:
        listed = await api.get(f"/mcp?tenant={part(asked.tenant)}", ServerList)
        found = next((one for one in listed.servers if one.server == pinned), None)
        if found is None:
            raise CommandFailed(
                Exit.NOT_FOUND,
                f"no write to a server {asked.name!r} of an unknown version was refused",
                then="a version that this program knows needs no approval",
            )
        body = ApproveRequest(tenant=asked.tenant, digest=found.digest)
        view = await api.post(f"/mcp/{part(pinned)}/approve", ServerView, body)
    if context.terminal.as_json:
        context.terminal.data(view)
    else:
        context.terminal.say(f"writes to {asked.name} go on, as long as it is of this version")
    return Exit.OK


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the name of the [[backend]] table")
    parser.add_argument("--tenant", default="default", help="the tenant whose writes were refused")


COMMANDS = (
    Command(
        words=("backend", "approve"),
        summary="let writes go on to a memory server of a version that is not known here",
        act=_approve,
        arguments=_arguments,
    ),
)
