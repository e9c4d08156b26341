"""`mnemogate blame` and `incident`: find the memories that caused wrong answers, and list cases."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from proxy.admin.wire.incidents import (
    ACCEPT,
    BLAME,
    CLOSE,
    INCIDENT,
    INCIDENTS,
    BlameView,
)
from proxy.admin.wire.route import IdKind
from proxy.cli.api_commands import OF_TENANT, Asked, Columns, asking, lines, show, table
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import answering, counted
from proxy.reporting.incident_notice import incident_event
from proxy.reporting.ocsf import DetectionFinding, Resource, Unmapped, finding
from storage.features.cases import Case, CaseMemory

_CONTROLS: Final = {
    "everything": "with every memory",
    "no_suspect": "without the suspects",
    "nothing": "without any memory",
}
_ENDINGS: Final = {
    "convicted": "each that is to blame contradicts what is expected, or has what is forbidden",
    "not_reproduced": "no memory contradicts what is expected, or has what is forbidden; whether "
    "one has the lie in other words is not seen",
    "not_memory_caused": "the answer is as wrong without the memories",
}
_SETTLED: Final = frozenset({"healed", "convicted", "closed"})


class _Listing(msgspec.Struct, frozen=True, kw_only=True):
    open: bool = False


class _ExportCases(msgspec.Struct, frozen=True, kw_only=True):
    format: str = "json"


class CaseList(msgspec.Struct, frozen=True, kw_only=True):
    """The incidents of wrong answers, for `--json`."""

    incidents: tuple[Case, ...]


def _one_answer(asked: Asked) -> None:
    if sum(name in asked for name in ("reply_id", "recall_id", "memory_id")) != 1:
        raise CommandFailed(Exit.USAGE, "name one of --reply, --recall and --memory")


def _is_settled(done: BlameView) -> Exit:
    return Exit.OK if done.ending in _SETTLED else Exit.FAILED


def _blamed(context: Context, done: BlameView) -> None:
    if done.named:
        table("named", _NAMED)(context, done)
    lines(_ended)(context, done)


def _ended(done: BlameView) -> Iterator[str]:
    controls = ", ".join(
        f"{_CONTROLS[name]}: {'fails' if fails else 'passes'}"
        for name, fails in done.controls.items()
    )
    yield (f"{done.ending}{_why(done)}: {_searched(done)}; {controls or 'no control was asked'}")
    if said := _ENDINGS.get(done.ending):
        yield said
    if done.incident is None:
        yield "nothing was changed"
        return
    yield f"incident {done.incident.case_id}"
    if done.incident.listed_count:
        yield (
            f"{done.incident.listed_count} more of the same session or origin, or that say the "
            f"same: mnemogate incident show {done.incident.case_id}"
        )


def _searched(done: BlameView | Case) -> str:
    asks = counted(done.asks, "ask", "asks")
    return f"{counted(done.suspects, 'suspect', 'suspects')}, {asks}"


def _why(done: BlameView | Case) -> str:
    return f" ({done.why})" if done.why else ""


async def _list(context: Context) -> Exit:
    asked = context.arguments(_Listing)
    async with operator(context) as api:
        cases = (await api.ask(INCIDENTS)).wrong_answers
    if asked.open:
        cases = tuple(one for one in cases if one.step.value not in {"closed", "healed"})
    show(context, CaseList(incidents=cases), _CASES)
    return Exit.OK


def _one(context: Context, case: Case) -> None:
    for name in ("culprits", "listed"):
        if getattr(case, name):
            table(name, _NAMED)(context, case)
    context.terminal.say(
        f"incident {case.case_id}: {case.step.value}{_why(case)}, "
        f"{_searched(case)} in {counted(case.rounds, 'round', 'rounds')}"
    )


async def _export(context: Context) -> Exit:
    asked = context.arguments(_ExportCases)
    async with operator(context) as api:
        cases = (await api.ask(INCIDENTS)).wrong_answers
    with answering():
        for case in cases:
            sys.stdout.buffer.write(_exported(case, asked.format) + b"\n")
        sys.stdout.buffer.flush()
    return Exit.OK


def _exported(case: Case, form: str) -> bytes:
    line = msgspec.json.encode(case)
    if form == "cloudevents":
        return incident_event(
            case.case_id, case.step.value, line, source="urn:mnemogate", at_ms=case.at_ms
        )
    return msgspec.json.encode(_finding(case)) if form == "ocsf" else line


def _finding(case: Case) -> DetectionFinding:
    named = (*case.culprits, *case.listed)
    return finding(
        incident_id=case.case_id,
        step=case.step,
        signal=case.signal.value,
        at_ms=case.at_ms,
        opened_at_ms=case.opened_at_ms,
        resources=tuple(
            Resource(
                uid=one.memory, labels=(f"relation:{one.relation.value}", f"act:{one.act.value}")
            )
            for one in named
        ),
        unmapped=Unmapped(
            state=case.step.value,
            mode="" if case.mode is None else case.mode.value,
            why=case.why,
            suspects=case.suspects,
            asks=case.asks,
            culprits=len(case.culprits),
            by=case.by,
        ),
    )


def _culprits(case: Case) -> int:
    return len(case.culprits)


def _origin(one: CaseMemory) -> str:
    return f"{one.server}/{one.tool}" if one.server else ""


_NAMED: Final[Columns] = {
    "memory": "memory",
    "why": "relation",
    "what became of it": "act",
    "class": "memory_class",
    "source": "source",
    "origin": _origin,
    "leaf": "leaf_index",
}
_CASES: Final = table(
    "incidents",
    {
        "incident": "case_id",
        "state": "step",
        "signal": "signal",
        "tenant": "tenant",
        "opened": "opened_at_ms",
        "culprits": _culprits,
        "asks": "asks",
        "why": "why",
    },
    nothing="no incident of a wrong answer; `mnemogate isolate --list` has the others",
)
_ID: Final = option("incident_id", "or the beginning of it", metavar="INCIDENT")
_OF_INCIDENT: Final = {"incident_id": IdKind.INCIDENT}
COMMANDS = (
    asking(
        "blame",
        "search for the memories that caused a wrong answer, and hide them",
        BLAME,
        _blamed,
        options=(
            option("--tenant", OF_TENANT),
            option(
                "--reply", "the wrong reply, by the API's own id", field="reply_id", metavar="ID"
            ),
            option(
                "--recall",
                "the recall that showed what is wrong",
                field="recall_id",
                metavar="ID",
            ),
            option("--memory", "the memory that is wrong", field="memory_id", metavar="ID"),
            option("--expect", "a statement that is true; repeatable", metavar="TEXT"),
            option("--forbid", "words that are wrong; repeatable", metavar="TEXT"),
            option("--judge", "ask this configured judge instead", metavar="NAME"),
            option(
                "--through",
                "ask this model again, with memories left out; [after.replay] names it",
                metavar="MODEL",
            ),
            option("--whole-cause", "also ask each other suspect alone"),
            option("--dry-run", "name them, and change nothing"),
        ),
        names={"memory_id": IdKind.MEMORY, "recall_id": IdKind.RECALL},
        label="asking again",
        check=_one_answer,
        ends=_is_settled,
    ),
    Command(
        words=("incident", "list"),
        summary="list the incidents of wrong answers",
        act=_list,
        options=(option("--open", "only what a person has to look at"),),
        form=_Listing,
    ),
    asking(
        "incident show",
        "show one incident: who is to blame, and by how many asks",
        INCIDENT,
        _one,
        options=(_ID,),
        names=_OF_INCIDENT,
    ),
    asking(
        "incident accept",
        "hide the memories that an incident left to a person, and close it",
        ACCEPT,
        _one,
        options=(_ID,),
        names=_OF_INCIDENT,
    ),
    asking(
        "incident close",
        "say that a person has dealt with an incident",
        CLOSE,
        _one,
        options=(_ID,),
        names=_OF_INCIDENT,
    ),
    Command(
        words=("incident", "export"),
        summary="print every incident as one line, without content",
        act=_export,
        options=(option("--format", "default: json", choices=("json", "cloudevents", "ocsf")),),
        form=_ExportCases,
    ),
)
