"""`mnemogate trust`: shows the trust ladder, and lets a person restore a principal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.admin.wire.store import TrustList, TrustView
from proxy.cli.client import part
from proxy.cli.command import Command
from proxy.cli.connect import operator
from proxy.cli.exits import Exit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from proxy.cli.command import Context
    from proxy.cli.terminal import Terminal


class _Principal(msgspec.Struct, frozen=True, kw_only=True):
    principal: str | None = None


async def _trust_show(context: Context) -> Exit:
    asked = context.arguments(_Principal)
    async with operator(context) as api:
        if asked.principal is None:
            listed = await api.get("/trust", TrustList)
        else:
            one = await api.get(f"/trust/{part(asked.principal)}", TrustView)
            listed = TrustList(principals=(one,))
    if context.terminal.as_json:
        context.terminal.data(listed)
    else:
        _trust_table(context.terminal, listed.principals)
    return Exit.OK


async def _trust_restore(context: Context) -> Exit:
    asked = context.arguments(_Principal)
    async with operator(context) as api:
        view = await api.post(f"/trust/{part(asked.principal or '')}/restore", TrustView)
    if context.terminal.as_json:
        context.terminal.data(view)
    else:
        _trust_table(context.terminal, (view,))
    return Exit.OK


def _trust_table(terminal: Terminal, principals: Sequence[TrustView]) -> None:
    terminal.table(
        ("principal", "level", "violations", "good", "bad"),
        [
            (
                view.principal,
                view.level,
                str(view.violations_count),
                f"{view.good:.1f}",
                f"{view.bad:.1f}",
            )
            for view in principals
        ],
    )


def _principal_optional(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("principal", metavar="PRINCIPAL", nargs="?")


def _principal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("principal", metavar="PRINCIPAL")


COMMANDS = (
    Command(
        words=("trust", "show"),
        summary="show the trust of every principal, or of one",
        act=_trust_show,
        arguments=_principal_optional,
    ),
    Command(
        words=("trust", "restore"),
        summary="put a principal back to trusted; leaves an audit leaf",
        act=_trust_restore,
        arguments=_principal,
    ),
)
