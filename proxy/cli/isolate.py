"""`mnemogate isolate` and `rewind`: hide or reset many memories at once, and undo both acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from proxy.admin.wire.incidents import (
    INCIDENTS,
    ISOLATE,
    RESUME,
    REWIND,
    UNDO,
    IsolateRequest,
    RewindRequest,
)
from proxy.admin.wire.route import IdKind
from proxy.cli.api_commands import OF_TENANT, REASON_HELP, given, lines, pairs, show, table
from proxy.cli.client import whole_id, whole_ids
from proxy.cli.command import Command, Context, Options, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import counted, inert, iso, moment, working
from storage.features.incidents import (
    CaughtMemory,
    Incident,
    IncidentKind,
    IncidentStage,
    IsolationReport,
    RewindEffect,
    RewindReport,
)

_NOBODY: Final = (
    "no memory fits: is it this --tenant, and is each name spelled as in `mnemogate memory show`?\n"
    "an origin is where a text was read; what is stored in a server is --under mcp/SERVER"
)
_DIGITS_MAX: Final = 15
_COUNTS: Final = {
    "put_back": "put back",
    "kept_hidden": "stays hidden",
    "behind": "left alone: another server has it",
    "moved": "left alone: it was changed meanwhile",
}
SELECTION: Final[Options] = (
    option("--tenant", OF_TENANT),
    option("--principal", "those in which this principal had a step", metavar="P"),
    option(
        "--origin",
        "those whose text was read from this server, or tool of it; what is stored in it: --under",
        metavar="SERVER/TOOL",
    ),
    option("--session", "those that were written in this session", metavar="S"),
    option(
        "--under",
        "those stored here, or below: mcp/SERVER/FILE, or a namespace a/b",
        metavar="PATH",
    ),
    option("--label", "those with this label"),
    option("--like", "those whose text is like that of this memory", metavar="ID"),
    option("--above", "with --like: the least cosine (default: 0.6)", metavar="COSINE"),
    option(
        "--since",
        "only steps at or after this time",
        field="since_ms",
        metavar="TIME",
        read=moment,
    ),
)
# Only beginnings of session ids are looked up; the ledger may have lost a session whose complete id
# is given.
NAMED: Final = {"session": IdKind.SESSION, "like": IdKind.MEMORY}
_ISOLATED: Final[Options] = (
    *SELECTION,
    option(
        "--with-descendants",
        "also what was derived from one of them, and from that, to the end",
    ),
    option("--dry-run", "name up to 1000, and hide nothing"),
    option("--reason", REASON_HELP, metavar="TEXT"),
)
_REWOUND: Final[Options] = (
    *SELECTION,
    option("--dry-run", "name them, and change nothing"),
    option("--reason", "why, for the audit log; kept for good", metavar="TEXT"),
)


class _Isolate(IsolateRequest, frozen=True, kw_only=True):
    undo: str | None = None
    resume: str | None = None
    list: bool = False


class _Rewind(RewindRequest, frozen=True, kw_only=True):
    to: str | None = None
    undo: str | None = None


async def _isolate(context: Context) -> Exit:
    undo, resume, listed = map(context.given, ("undo", "resume", "list"))
    reach = given(context, _ISOLATED)
    reaches = any(one.field in reach for one in SELECTION[1:])
    acts = (reaches, undo is not None, resume is not None, listed == "True")
    if sum(acts) != 1:
        raise CommandFailed(
            Exit.USAGE,
            "say whom to isolate (--principal, --origin, --session, --under, --label, --like, "
            "--since), or one of --undo, --resume and --list",
        )
    if undo is not None or resume is not None:
        return await _on_incident(context, undo, resume or "")
    async with operator(context) as api, working(context.terminal, "isolating"):
        if not reaches:
            show(context, await api.ask(INCIDENTS), _INCIDENTS)
            return Exit.OK
        done = await api.ask(ISOLATE, **await whole_ids(api, reach, NAMED))
    show(context, done, _isolated)
    # A misspelt name fits no memory; with exit code 0 it would seem that memories were hidden.
    found = done.caught_count or done.changed or done.kept
    return Exit.OK if found else Exit.NOT_FOUND


async def _rewind(context: Context) -> Exit:
    to, undo = context.given("to"), context.given("undo")
    reach = given(context, _REWOUND)
    narrowed = any(value is not False for value in reach.values())
    if (to is None) is (undo is None) or (undo is not None and narrowed):
        raise CommandFailed(Exit.USAGE, "say --to and which memories, or --undo INCIDENT alone")
    if to is None:
        return await _on_incident(context, undo, "")
    if to.isascii() and to.isdecimal():
        if len(to) > _DIGITS_MAX:
            raise CommandFailed(Exit.USAGE, "--to: no store has such a version")
        reach["to_version"] = int(to)
    else:
        reach["to_ms"] = moment("--to", to, "the number of a version, ")
    async with operator(context) as api, working(context.terminal, "rewinding"):
        done = await api.ask(REWIND, **await whole_ids(api, reach, NAMED))
    show(context, done, _rewound)
    return Exit.OK if done.reached else Exit.NOT_FOUND


async def _on_incident(context: Context, undo: str | None, resume: str) -> Exit:
    """Undo, or else resume, the isolation or rewind whose id begins with the given text."""
    row, label = (RESUME, "resume") if undo is None else (UNDO, "undo")
    async with operator(context) as api, working(context.terminal, label):
        incident_id = await whole_id(api, IdKind.INCIDENT, undo or resume)
        show(context, await api.ask(row, incident_id), lines(_changed))
    return Exit.OK


def _isolated(context: Context, done: IsolationReport) -> None:
    terminal = context.terminal
    if done.incident is None:
        _CAUGHT(context, done)
        reached = counted(done.caught_count, "memory is", "memories are")
        terminal.say(f"{reached} in reach; nothing was changed")
    if done.caught_count or done.changed or done.kept:
        lines(_changed)(context, done)
        return
    if done.incident is not None:
        terminal.say(next(_changed(done)))
    terminal.say(_NOBODY)


def _changed(done: IsolationReport) -> Iterator[str]:
    incident = done.incident
    if incident is None:
        return
    begin = f"incident {incident.incident_id}: {done.changed}"
    if incident.kind is IncidentKind.REWIND:
        yield f"{begin} put into that state, {done.kept} left alone"
        yield f"take it back with: mnemogate rewind --undo {incident.incident_id}"
    elif incident.stage is IncidentStage.UNDONE:
        yield f"{begin} shown again, {done.kept} hidden by others still"
    else:
        yield f"{begin} hidden now, {done.kept} hidden before"
        yield f"take it back with: mnemogate isolate --undo {incident.incident_id}"


def _rewound(context: Context, done: RewindReport) -> None:
    terminal = context.terminal
    _REWIND(context, done)
    if done.touched:
        _TOUCHED(context, done)
    for memory_id in done.lost:
        terminal.say(f"  lost: {inert(memory_id)}")
    if done.incident is None:
        terminal.say("nothing was changed")
    else:
        terminal.say(f"incident {done.incident.incident_id}: {done.incident.stage.value}")
    if not done.reached:
        terminal.say(_NOBODY)
    elif done.incident is not None:
        terminal.say(f"take it back with: mnemogate rewind --undo {done.incident.incident_id}")


def _whom(one: Incident) -> str:
    """Describe which memories an isolation or rewind was about, by the command's options."""
    reach = one.reach
    said = {
        "principal": reach.principal_id,
        "origin": reach.server if reach.tool is None else f"{reach.server}/{reach.tool}",
        "session": reach.session,
        "under": reach.under,
        "label": reach.label and reach.label.value,
        "like": reach.like and f"{reach.like} above {reach.above}",
        "since": None if reach.since_ms is None else iso(reach.since_ms),
    }
    named = [f"{name} {value}" for name, value in said.items() if value is not None]
    named += ["with descendants"] if reach.with_descendants else []
    return ", ".join(named) or "all of it"


