"""`mnemogate isolate`: hide all memories that came from one place, and undo that."""

from __future__ import annotations

import argparse
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.incidents import IncidentList, IncidentView, IsolateRequest, IsolationView
from proxy.cli.client import PATIENT_S, Operator, part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.progress import working
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import Terminal, inert, iso, moment
from proxy.seams.tenants import DEFAULT_TENANT
from storage.values import QUARANTINE_REASON_LEN_MAX

NOBODY = "no memory fits: is the name spelled so (`mnemogate key list`), and is it this --tenant?"


REASON_HELP: Final = (
    "why, for the audit log; kept for good (default: none, the log then says who and when alone)"
)


class _Isolate(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    principal: str | None = None
    origin: str | None = None
    session: str | None = None
    under: str | None = None
    since: str | None = None
    with_descendants: bool = False
    dry_run: bool = False
    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""
    undo: str | None = None
    resume: str | None = None
    list: bool = False

    @property
    def reaches(self) -> bool:
        """Whether the command line says which memories to isolate."""
        asked = (self.principal, self.origin, self.session, self.under, self.since)
        return any(one is not None for one in asked)


async def _isolate(context: Context) -> Exit:
    asked = context.arguments(_Isolate)
    acts = (asked.reaches, asked.undo is not None, asked.resume is not None, asked.list)
    if sum(acts) != 1:
        raise CommandFailed(
            Exit.USAGE,
            "say whom to isolate (--principal, --origin, --session, --under, --since), "
            "or one of --undo, --resume and --list",
        )
    terminal = context.terminal
    if asked.list:
        return await _listed(context)
    if not asked.reaches:
        verb = "undo" if asked.undo is not None else "resume"
        return await on_incident(context, verb, asked.undo or asked.resume or "")
    async with operator(context) as api, working(terminal, "isolating"):
        request = _request(asked, await whole_session(api, asked.session))
        done = await api.post("/isolate", IsolationView, request, timeout_s=PATIENT_S)
    if terminal.as_json:
        terminal.data(done)
    else:
        _show(terminal, done, begun=True)
    # A misspelt name fits no memory: exit code 0 would look as if something had been hidden.
    found = done.caught_count or done.changed or done.kept
    return Exit.OK if found else Exit.NOT_FOUND


async def on_incident(context: Context, verb: str, given: str) -> Exit:
    """Undo or resume the incident whose id begins so: an isolation or a rewind."""
    terminal = context.terminal
    async with operator(context) as api, working(terminal, verb):
        incident_id = await whole_id(api, IdKind.INCIDENT, given)
        path = f"/incidents/{part(incident_id)}/{verb}"
        done = await api.post(path, IsolationView, timeout_s=PATIENT_S)
    if terminal.as_json:
        terminal.data(done)
    else:
        _show(terminal, done, begun=False)
    return Exit.OK


async def whole_session(api: Operator, given: str | None) -> str | None:
    """The session whose id begins with the given text.

    The ledger may have lost a session whose whole id is given.
    """
    return None if given is None else await whole_id(api, IdKind.SESSION, given)


def _request(asked: _Isolate, session: str | None) -> IsolateRequest:
    return IsolateRequest(
        tenant=asked.tenant,
        principal=asked.principal,
        origin=asked.origin,
        session=session,
        under=asked.under,
        since_ms=None if asked.since is None else moment("--since", asked.since),
        with_descendants=asked.with_descendants,
        dry_run=asked.dry_run,
        reason=asked.reason,
    )


def _show(terminal: Terminal, done: IsolationView, *, begun: bool) -> None:
    incident = done.incident
    if incident is None:
        terminal.table(
            ("id", "written by", "class", "source", "status", "why"),
            [
                (
                    inert(one.memory_id),
                    inert(one.principal),
                    one.memory_class.value,
                    one.source.value,
                    one.status,
                    "descendant" if one.descendant else "in reach",
                )
                for one in done.caught
            ],
        )
        terminal.say(f"{done.caught_count} memories are in reach; nothing was changed")
        if not done.caught_count:
            terminal.say(NOBODY)
        return
    if incident.kind == "rewind":
        terminal.say(
            f"incident {incident.incident_id}: {done.changed} put into that state, "
            f"{done.kept} left as they are"
        )
        terminal.say(f"take it back with: mnemogate rewind --undo {incident.incident_id}")
        return
    if incident.stage == "undone":
        terminal.say(
            f"incident {incident.incident_id}: {done.changed} shown again, "
            f"{done.kept} stay hidden by others"
        )
        return
    terminal.say(
        f"incident {incident.incident_id}: {done.changed} hidden, {done.kept} were hidden before"
    )
    if begun and not done.changed and not done.kept:
        terminal.say(NOBODY)
        return
    terminal.say(f"take it back with: mnemogate isolate --undo {incident.incident_id}")


async def _listed(context: Context) -> Exit:
    async with operator(context) as api:
        found = await api.get("/incidents", IncidentList)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(found)
        return Exit.OK
    terminal.table(
        ("incident", "kind", "stage", "tenant", "whom", "when", "by", "reason"),
        [
            (
                one.incident_id,
                one.kind,
                one.stage,
                one.tenant,
                inert(_whom(one)),
                iso(one.at_ms),
                inert(one.by),
                inert(one.reason),
            )
            for one in found.incidents
        ],
        nothing="nothing was isolated or rewound; `mnemogate incident list` has wrong answers",
    )
    return Exit.OK


def _whom(one: IncidentView) -> str:
    """The memories that a command is about, described by the command's own options."""
    said = {
        "principal": one.principal,
        "origin": one.origin,
        "session": one.session,
        "under": one.under,
        "since": None if one.since_ms is None else iso(one.since_ms),
    }
    named = [f"{name} {value}" for name, value in said.items() if value is not None]
    named += ["with descendants"] if one.with_descendants else []
    return ", ".join(named) or "all of it"


def reach_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that select the memories of an isolation or a rewind."""
    parser.add_argument("--tenant", help=f"whose memories (default: {DEFAULT_TENANT})")
    parser.add_argument("--principal", metavar="P", help="those in which this principal had a step")
    parser.add_argument(
        "--origin", metavar="SERVER/TOOL", help="those that came from this server, or tool of it"
    )
    parser.add_argument("--session", metavar="S", help="those that were written in this session")
    parser.add_argument("--under", metavar="PATH", help="those with this target, or one below it")


def _arguments(parser: argparse.ArgumentParser) -> None:
    reach_arguments(parser)
    parser.add_argument("--since", metavar="TIME", help="only steps at or after this time")
    parser.add_argument(
        "--with-descendants",
        action="store_true",
        help="also what was derived from one of them, and from that, to the end",
    )
    parser.add_argument("--dry-run", action="store_true", help="name up to 1000, and hide nothing")
    parser.add_argument("--reason", metavar="TEXT", help=REASON_HELP)
    parser.add_argument(
        "--undo", metavar="INCIDENT", help="show again what it hid and nobody else hides"
    )
    parser.add_argument("--resume", metavar="INCIDENT", help="finish what was cut short")
    parser.add_argument("--list", action="store_true", help="list every incident")


COMMANDS = (
    Command(
        words=("isolate",),
        summary="hide all that came from one principal, origin, session or target",
        act=_isolate,
        arguments=_arguments,
    ),
)
