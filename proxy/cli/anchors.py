"""`mnemogate anchor`: statements that memories are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.admin.wire.store import AnchorList, AnchorRequest, AnchorView
from proxy.cli.command import Command
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.terminal import iso
from proxy.seams.tenants import DEFAULT_TENANT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from proxy.cli.command import Context
    from proxy.cli.terminal import Terminal


class _Tenant(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT


class _Anchor(msgspec.Struct, frozen=True, kw_only=True):
    statement: str
    question: list[str]
    tenant: str = DEFAULT_TENANT
    anchor_id: str | None = None


async def _anchor_list(context: Context) -> Exit:
    asked = context.arguments(_Tenant)
    async with operator(context) as api:
        listed = await api.get("/anchors", AnchorList, tenant=asked.tenant)
    if context.terminal.as_json:
        context.terminal.data(listed)
    else:
        _anchor_table(context.terminal, listed.anchors)
    return Exit.OK


async def _anchor_put(context: Context) -> Exit:
    asked = context.arguments(_Anchor)
    request = AnchorRequest(
        statement=asked.statement,
        questions=tuple(asked.question),
        tenant=asked.tenant,
        anchor_id=asked.anchor_id,
    )
    async with operator(context) as api:
        view = await api.post("/anchors", AnchorView, request)
    if context.terminal.as_json:
        context.terminal.data(view)
    else:
        _anchor_table(context.terminal, (view,))
    return Exit.OK


def _anchor_table(terminal: Terminal, anchors: Sequence[AnchorView]) -> None:
    terminal.table(
        ("id", "tenant", "since", "statement", "questions"),
        [
            (
                anchor.anchor_id,
                anchor.tenant,
                iso(anchor.created_at_ms),
                anchor.statement,
                " / ".join(anchor.questions),
            )
            for anchor in anchors
        ],
    )


def _tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help=f"default: {DEFAULT_TENANT}")


def _anchor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statement", metavar="STATEMENT", help="what is true")
    parser.add_argument(
        "--question", action="append", required=True, help="a question it answers; repeatable"
    )
    parser.add_argument("--id", dest="anchor_id", help="replace the anchor of this id")
    _tenant(parser)


COMMANDS = (
    Command(
        words=("anchor", "list"),
        summary="list the statements that memories are held against",
        act=_anchor_list,
        arguments=_tenant,
    ),
    Command(
        words=("anchor", "put"),
        summary="register a statement, with the questions it answers",
        act=_anchor_put,
        arguments=_anchor_arguments,
    ),
)
