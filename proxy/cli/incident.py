"""`mnemogate blame` and `incident`: memories that caused a wrong answer, and what was done."""

from __future__ import annotations

import argparse
import sys
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.incidents import IncidentList
from proxy.admin.wire.wrong_answers import SAID_MAX, BlameRequest, BlameView, CaseView, NamedView
from proxy.cli.client import PATIENT_S, part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.progress import working
from proxy.cli.terminal import Terminal, answering, inert, iso
from proxy.reporting.incident_notice import incident_event
from proxy.reporting.ocsf import DetectionFinding, Resource, Unmapped, finding
from proxy.seams.tenants import DEFAULT_TENANT
from storage.cases import CaseStep

_SETTLED: Final = frozenset({"healed", "convicted", "closed"})


class _Blame(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    reply: str | None = None
    recall: str | None = None
    memory: str | None = None
    expect: Annotated[list[str], Meta(max_length=SAID_MAX)] = []
    forbid: Annotated[list[str], Meta(max_length=SAID_MAX)] = []
    judge: str | None = None
    through: str | None = None
    whole_cause: bool = False
    dry_run: bool = False


class _Listing(msgspec.Struct, frozen=True, kw_only=True):
    open: bool = False


class _One(msgspec.Struct, frozen=True, kw_only=True):
    incident: str = ""


class _ExportCases(msgspec.Struct, frozen=True, kw_only=True):
    format: str = "json"


class CaseList(msgspec.Struct, frozen=True, kw_only=True):
    """The incidents of wrong answers, for `--json`."""

    incidents: tuple[CaseView, ...]


async def _blame(context: Context) -> Exit:
    asked = context.arguments(_Blame)
    if sum(one is not None for one in (asked.reply, asked.recall, asked.memory)) != 1:
        raise CommandFailed(Exit.USAGE, "name one of --reply, --recall and --memory")
    request = BlameRequest(
        tenant=asked.tenant,
        reply_id=asked.reply,
        recall_id=asked.recall,
        memory_id=asked.memory,
        expect=tuple(asked.expect),
        forbid=tuple(asked.forbid),
        judge=asked.judge,
        through=asked.through,
        whole_cause=asked.whole_cause,
        dry_run=asked.dry_run,
    )
    terminal = context.terminal
    async with operator(context) as api, working(terminal, "asking again"):
        done = await api.post("/blame", BlameView, request, timeout_s=PATIENT_S)
    if terminal.as_json:
        terminal.data(done)
    else:
        _show(terminal, done)
    return Exit.OK if done.ending in _SETTLED else Exit.FAILED


def _show(terminal: Terminal, done: BlameView) -> None:
    _named(terminal, done.named)
    controls = ", ".join(
        f"{name}: {'fails' if fails else 'passes'}" for name, fails in done.controls.items()
    )
    terminal.say(
        f"{done.ending}{f' ({done.why})' if done.why else ''}: "
        f"{done.suspects} suspects, {done.asks} asks; {controls or 'no control was asked'}"
    )
    if done.incident is None:
        terminal.say("nothing was changed")
        return
    terminal.say(f"incident {done.incident.incident_id}")
    if done.incident.listed_count:
        terminal.say(
            f"{done.incident.listed_count} more of the same session or origin, or that say the "
            f"same: mnemogate incident show {done.incident.incident_id}"
        )


def _named(terminal: Terminal, named: tuple[NamedView, ...]) -> None:
    if not named:
        return
    terminal.table(
        ("memory", "why", "what became of it", "class", "source", "origin", "leaf"),
        [
            (
                inert(one.memory),
                one.relation,
                one.act,
                one.memory_class.value,
                one.source.value,
                inert(f"{one.server}/{one.tool}") if one.server else "-",
                str(one.leaf_index),
            )
            for one in named
        ],
    )


async def _list(context: Context) -> Exit:
    asked = context.arguments(_Listing)
    cases = await _cases(context)
    if asked.open:
        cases = tuple(one for one in cases if one.state not in {"closed", "healed"})
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(CaseList(incidents=cases))
        return Exit.OK
    terminal.table(
        ("incident", "state", "signal", "tenant", "opened", "culprits", "asks", "why"),
        [
            (
                one.incident_id,
                one.state,
                one.signal,
                one.tenant,
                iso(one.opened_at_ms),
                str(len(one.culprits)),
                str(one.asks),
                one.why or "-",
            )
            for one in cases
        ],
        nothing="no incident of a wrong answer; `mnemogate isolate --list` has the others",
    )
    return Exit.OK


async def _cases(context: Context) -> tuple[CaseView, ...]:
    async with operator(context) as api:
        return (await api.get("/incidents", IncidentList, timeout_s=PATIENT_S)).wrong_answers


async def _one(context: Context, verb: str) -> Exit:
    asked = context.arguments(_One)
    path = f"/incidents/{part(asked.incident)}"
    async with operator(context) as api:
        if verb == "close":
            case = await api.post(f"{path}/close", CaseView)
        else:
            case = await api.get(path, CaseView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(case)
        return Exit.OK
    _named(terminal, (*case.culprits, *case.listed))
    terminal.say(
        f"incident {case.incident_id}: {case.state}{f' ({case.why})' if case.why else ''}, "
        f"{case.suspects} suspects, {case.asks} asks in {case.rounds} rounds"
    )
    return Exit.OK


async def _show_one(context: Context) -> Exit:
    return await _one(context, "show")


async def _close(context: Context) -> Exit:
    return await _one(context, "close")


async def _export(context: Context) -> Exit:
    asked = context.arguments(_ExportCases)
    for case in await _cases(context):
        line = msgspec.json.encode(case)
        if asked.format == "cloudevents":
            line = incident_event(
                case.incident_id, case.state, line, source="urn:mnemogate", at_ms=case.at_ms
            )
        elif asked.format == "ocsf":
            line = msgspec.json.encode(_finding(case))
        with answering():
            sys.stdout.buffer.write(line + b"\n")
    with answering():
        sys.stdout.buffer.flush()
    return Exit.OK


def _finding(case: CaseView) -> DetectionFinding:
    named = (*case.culprits, *case.listed)
    return finding(
        incident_id=case.incident_id,
        step=CaseStep(case.state),
        signal=case.signal,
        at_ms=case.at_ms,
        opened_at_ms=case.opened_at_ms,
        resources=tuple(
            Resource(uid=one.memory, labels=(f"relation:{one.relation}", f"act:{one.act}"))
            for one in named
        ),
        unmapped=Unmapped(
            state=case.state,
            mode=case.mode,
            why=case.why,
            suspects=case.suspects,
            asks=case.asks,
            culprits=len(case.culprits),
            by=case.by,
        ),
    )


def _blame_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help=f"whose memories (default: {DEFAULT_TENANT})")
    parser.add_argument("--reply", metavar="ID", help="the wrong reply, by the API's own id")
    parser.add_argument("--recall", metavar="ID", help="the recall that showed what is wrong")
    parser.add_argument("--memory", metavar="ID", help="the memory that is wrong")
    parser.add_argument(
        "--expect", metavar="TEXT", action="append", help="a statement that is true; repeatable"
    )
    parser.add_argument(
        "--forbid", metavar="TEXT", action="append", help="words that are wrong; repeatable"
    )
    parser.add_argument("--judge", metavar="NAME", help="ask this configured judge instead")
    parser.add_argument(
        "--through",
        metavar="MODEL",
        help="ask this model again, with memories left out; [after.replay] names it",
    )
    parser.add_argument(
        "--whole-cause", action="store_true", help="also ask each other suspect alone"
    )
    parser.add_argument("--dry-run", action="store_true", help="name them, and change nothing")


def _incident_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("incident", metavar="INCIDENT")


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="only what a person has to look at")


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("json", "cloudevents", "ocsf"), help="default: json")


COMMANDS = (
    Command(
        words=("blame",),
        summary="search for the memories that caused a wrong answer, and hide them",
        act=_blame,
        arguments=_blame_arguments,
    ),
    Command(
        words=("incident", "list"),
        summary="list the incidents of wrong answers",
        act=_list,
        arguments=_list_arguments,
    ),
    Command(
        words=("incident", "show"),
        summary="show one incident: who is to blame, and by how many asks",
        act=_show_one,
        arguments=_incident_argument,
    ),
    Command(
        words=("incident", "close"),
        summary="say that a person has dealt with an incident",
        act=_close,
        arguments=_incident_argument,
    ),
    Command(
        words=("incident", "export"),
        summary="print every incident as one line, without content",
        act=_export,
        arguments=_export_arguments,
    ),
)
