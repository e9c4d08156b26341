"""`mnemogate trust`: shows the trust ladder, and lets a person restore a principal."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.store import (
    ORIGIN_TRUST,
    RESTORE,
    RESTORE_ORIGIN,
    TRUST,
    TRUST_OF,
    OriginTrustView,
    TrustList,
    TrustStanding,
    TrustView,
)
from proxy.cli.api_commands import Columns, show, table
from proxy.cli.command import Command, Context, Options, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.seams.tenants import DEFAULT_TENANT


class _Whose(msgspec.Struct, frozen=True, kw_only=True):
    principal: str | None = None
    origin: list[str] | None = None
    tenant: str = DEFAULT_TENANT
    history: bool = False

    @property
    def named(self) -> dict[str, str]:
        """The origin as the API names it."""
        server, tool = self.origin or ("", "")
        return {"server": server, "tool": tool, "tenant": self.tenant}


async def _show(context: Context) -> Exit:
    asked = context.arguments(_Whose)
    if asked.principal is not None and asked.origin is not None:
        raise CommandFailed(Exit.USAGE, "name a principal, or --origin: one of both")
    if asked.history and asked.principal is None and asked.origin is None:
        raise CommandFailed(Exit.USAGE, "--history is that of one principal or one origin: name it")
    async with operator(context) as api:
        if asked.principal is not None:
            one: TrustStanding = await api.ask(TRUST_OF, asked.principal)
        elif asked.origin is not None:
            one = await api.ask(ORIGIN_TRUST, **asked.named)
        else:
            show(context, await api.ask(TRUST), _all)
            return Exit.OK
    if context.terminal.as_json:
        context.terminal.data(_listed(one))
    else:
        (_HISTORY if asked.history else _one)(context, one)
    return Exit.OK


async def _restore(context: Context) -> Exit:
    asked = context.arguments(_Whose)
    if (asked.principal is None) is (asked.origin is None):
        raise CommandFailed(Exit.USAGE, "name a principal, or --origin SERVER TOOL")
    async with operator(context) as api:
        if asked.principal is not None:
            one: TrustStanding = await api.ask(RESTORE, asked.principal)
        else:
            one = await api.ask(RESTORE_ORIGIN, **asked.named)
    show(context, one, _one)
    return Exit.OK


def _listed(one: TrustStanding) -> TrustList:
    principals = (one,) if isinstance(one, TrustView) else ()
    origins = (one,) if isinstance(one, OriginTrustView) else ()
    return TrustList(principals=principals, origins=origins)


def _all(context: Context, listed: TrustList) -> None:
    _PRINCIPALS(context, listed)
    if listed.origins:
        _ORIGINS(context, listed)


def _one(context: Context, one: TrustStanding) -> None:
    (_PRINCIPALS if isinstance(one, TrustView) else _ORIGINS)(context, _listed(one))


def _probation(one: TrustStanding) -> str:
    return "" if one.latched_at_ms is None else f"{one.probation_left} good to go"


_STANDING: Final[Columns] = {
    "score": "{0.score:.2f}",
    "evidence": "{0.cusum:.1f}",
    "latched": "latched_at_ms",
    "probation": _probation,
    "restores": "restores_count",
}
_PRINCIPALS: Final = table(
    "principals",
    {
        "principal": "principal",
        "ladder": "level",
        "violations": "violations_count",
        **_STANDING,
    },
)
_ORIGINS: Final = table(
    "origins", {"server": "server", "tool": "tool", "tenant": "tenant", **_STANDING}
)
_HISTORY: Final = table(
    "history",
    {
        "when": "at_ms",
        "what": "kind",
        "because of leaf": "cause",
        "leaf": "leaf_index",
        "became": "became",
    },
)
_WHOSE: Final[Options] = (
    option("principal", metavar="PRINCIPAL"),
    option("--origin", "a server's tool instead", metavar=("SERVER", "TOOL")),
    option("--tenant", f"in whose sessions (default: {DEFAULT_TENANT})"),
)
COMMANDS = (
    Command(
        words=("trust", "show"),
        summary="show the trust of all principals and tools, or of one and why",
        act=_show,
        options=(
            *_WHOSE,
            option("--history", "its last 64 changes, and the leaf of each cause"),
        ),
        form=_Whose,
    ),
    Command(
        words=("trust", "restore"),
        summary="put a principal or a tool back to trusted; leaves an audit leaf",
        act=_restore,
        options=_WHOSE,
        form=_Whose,
    ),
)
