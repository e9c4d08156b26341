"""`mnemogate trust`: shows the trust ladder, and lets a person restore a principal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.trust.outcomes import NOT_FED
from proxy.admin.wire.store import (
    OriginRequest,
    OriginTrustView,
    StandingView,
    TrustEventView,
    TrustList,
    TrustView,
)
from proxy.cli.client import Operator, part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, iso
from proxy.seams.tenants import DEFAULT_TENANT


class _WhoseTrust(msgspec.Struct, frozen=True, kw_only=True):
    principal: str | None = None
    origin: list[str] | None = None
    tenant: str | None = None
    history: bool = False


async def _trust_show(context: Context) -> Exit:
    asked = context.arguments(_WhoseTrust)
    terminal = context.terminal
    async with operator(context) as api:
        if asked.principal is None and asked.origin is None:
            listed = await api.get("/trust", TrustList)
            return _all(terminal, listed, asked)
        one = await _one(api, asked)
    if terminal.as_json:
        if isinstance(one, TrustView):
            terminal.data(TrustList(principals=(one,), not_fed=NOT_FED))
        else:
            terminal.data(TrustList(principals=(), origins=(one,), not_fed=NOT_FED))
    elif asked.history:
        _history(terminal, one.history or ())
    elif isinstance(one, TrustView):
        _principals(terminal, (one,))
    else:
        _origins(terminal, (one,))
    return Exit.OK


async def _one(api: Operator, asked: _WhoseTrust) -> TrustView | OriginTrustView:
    if asked.origin is None:
        return await api.get(f"/trust/{part(asked.principal or '')}", TrustView)
    if asked.principal is not None:
        raise CommandFailed(Exit.USAGE, "name a principal, or --origin: one of both")
    named = _named(asked)
    return await api.get(
        "/origin-trust", OriginTrustView, server=named.server, tool=named.tool, tenant=named.tenant
    )


def _named(asked: _WhoseTrust) -> OriginRequest:
    server, tool = asked.origin or ("", "")
    return OriginRequest(server=server, tool=tool, tenant=asked.tenant or DEFAULT_TENANT)


def _all(terminal: Terminal, listed: TrustList, asked: _WhoseTrust) -> Exit:
    if asked.history:
        raise CommandFailed(Exit.USAGE, "--history is that of one principal or one origin: name it")
    if terminal.as_json:
        terminal.data(listed)
        return Exit.OK
    _principals(terminal, listed.principals)
    if listed.origins:
        _origins(terminal, listed.origins)
    terminal.say(f"not fed by this version: {', '.join(listed.not_fed)}")
    return Exit.OK


async def _trust_restore(context: Context) -> Exit:
    asked = context.arguments(_WhoseTrust)
    async with operator(context) as api:
        if asked.origin is not None and asked.principal is None:
            one: TrustView | OriginTrustView = await api.post(
                "/origin-trust/restore", OriginTrustView, _named(asked)
            )
        elif asked.principal is not None and asked.origin is None:
            one = await api.post(f"/trust/{part(asked.principal)}/restore", TrustView)
        else:
            raise CommandFailed(Exit.USAGE, "name a principal, or --origin SERVER TOOL")
    if context.terminal.as_json:
        context.terminal.data(one)
    elif isinstance(one, TrustView):
        _principals(context.terminal, (one,))
    else:
        _origins(context.terminal, (one,))
    return Exit.OK


def _standing(view: StandingView) -> tuple[str, ...]:
    latched = "" if view.latched_at_ms is None else f"{iso(view.latched_at_ms)}"
    probation = "" if view.latched_at_ms is None else f"{view.probation_left} good to go"
    return (f"{view.score:.2f}", f"{view.cusum:.1f}", latched, probation, str(view.restores_count))


_STANDING: Final = ("score", "evidence", "latched", "probation", "restores")


def _principals(terminal: Terminal, principals: Sequence[TrustView]) -> None:
    terminal.table(
        ("principal", "ladder", "violations", *_STANDING),
        [
            (one.principal, one.level, str(one.violations_count), *_standing(one))
            for one in principals
        ],
    )


def _origins(terminal: Terminal, origins: Sequence[OriginTrustView]) -> None:
    terminal.table(
        ("server", "tool", "tenant", *_STANDING),
        [(one.server, one.tool, one.tenant, *_standing(one)) for one in origins],
    )


def _history(terminal: Terminal, history: Sequence[TrustEventView]) -> None:
    terminal.table(
        ("when", "what", "because of leaf", "leaf", "became"),
        [
            (
                iso(one.at_ms),
                one.kind,
                "" if one.cause is None else str(one.cause),
                str(one.leaf_index),
                one.became,
            )
            for one in history
        ],
    )


def _whose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("principal", metavar="PRINCIPAL", nargs="?")
    parser.add_argument(
        "--origin", nargs=2, metavar=("SERVER", "TOOL"), help="a server's tool instead"
    )
    parser.add_argument("--tenant", help=f"in whose sessions (default: {DEFAULT_TENANT})")


def _shown(parser: argparse.ArgumentParser) -> None:
    _whose(parser)
    parser.add_argument(
        "--history", action="store_true", help="its last 64 changes, and the leaf of each cause"
    )


COMMANDS = (
    Command(
        words=("trust", "show"),
        summary="show the trust of all principals and tools, or of one and why",
        act=_trust_show,
        arguments=_shown,
    ),
    Command(
        words=("trust", "restore"),
        summary="put a principal or a tool back to trusted; leaves an audit leaf",
        act=_trust_restore,
        arguments=_whose,
    ),
)
