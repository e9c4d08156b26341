"""`mnemogate drift`: names that many memories mention; a person may say that a name is known."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

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


_AT_AN_ALARM: Final = {
    "off": "nothing happens",
    "alarm": "it is logged, nobody waits, searches show fewer",
    "hold": "further mentions wait for a person",
}


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
    accepted = sum(one.accepted for one in found.alarms)
    terminal.say(
        f"{len(found.alarms)} names under alarm in tenant {inert(asked.tenant)}, "
        f"{accepted} accepted"
    )
    if accepted:
        terminal.say("take one back with: mnemogate drift revoke NAME")
    return Exit.OK


def _pasted(asked: _DriftArguments) -> str:
    """The name and its tenant as the next command takes them."""
    where = [] if asked.tenant == DEFAULT_TENANT else ["--tenant", asked.tenant]
    return inert(shlex.join([*where, "--", asked.name]))


async def _accept(context: Context) -> Exit:
    asked, terminal = context.arguments(_DriftArguments), context.terminal
    async with operator(context) as api:
        request = AcceptRequest(name=asked.name, tenant=asked.tenant)
        view = await api.post("/drift/accept", AcceptedView, request)
    if terminal.as_json:
        terminal.data(view)
    else:
        terminal.say(
            f"accepted in tenant {inert(asked.tenant)}: {inert(asked.name)} "
            f"({' '.join(view.cells)}). Nothing is held for it any more, what searches show stays "
            "capped.\nThis ends by your word alone: "
            f"mnemogate drift revoke {_pasted(asked)}"
        )
    return Exit.OK


async def _revoke(context: Context) -> Exit:
    asked, terminal = context.arguments(_DriftArguments), context.terminal
    async with operator(context) as api:
        request = AcceptRequest(name=asked.name, tenant=asked.tenant)
        view = await api.post("/drift/revoke", AcceptedView, request)
    if terminal.as_json:
        terminal.data(view)
    else:
        terminal.say(
            f"no longer accepted in tenant {inert(asked.tenant)}: {inert(asked.name)} "
            f"({' '.join(view.cells)})"
        )
    return Exit.OK


async def _status(context: Context) -> Exit:
    asked, terminal = context.arguments(_DriftArguments), context.terminal
    async with operator(context) as api:
        view = await api.get("/drift/status", DriftView, tenant=asked.tenant)
    if terminal.as_json:
        terminal.data(view)
        return Exit.OK
    rows = (
        ("at an alarm", _AT_AN_ALARM.get(view.names, view.names)),
        ("an alarm is", f"{view.alarm_count} memories that mention a name no person said"),
        ("names under alarm", f"{view.alarms}; `mnemogate drift list` says which are accepted"),
        ("names counted", f"{view.names_watched}, room for {view.names_max}"),
        ("words persons said", f"{view.said_words}; these raise no alarm"),
        ("a new name counts from", str(view.names_floor)),
        ("a search shows", f"{view.shown_of_ten} of ten from one origin"),
        ("of a latched origin", f"{view.shown_on_probation} of ten"),
        ("names are seen in", ", ".join(view.covered)),
        ("only if mixed, as iPhone", ", ".join(view.mixed_case_only)),
        ("no names are seen in", ", ".join(view.not_covered)),
    )
    if view.names_floor:
        terminal.say("room ran out in the last days: new names alarm earlier, for a week")
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
        words=("drift", "revoke"),
        summary="take `drift accept` back; leaves an audit leaf",
        act=_revoke,
        arguments=_name,
    ),
    Command(
        words=("drift", "status"),
        summary="show what is done about names that add up, and in which scripts they are seen",
        act=_status,
        arguments=_tenant,
    ),
)