def _reached(one: CaughtMemory) -> str:
    return "descendant" if one.descendant else "in reach"


def _became(one: RewindEffect) -> str:
    return ", ".join(_COUNTS.get(name, name) for name in one.became)


_INCIDENTS: Final = table(
    "incidents",
    {
        "incident": "incident_id",
        "kind": "kind",
        "stage": "stage",
        "tenant": "reach.tenant",
        "whom": _whom,
        "when": "at_ms",
        "by": "by",
        "reason": "reason",
    },
    nothing="nothing was isolated or rewound; `mnemogate incident list` has wrong answers",
)
_CAUGHT: Final = table(
    "caught",
    {
        "id": "memory_id",
        "written by": "principal_id",
        "class": "memory_class",
        "source": "source",
        "status": "status",
        "why": _reached,
    },
)
_TOUCHED: Final = table("touched", {"memory": "memory_id", "what became of it": _became})
_REWIND: Final = pairs(
    {
        "state of": "version {0.version}",
        "put back": "{0.put_back}, with the text of then",
        "hidden": "{0.hidden}, written later or hidden then",
        "shown": "{0.shown}, hidden by an earlier rewind",
        "kept": "{0.kept_hidden}, hidden by a person or an isolation",
        "behind": "{0.behind}, left alone: the text is on another server",
        "moved": "{0.moved}, left alone: changed meanwhile",
        "lost": "{0.lost_count}, purged for good",
    }
)
COMMANDS = (
    Command(
        words=("isolate",),
        summary="hide all that came from one principal, origin, session or target",
        act=_isolate,
        options=(
            *_ISOLATED,
            option("--undo", "show again what it hid and nobody else hides", metavar="INCIDENT"),
            option("--resume", "finish what was cut short", metavar="INCIDENT"),
            option("--list", "list every incident"),
        ),
        form=_Isolate,
    ),
    Command(
        words=("rewind",),
        summary="put memories back into the state of a version or a time, by new commits",
        act=_rewind,
        options=(
            option(
                "--to",
                "the version right after whose commit it was so, or a date or time",
                metavar="VERSION|TIME",
            ),
            *_REWOUND[:-1],
            option(
                "--undo",
                "put what a rewind meant into the state right before it",
                metavar="INCIDENT",
            ),
            _REWOUND[-1],
        ),
        form=_Rewind,
    ),
)
