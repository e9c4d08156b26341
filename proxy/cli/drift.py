"""`mnemogate drift`: names that many memories mention, and a person's word that a name is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.admin.wire.alarms import AcceptedView, AcceptRequest, AlarmList, DriftView
from proxy.cli.client import PATIENT_S
from proxy.cli.command import Command
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.progress import working
from proxy.cli.terminal import inert
from proxy.seams.tenants import DEFAULT_TENANT

if TYPE_CHECKING:
    import argparse

    from proxy.cli.command import Context


class _DriftArguments(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    name: str = ""


async def _list(context: Context) -> Exit:
    asked, terminal = context.arguments(_DriftArguments), context.terminal
    async with operator(context) as api, working(terminal, "reading the memories of low trust"):
        found = await api.get("/drift", AlarmList, timeout_s=PATIENT_S, tenant=asked.tenant)
    if terminal.as_json:
        terminal.data(found)
        return Exit.OK
    terminal.table(
        ("name", "cell", "memories", "accepted", "newest"),
        [
            (
                "-" if one.name is None else inert(one.name),
                one.cell,
                str(one.count),
                "yes" if one.accepted else "no",
                " ".join(map(inert, one.memory_ids)),
            )
            for one in found.alarms
        ],
    )
    terminal.say(f"{len(found.alarms)} names under alarm in tenant {inert(asked.tenant)}")
    return Exit.OK


async def _accept(context: Context) -> Exit:
    asked, terminal = context.arguments(_DriftArguments), context.terminal
    async with operator(context) as api:
        request = AcceptRequest(name=asked.name, tenant=asked.tenant)
        view = await api.post("/drift/accept", AcceptedView, request)
    if terminal.as_json:
        terminal.data(view)
    else:
        cells = " ".join(view.cells)
        terminal.say(f"accepted ({cells}): nothing is held for it; what searches show stays capped")
    return Exit.OK


async def _status(context: Context) -> Exit:
    asked, terminal = context.arguments(_DriftArguments), context.terminal
    async with operator(context) as api:
        view = await api.get("/drift/status", DriftView, tenant=asked.tenant)
    if terminal.as_json:
        terminal.data(view)
        return Exit.OK
    rows = (
        ("names", view.names),
        ("alarm from", f"{view.alarm_count} memories"),
        ("names watched", f"{view.names_watched} of {view.names_max}"),
        ("new names begin at", str(view.names_floor)),
        ("words known in lower case", str(view.lower_case_words)),
        ("under alarm", str(view.alarms)),
        ("shown of one origin", f"{view.shown_of_ten} of ten results"),
        ("on probation", f"{view.shown_on_probation} of ten results"),
        ("scripts covered", ", ".join(view.covered)),
        ("mixed case only", ", ".join(view.mixed_case_only)),
        ("not covered", ", ".join(view.not_covered)),
    )
    terminal.table(("what", "is"), list(rows))
    return Exit.OK


def _tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help=f"whose memories (default: {DEFAULT_TENANT})")


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    _tenant(parser)


COMMANDS = (
    Command(
        words=("drift", "list"),
        summary="list names that memories of low trust add up to",
        act=_list,
        arguments=_tenant,
    ),
    Command(
        words=("drift", "accept"),
        summary="hold nothing for a name any more; leaves an audit leaf",
        act=_accept,
        arguments=_name,
    ),
    Command(
        words=("drift", "status"),
        summary="show what is watched, and in which scripts",
        act=_status,
        arguments=_tenant,
    ),
)
